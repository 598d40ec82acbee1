//! Points in time as ISO 8601 (RFC 3339) text: `2026-01-31`, `2026-01-31T12:00:00.5Z`, `… 12:00+02:00`. The default
//! time zone is UTC. Leap seconds are not supported.

const NS: i64 = 1_000_000_000;

/// Nanoseconds since the epoch; `None` if the text is invalid, or the time is outside the years 1678 to 2261.
pub(crate) fn epoch_ns(text: &str) -> Option<i64> {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let days = days_since_epoch(date)?;
    let (seconds, nanos) = time.map_or(Some((0, 0)), time_of_day)?;
    (days * 86_400 + seconds)
        .checked_mul(NS)?
        .checked_add(nanos)
}

fn days_since_epoch(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if parts.next().is_some() || !(1..=month_days).contains(&day) {
        return None;
    }
    // Years that begin in March have the leap day at the end, so that a single formula yields the days before a
    // month.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let before_month = (153 * m + 2) / 5;
    Some(
        365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + before_month + day
            - 1
            - 719_468,
    )
}

/// Seconds (minus the zone offset) and nanoseconds.
fn time_of_day(text: &str) -> Option<(i64, i64)> {
    let (clock, offset) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) => (&text[..at], zone_offset(&text[at..])?),
        None => (text, 0),
    };
    let (clock, nanos) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, fraction_ns(fraction)?),
        None => (clock, 0),
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = parts.next().map_or(Some(0), |s| digits(s, 2))?;
    let valid = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    valid.then_some((hour * 3600 + minute * 60 + second - offset, nanos))
}

/// `Z`, `+02:00` or `+0200`, in seconds.
fn zone_offset(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits_only = text[1..].replacen(':', "", 1);
    let hhmm = digits(&digits_only, 4)?;
    (hhmm % 100 < 60 && hhmm < 2400).then_some(sign * (hhmm / 100 * 3600 + hhmm % 100 * 60))
}

fn fraction_ns(text: &str) -> Option<i64> {
    let value = digits(text, text.len())?;
    let missing = 9usize.checked_sub(text.len())?;
    Some(value * 10i64.pow(missing as u32))
}

/// Exactly `count` digits, at most nine.
fn digits(text: &str, count: usize) -> Option<i64> {
    let exact = !text.is_empty()
        && text.len() == count
        && count <= 9
        && text.bytes().all(|b| b.is_ascii_digit());
    if exact { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text, expected| assert_eq!(epoch_ns(text), expected, "{text}");
        check("1970-01-01", Some(0));
        check("1970-01-01T00:00:01Z", Some(NS));
        check("2000-02-29 12:00", Some(951_825_600 * NS));
        check(
            "2026-01-31T12:00:00.5+02:00",
            Some(1_769_853_600 * NS + NS / 2),
        );
        check(
            "2026-01-31t10:00:00.500000000z",
            Some(1_769_853_600 * NS + NS / 2),
        );
        check("2026-01-31T05:00:00-0500", Some(1_769_853_600 * NS));
        check("1969-12-31T23:59:59.999999999", Some(-1));
        check("2016-12-31T23:59:59", Some(1_483_228_799 * NS));
        for bad in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-1-1",
            "2026-01-01T",
            "2026-01-01T24:00",
            "2026-01-01T1:00",
            "2026-01-01T00:60",
            "2026-01-01T00:00:60",
            "2026-01-01T00:00:00.",
            "2026-01-01T00:00:00.0000000001",
            "2026-01-01T00:00:00+2",
            "2026-01-01T00:00:00+99:00",
            "9999-01-01",
            "1600-01-01",
            "-001-01-01",
            "2026-01-01-01",
            "2026-01-01T00:00:00:00",
            "２０２６-01-01",
        ] {
            check(bad, None);
        }
    }
}
