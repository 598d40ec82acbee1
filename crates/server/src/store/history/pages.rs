//! Pages: rows of a result by number, from the store and from segments.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray};
use recording::ReplayedRows;
use tuple::{Batch, Schema};

use super::{RowHistory, TAIL_BATCHES};
use crate::job::JobId;
use crate::job::columns::{decode, schema, time_column};
use crate::store::persist_error::{PersistError, UnreadableRows};
use crate::store::sqlite::{KeptResult, RowTail};

/// Requested rows.
#[derive(Clone, Copy, Debug)]
pub struct PageQuery {
    /// Rows after this number.
    pub after: Option<i64>,
    /// Maximum number of rows.
    pub limit: usize,
    /// Start of the period, in nanoseconds since the epoch.
    pub since_ns: Option<i64>,
    /// End of the period, exclusive.
    pub until_ns: Option<i64>,
}

/// Rows by number.
#[derive(Debug)]
pub struct RowPage {
    /// Schema.
    pub schema: Arc<Schema>,
    /// The rows.
    pub batches: Vec<Batch>,
    /// Number of the last row.
    pub last: Option<i64>,
    /// Number of the last row, if more may follow.
    pub next: Option<i64>,
    /// Damaged rows follow: reading a page from `next` on fails.
    pub stopped: Option<Box<UnreadableRows>>,
}

impl RowHistory {
    /// Reads a page of a result; it ends before a missing or damaged file.
    ///
    /// # Errors
    /// `PersistError::Unreadable` if the page starts in such a file; `PersistError` also when the database cannot be read.
    pub fn read(
        &self,
        job: JobId,
        result: &KeptResult,
        ask: &PageQuery,
    ) -> Result<RowPage, PersistError> {
        let schema = schema(&result.table, &result.columns).ok_or(PersistError::Damaged)?;
        let mut from = ask.after.map_or(0, |after| after.saturating_add(1));
        let mut reading = PageReader {
            ask: *ask,
            from,
            time: time_column(&schema),
            batches: Vec::new(),
            rows: 0,
            last: None,
            more: false,
            stopped: None,
        };
        loop {
            let segment = self.segments.at(job, result.place, from)?;
            let tail = self.results.tail(job, result.place, from, TAIL_BATCHES)?;
            // Rows found in neither place were being moved; the store changes both in one transaction.
            match (segment, tail.first()) {
                (Some(segment), first)
                    if first.is_none_or(|first| segment.first_row <= first.first_row) =>
                {
                    from = segment.first_row + segment.rows;
                    let is_wanted = ask.since_ns.is_none_or(|since| segment.last_ns >= since)
                        && ask.until_ns.is_none_or(|until| segment.first_ns < until);
                    let columns: Vec<_> = schema.ids().collect();
                    if !is_wanted {
                        continue;
                    }
                    let before = (reading.batches.len(), reading.rows, reading.last);
                    let mut take = |first, rows: &ReplayedRows| {
                        reading.take(first, &rows.batch, rows.watermark_ns)
                    };
                    match self.read_segment(&segment, (&schema, &columns), &mut take) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(PersistError::Unreadable(which)) if before.1 > 0 => {
                            reading.stop_at(before, which);
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }
                (_, Some(first))
                    if first.first_row <= from || !self.has_moved(job, result, from)? =>
                {
                    if !reading.take_tail(&tail, &schema)? {
                        break;
                    }
                    from = tail
                        .last()
                        .map_or(from, |last| last.first_row + last.of.rows);
                }
                (_, None) if !self.has_moved(job, result, from)? => break,
                _ => {}
            }
        }
        Ok(reading.page(schema))
    }

    /// Whether rows with numbers of at least `from` are in a segment now.
    fn has_moved(&self, job: JobId, result: &KeptResult, from: i64) -> Result<bool, PersistError> {
        Ok(self.segments.at(job, result.place, from)?.is_some())
    }
}

/// A page in progress.
struct PageReader {
    ask: PageQuery,
    /// Rows with lower numbers were read or not requested; a segment may contain them again if they moved in the
    /// meantime.
    from: i64,
    time: Option<tuple::FieldId>,
    batches: Vec<Batch>,
    rows: usize,
    last: Option<i64>,
    more: bool,
    stopped: Option<Box<UnreadableRows>>,
}

impl PageReader {
    /// Adds the requested rows of a batch that starts with number `first`; returns whether the page has space left.
    fn take(&mut self, first: i64, batch: &Batch, watermark_ns: i64) -> bool {
        let skip = usize::try_from(self.from - first)
            .unwrap_or(0)
            .min(batch.rows());
        self.from = self.from.max(first.saturating_add(batch.rows() as i64));
        let mut chosen = vec![false; batch.rows()];
        for (row, choose) in chosen.iter_mut().enumerate().skip(skip) {
            if !self.is_wanted(batch, row, watermark_ns) {
                continue;
            }
            if self.rows == self.ask.limit {
                self.more = true;
                break;
            }
            *choose = true;
            self.rows += 1;
            self.last = Some(first + row as i64);
        }
        if chosen.contains(&true) {
            self.batches
                .push(filter(batch, &BooleanArray::from(chosen)));
        }
        !self.more
    }

    /// Adds rows of the store; returns whether the page has space left.
    fn take_tail(&mut self, tail: &[RowTail], schema: &Arc<Schema>) -> Result<bool, PersistError> {
        for part in tail {
            let batch = decode(&part.of.batch, schema).ok_or(PersistError::Damaged)?;
            if !self.take(part.first_row, &batch, part.of.watermark_ns) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Restores the page to its state `before` a segment that cannot be read.
    fn stop_at(&mut self, before: (usize, usize, Option<i64>), which: Box<UnreadableRows>) {
        self.batches.truncate(before.0);
        self.rows = before.1;
        self.last = before.2;
        self.more = true;
        self.stopped = Some(which);
    }

    fn is_wanted(&self, batch: &Batch, row: usize, watermark_ns: i64) -> bool {
        let times = self
            .time
            .map(|id| batch.i64(id))
            .filter(|times| times.is_valid(row));
        let own = times.map(|times| times.value(row));
        let at = own.unwrap_or(watermark_ns);
        self.ask.since_ns.is_none_or(|since| at >= since)
            && self.ask.until_ns.is_none_or(|until| at < until)
    }

    fn page(self, schema: Arc<Schema>) -> RowPage {
        RowPage {
            schema,
            batches: self.batches,
            last: self.last,
            next: self.last.filter(|_| self.more),
            stopped: self.stopped,
        }
    }
}

fn filter(batch: &Batch, chosen: &BooleanArray) -> Batch {
    let rows = chosen.true_count();
    if rows == batch.rows() {
        return batch.clone();
    }
    let column = |id| {
        let column = batch.column(id)?;
        Some(arrow_select::filter::filter(column, chosen).expect("the column has as many rows"))
    };
    Batch::new(
        batch.schema().clone(),
        rows,
        batch.schema().ids().map(column).collect(),
    )
}
