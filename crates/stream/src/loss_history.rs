//! Capture losses over time, from which the share of missing traffic is computed per window. Holds at most
//! [`STRETCHES_MAX`] periods; beyond that, neighbors are merged, which reduces the time resolution.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::limited_stretches::{LimitedStretch, LimitedStretches, STRETCHES_MAX};

/// Losses shared by an engine and all its pipelines.
pub(crate) type SharedLosses = Arc<Mutex<LossHistory>>;

/// Captured and lost amounts, in packets or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCount {
    /// Captured.
    pub seen: u64,
    /// Not captured.
    pub lost: u64,
}

impl LossCount {
    /// Adds another period's amounts.
    pub fn add(&mut self, other: LossCount) {
        self.seen = self.seen.saturating_add(other.seen);
        self.lost = self.lost.saturating_add(other.lost);
    }

    /// The lost share of the total.
    #[must_use]
    pub fn share(self) -> f64 {
        let all = self.seen as f64 + self.lost as f64;
        if self.lost == 0 {
            0.0
        } else {
            self.lost as f64 / all
        }
    }
}

/// A period of event time with its packet counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossStretch {
    /// Start.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// Packets as counted by the capture.
    pub packets: LossCount,
    /// Bytes of TCP streams, derived from acknowledgments.
    pub bytes: LossCount,
}

impl LossStretch {
    /// Extends the period to include `other` and the time between.
    pub fn add(&mut self, other: &LossStretch) {
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.packets.add(other.packets);
        self.bytes.add(other.bytes);
    }

    /// The proportion of the period within a window.
    fn part_within(&self, (start, end): (i64, i64)) -> f64 {
        let width = |from: i64, to: i64| (i128::from(to) - i128::from(from)) as f64;
        let touches = self.from_ns < end && self.to_ns >= start;
        match () {
            () if !touches => 0.0,
            // Zero length, or unknown start.
            () if self.from_ns >= self.to_ns || self.from_ns == i64::MIN => 1.0,
            () => {
                width(self.from_ns.max(start), self.to_ns.min(end))
                    / width(self.from_ns, self.to_ns)
            }
        }
    }

    /// The larger loss: both may refer to the same packets.
    fn share(&self) -> f64 {
        self.packets.share().max(self.bytes.share())
    }
}

/// Losses by period and in total.
#[derive(Debug)]
pub(crate) struct LossHistory {
    stretches: VecDeque<LossStretch>,
    all: LossStretch,
    /// Lost share of the whole run, set from outside.
    whole: f64,
    /// Times of limits: as far back as windows need them, and in total.
    limited: LimitedStretches,
    limited_ever: Option<LimitedStretch>,
}

impl Default for LossHistory {
    fn default() -> LossHistory {
        let packets = LossCount::default();
        let bytes = LossCount::default();
        let all = LossStretch {
            from_ns: i64::MAX,
            to_ns: i64::MIN,
            packets,
            bytes,
        };
        LossHistory {
            stretches: VecDeque::new(),
            all,
            whole: 0.0,
            limited: LimitedStretches::default(),
            limited_ever: None,
        }
    }
}

impl LossHistory {
    /// Sets the lost share of the whole run.
    pub fn set_whole(&mut self, share: f64) {
        self.whole = share;
    }

    /// Adds the counts of a period.
    pub fn add(&mut self, stretch: LossStretch) {
        self.all.add(&stretch);
        self.stretches.push_back(stretch);
        if self.stretches.len() > STRETCHES_MAX {
            self.halve();
        }
    }

    /// Drops periods before this time, which no window needs.
    pub fn forget_before(&mut self, ns: i64) {
        while self
            .stretches
            .pop_front_if(|stretch| stretch.to_ns < ns)
            .is_some()
        {}
        self.limited.forget_before(ns);
    }

    /// Records that a limit took effect.
    pub fn limit(&mut self, limited: LimitedStretch) {
        self.limited_ever = LimitedStretch::union(self.limited_ever, Some(limited));
        self.limited.add(limited);
    }

    /// Whether a limit may have affected a window or, without `bounds`, the whole run.
    pub fn is_limited(&self, bounds: Option<(i64, i64)>) -> bool {
        bounds.map_or(self.limited_ever.is_some(), |bounds| {
            self.limited.touch(bounds)
        })
    }

