//! Which Flink it is.

use std::fmt;

/// The oldest that knows what we ask for: `STOP JOB` and `SHOW JOBS` came with 1.17, idle partitions that hold no watermark back as an
/// option of a table with 1.18, and restart strategies by the names that sessions are given with 1.19.
pub const OLDEST: Version = Version { major: 1, minor: 19 };

/// Its first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first.
    pub major: u32,
    /// The second.
    pub minor: u32,
}

impl Version {
    /// Of `2.2.1` or `1.20-SNAPSHOT`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
        Some(Version { major: numbers.next()??, minor: numbers.next()?? })
    }
}

impl fmt::Display for Version {
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
            assert_eq!(Version::parse(text).map(|version| version >= OLDEST), new_enough, "{text:?}");
        }
    }
}
