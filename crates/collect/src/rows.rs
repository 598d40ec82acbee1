//! Raw rows that wait until no lane has an earlier one.

use stream::in_time_order;
use tuple::{Batch, common};
use wire::Timestamp;

/// See the module's text.
#[derive(Default)]
pub(crate) struct WaitingRows {
    /// Each with its earliest row's time.
    batches: Vec<(i64, Batch)>,
    /// Memory of all.
    pub bytes: usize,
}

impl WaitingRows {
    /// Adds some.
    pub fn add(&mut self, rows: Batch) {
        let earliest = times(&rows).map_or(i64::MIN, |times| times.iter().copied().min().unwrap_or(i64::MAX));
        self.bytes += rows.bytes();
        self.batches.push((earliest, rows));
    }

    /// Gives those that were complete before `time`, in order.
    pub fn give_before(&mut self, time: Timestamp, out: &mut dyn FnMut(Batch)) {
        let due: Vec<Batch> =
            self.batches.extract_if(.., |(earliest, _)| *earliest < time.0).map(|(_, rows)| rows).collect();
        self.bytes -= due.iter().map(Batch::bytes).sum::<usize>();
        let mut later = Vec::new();
        in_time_order(due, &mut |batch| {
            let due = times(&batch).map_or(batch.rows(), |times| times.partition_point(|end| *end < time.0));
            if due > 0 {
                out(batch.slice(0, due));
            }
            if due < batch.rows() {
                later.push(batch.slice(due, batch.rows() - due));
            }
        });
        later.into_iter().for_each(|batch| self.add(batch));
    }

    /// Gives all of them, in order.
    pub fn give_all(&mut self, out: &mut dyn FnMut(Batch)) {
        self.bytes = 0;
        in_time_order(self.batches.drain(..).map(|(_, rows)| rows).collect(), out);
    }
}

/// When each row was complete, if rows say so.
fn times(batch: &Batch) -> Option<&[i64]> {
    batch.column(common::TS_END).is_some().then(|| batch.i64(common::TS_END).values().as_ref())
}

/// How many rows were complete before `time`.
pub(crate) fn rows_before(batch: &Batch, time: Timestamp) -> u64 {
    times(batch).map_or(0, |times| times.iter().filter(|end| **end < time.0).count() as u64)
}
