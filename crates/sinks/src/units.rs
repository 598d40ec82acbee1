//! Numbers for people: three significant digits, with unit. Other formats have exact values. Ties are rounded to even.

use tuple::Unit;

use crate::DisplayZone;

/// A number with its unit.
#[must_use]
pub fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => duration(value),
        Unit::Bytes => bytes(value),
        Unit::PerSecond => rate(value),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
        Unit::Fraction => percentage(value),
        Unit::EpochNanoseconds => DisplayZone::default().time(value as i64),
        Unit::Id => id(value as u64),
        Unit::None => plain(value),
    }
}

/// Nanoseconds: `850 ns`, `1.23 ms`, `12.3 s`; from a minute on `1m 05s`, `2h 03m`, `4d 05h`.
#[must_use]
pub fn duration(ns: f64) -> String {
    let (sign, ns) = split_sign(ns);
    let text = if ns < 999.5e6 {
        scaled(ns, 1000.0, &["ns", "µs", "ms"], significant)
    } else {
        seconds(ns / 1e9)
    };
    format!("{sign}{text}")
}

/// A configured duration, in the largest unit with an integer value: `90 s`, `5 min`, `1 h`.
#[must_use]
pub fn chosen_duration(ns: i64) -> String {
    let units = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "µs"),
    ];
    let (size, unit) = units
        .into_iter()
        .find(|(size, _)| ns % size == 0)
        .unwrap_or((1, "ns"));
    format!("{} {unit}", ns / size)
}

/// Bytes in powers of 1000: `512 B`, `4.1 kB`, `1.2 GB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    let (sign, value) = split_sign(value);
    let one_decimal = |v: f64| format!("{v:.1}");
    let text = scaled(
        value,
        1000.0,
        &["B", "kB", "MB", "GB", "TB", "PB", "EB"],
        one_decimal,
    );
    format!("{sign}{text}")
}

/// Rate per second: `12.3/s`.
#[must_use]
pub fn rate(value: f64) -> String {
    format!("{}/s", plain(value))
}

/// A share as a percentage. Values below one are never shown as 100 %, positive ones never as 0 %.
#[must_use]
pub fn percentage(share: f64) -> String {
    let percent = share * 100.0;
    if percent == percent.trunc() {
        return format!("{percent:.0} %");
    }
    let decimals = (1..9).find(|d| {
        let rounded = format!("{percent:.d$}");
        rounded.parse::<f64>().is_ok_and(|r| r != 0.0 && r != 100.0)
    });
    format!("{percent:.0$} %", decimals.unwrap_or(9))
}

/// An identifier: 16 hexadecimal digits.
#[must_use]
pub fn id(value: u64) -> String {
    format!("{value:016x}")
}

/// A number without unit: integers exact, others with three significant digits.
#[must_use]
pub fn plain(value: f64) -> String {
    let (sign, magnitude) = split_sign(value);
    if magnitude == magnitude.trunc() || magnitude >= 99.95 {
        return format!("{sign}{magnitude:.0}");
    }
    if magnitude >= 0.01 {
        return format!("{sign}{}", significant(magnitude));
    }
    format!("{sign}{magnitude:.2e}")
}

fn split_sign(value: f64) -> (&'static str, f64) {
    (if value < 0.0 { "-" } else { "" }, value.abs())
}

/// In the largest unit with a value of at least 1; in the smallest unit, integers stay exact.
fn scaled(value: f64, step: f64, units: &[&str], digits: impl Fn(f64) -> String) -> String {
    let whole = value == value.trunc() && value < step;
    if whole {
        return format!("{value:.0} {}", units[0]);
    }
    let mut value = value;
    let mut at = 0;
    // Rounding may carry into the next unit: 999.96 kB is 1.0 MB.
    while at + 1 < units.len() && digits(value).parse::<f64>().is_ok_and(|v| v >= step) {
        value /= step;
        at += 1;
    }
    format!("{} {}", digits(value), units[at])
}

