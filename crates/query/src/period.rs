//! The periods of a query: SINCE and UNTIL, and those of BASELINE, as written and as points in time. Times relative
//! to the end are resolved when the end of the capture or recording is known.

use plan::TimeBounds;

/// A time of SINCE or UNTIL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodMoment {
    /// A point in time, in nanoseconds since 1970.
    At(i64),
    /// A number of nanoseconds before the end of the input.
    BeforeEnd(i64),
}

/// A period from start to end (exclusive); open ends are unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimePeriod {
    /// SINCE.
    pub since: Option<PeriodMoment>,
    /// UNTIL.
    pub until: Option<PeriodMoment>,
}

/// The period to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselinePeriod {
    /// The same period, this many nanoseconds earlier.
    Earlier(i64),
    /// A separate period; without UNTIL it ends at the start of the query's period.
    Period(TimePeriod),
}

impl PeriodMoment {
    fn at(self, end_ns: i64) -> i64 {
        match self {
            PeriodMoment::At(ns) => ns,
            PeriodMoment::BeforeEnd(ns) => end_ns.saturating_sub(ns),
        }
    }
}

impl TimePeriod {
    /// Whether both ends are open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    /// Whether it is relative to the end of the input.
    #[must_use]
    pub fn counts_back(&self) -> bool {
        [self.since, self.until]
            .iter()
            .any(|moment| matches!(moment, Some(PeriodMoment::BeforeEnd(_))))
    }

    /// Resolves the period, with the end of the input at `end_ns`.
    #[must_use]
    pub fn settle(&self, end_ns: i64) -> TimeBounds {
        let at = |moment: Option<PeriodMoment>| moment.map(|moment| moment.at(end_ns));
        TimeBounds {
            since_ns: at(self.since),
            until_ns: at(self.until),
        }
    }
}

impl BaselinePeriod {
    /// Resolves the period, given the query's `own` period and the end of the input.
    #[must_use]
    pub fn settle(&self, own: TimeBounds, end_ns: i64) -> TimeBounds {
        match self {
            BaselinePeriod::Earlier(by) => TimeBounds {
                since_ns: own.since_ns.map(|ns| ns.saturating_sub(*by)),
                until_ns: Some(own.until_ns.unwrap_or(end_ns).saturating_sub(*by)),
            },
            BaselinePeriod::Period(period) => {
                let bounds = period.settle(end_ns);
                TimeBounds {
                    until_ns: bounds.until_ns.or(own.since_ns),
                    ..bounds
                }
            }
        }
    }
}
