//! Times at which memory limits took effect. Rows of the affected windows are marked `approximate`.
//!
//! Holds at most [`STRETCHES_MAX`] periods of event time; beyond that, the two oldest are merged, including the time
//! between them.

/// Maximum number of separate periods.
pub const STRETCHES_MAX: usize = 4096;

/// A period of event time with results affected by a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedStretch {
    /// First nanosecond.
    pub from_ns: i64,
    /// Last nanosecond.
    pub to_ns: i64,
    /// Number of occurrences.
    pub times: u64,
}

impl LimitedStretch {
    /// Extends the period to include `other` and the time between.
    pub fn add(&mut self, other: &LimitedStretch) {
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.times = self.times.saturating_add(other.times);
    }

    /// The period that includes both, if present.
    #[must_use]
    pub fn union(
        first: Option<LimitedStretch>,
        second: Option<LimitedStretch>,
    ) -> Option<LimitedStretch> {
        [first, second]
            .into_iter()
            .flatten()
            .reduce(|mut all, other| {
                all.add(&other);
                all
            })
    }
}

/// Disjoint periods in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedStretches(Vec<LimitedStretch>);

impl LimitedStretches {
    /// Adds a period.
    pub fn add(&mut self, mut new: LimitedStretch) {
        let first = self.0.partition_point(|one| one.to_ns < new.from_ns);
        let end = self
            .0
            .partition_point(|one| one.from_ns <= new.to_ns)
            .max(first);
        self.0[first..end].iter().for_each(|one| new.add(one));
        self.0.splice(first..end, [new]);
        if self.0.len() > STRETCHES_MAX {
            let oldest = self.0.remove(0);
            self.0[0].add(&oldest);
        }
    }

    /// Drops periods that end before this time.
    pub fn forget_before(&mut self, ns: i64) {
        self.0.drain(..self.0.partition_point(|one| one.to_ns < ns));
    }

    /// Whether a period overlaps the window [start, end).
    #[must_use]
    pub fn touch(&self, (start, end): (i64, i64)) -> bool {
        let first = self.0.partition_point(|one| one.to_ns < start);
        self.0.get(first).is_some_and(|one| one.from_ns < end)
    }

    /// The periods.
    pub fn iter(&self) -> impl Iterator<Item = &LimitedStretch> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stretches: &[(i64, i64)]) -> LimitedStretches {
        let mut all = LimitedStretches::default();
        stretches.iter().for_each(|(from_ns, to_ns)| {
            all.add(LimitedStretch {
                from_ns: *from_ns,
                to_ns: *to_ns,
                times: 1,
            });
        });
        all
    }

    #[test]
    fn stretches_that_touch_are_merged() {
        let all = of(&[(10, 20), (40, 50), (0, 5), (20, 39), (60, 60)]);
        let found: Vec<_> = all
            .iter()
            .map(|one| (one.from_ns, one.to_ns, one.times))
            .collect();
        assert_eq!(found, [(0, 5, 1), (10, 39, 2), (40, 50, 1), (60, 60, 1)]);
    }

    #[test]
    fn a_window_is_touched_from_its_start_to_before_its_end() {
        let all = of(&[(10, 20), (40, 50)]);
        let touched =
            [(0, 10), (0, 11), (20, 30), (21, 40), (21, 41), (51, 99)].map(|w| all.touch(w));
        assert_eq!(touched, [false, true, true, false, true, false]);
    }

    #[test]
    fn memory_is_bounded_and_no_stretch_is_lost() {
        let times = STRETCHES_MAX as i64 * 2;
        let mut all = of(&(0..times).map(|n| (n * 10, n * 10 + 1)).collect::<Vec<_>>());
        assert_eq!(all.iter().count(), STRETCHES_MAX);
        assert!((0..times).all(|n| all.touch((n * 10, n * 10 + 1))));
        assert!(!all.touch((times * 10 - 5, times * 10 - 4)));
        all.forget_before(times * 10 - 15);
        assert_eq!(all.iter().count(), 1);
    }
}
