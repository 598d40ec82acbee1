//! Timestamps of packets.

use std::fmt;

/// Nanoseconds since the Unix epoch by the capture's clock; signed, so that differences cannot wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Earliest time.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// Latest time.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// Nanoseconds from `earlier` to `self`; negative if the clock went back.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time shifted by `nanos`.
    #[must_use]
    pub fn plus(self, nanos: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(nanos))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}",
            self.0.div_euclid(1_000_000_000),
            self.0.rem_euclid(1_000_000_000)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_do_not_overflow() {
        assert_eq!(Timestamp(5).since(Timestamp(7)), -2);
        assert_eq!(Timestamp::MAX.since(Timestamp::MIN), i64::MAX);
        assert_eq!(Timestamp::MAX.plus(1), Timestamp::MAX);
    }

    #[test]
    fn shown_in_seconds() {
        assert_eq!(Timestamp(1_500_000_000).to_string(), "1.500000000");
        assert_eq!(Timestamp(-1).to_string(), "-1.999999999");
    }
}
