//! The time zone that tables show, as a flag names it: `local`, `UTC`, `Europe/Berlin`, `+02:00`.

use jiff::tz::{Offset, TimeZone};
use sinks::DisplayZone;

const EXPECTED: &str = "local, UTC, a name such as Europe/Berlin, or an offset such as +02:00";
/// Maximum UTC offset accepted; above every offset in use.
const OFFSET_HOURS_MAX: i32 = 18;

/// The zone of that name.
pub fn zone(text: &str) -> Result<DisplayZone, String> {
    let zone = match text {
        "local" => TimeZone::try_system()
            .map_err(|error| format!("this machine's time zone is unknown: {error}"))?,
        "UTC" | "utc" | "Z" | "z" => TimeZone::UTC,
        _ if text.starts_with(['+', '-']) => TimeZone::fixed(offset(text).ok_or(EXPECTED)?),
        _ => TimeZone::get(text).map_err(|_| format!("no such time zone; {EXPECTED}"))?,
    };
    Ok(DisplayZone::new(zone))
}

/// `+02:00`, `-0330`, `+2`.
fn offset(text: &str) -> Option<Offset> {
    let (sign, clock) = if let Some(rest) = text.strip_prefix('-') {
        (-1, rest)
    } else {
        (1, &text[1..])
    };
    let (hours, minutes) = match clock.split_once(':') {
        Some(parts) => parts,
        None if clock.len() == 4 => clock.split_at_checked(2)?,
        None => (clock, "0"),
    };
    let number = |text: &str| {
        (1..=2)
            .contains(&text.len())
            .then(|| text.parse::<u8>().ok())?
            .map(i32::from)
    };
    let hours = number(hours)?;
    let minutes = number(minutes)?;
    let is_sound = hours <= OFFSET_HOURS_MAX && minutes < 60;
    is_sound.then(|| Offset::from_seconds(sign * (hours * 60 + minutes) * 60).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_by_name() {
        for (text, shown) in [
            ("UTC", Some("2026-07-01T10:00:00Z")),
            ("Europe/Berlin", Some("2026-07-01T12:00:00+02:00")),
            ("+05:30", Some("2026-07-01T15:30:00+05:30")),
            ("-0330", Some("2026-07-01T06:30:00-03:30")),
            ("+2", Some("2026-07-01T12:00:00+02:00")),
            ("+25:00", None),
            ("+1:99", None),
            ("+", None),
            ("+ü0", None),
            ("Mars/Olympus", None),
            ("", None),
        ] {
            let zone = zone(text)
                .ok()
                .map(|zone| zone.short_time(1_782_900_000_000_000_000));
            assert_eq!(zone.as_deref(), shown, "{text}");
        }
    }
}
