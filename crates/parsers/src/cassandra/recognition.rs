//! Whether bytes begin with an envelope or a frame.

use super::body::BodyReader;
use super::codes::{
    self, AUTH_CHALLENGE, AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, BATCH, ERROR, EVENT, EVENTS,
    EXECUTE, OPTIONS, PREPARE, PREPARED, QUERY, READY, REGISTER, RESULT, ROWS, SCHEMA_CHANGE,
    SET_KEYSPACE, STARTUP, SUPPORTED,
};
use super::compression;
use super::frame_header::{FrameHeader, FrameHeaderRead};
use super::header::{
    COMPRESSED, EnvelopeHeader, FRAMED_VERSION, HEADER, TRACED, WITH_PAYLOAD, WITH_WARNINGS,
    is_version,
};
use crate::block_compression::lz4;
use crate::{Direction, ProbeContext, ProbeResult};

/// Bytes of a compressed body that are decompressed for a verdict.
const INNER_BYTES: usize = 256;
/// Bytes of a statement that are examined.
const TEXT_BYTES: usize = 32;

/// Strength of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Header and body agree.
    Body,
    /// Only the header: the body is empty.
    Header,
    /// No message begins so.
    None,
}

/// The evidence that `bytes` begin with an envelope of `direction`. `None`: not known yet.
pub fn evidence(direction: Direction, bytes: &[u8]) -> Option<Evidence> {
    let header = match EnvelopeHeader::read(bytes) {
        Some(header) => header,
        None => {
            let is_version = bytes.first().is_none_or(|first| {
                let is_response = direction == Direction::ServerToClient;
                is_version(first & 0x7f) && (first & 0x80 != 0) == is_response
            });
            return if is_version {
                None
            } else {
                Some(Evidence::None)
            };
        }
    };
    if !header.is_of(direction) {
        return Some(Evidence::None);
    }
    let length = header.length as usize;
    let here = &bytes[HEADER..bytes.len().min(HEADER + length)];
    if length == 0 {
        let is_empty = matches!(header.opcode, OPTIONS | READY);
        return Some(if is_empty {
            Evidence::Header
        } else {
            Evidence::None
        });
    }
    let found = if header.flags & COMPRESSED != 0 && header.opcode != STARTUP {
        if here.len() < length.min(16) {
            return None;
        }
        let inner = compression::body(None, here, usize::MAX);
        let is_short = here.len() < length;
        match inner {
            Some(inner) => Some(fits(header, &inner.bytes, inner.bytes.len()).unwrap_or(false)),
            // The first bytes of a body do not tell the algorithm.
            None if is_short => [
                compression::CqlCompression::Lz4,
                compression::CqlCompression::Snappy,
            ]
            .into_iter()
            .find_map(|algorithm| {
                let inner = compression::body(Some(algorithm), here, INNER_BYTES)?;
                Some(fits(header, &inner.bytes, usize::MAX)).filter(|found| *found == Some(true))
            })
            .unwrap_or(Some(false)),
            None => Some(false),
        }
    } else {
        let is_whole = here.len() == length;
        fits(header, here, length).or(is_whole.then_some(false))
    };
    found.map(|fits| if fits { Evidence::Body } else { Evidence::None })
}

/// Whether `body`, the first bytes of a body of `length` bytes, has the form that its operation requires. `None`: not known yet.
fn fits(header: EnvelopeHeader, body: &[u8], length: usize) -> Option<bool> {
    let mut reader = BodyReader::new(body);
    if header.is_response && header.flags & TRACED != 0 {
        reader.take(16)?;
    }
    if header.flags & WITH_WARNINGS != 0 {
        for _ in 0..reader.short()? {
            reader.string()?;
        }
    }
    if header.flags & WITH_PAYLOAD != 0 {
        reader.skip_bytes_map()?;
    }
    // Compressed bodies of unknown length are not compared.
    let left = length.saturating_sub(reader.position());
    let ends_at = |end: usize| length == usize::MAX || end == left;
    match header.opcode {
        STARTUP => {
            let pairs = reader.short()?;
            let key = reader.string()?;
            Some((1..64).contains(&pairs) && is_upper(key) && holds_or_open(body, length))
        }
        OPTIONS | READY => Some(false),
        QUERY | PREPARE => {
            let size = reader.int()? as usize;
            let rest = if header.opcode == QUERY { 3 } else { 0 };
            let fits = size.checked_add(4 + rest).is_some_and(|end| end <= left);
            Some(fits && size > 0 && is_text(reader.rest(), size)?)
        }
        EXECUTE => {
            let size = usize::from(reader.short()?);
            // A digest with 16 bytes.
            Some(size == 16 && left >= 2 + size + 3)
        }
        BATCH => {
            let (kind, count, first) = (reader.byte()?, reader.short()?, reader.byte()?);
            if kind > 2 || count == 0 || first > 1 {
                return Some(false);
            }
            if first == 1 {
                return Some(reader.short()? == 16);
            }
            let size = reader.int()? as usize;
            Some(size > 0 && size < left && is_text(reader.rest(), size)?)
        }
        REGISTER => {
            let count = reader.short()?;
            Some((1..=8).contains(&count) && is_event(reader.string()?))
        }
        AUTH_RESPONSE | AUTH_CHALLENGE | AUTH_SUCCESS => {
            let size = reader.int()?.cast_signed();
            Some(ends_at(4 + usize::try_from(size).unwrap_or(0)))
        }
        AUTHENTICATE => {
            let size = usize::from(reader.short()?);
            Some(ends_at(2 + size) && is_text(reader.rest(), size)?)
        }
        SUPPORTED => {
            let count = reader.short()?;
            let key = reader.string()?;
            Some((1..64).contains(&count) && is_upper(key))
        }
        ERROR => {
            let code = reader.int()?;
            let size = usize::from(reader.short()?);
            Some(codes::error(code).is_some() && left >= 6 + size)
        }
        EVENT => Some(is_event(reader.string()?)),
        RESULT => result(&mut reader, left, &ends_at),
        _ => Some(false),
    }
}

