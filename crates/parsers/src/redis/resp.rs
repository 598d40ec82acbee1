//! RESP, the protocol of Redis: lengths of values, and the words of a message's stored head.
//!
//! A value states the number of its inner values, so one number describes the rest of a message. A long
//! string is a body: its bytes are neither parsed nor copied.

use std::borrow::Cow;

use memchr::memchr;

use crate::Direction;
use crate::request_response::Cut;

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
enum Value {
    /// Too few bytes.
    More,
    /// Not a value.
    No,
    /// A value with a head of `head` bytes, `body` bytes that are skipped, and `inner` values inside.
    Yes { head: usize, body: u64, inner: u64, counts: Counts },
}

/// Whether a value counts toward its aggregate.
#[derive(PartialEq, Eq)]
enum Counts {
    Yes,
    /// An attribute: the value that it belongs to follows it.
    No,
}

/// Cuts a command: an array of strings, or a line.
pub fn cut_command(bytes: &[u8]) -> Cut {
    match bytes {
        [] | [b'\r'] => Cut::NeedMore,
        [b'\n', ..] => Cut::Filler(1),
        [b'\r', b'\n', ..] => Cut::Filler(2),
        [b'*', ..] => cut_array(bytes),
        [first, ..] if first.is_ascii_alphabetic() => cut_inline(bytes),
        _ => Cut::NoMessage,
    }
}

fn cut_array(bytes: &[u8]) -> Cut {
    let (mut head, mut rest) = match number(&bytes[1..]) {
        Number::Is(n, len) => (1 + len, n),
        Number::More => return Cut::NeedMore,
        Number::No => return Cut::NoMessage,
    };
    if rest <= 0 {
        return Cut::Filler(head);
    }
    for _ in 0..WORDS_MAX {
        match string(&bytes[head..], LONG_BYTES) {
            Value::Yes { head: len, body, .. } => {
                (head, rest) = (head + len, rest - 1);
                if body > 0 || rest == 0 {
                    return part(head, body, rest as u64);
                }
            }
            Value::More => return Cut::NeedMore,
            Value::No => return Cut::NoMessage,
        }
    }
    part(head, 0, rest as u64)
}

fn cut_inline(bytes: &[u8]) -> Cut {
    match memchr(b'\n', bytes) {
        Some(end) if bytes[..end].iter().all(|b| !b.is_ascii_control() || matches!(b, b'\r' | b'\t')) => {
            Cut::Message { head: end + 1, body: 0 }
        }
        None if bytes.len() < INLINE_BYTES_MAX => Cut::NeedMore,
        _ => Cut::NoMessage,
    }
}

