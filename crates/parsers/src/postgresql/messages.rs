//! Contents of messages: startup parameters, errors, command tags.

use memchr::memchr;

/// Protocol numbers of the untyped messages. ("Message Formats" in the PostgreSQL documentation.)
pub const CANCEL: u32 = 80_877_102;
/// SSLRequest.
pub const SSL: u32 = 80_877_103;
/// GSSENCRequest.
pub const GSS: u32 = 80_877_104;

/// Number at the start of an untyped message.
pub fn protocol_number(body: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*body.first_chunk()?))
}

/// Whether a number is a version of the protocol that this parser reads.
pub fn is_version_3(number: u32) -> bool {
    (0x0003_0000..=0x0003_ffff).contains(&number)
}

/// Text up to its NUL, and the bytes after it; `None` without a NUL.
pub fn nul_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(0, bytes)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Value of a startup parameter; `parameters` follow the protocol number.
pub fn parameter<'a>(parameters: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = parameters;
    while let Some((key, behind)) = nul_text(rest).filter(|(key, _)| !key.is_empty()) {
        let (value, behind) = nul_text(behind)?;
        if key == name {
            return Some(value);
        }
        rest = behind;
    }
    None
}

/// Value of a field of ErrorResponse; `None` if it is cut off.
pub fn error_field(body: &[u8], field: u8) -> Option<&[u8]> {
    let mut rest = body;
    while let Some((&kind, behind)) = rest.split_first().filter(|(kind, _)| **kind != 0) {
        let (value, behind) = nul_text(behind)?;
        if kind == field {
            return Some(value);
        }
        rest = behind;
    }
    None
}

/// Rows of a command tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagRows {
    /// Rows returned.
    pub returned: Option<u64>,
    /// Rows changed.
    pub affected: Option<u64>,
}

/// Reads the tag of CommandComplete: `SELECT 5`, `INSERT 0 1`, `BEGIN`.
pub fn tag_rows(body: &[u8]) -> TagRows {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let Some((verb, count)) = tag
        .iter()
        .rposition(|b| *b == b' ')
        .map(|at| (&tag[..at], &tag[at + 1..]))
    else {
        return TagRows::default();
    };
    let count = std::str::from_utf8(count).ok().and_then(|n| n.parse().ok());
    match verb {
        b"SELECT" | b"FETCH" => TagRows {
            returned: count,
            affected: None,
        },
        _ => TagRows {
            returned: None,
            affected: count,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        let of = |tag: &[u8]| {
            let rows = tag_rows(tag);
            (rows.returned, rows.affected)
        };
        assert_eq!(of(b"SELECT 5\0"), (Some(5), None));
        assert_eq!(of(b"INSERT 0 17\0"), (None, Some(17)));
        assert_eq!(of(b"COPY 3\0"), (None, Some(3)));
        assert_eq!(of(b"CREATE TABLE\0"), (None, None));
        assert_eq!(of(b"BEGIN\0"), (None, None));
        assert_eq!(of(b""), (None, None));
    }

    #[test]
    fn parameters_and_error_fields() {
        let startup = b"user\0app\0database\0shop\0\0";
        assert_eq!(parameter(startup, b"database"), Some(&b"shop"[..]));
        assert_eq!(parameter(startup, b"options"), None);
        assert_eq!(parameter(b"user\0ap", b"user"), None);
        let error = b"SERROR\0C42601\0Msyntax error\0\0";
        assert_eq!(error_field(error, b'C'), Some(&b"42601"[..]));
        assert_eq!(error_field(b"SERROR\0C42", b'C'), None);
        assert_eq!(error_field(error, b'D'), None);
    }
}
