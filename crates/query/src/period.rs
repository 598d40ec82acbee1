//! The periods of a query: SINCE and UNTIL, and those of BASELINE, as written and as points in time. Times relative
//! to the end are resolved when the end of the capture or recording is known.

use plan::Bounds;

/// A time of SINCE or UNTIL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A point in time, in nanoseconds since 1970.
    At(i64),
    /// This many nanoseconds before the end of the input.
    BeforeEnd(i64),
}

/// A period from start to end (exclusive); open ends are unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// SINCE.
    pub since: Option<Moment>,
    /// UNTIL.
    pub until: Option<Moment>,
}

/// The period to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The same period, this many nanoseconds earlier.
    Earlier(i64),
    /// A separate period; without UNTIL it ends at the start of the query's period.
    Period(Period),
}

impl Moment {
    fn at(self, end_ns: i64) -> i64 {
        match self {
            Moment::At(ns) => ns,
            Moment::BeforeEnd(ns) => end_ns.saturating_sub(ns),
        }
    }
}

impl Period {
    /// Whether both ends are open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    /// Whether it is relative to the end of the input.
    #[must_use]
    pub fn counts_back(&self) -> bool {
        [self.since, self.until].iter().any(|moment| matches!(moment, Some(Moment::BeforeEnd(_))))
    }

    /// Resolves the period, with the end of the input at `end_ns`.
    #[must_use]
    pub fn settle(&self, end_ns: i64) -> Bounds {
        let at = |moment: Option<Moment>| moment.map(|moment| moment.at(end_ns));
        Bounds { since_ns: at(self.since), until_ns: at(self.until) }
    }
}

impl Baseline {
    /// Resolves the period, given the query's `own` period and the end of the input.
    #[must_use]
    pub fn settle(&self, own: Bounds, end_ns: i64) -> Bounds {
        match self {
            Baseline::Earlier(by) => Bounds {
                since_ns: own.since_ns.map(|ns| ns.saturating_sub(*by)),
                until_ns: Some(own.until_ns.unwrap_or(end_ns).saturating_sub(*by)),
            },
            Baseline::Period(period) => {
                let bounds = period.settle(end_ns);
                Bounds { until_ns: bounds.until_ns.or(own.since_ns), ..bounds }
            }
        }
    }
}
