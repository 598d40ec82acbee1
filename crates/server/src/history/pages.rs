//! Pages: rows of a result by their numbers, wherever they lie.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray};
use recording::Rows;
use tuple::{Batch, Schema};

use super::{History, TAIL_BATCHES};
use crate::columns::{decode, schema, time_column};
use crate::job::JobId;
use crate::store::{KeptResult, Tail};
use crate::unkept::{Unkept, Unreadable};

/// Which rows are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Rows behind the one of this number.
    pub after: Option<i64>,
    /// Maximum number of rows.
    pub limit: usize,
    /// Not before this time, in nanoseconds since the epoch.
    pub since_ns: Option<i64>,
    /// Before this time.
    pub until_ns: Option<i64>,
}

/// Rows, in the order of their numbers.
#[derive(Debug)]
pub struct Page {
    /// What they look like.
    pub schema: Arc<Schema>,
    /// The rows.
    pub batches: Vec<Batch>,
    /// The last one's number.
    pub last: Option<i64>,
    /// The same, if there may be more behind it.
    pub next: Option<i64>,
    /// Damaged rows behind it: a page from `next` on is an error.
    pub stopped: Option<Box<Unreadable>>,
}

impl History {
    /// Reads a page of a result, which ends before a file that is missing or damaged.
    ///
    /// # Errors
    /// `Unkept::Unreadable` when the first rows of the page are in such a file.
    pub fn read(&self, job: JobId, result: &KeptResult, ask: &Ask) -> Result<Page, Unkept> {
        let schema = schema(&result.table, &result.columns).ok_or(Unkept::Damaged)?;
        let mut from = ask.after.map_or(0, |after| after.saturating_add(1));
        let mut reading = Reading {
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
            let segment = self.store.segment((job, result.place), from)?;
            let tail = self.store.tail((job, result.place), from, TAIL_BATCHES)?;
            // What was in neither place was on its way from the one to the other: the store says so in one step each.
            match (segment, tail.first()) {
                (Some(segment), first) if first.is_none_or(|first| segment.first_row <= first.first_row) => {
                    from = segment.first_row + segment.rows;
                    let is_wanted = ask.since_ns.is_none_or(|since| segment.last_ns >= since)
                        && ask.until_ns.is_none_or(|until| segment.first_ns < until);
                    let columns: Vec<_> = schema.ids().collect();
                    if !is_wanted {
                        continue;
                    }
                    let before = (reading.batches.len(), reading.rows, reading.last);
                    let mut take = |first, rows: &Rows| reading.take(first, &rows.batch, rows.watermark_ns);
                    match self.read_segment(&segment, (&schema, &columns), &mut take) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(Unkept::Unreadable(which)) if before.1 > 0 => {
                            reading.stop_at(before, which);
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }
                (_, Some(first)) if first.first_row <= from || !self.has_moved(job, result, from)? => {
                    if !reading.take_tail(&tail, &schema)? {
                        break;
                    }
                    from = tail.last().map_or(from, |last| last.first_row + last.of.rows);
                }
                (_, None) if !self.has_moved(job, result, from)? => break,
                _ => {}
            }
        }
        Ok(reading.page(schema))
    }

    /// Whether rows numbered `from` or higher are in a segment by now.
    fn has_moved(&self, job: JobId, result: &KeptResult, from: i64) -> Result<bool, Unkept> {
        Ok(self.store.segment((job, result.place), from)?.is_some())
    }
}

/// A page that is being filled.
struct Reading {
    ask: Ask,
    /// Rows with lower numbers have been taken, or are not asked for: a file may hold them again that were read before they moved there.
    from: i64,
    time: Option<tuple::FieldId>,
    batches: Vec<Batch>,
    rows: usize,
    last: Option<i64>,
    more: bool,
    stopped: Option<Box<Unreadable>>,
}

impl Reading {
    /// Takes of a batch, whose first row has number `first`, what is wanted; whether there is room for more.
    fn take(&mut self, first: i64, batch: &Batch, watermark_ns: i64) -> bool {
        let skip = usize::try_from(self.from - first).unwrap_or(0).min(batch.rows());
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
            self.batches.push(filter(batch, &BooleanArray::from(chosen)));
        }
        !self.more
    }

    /// Takes rows of the store; whether there is room for more.
    fn take_tail(&mut self, tail: &[Tail], schema: &Arc<Schema>) -> Result<bool, Unkept> {
        for part in tail {
            let batch = decode(&part.of.batch, schema).ok_or(Unkept::Damaged)?;
            if !self.take(part.first_row, &batch, part.of.watermark_ns) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the page as it was `before` a segment that cannot be read.
    fn stop_at(&mut self, before: (usize, usize, Option<i64>), which: Box<Unreadable>) {
        self.batches.truncate(before.0);
        (self.rows, self.last, self.more, self.stopped) = (before.1, before.2, true, Some(which));
    }

    fn is_wanted(&self, batch: &Batch, row: usize, watermark_ns: i64) -> bool {
        let times = self.time.map(|id| batch.i64(id)).filter(|times| times.is_valid(row));
        let own = times.map(|times| times.value(row));
        let at = own.unwrap_or(watermark_ns);
        self.ask.since_ns.is_none_or(|since| at >= since) && self.ask.until_ns.is_none_or(|until| at < until)
    }

    fn page(self, schema: Arc<Schema>) -> Page {
        Page {
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
    Batch::new(batch.schema().clone(), rows, batch.schema().ids().map(column).collect())
}
