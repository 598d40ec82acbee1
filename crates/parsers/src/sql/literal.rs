//! Ends of literals and comments that only PostgreSQL has.

use memchr::memchr;
use memchr::memmem::find;

/// Maximum length of the tag of a dollar-quoted string.
const TAG_MAX: usize = 64;

/// End of the quoted text whose `quote` is directly before `from`; a doubled quote belongs to it.
pub fn quoted_end(sql: &[u8], from: usize, quote: u8) -> usize {
    let mut end = from;
    while let Some(n) = sql.get(end..).and_then(|rest| memchr(quote, rest)) {
        end += n + 1;
        if sql.get(end) != Some(&quote) {
            return end;
        }
        end += 1;
    }
    sql.len()
}

/// End of the dollar-quoted string that begins at `at`, if one does.
pub fn dollar_end(sql: &[u8], at: usize) -> Option<usize> {
    let tag = sql[at + 1..].iter().take(TAG_MAX);
    let n = tag
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80)
        .count();
    let is_tag = sql.get(at + 1 + n) == Some(&b'$') && !sql[at + 1].is_ascii_digit();
    if !is_tag {
        return None;
    }
    let tag = &sql[at..at + n + 2];
    let body = at + tag.len();
    Some(find(&sql[body..], tag).map_or(sql.len(), |n| body + n + tag.len()))
}

/// End of the comment, possibly nested, that begins at `at` with `/*`.
pub fn nested_comment_end(sql: &[u8], at: usize) -> usize {
    let mut depth = 1;
    let mut end = at + 2;
    while depth > 0 {
        end += match sql.get(end..) {
            Some([b'*', b'/', ..]) => {
                depth -= 1;
                2
            }
            Some([b'/', b'*', ..]) => {
                depth += 1;
                2
            }
            Some([_, ..]) => 1,
            _ => return sql.len(),
        };
    }
    end
}

/// End of a literal of CQL that has no quotes: a UUID, a blob, or a duration. `None` if there is none at `at`.
pub fn cql_literal_end(cql: &[u8], at: usize) -> Option<usize> {
    let rest = &cql[at..];
    let length = rest
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'-' || **b == b'_')
        .count();
    let is_uuid = |text: &[u8]| {
        text.iter().enumerate().all(|(place, b)| match place {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
    };
    if rest.len() >= UUID && length >= UUID && is_uuid(&rest[..UUID]) {
        return (length == UUID || rest[UUID] == b'-').then_some(at + UUID);
    }
    let word = rest.split(|b| !b.is_ascii_alphanumeric()).next()?;
    let is_blob =
        matches!(word, [b'0', b'x' | b'X', hex @ ..] if hex.iter().all(u8::is_ascii_hexdigit));
    (is_blob || is_duration(word)).then_some(at + word.len())
}

/// Length of a UUID as text.
const UUID: usize = 36;

/// Whether a word is a duration: numbers with units, as `12h30m`.
fn is_duration(word: &[u8]) -> bool {
    const UNITS: [&[u8]; 9] = [b"y", b"mo", b"w", b"d", b"h", b"m", b"s", b"ms", b"us"];
    let is_unit = |unit: &[u8]| {
        unit.eq_ignore_ascii_case(b"ns") || UNITS.iter().any(|of| of.eq_ignore_ascii_case(unit))
    };
    let mut rest = word;
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let letters = rest[digits..]
            .iter()
            .take_while(|b| b.is_ascii_alphabetic())
            .count();
        if digits == 0 || !is_unit(&rest[digits..digits + letters]) {
            return false;
        }
        rest = &rest[digits + letters..];
    }
    !word.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_cql_without_quotes() {
        for (cql, expected) in [
            ("123e4567-e89b-12d3-a456-426614174000)", Some(36)),
            ("abcdef01-e89b-12d3-a456-426614174000", Some(36)),
            ("abcdef01-e89b-12d3-a456-4266141740001", None),
            ("0xCAFE, 1", Some(6)),
            ("0x", Some(2)),
            ("0xg", None),
            ("12h30m", Some(6)),
            ("1y2mo3w AND", Some(7)),
            ("12", None),
            ("h12", None),
            ("", None),
        ] {
            assert_eq!(cql_literal_end(cql.as_bytes(), 0), expected, "{cql}");
        }
    }
}
