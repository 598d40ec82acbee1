//! Times and dates in a time zone, for people. Exact formats have nanoseconds since 1970 and need no zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Time zone of the output; default UTC.
#[derive(Clone, Debug)]
pub struct DisplayZone(TimeZone);

/// Precision of a time of day: digits of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimePrecision(u8);

impl Default for DisplayZone {
    fn default() -> DisplayZone {
        DisplayZone(TimeZone::UTC)
    }
}

impl TimePrecision {
    /// Minimum precision for multiples of `ns`: none, 3, 6 or 9 digits.
    #[must_use]
    pub fn for_multiples_of(ns: i64) -> TimePrecision {
        let steps = [(1_000_000_000, 0), (1_000_000, 3), (1_000, 6)];
        TimePrecision(
            steps
                .iter()
                .find(|(step, _)| ns % step == 0)
                .map_or(9, |(_, digits)| *digits),
        )
    }
}

impl DisplayZone {
    /// Wraps a time zone of jiff.
    #[must_use]
    pub fn new(zone: TimeZone) -> DisplayZone {
        DisplayZone(zone)
    }

    /// A time with microseconds: `2026-11-07T12:05:57.229334Z`, or with its offset if not UTC.
    #[must_use]
    pub fn time(&self, epoch_ns: i64) -> String {
        self.show(epoch_ns, |at| format!("{:.6}{}", at.datetime(), offset(at)))
    }

    /// Like [`DisplayZone::time`], without a zero fraction.
    #[must_use]
    pub fn short_time(&self, epoch_ns: i64) -> String {
        self.show(epoch_ns, |at| format!("{}{}", at.datetime(), offset(at)))
    }

    /// The date: `2026-11-07`.
    #[must_use]
    pub fn date(&self, epoch_ns: i64) -> String {
        self.show(epoch_ns, |at| at.date().to_string())
    }

    /// The time of day: `12:05:57`.
    #[must_use]
    pub fn clock(&self, epoch_ns: i64, digits: TimePrecision) -> String {
        self.show(epoch_ns, |at| match digits.0 {
            0 => at.strftime("%H:%M:%S").to_string(),
            n => format!(
                "{}.{:0width$}",
                at.strftime("%H:%M:%S"),
                fraction(at, n),
                width = usize::from(n)
            ),
        })
    }

    /// Name of the zone at that time: `UTC`, `Europe/Berlin (+01:00)`, `+02:00`.
    #[must_use]
    pub fn name(&self, epoch_ns: i64) -> String {
        match self.0.iana_name() {
            Some("UTC") => "UTC".to_owned(),
            Some(name) => self.show(epoch_ns, |at| format!("{name} ({})", at.strftime("%:z"))),
            None => self.show(epoch_ns, |at| at.strftime("%:z").to_string()),
        }
    }

    fn show(&self, epoch_ns: i64, text: impl FnOnce(&Zoned) -> String) -> String {
        match Timestamp::from_nanosecond(epoch_ns.into()) {
            Ok(at) => text(&at.to_zoned(self.0.clone())),
            Err(_) => epoch_ns.to_string(),
        }
    }
}

/// The first `digits` digits of the fraction of a second.
fn fraction(at: &Zoned, digits: u8) -> i32 {
    at.subsec_nanosecond() / 10_i32.pow(9 - u32::from(digits))
}

fn offset(at: &Zoned) -> String {
    if at.time_zone().iana_name() == Some("UTC") {
        "Z".to_owned()
    } else {
        at.strftime("%:z").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOVEMBER: i64 = 1_795_291_157_229_334_999;
    /// An hour before the end of summer time in Berlin, and the first second after.
    const OCTOBER: i64 = 1_792_890_000_000_000_000;

    #[test]
    fn times_in_zones() {
        let berlin =
            DisplayZone::new(TimeZone::get("Europe/Berlin").expect("the data base is built in"));
        let east = DisplayZone::new(TimeZone::fixed(jiff::tz::offset(2)));
        let utc = DisplayZone::default();
        for (zone, time, expected) in [
            (
                &utc,
                NOVEMBER,
                "2026-11-21T19:59:17.229334Z 2026-11-21 19:59:17.229 UTC",
            ),
            (
                &utc,
                -1,
                "1969-12-31T23:59:59.999999Z 1969-12-31 23:59:59.999 UTC",
            ),
            (
                &berlin,
                NOVEMBER,
                "2026-11-21T20:59:17.229334+01:00 2026-11-21 20:59:17.229 Europe/Berlin (+01:00)",
            ),
            (
                &berlin,
                OCTOBER - 1,
                "2026-10-25T02:59:59.999999+02:00 2026-10-25 02:59:59.999 Europe/Berlin (+02:00)",
            ),
            (
                &berlin,
                OCTOBER,
                "2026-10-25T02:00:00.000000+01:00 2026-10-25 02:00:00.000 Europe/Berlin (+01:00)",
            ),
            (
                &east,
                NOVEMBER,
                "2026-11-21T21:59:17.229334+02:00 2026-11-21 21:59:17.229 +02:00",
            ),
        ] {
            let clock = zone.clock(time, TimePrecision(3));
            let name = zone.name(time);
            assert_eq!(
                format!("{} {} {clock} {name}", zone.time(time), zone.date(time)),
                expected
            );
        }
        for extreme in [i64::MIN, i64::MAX] {
            assert!(utc.time(extreme).ends_with('Z'));
        }
        assert_eq!(
            utc.short_time(1_795_291_150_000_000_000),
            "2026-11-21T19:59:10Z"
        );
        assert_eq!(
            utc.short_time(1_795_291_150_500_000_000),
            "2026-11-21T19:59:10.5Z"
        );
    }

    #[test]
    fn as_few_digits_as_do() {
        for (ns, digits) in [(3_600_000_000_000, 0), (250_000_000, 3), (1_000, 6), (1, 9)] {
            assert_eq!(TimePrecision::for_multiples_of(ns), TimePrecision(digits));
        }
    }
}
