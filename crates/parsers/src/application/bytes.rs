//! Building blocks of signatures: prefixes, numbers, and tests for enough bytes. A signature that returns `Request` has
//! recognized its protocol, in either direction.

use crate::{Probe, ProbeContext};

/// It is the protocol when `is`.
pub fn when(is: bool) -> Probe {
    if is { Probe::Request } else { Probe::NotForUs }
}

/// Whether the bytes begin with one of `prefixes`.
pub fn begins(bytes: &[u8], prefixes: &[&[u8]]) -> Probe {
    if prefixes.iter().any(|prefix| bytes.starts_with(prefix)) {
        return Probe::Request;
    }
    if prefixes.iter().any(|prefix| prefix.starts_with(bytes)) { Probe::NeedMore } else { Probe::NotForUs }
}

/// What the one says, or the other where that does not recognise it.
pub fn either(one: Probe, other: Probe) -> Probe {
    match (one, other) {
        (Probe::Request, _) | (_, Probe::Request) => Probe::Request,
        (Probe::NeedMore, _) | (_, Probe::NeedMore) => Probe::NeedMore,
        _ => Probe::NotForUs,
    }
}

/// What weak evidence says, on a usual port of the protocol.
pub fn on_usual_port(context: ProbeContext, probe: Probe) -> Probe {
    if context.usual_port { probe } else { Probe::NotForUs }
}

/// What `is` says of at least `n` bytes.
pub fn with(bytes: &[u8], n: usize, is: impl FnOnce(&[u8]) -> bool) -> Probe {
    if bytes.len() < n { Probe::NeedMore } else { when(is(bytes)) }
}

/// The 16-bit number at `at`, in network order; 0 where there is none.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

/// The same of 32 bits.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// The same of 32 bits, the lowest byte first.
pub fn u32_le_at(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at).swap_bytes()
}

/// Whether these bytes occur.
pub fn holds(bytes: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(bytes, what).is_some()
}

/// The first line, without its end; `None` where it is not complete.
pub fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', bytes)?;
    Some(bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]))
}

/// Whether the text is printable ASCII.
pub fn is_printable(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| (0x20..0x7f).contains(b))
}

/// A length of BER, and how many bytes it takes.
pub fn ber_length(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes.first()? {
        short @ 0..=0x7f => Some((short.into(), 1)),
        0x81 => Some(((*bytes.get(1)?).into(), 2)),
        0x82 => bytes.get(1..3).map(|_| (u16_at(bytes, 1).into(), 3)),
        0x84 => bytes.get(1..5).map(|_| (u32_at(bytes, 1) as usize, 5)),
        _ => None,
    }
}
