//! Server certificates (X.509, RFC 5280): subject, names, issuer, and expiry. DER is traversed by lengths;
//! invalid input gives `None`.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parsed fields of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsCertificate {
    pub subject: Option<Vec<u8>>,
    /// Names and addresses, separated by commas.
    pub names: Option<Vec<u8>>,
    pub issuer: Option<Vec<u8>>,
    /// Expiry in nanoseconds since the epoch.
    pub not_after: Option<i64>,
}

/// DER tags.
mod tag {
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
    pub const OID: u8 = 0x06;
    pub const OCTETS: u8 = 0x04;
    pub const BMP: u8 = 0x1e;
    pub const UTC_TIME: u8 = 0x17;
    pub const TIME: u8 = 0x18;
    pub const VERSION: u8 = 0xa0;
    pub const EXTENSIONS: u8 = 0xa3;
    pub const DNS_NAME: u8 = 0x82;
    pub const ADDRESS: u8 = 0x87;
}

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];
/// Maximum text of all names in bytes.
const NAMES_BYTES_MAX: usize = 16 << 10;

/// A sequence of DER values.
#[derive(Clone, Copy, Debug)]
struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    /// The next value, with its tag.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let (digits, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.is_empty() || digits.len() > 3 {
                return None;
            }
            length = digits
                .iter()
                .fold(0, |n, digit| n << 8 | usize::from(*digit));
            rest = behind;
        }
        let (value, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some((tag, value))
    }

    /// The next value, which must have this tag.
    fn value(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|(found, _)| *found == tag)
            .map(|(_, value)| value)
    }

    fn inside(&mut self, tag: u8) -> Option<DerReader<'a>> {
        self.value(tag).map(DerReader)
    }
}

/// Parses a certificate.
pub fn read(der: &[u8]) -> Option<TlsCertificate> {
    let mut body = DerReader(der)
        .inside(tag::SEQUENCE)?
        .inside(tag::SEQUENCE)?;
    let mut ahead = body;
    if ahead.next()?.0 == tag::VERSION {
        body = ahead;
    }
    let _serial = body.next()?;
    let _signature = body.next()?;
    let issuer = body.inside(tag::SEQUENCE)?;
    let mut validity = body.inside(tag::SEQUENCE)?;
    let subject = body.inside(tag::SEQUENCE)?;
    let _key = body.next()?;
    validity.next()?;
    let mut names = None;
    while let Some((tag, value)) = body.next() {
        if tag == tag::EXTENSIONS {
            names = alternative_names(DerReader(value));
        }
    }
    Some(TlsCertificate {
        subject: attribute(subject, COMMON_NAME),
        names,
        issuer: attribute(issuer, COMMON_NAME).or_else(|| attribute(issuer, ORGANIZATION)),
        not_after: validity
            .next()
            .and_then(|(tag, time)| nanoseconds(tag, time)),
    })
}

/// The value of an attribute of a name; of several the last, which is the most specific.
fn attribute(mut name: DerReader<'_>, wanted: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    while let Some(mut set) = name.inside(tag::SET) {
        while let Some(mut pair) = set.inside(tag::SEQUENCE) {
            if pair.value(tag::OID) == Some(wanted)
                && let Some((tag, value)) = pair.next()
            {
                found = Some(text(tag, value));
            }
        }
    }
    found
}

fn text(tag: u8, value: &[u8]) -> Vec<u8> {
    if tag != tag::BMP {
        return value.to_vec();
    }
    let units = value
        .as_chunks::<2>()
        .0
        .iter()
        .map(|unit| u16::from_be_bytes(*unit));
    char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect::<String>()
        .into_bytes()
}

fn alternative_names(mut extensions: DerReader<'_>) -> Option<Vec<u8>> {
    let mut extensions = extensions.inside(tag::SEQUENCE)?;
    while let Some(mut extension) = extensions.inside(tag::SEQUENCE) {
        if extension.value(tag::OID)? != SUBJECT_ALTERNATIVE_NAME {
            continue;
        }
        // The critical flag may precede it.
        let octets = loop {
            match extension.next()? {
                (tag::OCTETS, value) => break value,
                _ => continue,
            }
        };
        let mut list = DerReader(octets).inside(tag::SEQUENCE)?;
        let mut names = Vec::new();
        while let Some((tag, name)) = list.next() {
            write_name(tag, name, &mut names);
        }
        return (names.len() <= NAMES_BYTES_MAX && !names.is_empty()).then_some(names);
    }
    None
}

fn write_name(tag: u8, name: &[u8], names: &mut Vec<u8>) {
    if !matches!(tag, tag::DNS_NAME | tag::ADDRESS) {
        return;
    }
    if !names.is_empty() {
        names.push(b',');
    }
    let written = match (tag, name.len()) {
        (tag::ADDRESS, 4) => write!(
            names,
            "{}",
            Ipv4Addr::from(*name.as_array().unwrap_or(&[0; 4]))
        ),
        (tag::ADDRESS, 16) => write!(
            names,
            "{}",
            Ipv6Addr::from(*name.as_array().unwrap_or(&[0; 16]))
        ),
        _ => names.write_all(name),
    };
    debug_assert!(written.is_ok(), "memory takes everything");
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`. `None`: another format, or outside the range of nanoseconds.
fn nanoseconds(tag: u8, time: &[u8]) -> Option<i64> {
    let time = time.strip_suffix(b"Z")?;
    if !time.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0, |n, digit| n * 10 + i64::from(digit - b'0'))
    };
    let (year, rest) = match (tag, time.len()) {
        (tag::UTC_TIME, 12) => (number(&time[..2]), &time[2..]),
        (tag::TIME, 14) => (number(&time[..4]), &time[4..]),
        _ => return None,
    };
    let year = match tag {
        tag::UTC_TIME if year < 50 => year + 2000,
        tag::UTC_TIME => year + 1900,
        _ => year,
    };
    let [month, day, hour, minute, second] =
        std::array::from_fn(|i| number(&rest[2 * i..2 * i + 2]));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    seconds.checked_mul(1_000_000_000)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar: years begin in March, so that a leap day is their last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // Expected values from `date -u -d ... +%s`.
        let check = |tag, time: &str, expected: Option<i64>| {
            assert_eq!(
                nanoseconds(tag, time.as_bytes()),
                expected.map(|s| s * 1_000_000_000),
                "{time}"
            );
        };
        check(tag::UTC_TIME, "700101000000Z", Some(0));
        check(tag::UTC_TIME, "491231235959Z", Some(2_524_607_999));
        check(tag::UTC_TIME, "240229120000Z", Some(1_709_208_000));
        check(tag::TIME, "20500301000001Z", Some(2_529_705_601));
        check(tag::TIME, "19000101000000Z", Some(-2_208_988_800));
        check(tag::TIME, "99991231235959Z", None);
        check(tag::UTC_TIME, "241301000000Z", None);
        check(tag::UTC_TIME, "2401010000Z", None);
    }
}
