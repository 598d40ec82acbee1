//! A stretch of event time: what SINCE and UNTIL mean once every relative time is settled.

/// From when (included) to when (not included), in nanoseconds since 1970. `None`: no end on that side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The first nanosecond that is inside.
    pub since_ns: Option<i64>,
    /// The first one behind it.
    pub until_ns: Option<i64>,
}

impl Bounds {
    /// Whether nothing can be inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.since_ns.zip(self.until_ns).is_some_and(|(since, until)| since >= until)
    }

    /// Whether a time is inside.
    #[must_use]
    pub fn contains(&self, ns: i64) -> bool {
        self.since_ns.is_none_or(|since| since <= ns) && self.until_ns.is_none_or(|until| ns < until)
    }

    /// How long it is, if it has both ends.
    #[must_use]
    pub fn nanos(&self) -> Option<i64> {
        self.since_ns.zip(self.until_ns).map(|(since, until)| until.saturating_sub(since))
    }
}
