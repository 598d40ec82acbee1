//! Recognizes TLS: a record with a ClientHello or a ServerHello at the start.

use super::byte_stream::{HEAD, RECORD_BYTES_MAX, kind as record};
use super::messages::kind;
use crate::{ProbeContext, ProbeResult};

/// Minimum and maximum length of a hello's body: version, random value, and empty vectors; more than any
/// implementation sends.
const HELLO_BYTES_MIN: usize = 38;
const HELLO_BYTES_MAX: usize = 1 << 17;

/// Recognizes a hello.
pub fn probe(bytes: &[u8], _: ProbeContext) -> ProbeResult {
    let fits = |at: usize, good: fn(u8) -> bool| bytes.get(at).is_none_or(|byte| good(*byte));
    if !fits(0, |byte| byte == record::HANDSHAKE)
        || !fits(1, |byte| byte == 3)
        || !fits(2, |byte| byte <= 4)
    {
        return ProbeResult::NotForUs;
    }
    let Some((head, body)) = bytes.split_first_chunk::<HEAD>() else {
        return ProbeResult::NeedMore;
    };
    let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
    if len == 0 || len > RECORD_BYTES_MAX {
        return ProbeResult::NotForUs;
    }
    // A short record is followed by another header.
    let body = &body[..body.len().min(len)];
    let asks = match body.first() {
        None => return ProbeResult::NeedMore,
        Some(&kind::CLIENT_HELLO) => true,
        Some(&kind::SERVER_HELLO) => false,
        Some(_) => return ProbeResult::NotForUs,
    };
    match body {
        [_, a, b, c, rest @ ..] => {
            let hello = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            let version = rest.first().is_none_or(|byte| *byte == 3)
                && rest.get(1).is_none_or(|byte| *byte <= 4);
            if !(HELLO_BYTES_MIN - 4..HELLO_BYTES_MAX).contains(&hello) || !version {
                return ProbeResult::NotForUs;
            }
            if rest.len() < 2 && body.len() < len {
                return ProbeResult::NeedMore;
            }
        }
        _ if body.len() < len => return ProbeResult::NeedMore,
        _ => {}
    }
    if asks {
        ProbeResult::Request
    } else {
        ProbeResult::Response
    }
}