    /// The combined time of all limits since the last call; used in a worker, which marks no rows itself.
    pub fn take_limited(&mut self) -> Option<LimitedStretch> {
        self.limited = LimitedStretches::default();
        self.limited_ever.take()
    }

    /// The lost share in the window [start, end) or, without `bounds`, in the whole run.
    pub fn share(&self, bounds: Option<(i64, i64)>) -> f64 {
        let Some(bounds) = bounds else {
            return self.all.share().max(self.whole);
        };
        let parts = self
            .stretches
            .iter()
            .map(|stretch| (stretch.part_within(bounds), stretch));
        let mut packets = [0.0; 2];
        let mut bytes = [0.0; 2];
        for (part, stretch) in parts.filter(|(part, _)| *part > 0.0) {
            for (sum, loss) in [(&mut packets, stretch.packets), (&mut bytes, stretch.bytes)] {
                *sum = [
                    sum[0] + part * loss.seen as f64,
                    sum[1] + part * loss.lost as f64,
                ];
            }
        }
        let share = |[seen, lost]: [f64; 2]| {
            if lost > 0.0 {
                lost / (seen + lost)
            } else {
                0.0
            }
        };
        share(packets).max(share(bytes)).max(self.whole)
    }

    fn halve(&mut self) {
        let pairs = self.stretches.make_contiguous().chunks(2);
        self.stretches = pairs.map(sum).collect();
    }
}

fn sum(stretches: &[LossStretch]) -> LossStretch {
    let mut all = stretches[0];
    stretches[1..].iter().for_each(|stretch| all.add(stretch));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses per second, of one hundred packets each.
    fn seconds(lost: &[u64]) -> LossHistory {
        let mut losses = LossHistory::default();
        for (second, lost) in (0..).zip(lost) {
            let packets = LossCount {
                seen: 100 - lost,
                lost: *lost,
            };
            losses.add(LossStretch {
                from_ns: second,
                to_ns: second + 1,
                packets,
                bytes: LossCount::default(),
            });
        }
        losses
    }

    #[test]
    fn losses_of_a_long_stretch_are_apportioned() {
        let mut losses = LossHistory::default();
        let packets = |seen, lost| LossCount { seen, lost };
        let bytes = LossCount::default();
        losses.add(LossStretch {
            from_ns: i64::MIN,
            to_ns: 10,
            packets: packets(10, 10),
            bytes,
        });
        losses.add(LossStretch {
            from_ns: 10,
            to_ns: 110,
            packets: packets(100, 0),
            bytes,
        });
        let share = |start, end| losses.share(Some((start, end)));
        assert_eq!([share(0, 20), share(20, 110)], [10.0 / 30.0, 0.0]);
        assert_eq!(losses.share(Some((i64::MIN, i64::MAX))), losses.share(None));
    }

    #[test]
    fn windows_have_the_losses_of_their_time() {
        let losses = seconds(&[0, 0, 50, 0, 0]);
        let share = |start, end| losses.share(Some((start, end)));
        assert_eq!(
            [share(0, 2), share(2, 3), share(3, 5), share(9, 10)],
            [0.0, 0.5, 0.0, 0.0]
        );
        assert_eq!(share(1, 3), 0.25);
        assert_eq!(losses.share(None), 0.1);
    }

    #[test]
    fn the_larger_of_both_losses_counts() {
        let mut losses = seconds(&[10]);
        let bytes = LossCount { seen: 1, lost: 3 };
        losses.add(LossStretch {
            from_ns: 0,
            to_ns: 1,
            packets: LossCount::default(),
            bytes,
        });
        assert_eq!(
            (losses.share(None), losses.share(Some((0, 1)))),
            (0.75, 0.75)
        );
        losses.set_whole(0.9);
        assert_eq!((losses.share(None), losses.share(Some((0, 1)))), (0.9, 0.9));
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost_by_that() {
        let mut losses = seconds(&[1; 3 * STRETCHES_MAX]);
        assert!(losses.stretches.len() <= STRETCHES_MAX);
        assert_eq!(
            (losses.share(None), losses.share(Some((5, 9)))),
            (0.01, 0.01)
        );
        losses.forget_before(2 * STRETCHES_MAX as i64);
        assert_eq!(
            (losses.share(None), losses.share(Some((5, 9)))),
            (0.01, 0.0)
        );
    }
}
