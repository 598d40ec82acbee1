//! Write times of records in a partition: gives the age of the oldest record missing at a reader without another
//! machine's clock. Pure: times are arguments.

use std::collections::VecDeque;
use std::time::Duration;

/// Maximum stored times; beyond it every second one is dropped, repeatedly. At ten per second, half an hour is exact;
/// older records may seem younger.
const MARKS_MAX: usize = 4096;

/// End of the partition at some times.
#[derive(Debug, Default)]
pub struct OffsetTrail {
    marks: VecDeque<(Duration, u64)>,
}

impl OffsetTrail {
    /// Notes the current end.
    pub fn note(&mut self, now: Duration, end: u64) {
        if self.end().is_some_and(|known| known >= end) {
            return;
        }
        if self.marks.len() == MARKS_MAX {
            let mut is_kept = false;
            self.marks.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        self.marks.push_back((now, end));
    }

    /// The end.
    pub fn end(&self) -> Option<u64> {
        self.marks.back().map(|(_, end)| *end)
    }

    /// Age of the oldest record from `taken` on.
    pub fn age(&self, now: Duration, taken: u64) -> Duration {
        let first = self.marks.partition_point(|(_, end)| *end <= taken);
        self.marks
            .get(first)
            .map_or(Duration::ZERO, |(at, _)| now.saturating_sub(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_the_first_record_that_is_lacking() {
        let mut trail = OffsetTrail::default();
        let at = Duration::from_secs;
        assert_eq!((trail.end(), trail.age(at(9), 0)), (None, Duration::ZERO));
        for (time, end) in [(1, 100), (2, 200), (3, 200), (4, 300)] {
            trail.note(at(time), end);
        }
        for (taken, expected) in [
            (0, 9),
            (99, 9),
            (100, 8),
            (199, 8),
            (200, 6),
            (299, 6),
            (300, 0),
            (999, 0),
        ] {
            assert_eq!(trail.age(at(10), taken), at(expected), "{taken}");
        }
    }

    #[test]
    fn takes_little_room_and_knows_recent_times_well() {
        let mut trail = OffsetTrail::default();
        let all = 100 * MARKS_MAX as u64;
        (0..all).for_each(|i| trail.note(Duration::from_millis(i), i));
        assert!(trail.marks.len() <= MARKS_MAX);
        for behind in [1, 10, 100, 1000, 10_000, 18_000] {
            let age = trail
                .age(Duration::from_millis(all), all - behind - 1)
                .as_millis() as u64;
            assert!(age <= behind + 1 && age >= behind / 2, "{age} of {behind}");
        }
    }
}
