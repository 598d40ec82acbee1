//! Building blocks of signatures: prefixes, numbers, and tests for enough bytes. A signature that returns `Request` has
//! recognized its protocol, in either direction.

use crate::{ProbeContext, ProbeResult};

/// `Request` if `is`, otherwise `NotForUs`.
pub fn when(is: bool) -> ProbeResult {
    if is {
        ProbeResult::Request
    } else {
        ProbeResult::NotForUs
    }
}

/// Whether the bytes begin with one of `prefixes`.
pub fn begins(bytes: &[u8], prefixes: &[&[u8]]) -> ProbeResult {
    if prefixes.iter().any(|prefix| bytes.starts_with(prefix)) {
        return ProbeResult::Request;
    }
    if prefixes.iter().any(|prefix| prefix.starts_with(bytes)) {
        ProbeResult::NeedMore
    } else {
        ProbeResult::NotForUs
    }
}

/// Result of `one`, or of `other` if `one` does not match.
pub fn either(one: ProbeResult, other: ProbeResult) -> ProbeResult {
    match (one, other) {
        (ProbeResult::Request, _) | (_, ProbeResult::Request) => ProbeResult::Request,
        (ProbeResult::NeedMore, _) | (_, ProbeResult::NeedMore) => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
    }
}

/// Accepts weak evidence only on a usual port of the protocol.
pub fn on_usual_port(context: ProbeContext, probe: ProbeResult) -> ProbeResult {
    if context.usual_port {
        probe
    } else {
        ProbeResult::NotForUs
    }
}

/// Evaluates `is` once at least `n` bytes are available.
pub fn with(bytes: &[u8], n: usize, is: impl FnOnce(&[u8]) -> bool) -> ProbeResult {
    if bytes.len() < n {
        ProbeResult::NeedMore
    } else {
        when(is(bytes))
    }
}

/// Big-endian 16-bit number at `at`; 0 if out of range.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

/// Big-endian 32-bit number at `at`; 0 if out of range.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Little-endian 32-bit number at `at`; 0 if out of range.
pub fn u32_le_at(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at).swap_bytes()
}

/// Whether `bytes` contains `what`.
pub fn holds(bytes: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(bytes, what).is_some()
}

/// The first line without its line end; `None` if incomplete.
pub fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', bytes)?;
    Some(bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]))
}

/// Whether the text is printable ASCII.
pub fn is_printable(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| (0x20..0x7f).contains(b))
}

/// BER length: value and encoded size.
pub fn ber_length(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes.first()? {
        short @ 0..=0x7f => Some((short.into(), 1)),
        0x81 => Some(((*bytes.get(1)?).into(), 2)),
        0x82 => bytes.get(1..3).map(|_| (u16_at(bytes, 1).into(), 3)),
        0x84 => bytes.get(1..5).map(|_| (u32_at(bytes, 1) as usize, 5)),
        _ => None,
    }
}
