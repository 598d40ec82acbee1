//! Sorts tuples of several lanes by time: they wait until no lane can have older ones.

use stream::{EngineOutput, OutputConsumer, in_time_order, split_at_time};
use tuple::{Batch, common};

/// See the module documentation.
pub struct TupleOrderer {
    held: Vec<Batch>,
    /// Size of waiting tuples, in bytes.
    bytes: usize,
    bytes_max: usize,
    /// Time up to which all tuples were released.
    watermark_ns: i64,
    hurried: u64,
}

impl OutputConsumer for TupleOrderer {
    fn take(&mut self, output: EngineOutput) {
        self.bytes += output.batch.bytes();
        self.held.push(output.batch);
    }
}

impl TupleOrderer {
    /// `bytes_max`: limit of waiting tuples; beyond it the older half is released.
    pub fn new(bytes_max: usize) -> TupleOrderer {
        TupleOrderer {
            held: Vec::new(),
            bytes: 0,
            bytes_max,
            watermark_ns: i64::MIN,
            hurried: 0,
        }
    }

    /// Number of tuples released early.
    pub fn hurried(&self) -> u64 {
        self.hurried
    }

    /// Releases tuples older than `watermark_ns`; no older ones follow.
    pub fn release(&mut self, watermark_ns: i64, out: &mut dyn OutputConsumer) {
        let before = if self.bytes > self.bytes_max {
            self.middle().max(watermark_ns)
        } else {
            watermark_ns
        };
        self.watermark_ns = watermark_ns;
        let mut ready = Vec::new();
        let mut held = Vec::new();
        for batch in std::mem::take(&mut self.held) {
            if before == i64::MAX || batch.column(common::TS_END).is_none() {
                ready.push(batch);
                continue;
            }
            let ends = batch.i64(common::TS_END);
            self.hurried += ends
                .values()
                .iter()
                .filter(|end| (watermark_ns..before).contains(end))
                .count() as u64;
            let (early, late) = split_at_time(&batch, before);
            ready.extend((early.rows() > 0).then_some(early));
            held.extend((late.rows() > 0).then_some(late));
        }
        self.bytes = held.iter().map(Batch::bytes).sum();
        self.held = held;
        in_time_order(ready, &mut |batch| {
            out.take(EngineOutput {
                pipeline: None,
                batch,
                watermark_ns,
            })
        });
    }

    /// Releases all of them, because nothing is waited for.
    pub fn release_all(&mut self, out: &mut dyn OutputConsumer) {
        let all = std::mem::take(&mut self.held);
        let watermark_ns = self.watermark_ns;
        self.bytes = 0;
        in_time_order(all, &mut |batch| {
            out.take(EngineOutput {
                pipeline: None,
                batch,
                watermark_ns,
            })
        });
    }

