//! RESP, the protocol of Redis: lengths of values, and the words of a message's stored head.
//!
//! A value states the number of its inner values, so one number describes the rest of a message. A long
//! string is a body: its bytes are neither parsed nor copied.

use std::borrow::Cow;

use memchr::memchr;

use crate::Direction;
use crate::request_response::MessageBoundary;

/// Strings inside a message that exceed this are skipped.
pub const LONG_BYTES: usize = 1024;
/// Maximum words of a command, and parts of a reply, that are examined together.
const WORDS_MAX: usize = 12;
const PARTS_MAX: usize = 5;
/// Maximum length of a string, and maximum values of an aggregate; above the limits of Redis.
const STRING_BYTES_MAX: u64 = 1 << 40;
const VALUES_MAX: u64 = 1 << 32;
/// Maximum length of a number, without its line end.
const NUMBER_BYTES_MAX: usize = 24;
/// Maximum length of an inline command (PROTO_INLINE_MAX_SIZE).
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a command name.
const NAME_BYTES_MAX: u64 = 64;

/// The value at the start of some bytes.
enum RespValue {
    /// Too few bytes.
    More,
    /// Not a value.
    No,
    /// A value with a head of `head` bytes, `body` bytes that are skipped, and `inner` values inside.
    Yes {
        head: usize,
        body: u64,
        inner: u64,
        counts: RespAggregateMember,
    },
}

/// Whether a value counts toward its aggregate.
#[derive(PartialEq, Eq)]
enum RespAggregateMember {
    Yes,
    /// An attribute: the value that it belongs to follows it.
    No,
}

/// Cuts a command: an array of strings, or a line.
pub fn cut_command(bytes: &[u8]) -> MessageBoundary {
    match bytes {
        [] | [b'\r'] => MessageBoundary::NeedMore,
        [b'\n', ..] => MessageBoundary::Filler(1),
        [b'\r', b'\n', ..] => MessageBoundary::Filler(2),
        [b'*', ..] => cut_array(bytes),
        [first, ..] if first.is_ascii_alphabetic() => cut_inline(bytes),
        _ => MessageBoundary::NoMessage,
    }
}

fn cut_array(bytes: &[u8]) -> MessageBoundary {
    let (mut head, mut rest) = match number(&bytes[1..]) {
        RespNumber::Is(n, len) => (1 + len, n),
        RespNumber::More => return MessageBoundary::NeedMore,
        RespNumber::No => return MessageBoundary::NoMessage,
    };
    if rest <= 0 {
        return MessageBoundary::Filler(head);
    }
    for _ in 0..WORDS_MAX {
        match string(&bytes[head..], LONG_BYTES) {
            RespValue::Yes {
                head: len, body, ..
            } => {
                head += len;
                rest -= 1;
                if body > 0 || rest == 0 {
                    return part(head, body, rest as u64);
                }
            }
            RespValue::More => return MessageBoundary::NeedMore,
            RespValue::No => return MessageBoundary::NoMessage,
        }
    }
    part(head, 0, rest as u64)
}

fn cut_inline(bytes: &[u8]) -> MessageBoundary {
    match memchr(b'\n', bytes) {
        Some(end)
            if bytes[..end]
                .iter()
                .all(|b| !b.is_ascii_control() || matches!(b, b'\r' | b'\t')) =>
        {
            MessageBoundary::Message {
                head: end + 1,
                body: 0,
            }
        }
        None if bytes.len() < INLINE_BYTES_MAX => MessageBoundary::NeedMore,
        _ => MessageBoundary::NoMessage,
    }
}

/// Cuts a reply or an unsolicited message. The first values of a possible confirmation or published message
/// are examined together, because they identify it.
pub fn cut_reply(bytes: &[u8]) -> MessageBoundary {
    if let [b'\n', ..] = bytes {
        // Sent by a master during the preparation of a replica's data.
        return MessageBoundary::Filler(1);
    }
    let mut head = 0;
    let mut rest = 1;
    for nth in 0..PARTS_MAX {
        // Of a single string only an error is needed, not the value.
        let long = if nth == 0 && bytes.first() == Some(&b'$') {
            0
        } else {
            LONG_BYTES
        };
        match value(&bytes[head..], long) {
            RespValue::Yes {
                head: len,
                body,
                inner,
                counts,
            } => {
                head += len;
                rest = rest + inner - u64::from(counts == RespAggregateMember::Yes);
                if body > 0 || rest == 0 {
                    return part(head, body, rest);
                }
            }
            RespValue::More => return MessageBoundary::NeedMore,
            RespValue::No => return MessageBoundary::NoMessage,
        }
        let is_telling = match nth {
            0 if !matches!(bytes[0], b'*' | b'>') => false,
            0 => match bytes.get(head) {
                None => return MessageBoundary::NeedMore,
                Some(sign) => *sign == b'$',
            },
            1 => name(&bytes[..head]).is_some_and(|kind| KINDS.contains(&kind)),
            _ => true,
        };
        if !is_telling {
            break;
        }
    }
    part(head, 0, rest)
}

