//! A period of event time: SINCE and UNTIL with all relative times resolved.

/// A period from start (inclusive) to end (exclusive), in nanoseconds since 1970. `None` is an open end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBounds {
    /// First nanosecond.
    pub since_ns: Option<i64>,
    /// End, exclusive.
    pub until_ns: Option<i64>,
}

impl TimeBounds {
    /// Whether the period is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.since_ns
            .zip(self.until_ns)
            .is_some_and(|(since, until)| since >= until)
    }

    /// Whether a time is within the period.
    #[must_use]
    pub fn contains(&self, ns: i64) -> bool {
        self.since_ns.is_none_or(|since| since <= ns)
            && self.until_ns.is_none_or(|until| ns < until)
    }

    /// The length, if both ends are set.
    #[must_use]
    pub fn nanos(&self) -> Option<i64> {
        self.since_ns
            .zip(self.until_ns)
            .map(|(since, until)| until.saturating_sub(since))
    }
}