fn result(
    reader: &mut BodyReader<'_>,
    left: usize,
    ends_at: &dyn Fn(usize) -> bool,
) -> Option<bool> {
    let kind = reader.int()?;
    match kind {
        _ if !codes::is_result(kind) => Some(false),
        ROWS => {
            let (flags, columns) = (reader.int()?, reader.int()?);
            Some(flags < 16 && columns < 1 << 16 && left >= 16)
        }
        SET_KEYSPACE => {
            let size = usize::from(reader.short()?);
            Some(ends_at(6 + size))
        }
        PREPARED => Some(reader.short()? == 16 && left > 22),
        SCHEMA_CHANGE => {
            let change = reader.string()?;
            Some([&b"CREATED"[..], b"UPDATED", b"DROPPED"].contains(&change))
        }
        _ => Some(ends_at(4)),
    }
}

/// Whether the first bytes of a text of `size` bytes are printable.
fn is_text(bytes: &[u8], size: usize) -> Option<bool> {
    let wanted = size.min(TEXT_BYTES);
    let is_printable =
        |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r') || *byte >= 0x80;
    let here = &bytes[..wanted.min(bytes.len())];
    if !here.iter().all(is_printable) {
        return Some(false);
    }
    (here.len() == wanted).then_some(true)
}

fn is_upper(key: &[u8]) -> bool {
    !key.is_empty() && key.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
}

fn is_event(name: &[u8]) -> bool {
    EVENTS.iter().any(|event| event.as_bytes() == name)
}

/// Whether a STARTUP states its version, as it must, unless its end is not there.
fn holds_or_open(body: &[u8], length: usize) -> bool {
    body.len() < length || memchr::memmem::find(body, b"CQL_VERSION").is_some()
}

/// The evidence that `bytes` begin with a frame whose payload begins with an envelope. `None`: not known yet.
pub fn frame_evidence(direction: Direction, bytes: &[u8]) -> Option<bool> {
    match FrameHeader::read(bytes, None) {
        FrameHeaderRead::NeedMore => None,
        FrameHeaderRead::Bad => Some(false),
        FrameHeaderRead::Header(header) => {
            let payload = &bytes[header.size..];
            let mut inner = Vec::new();
            let inner = if header.inner.is_some() {
                lz4(payload, INNER_BYTES, &mut inner);
                &inner[..]
            } else {
                payload
            };
            let envelope = EnvelopeHeader::read(inner)?;
            Some(envelope.version == FRAMED_VERSION && envelope.is_of(direction))
        }
    }
}

/// An envelope or a frame. On another port than the usual ones, an envelope without a body is not sufficient: the bytes behind it, or
/// those of the other side, decide.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let of = |direction: Direction| -> Option<bool> {
        if context.speaker.is_some_and(|speaker| speaker != direction) {
            return Some(false);
        }
        match evidence(direction, bytes) {
            Some(Evidence::Body) => Some(true),
            Some(Evidence::Header) if context.usual_port => Some(true),
            Some(Evidence::Header) => match evidence(direction, &bytes[HEADER..])? {
                Evidence::Body => Some(true),
                Evidence::Header | Evidence::None => Some(false),
            },
            Some(Evidence::None) if context.midstream => frame_evidence(direction, bytes),
            Some(Evidence::None) => Some(false),
            None => None,
        }
    };
    let request = of(Direction::ClientToServer);
    let response = of(Direction::ServerToClient);
    match (request, response) {
        (Some(true), _) => ProbeResult::Request,
        (_, Some(true)) => ProbeResult::Response,
        (None, _) | (_, None) => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
    }
}