/// Cuts a line: an error, or the line before a replica's data.
pub fn cut_line(bytes: &[u8]) -> MessageBoundary {
    match memchr(b'\n', bytes) {
        Some(0) => MessageBoundary::Filler(1),
        Some(end) => MessageBoundary::Message {
            head: end + 1,
            body: 0,
        },
        None => MessageBoundary::NeedMore,
    }
}

/// Cuts the next part of a message that lacks `rest` values.
pub fn go_on(direction: Direction, mut rest: u64, bytes: &[u8]) -> MessageBoundary {
    let mut head = 0;
    while rest > 0 {
        let next = match direction {
            Direction::ClientToServer => string(&bytes[head..], LONG_BYTES),
            Direction::ServerToClient => value(&bytes[head..], LONG_BYTES),
        };
        match next {
            RespValue::Yes {
                head: len,
                body,
                inner,
                counts,
            } => {
                head += len;
                rest = rest.saturating_add(inner) - u64::from(counts == RespAggregateMember::Yes);
                if body > 0 {
                    return part(head, body, rest);
                }
            }
            RespValue::More if head == 0 => return MessageBoundary::NeedMore,
            RespValue::More => break,
            RespValue::No => return MessageBoundary::NoMessage,
        }
    }
    part(head, 0, rest)
}

fn part(head: usize, body: u64, rest: u64) -> MessageBoundary {
    if rest == 0 {
        MessageBoundary::Message { head, body }
    } else {
        MessageBoundary::Part { head, body, rest }
    }
}

/// Parses any value of RESP2 or RESP3.
fn value(bytes: &[u8], long: usize) -> RespValue {
    let aggregate = |each: u64, counts| match number(&bytes[1..]) {
        // Only an array can be null.
        RespNumber::Is(-1, len) if bytes[0] == b'*' => RespValue::Yes {
            head: 1 + len,
            body: 0,
            inner: 0,
            counts,
        },
        RespNumber::Is(n @ 0.., len) if n as u64 <= VALUES_MAX => RespValue::Yes {
            head: 1 + len,
            body: 0,
            inner: n as u64 * each,
            counts,
        },
        RespNumber::More => RespValue::More,
        RespNumber::Is(..) | RespNumber::No => RespValue::No,
    };
    match bytes.first() {
        None => RespValue::More,
        Some(b'$' | b'=' | b'!') => string(bytes, long),
        Some(b'*' | b'~' | b'>') => aggregate(1, RespAggregateMember::Yes),
        Some(b'%') => aggregate(2, RespAggregateMember::Yes),
        Some(b'|') => aggregate(2, RespAggregateMember::No),
        Some(b'+' | b'-') => line(bytes, |_| true),
        Some(b':') => line(bytes, |n| is_number(n, b"")),
        Some(b'(') => line(bytes, |n| is_number(n, b"")),
        Some(b',') => line(bytes, |n| {
            is_number(n, b".eE+-") || matches!(n, b"inf" | b"-inf" | b"nan" | b"-nan")
        }),
        Some(b'_') => line(bytes, <[u8]>::is_empty),
        Some(b'#') => line(bytes, |b| matches!(b, b"t" | b"f")),
        Some(_) => RespValue::No,
    }
}

fn is_number(text: &[u8], others: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty()
        && digits
            .iter()
            .all(|b| b.is_ascii_digit() || others.contains(b))
}

/// Parses a line with a valid line end whose text satisfies `right`.
fn line(bytes: &[u8], right: impl Fn(&[u8]) -> bool) -> RespValue {
    match memchr(b'\n', bytes) {
        None => RespValue::More,
        Some(end) => match bytes[1..end].strip_suffix(b"\r") {
            Some(text) if right(text) => RespValue::Yes {
                head: end + 1,
                body: 0,
                inner: 0,
                counts: RespAggregateMember::Yes,
            },
            _ => RespValue::No,
        },
    }
}

/// Parses a length-prefixed string; one above `long` is skipped.
fn string(bytes: &[u8], long: usize) -> RespValue {
    if !bytes
        .first()
        .is_none_or(|b| matches!(b, b'$' | b'=' | b'!'))
    {
        return RespValue::No;
    }
    let (n, head) = match number(bytes.get(1..).unwrap_or_default()) {
        RespNumber::Is(n, len) => (n, 1 + len),
        RespNumber::More => return RespValue::More,
        RespNumber::No => return RespValue::No,
    };
    let yes = |head, body| RespValue::Yes {
        head,
        body,
        inner: 0,
        counts: RespAggregateMember::Yes,
    };
    match u64::try_from(n) {
        Ok(n) if n <= long as u64 && long > 0 => {
            let end = head + n as usize;
            match bytes.get(end..end + 2) {
                Some(b"\r\n") => yes(end + 2, 0),
                Some(_) => RespValue::No,
                None => RespValue::More,
            }
        }
        Ok(n) if n <= STRING_BYTES_MAX => yes(head, n + 2),
        Err(_) if n == -1 && bytes[0] == b'$' => yes(head, 0),
        _ => RespValue::No,
    }
}