/// Cuts a reply or an unsolicited message. The first values of a possible confirmation or published message
/// are examined together, because they identify it.
pub fn cut_reply(bytes: &[u8]) -> Cut {
    if let [b'\n', ..] = bytes {
        // Sent by a master during the preparation of a replica's data.
        return Cut::Filler(1);
    }
    let (mut head, mut rest) = (0, 1);
    for nth in 0..PARTS_MAX {
        // The value of a single string is not needed; an error is.
        let long = if nth == 0 && bytes.first() == Some(&b'$') { 0 } else { LONG_BYTES };
        match value(&bytes[head..], long) {
            Value::Yes { head: len, body, inner, counts } => {
                head += len;
                rest = rest + inner - u64::from(counts == Counts::Yes);
                if body > 0 || rest == 0 {
                    return part(head, body, rest);
                }
            }
            Value::More => return Cut::NeedMore,
            Value::No => return Cut::NoMessage,
        }
        let is_telling = match nth {
            0 if !matches!(bytes[0], b'*' | b'>') => false,
            0 => match bytes.get(head) {
                None => return Cut::NeedMore,
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
pub fn cut_line(bytes: &[u8]) -> Cut {
    match memchr(b'\n', bytes) {
        Some(0) => Cut::Filler(1),
        Some(end) => Cut::Message { head: end + 1, body: 0 },
        None => Cut::NeedMore,
    }
}

/// Cuts the next part of a message that lacks `rest` values.
pub fn go_on(direction: Direction, mut rest: u64, bytes: &[u8]) -> Cut {
    let mut head = 0;
    while rest > 0 {
        let next = match direction {
            Direction::ClientToServer => string(&bytes[head..], LONG_BYTES),
            Direction::ServerToClient => value(&bytes[head..], LONG_BYTES),
        };
        match next {
            Value::Yes { head: len, body, inner, counts } => {
                head += len;
                rest = rest.saturating_add(inner) - u64::from(counts == Counts::Yes);
                if body > 0 {
                    return part(head, body, rest);
                }
            }
            Value::More if head == 0 => return Cut::NeedMore,
            Value::More => break,
            Value::No => return Cut::NoMessage,
        }
    }
    part(head, 0, rest)
}

fn part(head: usize, body: u64, rest: u64) -> Cut {
    if rest == 0 { Cut::Message { head, body } } else { Cut::Part { head, body, rest } }
}

/// Parses any value of RESP2 or RESP3.
fn value(bytes: &[u8], long: usize) -> Value {
    let aggregate = |each: u64, counts| match number(&bytes[1..]) {
        // Only an array can be null.
        Number::Is(-1, len) if bytes[0] == b'*' => Value::Yes { head: 1 + len, body: 0, inner: 0, counts },
        Number::Is(n @ 0.., len) if n as u64 <= VALUES_MAX => {
            Value::Yes { head: 1 + len, body: 0, inner: n as u64 * each, counts }
        }
        Number::More => Value::More,
        Number::Is(..) | Number::No => Value::No,
    };
    match bytes.first() {
        None => Value::More,
        Some(b'$' | b'=' | b'!') => string(bytes, long),
        Some(b'*' | b'~' | b'>') => aggregate(1, Counts::Yes),
        Some(b'%') => aggregate(2, Counts::Yes),
        Some(b'|') => aggregate(2, Counts::No),
        Some(b'+' | b'-') => line(bytes, |_| true),
        Some(b':') => line(bytes, |n| is_number(n, b"")),
        Some(b'(') => line(bytes, |n| is_number(n, b"")),
        Some(b',') => {
            line(bytes, |n| is_number(n, b".eE+-") || matches!(n, b"inf" | b"-inf" | b"nan" | b"-nan"))
        }
        Some(b'_') => line(bytes, <[u8]>::is_empty),
        Some(b'#') => line(bytes, |b| matches!(b, b"t" | b"f")),
        Some(_) => Value::No,
    }
}

fn is_number(text: &[u8], others: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.iter().all(|b| b.is_ascii_digit() || others.contains(b))
}

/// Parses a line with a valid line end whose text satisfies `right`.
fn line(bytes: &[u8], right: impl Fn(&[u8]) -> bool) -> Value {
    match memchr(b'\n', bytes) {
        None => Value::More,
        Some(end) => match bytes[1..end].strip_suffix(b"\r") {
            Some(text) if right(text) => Value::Yes { head: end + 1, body: 0, inner: 0, counts: Counts::Yes },
            _ => Value::No,
        },
    }
}

/// Parses a length-prefixed string; one above `long` is skipped.
fn string(bytes: &[u8], long: usize) -> Value {
    if !bytes.first().is_none_or(|b| matches!(b, b'$' | b'=' | b'!')) {
        return Value::No;
    }
    let (n, head) = match number(bytes.get(1..).unwrap_or_default()) {
        Number::Is(n, len) => (n, 1 + len),
        Number::More => return Value::More,
        Number::No => return Value::No,
    };
    let yes = |head, body| Value::Yes { head, body, inner: 0, counts: Counts::Yes };
    match u64::try_from(n) {
        Ok(n) if n <= long as u64 && long > 0 => {
            let end = head + n as usize;
            match bytes.get(end..end + 2) {
                Some(b"\r\n") => yes(end + 2, 0),
                Some(_) => Value::No,
                None => Value::More,
            }
        }
        Ok(n) if n <= STRING_BYTES_MAX => yes(head, n + 2),
        Err(_) if n == -1 && bytes[0] == b'$' => yes(head, 0),
        _ => Value::No,
    }
}

enum Number {
    More,
    No,
    /// The number, and the length of its line.
    Is(i64, usize),
}

/// Parses a line that is a number.
fn number(bytes: &[u8]) -> Number {
    let seen = &bytes[..bytes.len().min(NUMBER_BYTES_MAX)];
    let digits = seen.strip_prefix(b"-").unwrap_or(seen);
    let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = &seen[..seen.len() - digits.len() + len];
    match (&seen[text.len()..], len) {
        ([] | [b'\r'], _) if seen.len() < NUMBER_BYTES_MAX => Number::More,
        ([b'\r', b'\n', ..], 1..) => match std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()) {
            Some(n) => Number::Is(n, text.len() + 2),
            None => Number::No,
        },
        _ => Number::No,
    }
}

/// Whether bytes are, or may become, a command in array form: an array that begins with a name.
pub fn may_be_command(bytes: &[u8]) -> bool {
    is_command(bytes) != Some(false)
}

/// Whether bytes are a command in array form; `None`: too few bytes.
pub fn is_command(bytes: &[u8]) -> Option<bool> {
    let b'*' = *bytes.first()? else { return Some(false) };
    let (n, head) = match number(&bytes[1..]) {
        Number::Is(n, len) => (n, 1 + len),
        Number::More => return None,
        Number::No => return Some(false),
    };
    let b'$' = *bytes.get(head)? else { return Some(false) };
    match number(&bytes[head + 1..]) {
        Number::Is(len, digits) if n > 0 && (1..=NAME_BYTES_MAX as i64).contains(&len) => {
            let name = &bytes[head + 1 + digits..];
            let seen = &name[..name.len().min(len as usize)];
            if !seen.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'|')) {
                return Some(false);
            }
            let end = name.get(len as usize..len as usize + 2)?;
            Some(end == b"\r\n" && name[0].is_ascii_alphabetic())
        }
        Number::More => None,
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
    PUSHES.iter().any(|push| bytes.iter().zip(*push).all(|(a, b)| a == b))
}

/// Whether bytes begin with an unsolicited message.
pub fn is_push(bytes: &[u8]) -> bool {
    PUSHES.iter().any(|push| bytes.starts_with(push))
}

/// Whether this is a line of MONITOR: `+1339518083.107412 [0 127.0.0.1:60866] "get" "x"`.
pub fn is_monitor_line(head: &[u8]) -> bool {
    let Some(text) = head.strip_prefix(b"+") else { return false };
    let seconds = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let behind = &text[seconds..];
    seconds > 0
        && behind.first() == Some(&b'.')
        && behind.get(1..7).is_some_and(|micros| micros.iter().all(u8::is_ascii_digit))
        && behind.get(7..9) == Some(b" [")
}

/// Number of values in the aggregate that `head` begins with, or of words in an inline command.
pub fn count(head: &[u8]) -> u64 {
    match head {
        [b'*' | b'>', rest @ ..] => match number(rest) {
            Number::Is(n, _) => n.max(0) as u64,
            _ => 0,
        },
        _ => words(head).count() as u64,
    }
}

/// The first strings of an aggregate, or the words of an inline command; `None`: too long to be stored, or
/// not a string.
pub fn words(head: &[u8]) -> Words<'_> {
    match head {
        [b'*' | b'>', rest @ ..] => match number(rest) {
            Number::Is(_, len) => Words::Strings(&rest[len..]),
            _ => Words::Line(b""),
        },
        _ => Words::Line(head),
    }
}

/// Iterator returned by [`words`].
pub enum Words<'a> {
    Strings(&'a [u8]),
    Line(&'a [u8]),
}

impl<'a> Iterator for Words<'a> {
    type Item = Option<Cow<'a, [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Words::Strings(bytes) => {
                let Value::Yes { head, body, inner: 0, .. } = value(bytes, LONG_BYTES) else { return None };
                let (this, rest) = bytes.split_at(head);
                *bytes = rest;
                let is_kept = body == 0 && matches!(this[0], b'$' | b'+' | b'=');
                let begin = if this[0] == b'+' { 1 } else { memchr(b'\n', this)? + 1 };
                Some(this.get(begin..head - 2).filter(|_| is_kept).map(Cow::Borrowed))
            }
            Words::Line(line) => Some(Some(next_word(line)?)),
        }
    }
}

/// The first word of an inline command, which may be quoted.
fn next_word<'a>(line: &mut &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let text = line.trim_ascii_start();
    let quote = *text.first()?;
    if !matches!(quote, b'"' | b'\'') {
        let (word, rest) = text.split_at(text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len()));
        *line = rest;
        return Some(Cow::Borrowed(word));
    }
    let (mut word, mut rest) = (Vec::new(), text[1..].iter());
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
pub fn upper_name<'a>(head: &[u8], room: &'a mut [u8; NAME_BYTES_MAX as usize]) -> Option<&'a [u8]> {
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
