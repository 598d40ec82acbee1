//! Reads committed rows of a result in pages of whole windows, as far as memory allows.

use tuple::{Batch, FieldId};

use crate::job::JobId;
use crate::store::history::{PageQuery, RowHistory};
use crate::store::persist_error::PersistError;
use crate::store::sqlite::KeptResult;

/// Rows per read.
const ROWS: usize = 10_000;
/// Maximum rows of a window; a larger window is split.
const ROWS_MAX: usize = 200_000;

/// Rows of a result.
#[derive(Debug)]
pub struct DeliveryPage {
    /// The rows.
    pub batches: Vec<Batch>,
    /// Number of the first row after them.
    pub end: i64,
}

impl DeliveryPage {
    /// Number of rows.
    pub fn count(&self) -> usize {
        self.batches.iter().map(Batch::rows).sum()
    }
}

/// Reads the next rows from number `from` to `until`, if given; only whole windows.
pub fn read(
    history: &RowHistory,
    (job, result): (JobId, &KeptResult),
    from: i64,
    until: Option<i64>,
) -> Result<DeliveryPage, PersistError> {
    let mut rows = DeliveryPage {
        batches: Vec::new(),
        end: from,
    };
    loop {
        let wanted = until.unwrap_or(result.next_row) - rows.end;
        let limit = usize::try_from(wanted)
            .unwrap_or(0)
            .min(ROWS)
            .min(ROWS_MAX - rows.count());
        if limit == 0 {
            return Ok(rows);
        }
        let ask = PageQuery {
            after: Some(rows.end - 1),
            limit,
            since_ns: None,
            until_ns: None,
        };
        let page = match history.read(job, result, &ask) {
            Ok(page) => page,
            Err(PersistError::Unreadable(which)) if until.is_some() || rows.batches.is_empty() => {
                // Removed by retention; delivery continues with the next rows.
                rows.end = which.end_row.min(until.unwrap_or(result.next_row));
                continue;
            }
            Err(PersistError::Unreadable(_)) => return Ok(rows),
            Err(error) => return Err(error),
        };
        rows.batches.extend(page.batches);
        let Some(last) = page.last else {
            // Removed by retention.
            rows.end = rows.end.max(until.unwrap_or(result.next_row));
            return Ok(rows);
        };
        rows.end = last + 1;
        if page.next.is_none() {
            return Ok(rows);
        }
        // After a restart, the range of the last attempt is repeated unchanged.
        if until.is_none() && rows.end_with_a_window() {
            return Ok(rows);
        }
    }
}

impl DeliveryPage {
    /// Cuts the last window off if another precedes it; tuples have no windows.
    fn end_with_a_window(&mut self) -> bool {
        let Some(last) = self.batches.last() else {
            return false;
        };
        if last
            .schema()
            .fields
            .first()
            .is_none_or(|field| field.name != "window_start")
        {
            return true;
        }
        let start = |batch: &Batch, row| batch.i64(FieldId(0)).value(row);
        let open = start(last, last.rows() - 1);
        let mut left = 0;
        for batch in self.batches.iter().rev() {
            let same = (0..batch.rows())
                .rev()
                .take_while(|row| start(batch, *row) == open)
                .count();
            left += same;
            if same < batch.rows() {
                self.cut(left);
                return true;
            }
        }
        false
    }

    /// Removes the last `left` rows.
    fn cut(&mut self, mut left: usize) {
        self.end -= left as i64;
        while let Some(batch) = self.batches.pop() {
            if batch.rows() > left {
                self.batches.push(batch.slice(0, batch.rows() - left));
                return;
            }
            left -= batch.rows();
        }
    }
}