/// Result of parsing a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RespNumber {
    More,
    No,
    /// The number, and the length of its line.
    Is(i64, usize),
}

/// Parses a line that is a number.
fn number(bytes: &[u8]) -> RespNumber {
    let seen = &bytes[..bytes.len().min(NUMBER_BYTES_MAX)];
    let digits = seen.strip_prefix(b"-").unwrap_or(seen);
    let sign = seen.len() - digits.len();
    // Negative, because the least number has no positive counterpart.
    let mut negative = Some(0i64);
    let mut len = 0;
    while let Some(digit @ b'0'..=b'9') = digits.get(len) {
        negative = negative
            .and_then(|n| n.checked_mul(10))
            .and_then(|n| n.checked_sub(i64::from(digit - b'0')));
        len += 1;
    }
    let n = if sign > 0 {
        negative
    } else {
        negative.and_then(i64::checked_neg)
    };
    match (&digits[len..], n) {
        ([] | [b'\r'], _) if seen.len() < NUMBER_BYTES_MAX => RespNumber::More,
        ([b'\r', b'\n', ..], Some(n)) if len > 0 => RespNumber::Is(n, sign + len + 2),
        _ => RespNumber::No,
    }
}

/// Whether bytes are, or may become, a command in array form: an array that begins with a name.
pub fn may_be_command(bytes: &[u8]) -> bool {
    is_command(bytes) != Some(false)
}

/// Whether bytes are a command in array form; `None`: too few bytes.
pub fn is_command(bytes: &[u8]) -> Option<bool> {
    let b'*' = *bytes.first()? else {
        return Some(false);
    };
    let (n, head) = match number(&bytes[1..]) {
        RespNumber::Is(n, len) => (n, 1 + len),
        RespNumber::More => return None,
        RespNumber::No => return Some(false),
    };
    let b'$' = *bytes.get(head)? else {
        return Some(false);
    };
    match number(&bytes[head + 1..]) {
        RespNumber::Is(len, digits) if n > 0 && (1..=NAME_BYTES_MAX as i64).contains(&len) => {
            let name = &bytes[head + 1 + digits..];
            let seen = &name[..name.len().min(len as usize)];
            if !seen
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'|'))
            {
                return Some(false);
            }
            let end = name.get(len as usize..len as usize + 2)?;
            Some(end == b"\r\n" && name[0].is_ascii_alphabetic())
        }
        RespNumber::More => None,
        _ => Some(false),
    }
}

/// Prefixes of confirmations and pushes.
const KINDS: [&[u8]; 10] = [
    b"message",
    b"pmessage",
    b"smessage",
    b"invalidate",
    b"subscribe",
    b"unsubscribe",
    b"psubscribe",
    b"punsubscribe",
    b"ssubscribe",
    b"sunsubscribe",
];
/// Prefixes of published messages and other pushes.
const PUSHES: [&[u8]; 6] = [
    b">2\r\n$10\r\ninvalidate\r\n",
    b">3\r\n$7\r\nmessage\r\n",
    b">4\r\n$8\r\npmessage\r\n",
    b"*3\r\n$7\r\nmessage\r\n",
    b"*4\r\n$8\r\npmessage\r\n",
    b"*3\r\n$8\r\nsmessage\r\n",
];

/// Whether bytes are, or may become, an unsolicited message.
pub fn may_be_push(bytes: &[u8]) -> bool {
    PUSHES
        .iter()
        .any(|push| bytes.iter().zip(*push).all(|(a, b)| a == b))
}

/// Whether bytes begin with an unsolicited message.
pub fn is_push(bytes: &[u8]) -> bool {
    PUSHES.iter().any(|push| bytes.starts_with(push))
}

/// Whether this is a line of MONITOR: `+1339518083.107412 [0 127.0.0.1:60866] "get" "x"`.
pub fn is_monitor_line(head: &[u8]) -> bool {
    let Some(text) = head.strip_prefix(b"+") else {
        return false;
    };
    let seconds = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let behind = &text[seconds..];
    seconds > 0
        && behind.first() == Some(&b'.')
        && behind
            .get(1..7)
            .is_some_and(|micros| micros.iter().all(u8::is_ascii_digit))
        && behind.get(7..9) == Some(b" [")
}