    /// Median time of the waiting tuples.
    fn middle(&self) -> i64 {
        let timed = self
            .held
            .iter()
            .filter(|batch| batch.column(common::TS_END).is_some());
        let mut ends: Vec<i64> = timed
            .flat_map(|batch| batch.i64(common::TS_END).values().to_vec())
            .collect();
        let middle = ends.len() / 2;
        if ends.is_empty() {
            i64::MIN
        } else {
            ends.select_nth_unstable(middle).1.saturating_add(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn tuples(ends: &[i64]) -> EngineOutput {
        let schema = Arc::new(tuple::Schema::of_parser("t", 1, "test", &[], None, None));
        let columns: Vec<_> = schema.ids().collect();
        let mut writer = tuple::TupleWriter::new(schema, &columns);
        for end in ends {
            writer.u64(common::ID, 1);
            writer.i64(common::TS, *end);
            writer.i64(common::TS_END, *end);
            writer.end_row();
        }
        EngineOutput {
            pipeline: None,
            batch: writer.finish(),
            watermark_ns: 0,
        }
    }

    #[test]
    fn older_ones_are_waited_for() {
        let mut held = TupleOrderer::new(usize::MAX);
        let mut out = Vec::new();
        held.take(tuples(&[1, 5, 7]));
        held.take(tuples(&[2, 3, 9]));
        let told = |out: &[EngineOutput]| -> Vec<i64> {
            out.iter()
                .flat_map(|output| output.batch.i64(common::TS_END).values().to_vec())
                .collect()
        };
        held.release(1, &mut out);
        assert!(out.is_empty());
        held.release(5, &mut out);
        assert_eq!(told(&out), [1, 2, 3]);
        held.take(tuples(&[6]));
        held.release(i64::MAX, &mut out);
        assert_eq!((told(&out), held.bytes), (vec![1, 2, 3, 5, 6, 7, 9], 0));
        assert_eq!(held.hurried(), 0);
        // Beyond the limit, the older half is released.
        held.bytes_max = 1;
        held.take(tuples(&[20, 14, 12, 18, 16]));
        out.clear();
        held.release(13, &mut out);
        assert_eq!((told(&out), held.hurried()), (vec![12, 14, 16], 2));
        held.release(i64::MAX, &mut out);
        assert_eq!((told(&out), held.hurried()), (vec![12, 14, 16, 18, 20], 2));
        held.take(tuples(&[30, 25]));
        out.clear();
        held.release_all(&mut out);
        assert_eq!((told(&out), held.hurried()), (vec![25, 30], 2));
    }

    fn ends(out: &[EngineOutput]) -> Vec<i64> {
        out.iter()
            .flat_map(|output| output.batch.i64(common::TS_END).values().to_vec())
            .collect()
    }

    #[test]
    fn rows_carry_the_event_time_of_their_release() {
        let mut held = TupleOrderer::new(usize::MAX);
        let mut out = Vec::new();
        held.take(tuples(&[1, 8]));
        held.release(5, &mut out);
        held.release_all(&mut out);
        let seen: Vec<_> = out
            .iter()
            .map(|of| (of.pipeline, of.watermark_ns))
            .collect();
        assert_eq!(seen, [(None, 5), (None, 5)]);
        assert_eq!(ends(&out), [1, 8]);
    }

    #[test]
    fn nothing_is_hurried_that_event_time_has_passed() {
        let mut held = TupleOrderer::new(0);
        let mut out = Vec::new();
        held.take(tuples(&[1, 2, 3]));
        held.release(4, &mut out);
        assert_eq!(
            (ends(&out), held.hurried(), held.bytes),
            (vec![1, 2, 3], 0, 0)
        );
        held.release(9, &mut out);
        assert_eq!((out.len(), held.hurried()), (1, 0));
    }

    /// All tuples of one time: the median is their time, and all are released.
    #[test]
    fn equal_times_beyond_the_limit_are_released() {
        let mut held = TupleOrderer::new(0);
        let mut out = Vec::new();
        held.take(tuples(&[7; 5]));
        held.release(0, &mut out);
        assert_eq!((ends(&out), held.hurried()), (vec![7; 5], 5));
        held.take(tuples(&[i64::MAX]));
        out.clear();
        held.release(8, &mut out);
        assert_eq!(
            (ends(&out), held.hurried()),
            (vec![i64::MAX], 5),
            "the last time is no overflow"
        );
    }

    proptest! {
        /// Every tuple is released once; without a limit, in time order, as soon as event time has passed it.
        #[test]
        fn tuples_are_released_once_and_in_order(
            steps in prop::collection::vec((prop::collection::vec(0i64..100, 0..8), 0i64..15), 1..30),
            bytes_max in prop_oneof![Just(usize::MAX), Just(0usize), Just(2000usize)],
        ) {
            let mut orderer = TupleOrderer::new(bytes_max);
            let (mut pushed, mut released) = (Vec::new(), Vec::new());
            let (mut watermark, mut early) = (0, 0);
            for (times, step) in &steps {
                // No tuple is older than the event time before.
                let times: Vec<i64> = times.iter().map(|time| time + watermark).collect();
                if !times.is_empty() {
                    orderer.take(tuples(&times));
                }
                pushed.extend(&times);
                watermark += step;
                let mut out = Vec::new();
                orderer.release(watermark, &mut out);
                let now = ends(&out);
                prop_assert!(now.is_sorted());
                early += now.iter().filter(|end| **end >= watermark).count() as u64;
                released.extend(now);
                let is_due = |end: &&i64| **end < watermark;
                prop_assert_eq!(
                    released.iter().filter(is_due).count(), pushed.iter().filter(is_due).count()
                );
            }
            prop_assert_eq!(orderer.hurried(), early);
            let mut out = Vec::new();
            orderer.release(i64::MAX, &mut out);
            released.extend(ends(&out));
            if bytes_max == usize::MAX {
                prop_assert_eq!(early, 0);
                prop_assert!(released.is_sorted());
            }
            released.sort_unstable();
            pushed.sort_unstable();
            prop_assert_eq!(released, pushed);
        }
    }
}
