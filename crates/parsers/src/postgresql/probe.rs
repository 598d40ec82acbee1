//! Recognizes PostgreSQL by the client's first message or, in connections joined midway, by the form of messages: one with SQL, or a
//! ReadyForQuery, or two others; on a usual port one of any type.

use super::framing::typed_header;
use super::messages::{CANCEL, GSS, SSL, is_version_3, nul_text, protocol_number};
use crate::{Direction, ProbeContext, ProbeResult};

/// Maximum messages examined.
const MESSAGES_MAX: usize = 16;
/// Maximum length of a startup message, as in the server.
const STARTUP_MAX: u32 = 10_000;

/// Evidence of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PostgresEvidence {
    Against,
    /// Too few bytes.
    Open,
    Weak,
    Strong,
}

/// Examines the first bytes of one end.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let of_client = match context.speaker {
        Some(Direction::ServerToClient) => ProbeResult::NotForUs,
        _ => match startup(bytes) {
            ProbeResult::NotForUs => verdict(bytes, context, ProbeResult::Request, client_evidence),
            found => found,
        },
    };
    if of_client == ProbeResult::Request {
        return of_client;
    }
    let of_server = match context.speaker {
        Some(Direction::ClientToServer) => ProbeResult::NotForUs,
        _ => verdict(bytes, context, ProbeResult::Response, server_evidence),
    };
    match (of_client, of_server) {
        (_, ProbeResult::Response) => ProbeResult::Response,
        (ProbeResult::NeedMore, _) | (_, ProbeResult::NeedMore) => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
    }
}

/// A client's first message.
fn startup(bytes: &[u8]) -> ProbeResult {
    let Some(length) = bytes
        .first_chunk()
        .map(|length| u32::from_be_bytes(*length))
    else {
        let may_begin = bytes.iter().all(|b| *b == 0);
        return if may_begin {
            ProbeResult::NeedMore
        } else {
            ProbeResult::NotForUs
        };
    };
    if !(8..=STARTUP_MAX).contains(&length) {
        return ProbeResult::NotForUs;
    }
    let Some(number) = protocol_number(&bytes[4..]) else {
        return ProbeResult::NeedMore;
    };
    let is_startup = match number {
        SSL | GSS => length == 8,
        CANCEL => (16..=16 + 256).contains(&length),
        // The parameters begin with a name.
        number if is_version_3(number) => {
            let name = bytes[8..].iter().take(4);
            length > 8
                && name
                    .into_iter()
                    .all(|b| b.is_ascii_lowercase() || *b == b'_')
        }
        _ => false,
    };
    if is_startup {
        ProbeResult::Request
    } else {
        ProbeResult::NotForUs
    }
}

/// Adds up the evidence of messages.
fn verdict(
    bytes: &[u8],
    context: ProbeContext,
    yes: ProbeResult,
    evidence: fn(&[u8], u32) -> PostgresEvidence,
) -> ProbeResult {
    let mut rest = bytes;
    let mut weak = 0;
    for _ in 0..MESSAGES_MAX {
        let Some((_, wire_len)) = typed_header(rest) else {
            break;
        };
        match evidence(rest, wire_len) {
            PostgresEvidence::Against => return ProbeResult::NotForUs,
            PostgresEvidence::Open => return ProbeResult::NeedMore,
            PostgresEvidence::Strong => return yes,
            PostgresEvidence::Weak => weak += 1,
        }
        if weak >= if context.usual_port { 1 } else { 3 } {
            return yes;
        }
        match rest.get(wire_len as usize..) {
            Some(next) => rest = next,
            None => break,
        }
    }
    match rest.first() {
        Some(kind) if !kind.is_ascii_alphanumeric() => ProbeResult::NotForUs,
        _ => ProbeResult::NeedMore,
    }
}

/// Whether these bytes can begin with a message of a client, as far as they go.
pub fn is_client_message(bytes: &[u8]) -> bool {
    let evidence = |(_, wire_len)| client_evidence(bytes, wire_len);
    typed_header(bytes).map(evidence) != Some(PostgresEvidence::Against)
}

/// Whether the bytes may begin with a message of a server.
pub fn is_server_message(bytes: &[u8]) -> bool {
    let evidence = |(_, wire_len)| server_evidence(bytes, wire_len);
    typed_header(bytes).map(evidence) != Some(PostgresEvidence::Against)
}

