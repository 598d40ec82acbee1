//! Numbers with units in queries: durations, sizes, rates, and networks. Exact: decimal digits are scaled as
//! integers, without floating point.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Units of durations, in nanoseconds.
const DURATIONS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// Units of sizes, in bytes: powers of 1000, and with an i of 1024.
const SIZES: &[(&str, i128)] = &[
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];
/// Maximum digits, more than required for any 64-bit number in any unit.
const DIGITS_MAX: usize = 40;

/// The reason that a number is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralError {
    /// Not a number, or with another unit.
    Form,
    /// A number without a unit.
    NoUnit,
    /// A fraction of the smallest unit.
    TooFine,
    /// Outside 64 bits.
    TooLarge,
}

/// A number with a unit of time, in nanoseconds.
pub(crate) fn duration_ns(text: &str) -> Result<i64, LiteralError> {
    scaled(text, DURATIONS)
}

/// A number with a unit of size, in bytes.
pub(crate) fn size_bytes(text: &str) -> Result<i64, LiteralError> {
    scaled(text, SIZES)
}

/// An integer; `_` is allowed between digits.
pub(crate) fn whole(text: &str) -> Result<i128, LiteralError> {
    let (number, unit) = split_unit(text);
    if unit.is_empty() {
        scale(number, 1)
    } else {
        Err(LiteralError::Form)
    }
}

/// A finite number, optionally with an exponent, or `95%`.
pub(crate) fn real(text: &str) -> Result<f64, LiteralError> {
    let (digits, divisor) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |digits| (digits, 100.0));
    let plausible = digits.len() <= DIGITS_MAX
        && digits.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    // `f64` would also parse `inf` and `nan`.
    let numeric = digits
        .chars()
        .all(|c| c.is_ascii_digit() || "+-._eE".contains(c));
    let value: f64 = if plausible && numeric {
        digits
            .replace('_', "")
            .parse()
            .map_err(|_| LiteralError::Form)?
    } else {
        return Err(LiteralError::Form);
    };
    if value.is_finite() {
        Ok(value / divisor)
    } else {
        Err(LiteralError::TooLarge)
    }
}

/// An address, or a network such as `10.0.0.0/8`; the bits after the prefix are cleared, and IPv4-mapped addresses
/// become IPv4.
pub(crate) fn net(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let ip: IpAddr = address.parse().ok()?;
    let bits_max = if ip.is_ipv4() { 32 } else { 128 };
    let bits: u8 = match prefix {
        Some(p) if p.len() <= 3 && p.bytes().all(|b| b.is_ascii_digit()) => {
            p.parse().ok().filter(|b| *b <= bits_max)?
        }
        Some(_) => return None,
        None => bits_max,
    };
    Some(match (ip, ip.to_canonical()) {
        (IpAddr::V6(_), IpAddr::V4(mapped)) if bits >= 96 => masked(IpAddr::V4(mapped), bits - 96),
        _ => masked(ip, bits),
    })
}

fn masked(ip: IpAddr, bits: u8) -> (IpAddr, u8) {
    let cleared = match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    };
    (cleared, bits)
}

fn scaled(text: &str, units: &[(&str, i128)]) -> Result<i64, LiteralError> {
    let (number, unit) = split_unit(text);
    let unit = unit.to_lowercase();
    let scale_of = units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, scale)| *scale);
    let plain = scale(number, 1);
    match scale_of {
        Some(by) => i64::try_from(scale(number, by)?).map_err(|_| LiteralError::TooLarge),
        None if unit.is_empty() && plain != Err(LiteralError::Form) => Err(LiteralError::NoUnit),
        None => Err(LiteralError::Form),
    }
}

/// Splits at the first character that is not part of a number.
fn split_unit(text: &str) -> (&str, &str) {
    let in_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | '_');
    text.split_at(text.find(|c| !in_number(c)).unwrap_or(text.len()))
}

