//! Signatures of databases, caches, and queues.

use super::bytes::{
    begins, either, holds, is_printable, line, on_usual_port, u16_at, u32_at, u32_le_at, when, with,
};
use crate::{Direction, ProbeContext, ProbeResult};

/// StartupMessage, SSLRequest, GSSENCRequest, or CancelRequest; on the usual port also messages of either
/// side.
pub fn postgresql(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let opens = with(bytes, 8, |b| match (u32_at(b, 0), u32_at(b, 4)) {
        (8, 80_877_103 | 80_877_104) | (16, 80_877_102) => true,
        (9..=10_000, 0x0003_0000..=0x0003_0002) => b.get(8..).is_some_and(is_text),
        _ => false,
    });
    if !context.usual_port {
        return opens;
    }
    // Type byte, and a length that includes itself.
    let message = with(bytes, 5, |b| {
        let len = u32_at(b, 1) as usize;
        let next = b.get(len + 1);
        b"QPBDESCXHfFpdcRTZKNn123ItsVAG".contains(&b[0])
            && (4..1 << 16).contains(&len)
            && next.is_none_or(|next| next.is_ascii_alphanumeric())
    });
    either(opens, message)
}

/// Whether the startup parameters begin with a lower-case name.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().take(4).all(u8::is_ascii_lowercase)
}

/// A command as an array of bulk strings; on the usual port also an inline command or any reply.
pub fn redis(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let array = || -> Option<ProbeResult> {
        let rest = match number_line(bytes.strip_prefix(b"*")?)? {
            DigitLine::Rest(rest) => rest,
            DigitLine::Open => return Some(ProbeResult::NeedMore),
        };
        Some(match rest.split_first() {
            None => ProbeResult::NeedMore,
            Some((b'$', rest)) => match number_line(rest)? {
                DigitLine::Rest(_) => ProbeResult::Request,
                DigitLine::Open => ProbeResult::NeedMore,
            },
            Some(_) => ProbeResult::NotForUs,
        })
    };
    let array = array().unwrap_or(ProbeResult::NotForUs);
    let replies: &[&[u8]] = &[
        b"+OK\r\n",
        b"+PONG\r\n",
        b"+QUEUED\r\n",
        b"-ERR ",
        b"-NOAUTH ",
        b"-WRONGTYPE ",
        b"-MOVED ",
    ];
    let inline = match line(bytes) {
        _ if context.speaker != Some(Direction::ClientToServer) => ProbeResult::NotForUs,
        Some(line) => when(line.first().is_some_and(u8::is_ascii_alphabetic) && is_printable(line)),
        None => when(false),
    };
    either(
        array,
        on_usual_port(context, either(begins(bytes, replies), inline)),
    )
}

enum DigitLine<'a> {
    /// Bytes after a line of digits.
    Rest(&'a [u8]),
    /// The line is incomplete.
    Open,
}

fn number_line(bytes: &[u8]) -> Option<DigitLine<'_>> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    match &bytes[digits..] {
        [] | [b'\r'] if digits < 10 => Some(DigitLine::Open),
        [b'\r', b'\n', rest @ ..] if (1..10).contains(&digits) => Some(DigitLine::Rest(rest)),
        _ => None,
    }
}

/// Message header: length and operation, with further checks for the common operations; other operations only
/// on the usual port.
pub fn mongodb(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    with(bytes, 21, |b| {
        let fits = (21..=48_000_000).contains(&u32_le_at(b, 0));
        fits && match u32_le_at(b, 12) {
            // OP_MSG: defined flags only, and the kind of the first section.
            2013 => u32_le_at(b, 16) & !0x1_0003 == 0 && b[20] <= 1,
            // OP_QUERY: flags, and a full collection name.
            2004 => {
                let name = b[20..].iter().take_while(|c| **c != 0).count();
                u32_le_at(b, 16) < 0x100
                    && is_printable(&b[20..20 + name])
                    && b[20..20 + name].contains(&b'.')
            }
            1 | 1000 | 2001..=2012 => context.usual_port,
            _ => false,
        }
    })
}

/// CQL frame: STARTUP and OPTIONS on any port, others on the usual port.
pub fn cassandra(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    with(bytes, 9, |b| {
        let version = b[0] & 0x7f;
        let is_response = b[0] & 0x80 != 0;
        let (opcode, len) = match version {
            1 | 2 => (b[3], u32_at(b, 4)),
            3..=6 => (b[4], u32_at(b, 5)),
            _ => return false,
        };
        let fits = b[1] <= 0x1f && opcode <= 0x10 && len < 256 << 20;
        let opens =
            !is_response && (opcode == 1 && holds(b, b"CQL_VERSION") || opcode == 5 && len == 0);
        fits && (opens || context.usual_port)
    })
}

/// Request header: a defined key and version, and the client's name.
pub fn kafka(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    with(bytes, 14, |b| {
        let len = u32_at(b, 0);
        let key = u16_at(b, 4);
        let version = u16_at(b, 6);
        let name_len = u16_at(b, 12);
        let name = &b[14..];
        let is_named = match name_len {
            u16::MAX => context.usual_port,
            n => {
                let n = usize::from(n);
                n <= 255
                    && is_printable(&name[..n.min(name.len())])
                    && (n > 0 || context.usual_port)
            }
        };
        let whole = len as usize + 4 == b.len();
        let is_request = key <= 92 && version <= 20 && is_named && (whole || context.usual_port);
        // A response header contains only a length and a correlation id.
        let is_answer = whole && context.usual_port;
        (is_request || is_answer) && (10..100 << 20).contains(&len)
    })
}

/// PRELOGIN or LOGIN7 of SQL Server.
pub fn tds(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    with(bytes, 9, |b| {
        let fits = usize::from(u16_at(b, 2)) >= 9 && u16_at(b, 2) <= 4096;
        let prelogin = b[0] == 0x12 && b[1] == 1 && u16_at(b, 4) == 0 && b[7] == 0 && b[8] == 0;
        fits && prelogin && b.len() >= 14 && u16_at(b, 9) as usize + 8 < b.len()
    })
}

/// CONNECT packet of Oracle TNS.
pub fn oracle(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    if !context.usual_port {
        return ProbeResult::NotForUs;
    }
    with(bytes, 8, |b| {
        u16_at(b, 0) >= 8 && u16_at(b, 2) == 0 && (1..=14).contains(&b[4]) && b[5] == 0
    })
}
