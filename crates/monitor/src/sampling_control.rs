//! Controller of SAMPLE auto: derives a worker's sampling rate from its load. Its inputs are timed
//! observations of the source; it uses no clock, flows, or packets. [`crate::sample`] applies the rate to
//! flows. A [`RateCeiling`] bounds the rates if consumers of the results are slower than the workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::Timestamp;

/// Lower bound of the rate.
pub const RATE_MIN: f64 = 1.0 / 1024.0;

/// Share of the buffer waiting above which the rate is lowered.
const BACKLOG_HIGH: f32 = 0.5;
/// Share of the buffer waiting below which the load counts as low.
const BACKLOG_LOW: f32 = 0.1;
/// Minimum time between two reductions: selected flows stay selected, and the backlog must drain first.
const HOLD_NS: i64 = 500_000_000;
/// Period of low load before each increase.
const CALM_NS: i64 = 2_000_000_000;
/// Increase per step. Smaller at very low rates, where it would multiply the load.
const STEP: f64 = 0.05;

/// One observation of the source.
#[derive(Clone, Copy, Debug)]
pub struct LoadObservation {
    /// Time of the observation.
    pub now: Timestamp,
    /// Share of the source's buffer waiting to be read.
    pub backlog: f32,
    /// Packets lost before the capture since its start.
    pub lost: u64,
    /// Value of the [`RateCeiling`].
    pub ceiling: f64,
}

/// Highest rate that the consumers of a job's results sustain. All workers share it; the observer of the consumers sets
/// it.
#[derive(Clone, Debug)]
pub struct RateCeiling(Arc<AtomicU64>);

impl Default for RateCeiling {
    /// No bound.
    fn default() -> RateCeiling {
        RateCeiling(Arc::new(AtomicU64::new(1.0f64.to_bits())))
    }
}

impl RateCeiling {
    /// Sets the maximum rate.
    pub fn set(&self, rate: f64) {
        self.0
            .store(rate.clamp(RATE_MIN, 1.0).to_bits(), Ordering::Relaxed);
    }

    /// Current maximum rate.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// A change of a worker's sampling rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateChange {
    /// Time of the change.
    pub ts: Timestamp,
    /// Number of the worker.
    pub worker: usize,
    /// New rate.
    pub rate: f64,
    /// Share of the source's buffer waiting to be read.
    pub backlog: f32,
    /// Packets lost before the capture since the previous change.
    pub lost: u64,
    /// Value of the [`RateCeiling`].
    pub ceiling: f64,
    /// Share of the flows that switches copy to the worker.
    pub copied: f64,
}

/// Controller of one worker: halves the rate under load, raises it stepwise when the load is low, and keeps
/// it below the ceiling.
#[derive(Clone, Copy, Debug)]
pub struct Governor {
    /// Highest rate that the worker sustains.
    bears: f64,
    /// Rate in effect: the minimum of that and the ceiling.
    rate: f64,
    fell: Option<Timestamp>,
    calm_since: Option<Timestamp>,
    /// Losses at the last observation, and at the last change.
    lost: u64,
    told: u64,
}

impl Default for Governor {
    /// Starts at rate 1.
    fn default() -> Governor {
        Governor {
            bears: 1.0,
            rate: 1.0,
            fell: None,
            calm_since: None,
            lost: 0,
            told: 0,
        }
    }
}

impl Governor {
    /// Evaluates an observation; returns the change of the rate, if any, for worker `worker`.
    pub fn look(&mut self, look: LoadObservation, worker: usize) -> Option<RateChange> {
        let before = self.rate;
        let is_losing = look.lost > self.lost;
        self.lost = self.lost.max(look.lost);
        if is_losing || look.backlog > BACKLOG_HIGH {
            self.fall(look.now);
        } else if look.backlog < BACKLOG_LOW {
            self.rise(look.now);
        } else {
            self.calm_since = None;
        }
        self.rate = self.bears.min(look.ceiling);
        (self.rate != before).then(|| RateChange {
            ts: look.now,
            worker,
            rate: self.rate,
            backlog: look.backlog,
            lost: self.lost - std::mem::replace(&mut self.told, self.lost),
            ceiling: look.ceiling,
            copied: 1.0,
        })
    }

    fn fall(&mut self, now: Timestamp) {
        self.calm_since = None;
        if self.fell.is_none_or(|fell| now.since(fell) >= HOLD_NS) {
            self.fell = Some(now);
            self.bears = (self.rate / 2.0).max(RATE_MIN);
        }
    }

    fn rise(&mut self, now: Timestamp) {
        let since = *self.calm_since.get_or_insert(now);
        if now.since(since) >= CALM_NS {
            self.calm_since = Some(now);
            self.bears = (self.bears + STEP).min(self.bears * 2.0).min(1.0);
        }
    }
}