/// A decimal number multiplied by `by`.
fn scale(number: &str, by: i128) -> Result<i128, LiteralError> {
    let (negative, digits) = match number.as_bytes().first() {
        Some(b'-') => (true, &number[1..]),
        Some(b'+') => (false, &number[1..]),
        _ => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let digit_count = |s: &str| s.bytes().filter(u8::is_ascii_digit).count();
    if digit_count(digits) == 0 || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(LiteralError::Form);
    }
    let mut value: i128 = 0;
    let mut divisor: i128 = 1;
    for (digit, is_fraction) in whole
        .bytes()
        .map(|b| (b, false))
        .chain(fraction.bytes().map(|b| (b, true)))
    {
        match digit {
            b'0'..=b'9' => {}
            b'_' => continue,
            _ => return Err(LiteralError::Form),
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(i128::from(digit - b'0')))
            .ok_or(LiteralError::TooLarge)?;
        if is_fraction {
            divisor = divisor.checked_mul(10).ok_or(LiteralError::TooFine)?;
        }
    }
    let value = value.checked_mul(by).ok_or(LiteralError::TooLarge)?;
    if value % divisor != 0 {
        return Err(LiteralError::TooFine);
    }
    Ok(if negative {
        -value / divisor
    } else {
        value / divisor
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text, expected| assert_eq!(duration_ns(text), expected, "{text}");
        check("100ms", Ok(100_000_000));
        check("1.5s", Ok(1_500_000_000));
        check("2m", Ok(120_000_000_000));
        check("250us", Ok(250_000));
        check("250µs", Ok(250_000));
        check("10ns", Ok(10));
        check("1H", Ok(3_600_000_000_000));
        check("-1_000.50ms", Ok(-1_000_500_000));
        check("0.1s", Ok(100_000_000));
        check(".5s", Ok(500_000_000));
        check("1.5ns", Err(LiteralError::TooFine));
        check("100", Err(LiteralError::NoUnit));
        check("99999999999h", Err(LiteralError::TooLarge));
        check(
            "99999999999999999999999999999999999999999999999s",
            Err(LiteralError::TooLarge),
        );
        check(
            "0.00000000000000000000000000000000000000000000001s",
            Err(LiteralError::TooFine),
        );
        for bad in [
            "",
            "s",
            "-s",
            "ten s",
            "10 s",
            "10parsecs",
            "1.2.3s",
            "1-2s",
            "--1s",
            "_1s",
            ".s",
        ] {
            check(bad, Err(LiteralError::Form));
        }
    }

    #[test]
    fn sizes_and_numbers() {
        assert_eq!(size_bytes("10kB"), Ok(10_000));
        assert_eq!(size_bytes("4KiB"), Ok(4096));
        assert_eq!(
            size_bytes("1.5 MB".replace(' ', "").as_str()),
            Ok(1_500_000)
        );
        assert_eq!(size_bytes("0.3B"), Err(LiteralError::TooFine));
        assert_eq!(size_bytes("10ms"), Err(LiteralError::Form));
        assert_eq!(whole("1_000"), Ok(1000));
        assert_eq!(whole("-5"), Ok(-5));
        assert_eq!(whole("5.0"), Ok(5));
        assert_eq!(whole("5.5"), Err(LiteralError::TooFine));
        assert_eq!(whole("5k"), Err(LiteralError::Form));
        assert_eq!(real("0.95"), Ok(0.95));
        assert_eq!(real("95%"), Ok(0.95));
        assert_eq!(real("1e3"), Ok(1000.0));
        for bad in ["inf", "NaN", "", "%", "-", "1e", "0x10", "nan%"] {
            assert_eq!(real(bad), Err(LiteralError::Form), "{bad}");
        }
        assert_eq!(real("1e999"), Err(LiteralError::TooLarge));
    }

    #[test]
    fn networks() {
        let check = |text, expected: Option<&str>| {
            assert_eq!(
                net(text)
                    .map(|(ip, bits)| format!("{ip}/{bits}"))
                    .as_deref(),
                expected,
                "{text}"
            );
        };
        check("10.1.2.3", Some("10.1.2.3/32"));
        check("10.1.2.3/8", Some("10.0.0.0/8"));
        check("10.1.2.3/0", Some("0.0.0.0/0"));
        check("2001:db8::1", Some("2001:db8::1/128"));
        check("2001:db8::1/32", Some("2001:db8::/32"));
        check("::1/0", Some("::/0"));
        check("::ffff:10.1.2.3", Some("10.1.2.3/32"));
        check("::ffff:10.1.2.3/104", Some("10.0.0.0/8"));
        check("::ffff:10.1.2.3/90", Some("::ffc0:0:0/90"));
        for bad in [
            "10.0.0.256",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "h1",
            "",
        ] {
            check(bad, None);
        }
    }
}
