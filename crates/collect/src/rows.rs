//! Raw rows that wait until no lane can have an earlier one.

use stream::{in_time_order, split_at_time};
use tuple::{Batch, common};
use wire::Timestamp;

/// See the module documentation.
#[derive(Default)]
pub(crate) struct WaitingRows {
    /// Batches, each with the time of its earliest row.
    batches: Vec<(i64, Batch)>,
    /// Memory in bytes.
    pub bytes: usize,
}

impl WaitingRows {
    /// Adds rows.
    pub fn add(&mut self, rows: Batch) {
        let earliest = times(&rows).map_or(i64::MIN, |times| {
            times.iter().copied().min().unwrap_or(i64::MAX)
        });
        self.bytes += rows.bytes();
        self.batches.push((earliest, rows));
    }

    /// Releases rows completed before `time`, in order. The others keep their order, so that rows of one flow stay in
    /// the order of their worker.
    pub fn give_before(&mut self, time: Timestamp, out: &mut dyn FnMut(Batch)) {
        let mut due = Vec::new();
        for (earliest, batch) in std::mem::take(&mut self.batches) {
            match (earliest < time.0, times(&batch)) {
                (false, _) => self.batches.push((earliest, batch)),
                (true, Some(times)) if times.iter().any(|end| *end >= time.0) => {
                    self.bytes -= batch.bytes();
                    let (before, later) = split_at_time(&batch, time.0);
                    due.push(before);
                    self.add(later);
                }
                (true, _) => {
                    self.bytes -= batch.bytes();
                    due.push(batch);
                }
            }
        }
        in_time_order(due, out);
    }

    /// Releases all rows, in order.
    pub fn give_all(&mut self, out: &mut dyn FnMut(Batch)) {
        self.bytes = 0;
        in_time_order(self.batches.drain(..).map(|(_, rows)| rows).collect(), out);
    }
}

/// Completion times of rows, if they have them.
fn times(batch: &Batch) -> Option<&[i64]> {
    batch
        .column(common::TS_END)
        .is_some()
        .then(|| batch.i64(common::TS_END).values().as_ref())
}

/// Number of rows completed before `time`.
pub(crate) fn rows_before(batch: &Batch, time: Timestamp) -> u64 {
    times(batch).map_or(0, |times| {
        times.iter().filter(|end| **end < time.0).count() as u64
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tuple::{Schema, TupleWriter};

    use super::*;

    #[test]
    fn simultaneous_rows_of_a_flow_keep_their_order() {
        let schema = Arc::new(Schema::of_parser("test", 1, "tests", &[], None, None));
        let mut w = TupleWriter::new(schema, &[common::ID, common::TS, common::TS_END]);
        // The start time of each row is its number.
        let mut number = 0;
        let mut batch = |ends: &[i64]| {
            for end in ends {
                w.u64(common::ID, 1);
                w.i64(common::TS, number);
                w.i64(common::TS_END, *end);
                w.end_row();
                number += 1;
            }
            w.finish()
        };
        let mut rows = WaitingRows::default();
        // A batch partly due, one not due, another partly due.
        [&[1, 9][..], &[9, 9], &[9, 2]]
            .iter()
            .for_each(|ends| rows.add(batch(ends)));
        let mut given = Vec::new();
        let mut take = |batch: Batch| given.extend_from_slice(batch.i64(common::TS).values());
        rows.give_before(Timestamp(5), &mut take);
        assert!(rows.bytes > 0);
        rows.give_before(Timestamp(10), &mut take);
        assert_eq!((given, rows.bytes), (vec![0, 5, 1, 2, 3, 4], 0));
    }
}