/// Evidence by the type, the length, and the texts of the body.
fn client_evidence(bytes: &[u8], wire_len: u32) -> PostgresEvidence {
    let body_len = wire_len.saturating_sub(5);
    let body = &bytes[5..bytes.len().min(wire_len.max(5) as usize)];
    let is_whole = body.len() == body_len as usize;
    match bytes[0] {
        _ if !(5..1 << 30).contains(&wire_len) => PostgresEvidence::Against,
        b'Q' => match nul_text(body) {
            Some((text, rest)) if is_whole && rest.is_empty() && is_text(text) => {
                match text.len() {
                    0..4 => PostgresEvidence::Weak,
                    _ => PostgresEvidence::Strong,
                }
            }
            Some(_) => PostgresEvidence::Against,
            None if is_whole || !is_text(body) => PostgresEvidence::Against,
            None if body.len() >= 16 => PostgresEvidence::Weak,
            None => PostgresEvidence::Open,
        },
        b'P' => match nul_text(body) {
            Some((name, rest)) if is_text(name) => match nul_text(rest) {
                Some((text, types)) => weak_if(is_text(text) && (!is_whole || types.len() >= 2)),
                None => weak_if(!is_whole && is_text(rest)),
            },
            Some(_) => PostgresEvidence::Against,
            None => weak_if(!is_whole && is_text(body)),
        },
        b'B' => match nul_text(body) {
            Some((portal, rest)) => weak_if(
                is_text(portal)
                    && body_len >= 8
                    && nul_text(rest).is_none_or(|(name, _)| is_text(name)),
            ),
            None => weak_if(!is_whole && is_text(body)),
        },
        b'D' | b'C' => match body {
            [b'S' | b'P', name @ ..] => {
                weak_if(!is_whole || matches!(nul_text(name), Some((name, [])) if is_text(name)))
            }
            [] if !is_whole => PostgresEvidence::Open,
            _ => PostgresEvidence::Against,
        },
        b'E' => match nul_text(body) {
            Some((portal, rest)) => weak_if(is_text(portal) && (!is_whole || rest.len() == 4)),
            None => weak_if(!is_whole && is_text(body)),
        },
        b'S' | b'H' | b'X' | b'c' => weak_if(wire_len == 5),
        b'd' | b'f' | b'p' => weak_if(body_len > 0),
        b'F' => weak_if(body_len >= 10),
        _ => PostgresEvidence::Against,
    }
}

fn server_evidence(bytes: &[u8], wire_len: u32) -> PostgresEvidence {
    let body_len = wire_len.saturating_sub(5);
    let body = &bytes[5..bytes.len().min(wire_len.max(5) as usize)];
    let is_whole = body.len() == body_len as usize;
    match bytes[0] {
        _ if !(5..1 << 30).contains(&wire_len) => PostgresEvidence::Against,
        b'Z' if wire_len == 6 => match body.first() {
            Some(b'I' | b'T' | b'E') => PostgresEvidence::Strong,
            Some(_) => PostgresEvidence::Against,
            None => PostgresEvidence::Open,
        },
        b'1' | b'2' | b'3' | b'n' | b's' | b'I' | b'c' => weak_if(wire_len == 5),
        b'C' => match nul_text(body) {
            Some((tag, rest)) => weak_if(
                is_whole
                    && rest.is_empty()
                    && tag.first().is_some_and(u8::is_ascii_uppercase)
                    && is_text(tag),
            ),
            None => weak_if(!is_whole && is_text(body)),
        },
        b'E' | b'N' => weak_if(body_len > 6 && matches!(body, [] | [b'S' | b'V' | b'C', ..])),
        b'R' => weak_if(body_len >= 4 && body.get(..3).is_none_or(|b| *b == [0; 3])),
        b'S' => {
            weak_if(nul_text(body).map_or(!is_whole, |(name, _)| name.len() > 2 && is_text(name)))
        }
        b'K' => weak_if((8..=260).contains(&body_len)),
        b'T' | b'D' | b't' => weak_if(
            body_len >= 2
                && body
                    .get(..2)
                    .is_none_or(|n| u16::from_be_bytes([n[0], n[1]]) <= 1664),
        ),
        b'G' | b'H' | b'W' => {
            weak_if(body_len >= 3 && body.first().is_none_or(|format| *format <= 1))
        }
        b'd' | b'V' | b'A' => weak_if(body_len > 0),
        b'v' => weak_if(body_len >= 8),
        _ => PostgresEvidence::Against,
    }
}

fn weak_if(is: bool) -> PostgresEvidence {
    if is {
        PostgresEvidence::Weak
    } else {
        PostgresEvidence::Against
    }
}

/// Text without control characters other than white space.
fn is_text(bytes: &[u8]) -> bool {
    let examined = &bytes[..bytes.len().min(256)];
    examined
        .iter()
        .all(|b| *b >= b' ' && *b != 0x7f || (b'\t'..=b'\r').contains(b))
}