/// Three significant digits, at most two decimals.
fn significant(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn seconds(s: f64) -> String {
    let whole = s.round() as u64;
    match whole {
        _ if s < 59.95 => format!("{} s", significant(s)),
        0..3_600 => format!("{}m {:02}s", whole / 60, whole % 60),
        3_600..86_400 => format!("{}h {:02}m", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{}d {:02}h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unit: Unit, cases: &[(f64, &str)]) {
        for (value, expected) in cases {
            assert_eq!(number(unit, *value), *expected, "{value} {unit:?}");
        }
    }

    /// The server's page is tested with the same cases (web/test/numbers.mjs): a unit, a number, and its text.
    #[test]
    fn numbers_are_those_of_the_page() {
        for line in include_str!("numbers.tsv").lines() {
            let mut parts = line.split('\t');
            let mut next = || parts.next().expect("three parts");
            let unit = next();
            let value = next().parse().expect("a number");
            let expected = next();
            let unit = match unit {
                "ns" => Unit::Nanoseconds,
                "bytes" => Unit::Bytes,
                "per_second" => Unit::PerSecond,
                "bytes_per_second" => Unit::BytesPerSecond,
                "fraction" => Unit::Fraction,
                _ => Unit::None,
            };
            assert_eq!(number(unit, value), expected, "{value} {unit:?}");
        }
    }

    #[test]
    fn durations() {
        check(
            Unit::Nanoseconds,
            &[
                (0.0, "0 ns"),
                (1.0, "1 ns"),
                (12.34, "12.3 ns"),
                (999.0, "999 ns"),
                (999.9, "1.00 µs"),
                (1_000.0, "1.00 µs"),
                (1_234_567.0, "1.23 ms"),
                (99_960.0, "100 µs"),
                (99_940.0, "99.9 µs"),
                (999_499.0, "999 µs"),
                (999_500.0, "1.00 ms"),
                (999_499_999.0, "999 ms"),
                (999_500_000.0, "1.00 s"),
                (12_345_678_901.0, "12.3 s"),
                (59_900_000_000.0, "59.9 s"),
                (59_960_000_000.0, "1m 00s"),
                (75.4e9, "1m 15s"),
                (3_599.6e9, "1h 00m"),
                (86_400e9, "1d 00h"),
                (9_223_372_036_854_775_807.0, "106751d 23h"),
                (-1_500.0, "-1.50 µs"),
                (-0.0, "0 ns"),
            ],
        );
    }

    #[test]
    fn sizes_and_rates() {
        check(
            Unit::Bytes,
            &[
                (0.0, "0 B"),
                (512.0, "512 B"),
                (512.25, "512.2 B"),
                (999.96, "1.0 kB"),
                (4_096.0, "4.1 kB"),
                (1_000.0, "1.0 kB"),
                (999_960.0, "1.0 MB"),
                (1.8e19, "18.0 EB"),
                (-2_000.0, "-2.0 kB"),
            ],
        );
        check(
            Unit::PerSecond,
            &[
                (0.0, "0/s"),
                (0.5, "0.50/s"),
                (12.34, "12.3/s"),
                (1234.5, "1234/s"),
                (0.00123, "1.23e-3/s"),
            ],
        );
        check(
            Unit::BytesPerSecond,
            &[
                (0.0, "0 B/s"),
                (0.25, "0.2 B/s"),
                (12_345_678.0, "12.3 MB/s"),
            ],
        );
        check(
            Unit::None,
            &[
                (3.0, "3"),
                (3.333, "3.33"),
                (99.99, "100"),
                (1e6, "1000000"),
                (-2.5, "-2.50"),
                (200.0, "200"),
            ],
        );
    }

    #[test]
    fn shares_do_not_lie() {
        check(
            Unit::Fraction,
            &[
                (0.0, "0 %"),
                (1.0, "100 %"),
                (0.5, "50 %"),
                (0.992, "99.2 %"),
                (0.99999, "99.999 %"),
                (0.99996, "99.996 %"),
                (0.00003, "0.003 %"),
                (1e-15, "0.000000000 %"),
                (0.123456, "12.3 %"),
            ],
        );
    }

    #[test]
    fn chosen_times_and_ids() {
        let second = 1_000_000_000;
        for (ns, text) in [
            (90 * second, "90 s"),
            (300 * second, "5 min"),
            (7_200 * second, "2 h"),
            (1_500_000, "1500 µs"),
        ] {
            assert_eq!(chosen_duration(ns), text);
        }
        assert_eq!(id(255), "00000000000000ff");
    }
}
