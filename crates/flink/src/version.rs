//! Version of Flink.

use std::fmt;

/// Oldest supported version: `STOP JOB` and `SHOW JOBS` require 1.17, the idle timeout of sources as a table option
/// 1.18, and restart strategies by name in sessions 1.19.
pub const OLDEST: FlinkVersion = FlinkVersion {
    major: 1,
    minor: 19,
};

/// The first two components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlinkVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
}

impl FlinkVersion {
    /// Parses versions such as `2.2.1` or `1.20-SNAPSHOT`.
    #[must_use]
    pub fn parse(text: &str) -> Option<FlinkVersion> {
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .map(|number| number.parse().ok());
        Some(FlinkVersion {
            major: numbers.next()??,
            minor: numbers.next()??,
        })
    }
}

impl fmt::Display for FlinkVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        for (text, new_enough) in [
            ("2.2.1", Some(true)),
            ("1.20-SNAPSHOT", Some(true)),
            ("1.19.0", Some(true)),
            ("1.18.1", Some(false)),
            ("10.0", Some(true)),
            ("", None),
            ("two", None),
            ("2", None),
        ] {
            assert_eq!(
                FlinkVersion::parse(text).map(|version| version >= OLDEST),
                new_enough,
                "{text:?}"
            );
        }
    }
}