/// Number of values in the aggregate that `head` begins with, or of words in an inline command.
pub fn count(head: &[u8]) -> u64 {
    match head {
        [b'*' | b'>', rest @ ..] => match number(rest) {
            RespNumber::Is(n, _) => n.max(0) as u64,
            _ => 0,
        },
        _ => words(head).count() as u64,
    }
}

/// The first strings of an aggregate, or the words of an inline command; `None`: too long to be stored, or
/// not a string.
pub fn words(head: &[u8]) -> RespWords<'_> {
    match head {
        [b'*' | b'>', rest @ ..] => match number(rest) {
            RespNumber::Is(_, len) => RespWords::Strings(&rest[len..]),
            _ => RespWords::Line(b""),
        },
        _ => RespWords::Line(head),
    }
}

/// Iterator returned by [`words`].
pub enum RespWords<'a> {
    Strings(&'a [u8]),
    Line(&'a [u8]),
}

impl<'a> Iterator for RespWords<'a> {
    type Item = Option<Cow<'a, [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            RespWords::Strings(bytes) => {
                let RespValue::Yes {
                    head,
                    body,
                    inner: 0,
                    ..
                } = value(bytes, LONG_BYTES)
                else {
                    return None;
                };
                let (this, rest) = bytes.split_at(head);
                *bytes = rest;
                let is_kept = body == 0 && matches!(this[0], b'$' | b'+' | b'=');
                let begin = if this[0] == b'+' {
                    1
                } else {
                    memchr(b'\n', this)? + 1
                };
                Some(
                    this.get(begin..head - 2)
                        .filter(|_| is_kept)
                        .map(Cow::Borrowed),
                )
            }
            RespWords::Line(line) => Some(Some(next_word(line)?)),
        }
    }
}

/// The first word of an inline command, which may be quoted.
fn next_word<'a>(line: &mut &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let text = line.trim_ascii_start();
    let quote = *text.first()?;
    if !matches!(quote, b'"' | b'\'') {
        let (word, rest) = text.split_at(
            text.iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(text.len()),
        );
        *line = rest;
        return Some(Cow::Borrowed(word));
    }
    let mut word = Vec::new();
    let mut rest = text[1..].iter();
    while let Some(byte) = rest.next().filter(|b| **b != quote) {
        let escaped = if *byte == b'\\' { rest.next() } else { None };
        word.push(match escaped {
            Some(b'x') if quote == b'"' => hex_byte(&mut rest).unwrap_or(b'x'),
            Some(b'n') if quote == b'"' => b'\n',
            Some(b'r') if quote == b'"' => b'\r',
            Some(b't') if quote == b'"' => b'\t',
            Some(escaped) => *escaped,
            None => *byte,
        });
    }
    *line = rest.as_slice();
    Some(Cow::Owned(word))
}

/// The byte encoded by two hexadecimal digits.
fn hex_byte(rest: &mut std::slice::Iter<'_, u8>) -> Option<u8> {
    let digits = std::str::from_utf8(rest.as_slice().get(..2)?).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    *rest = rest.as_slice()[2..].iter();
    Some(byte)
}

/// Name of the command that `head` begins with.
pub fn name(head: &[u8]) -> Option<&[u8]> {
    match words(head).next()?? {
        Cow::Borrowed(name) => Some(name),
        // Names are never quoted.
        Cow::Owned(_) => None,
    }
}

/// Command name in upper case, in `room`; `None`: longer than any command.
pub fn upper_name<'a>(
    head: &[u8],
    room: &'a mut [u8; NAME_BYTES_MAX as usize],
) -> Option<&'a [u8]> {
    let name = name(head)?;
    let upper = room.get_mut(..name.len())?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    Some(upper)
}

/// The text of an error reply.
pub fn error(head: &[u8]) -> Option<&[u8]> {
    let text = match head {
        [b'-', text @ ..] => text,
        [b'!', rest @ ..] => &rest[memchr(b'\n', rest)? + 1..],
        _ => return None,
    };
    Some(text.strip_suffix(b"\r\n").unwrap_or(text))
}

/// Whether the reply to a read is a value; `None`: neither a value nor null.
pub fn is_there(head: &[u8]) -> Option<bool> {
    match head {
        [b'$', b'-', ..] | [b'*', b'-', ..] | [b'_', ..] => Some(false),
        [b'$' | b',' | b'=', ..] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with the standard library, which also accepts a plus sign.
        #[test]
        fn numbers_are_those_of_the_standard_library(
            text in "-?[0-9]{0,21}|-?92233720368547758[0-9]{2}|[-+0-9a]{1,6}",
        ) {
            let expected = match text.parse() {
                Ok(n) if !text.starts_with('+') => RespNumber::Is(n, text.len() + 2),
                _ => RespNumber::No,
            };
            prop_assert_eq!(number(format!("{text}\r\n").as_bytes()), expected);
        }
    }
}