/// History of the rates of all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateHistory {
    /// The latest changes, at most [`CHANGES_MAX`].
    pub changes: VecDeque<RateChange>,
    /// Total number of changes.
    pub count: u64,
    /// Lowest share of flows processed by any worker: sampling rate times copied share. `None`: no flow was
    /// excluded.
    pub lowest: Option<f64>,
}

/// Maximum number of stored changes.
pub const CHANGES_MAX: usize = 1000;

impl RateHistory {
    /// Adds a change.
    pub fn add(&mut self, change: RateChange) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.count += 1;
        self.lowest = Some(self.lowest.unwrap_or(1.0).min(change.rate * change.copied));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies observations `(backlog, total lost)` every quarter of a second; returns the rate after each.
    fn rates(governor: &mut Governor, looks: impl IntoIterator<Item = (f32, u64)>) -> Vec<f64> {
        static EPOCH: i64 = 250_000_000;
        let start = governor
            .fell
            .max(governor.calm_since)
            .map_or(0, |ts| ts.0 + EPOCH);
        let look = |(i, (backlog, lost))| {
            let now = Timestamp(start + i as i64 * EPOCH);
            governor.look(
                LoadObservation {
                    now,
                    backlog,
                    lost,
                    ceiling: 1.0,
                },
                0,
            );
            governor.rate
        };
        looks.into_iter().enumerate().map(look).collect()
    }

    #[test]
    fn halves_when_the_buffer_fills_or_packets_are_lost() {
        let mut governor = Governor::default();
        assert_eq!(
            rates(&mut governor, [(0.5, 0), (0.6, 0), (0.9, 0), (0.9, 0)]),
            [1.0, 0.5, 0.5, 0.25]
        );
        let mut governor = Governor::default();
        assert_eq!(
            rates(&mut governor, [(0.0, 0), (0.0, 1), (0.0, 1), (0.0, 2)]),
            [1.0, 0.5, 0.5, 0.25]
        );
    }

    #[test]
    fn has_a_floor() {
        let rates = rates(&mut Governor::default(), std::iter::repeat_n((1.0, 0), 100));
        assert_eq!(rates.last(), Some(&RATE_MIN));
    }

    #[test]
    fn recovers_after_calm_only_and_wholly() {
        let mut governor = Governor::default();
        rates(&mut governor, std::iter::repeat_n((1.0, 0), 100));
        // Load not low, then low but interrupted.
        let restless = (0..100).map(|i| (if i % 8 == 7 { 0.3 } else { 0.0 }, 0));
        assert_eq!(rates(&mut governor, restless).last(), Some(&RATE_MIN));
        let calm = rates(&mut governor, std::iter::repeat_n((0.05, 0), 400));
        assert!(
            calm.windows(2)
                .all(|w| w[0] <= w[1] && w[1] <= (w[0] + 0.050_001).min(w[0] * 2.0))
        );
        assert_eq!(calm.last(), Some(&1.0));
    }

    #[test]
    fn stays_below_the_ceiling_and_falls_from_there() {
        let ceiling = RateCeiling::default();
        let mut governor = Governor::default();
        let mut check = |at_s: i64, backlog: f32, set: f64, expected: f64| {
            ceiling.set(set);
            let now = Timestamp(at_s * 1_000_000_000);
            let change = governor.look(
                LoadObservation {
                    now,
                    backlog,
                    lost: 0,
                    ceiling: ceiling.get(),
                },
                0,
            );
            assert!(
                (governor.rate - expected).abs() < 1e-9,
                "{} at {at_s} s",
                governor.rate
            );
            let told = (governor.rate, ceiling.get());
            assert!(change.is_none_or(|change| (change.rate, change.ceiling) == told));
        };
        check(0, 0.0, 1.0, 1.0);
        check(1, 0.0, 0.25, 0.25);
        check(2, 0.9, 0.25, 0.125);
        check(3, 0.3, 1.0, 0.125);
        // No higher rate has been sustained since.
        check(4, 0.0, 1.0, 0.125);
        check(6, 0.0, 1.0, 0.175);
        check(8, 0.0, 0.0, RATE_MIN);
        // The sustained rate has continued to rise.
        check(9, 0.0, 1.0, 0.225);
    }

    #[test]
    fn changes_report_losses_since_the_previous_one() {
        let mut governor = Governor::default();
        let mut history = RateHistory::default();
        for i in 0..3000i64 {
            let look = LoadObservation {
                now: Timestamp(i * HOLD_NS / 2),
                backlog: 0.0,
                lost: i as u64,
                ceiling: 1.0,
            };
            governor
                .look(look, 3)
                .into_iter()
                .for_each(|change| history.add(change));
        }
        assert!(
            history
                .changes
                .iter()
                .all(|change| change.worker == 3 && change.lost <= 2)
        );
        assert_eq!((history.count, history.lowest), (10, Some(RATE_MIN)));
        (0..5000).for_each(|_| history.add(history.changes[0]));
        assert_eq!((history.changes.len(), history.count), (CHANGES_MAX, 5010));
    }
}
