//! Time as passed to a session, and the offset of the agent's clock, by NTP's four timestamps (RFC 5905, section 8).
//! The recent sample with the shortest round trip counts: queues only lengthen a trip, mostly in one direction.

use std::collections::VecDeque;

/// The current time, as passed by the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionTime {
    /// Monotonic clock; for timers and leases.
    pub monotonic_ns: u64,
    /// Wall clock, since 1970; only for comparing clocks and for people.
    pub wall_ns: i64,
}

/// Offset of the other end's clock, measured by a round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// Offset, assuming symmetric delays.
    pub ns: i64,
    /// Maximum error in both directions: half of the round trip.
    pub uncertain_ns: i64,
}

/// Number of recent samples considered.
const SAMPLES: usize = 8;

/// Estimator of the other end's clock offset.
#[derive(Debug, Default)]
pub struct OffsetEstimator {
    samples: VecDeque<OffsetSample>,
}

#[derive(Debug, Clone, Copy)]
struct OffsetSample {
    offset_ns: i64,
    delay_ns: i64,
}

impl OffsetEstimator {
    /// Adds a round trip: local send time, remote receive and send time, local receive time.
    pub fn add(&mut self, [t1, t2, t3, t4]: [i64; 4]) {
        let [t1, t2, t3, t4] = [t1, t2, t3, t4].map(i128::from);
        let clamp = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let offset_ns = clamp(((t2 - t1) + (t3 - t4)) / 2);
        let delay_ns = clamp((t4 - t1) - (t3 - t2));
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(OffsetSample {
            offset_ns,
            delay_ns,
        });
    }

    /// The best estimate; `None` before the first round trip.
    pub fn ahead(&self) -> Option<ClockOffset> {
        let best = self.samples.iter().min_by_key(|sample| sample.delay_ns)?;
        // A clock set in the meantime can make a round trip negative.
        Some(ClockOffset {
            ns: best.offset_ns,
            uncertain_ns: best.delay_ns.max(0) / 2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_trip_counts() {
        let mut offset = OffsetEstimator::default();
        let ahead = |ns, uncertain_ns| Some(ClockOffset { ns, uncertain_ns });
        assert_eq!(offset.ahead(), None);
        // The other clock is 1000 ahead; with a slow response the estimate is lower.
        offset.add([0, 1050, 1060, 510]);
        assert_eq!(offset.ahead(), ahead(800, 250));
        offset.add([1000, 2010, 2020, 1030]);
        assert_eq!(offset.ahead(), ahead(1000, 10));
        offset.add([2000, 3300, 3310, 2320]);
        assert_eq!(offset.ahead(), ahead(1000, 10));
        // After eight samples the old offset is dropped.
        for i in 0..8 {
            let t = 10_000 * i;
            offset.add([t, t + 10, t + 20, t + 30]);
        }
        assert_eq!(offset.ahead(), ahead(0, 10));
        offset.add([0, 500, 600, 50]);
        assert_eq!(offset.ahead(), ahead(525, 0));
        offset.add([i64::MIN, i64::MAX, i64::MAX, i64::MIN]);
    }
}
