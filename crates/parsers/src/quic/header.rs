//! Packet headers (RFC 9000 section 17, RFC 8999): several packets may share a datagram. Recognition.

use crate::{ProbeContext, ProbeResult};

/// Maximum length of a connection ID in versions 1 and 2.
const ID_BYTES_MAX: usize = 20;
/// Minimum length of the destination connection ID in a client's first packet (RFC 9000 section 7.2).
const FIRST_ID_BYTES_MIN: usize = 8;
/// Form bit: a long header.
const LONG: u8 = 0x80;
/// Fixed bit.
const FIXED: u8 = 0x40;

/// A version that is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicVersion {
    /// RFC 9000.
    V1,
    /// RFC 9369.
    V2,
}

impl QuicVersion {
    fn of(number: u32) -> Option<QuicVersion> {
        match number {
            1 => Some(Self::V1),
            0x6b33_43cf => Some(Self::V2),
            _ => None,
        }
    }

    /// Value of the column `version`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// Packet type by the two type bits: version 2 rotates them.
    fn kind(self, bits: u8) -> QuicPacketKind {
        let number = match self {
            Self::V1 => bits,
            Self::V2 => bits.wrapping_sub(1) & 3,
        };
        match number {
            0 => QuicPacketKind::Initial,
            1 => QuicPacketKind::ZeroRtt,
            2 => QuicPacketKind::Handshake,
            _ => QuicPacketKind::Retry,
        }
    }
}

/// Type of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicPacketKind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

/// A packet with a long header.
#[derive(Clone, Copy, Debug)]
pub struct QuicLongPacket<'a> {
    pub version: QuicVersion,
    pub kind: QuicPacketKind,
    /// Destination connection ID.
    pub to: &'a [u8],
    /// Source connection ID.
    pub from: &'a [u8],
    /// Whether an Initial packet has a token.
    pub has_token: bool,
    /// The packet, as far as it was captured.
    pub bytes: &'a [u8],
    /// Position of the packet number.
    pub number_at: usize,
    /// Whether all of its bytes were captured.
    pub whole: bool,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub enum QuicPacket<'a> {
    Long(QuicLongPacket<'a>),
    /// With 1-RTT protection; it takes the rest of the datagram.
    Short,
    /// The server supports other versions.
    VersionNegotiation,
}

/// Removes the first packet from the rest of a datagram, of which `cut` bytes were not captured. `None`: no
/// bytes are left, or they are not a packet of a known version.
pub fn next<'a>(rest: &mut &'a [u8], cut: u32) -> Option<QuicPacket<'a>> {
    let bytes = std::mem::take(rest);
    let first = *bytes.first()?;
    if first & LONG == 0 {
        return (first & FIXED != 0).then_some(QuicPacket::Short);
    }
    let mut r = QuicReader(&bytes[1..]);
    let number = u32::from_be_bytes(r.array()?);
    if number == 0 {
        return Some(QuicPacket::VersionNegotiation);
    }
    let version = QuicVersion::of(number).filter(|_| first & FIXED != 0)?;
    let kind = version.kind(first >> 4 & 3);
    let [to, from] = [r.id()?, r.id()?];
    let has_token = kind == QuicPacketKind::Initial && !r.vector()?.is_empty();
    let long = QuicLongPacket {
        version,
        kind,
        to,
        from,
        has_token,
        bytes,
        number_at: 0,
        whole: cut == 0,
    };
    if kind == QuicPacketKind::Retry {
        return Some(QuicPacket::Long(long));
    }
    let length = usize::try_from(r.varint()?).ok()?;
    let number_at = bytes.len() - r.0.len();
    let whole = length <= r.0.len();
    if !whole && length > r.0.len() + cut as usize {
        return None;
    }
    let end = number_at + length.min(r.0.len());
    *rest = &bytes[end..];
    Some(QuicPacket::Long(QuicLongPacket {
        bytes: &bytes[..end],
        number_at,
        whole,
        ..long
    }))
}

/// Recognizes Initial, Retry, and Version Negotiation packets.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    // The rest of the datagram may not be captured.
    let mut rest = bytes;
    match next(&mut rest, u32::from(u16::MAX)) {
        Some(QuicPacket::Long(packet)) => match packet.kind {
            QuicPacketKind::Initial if context.answers || packet.to.len() < FIRST_ID_BYTES_MIN => {
                ProbeResult::Response
            }
            QuicPacketKind::Initial => ProbeResult::Request,
            QuicPacketKind::Retry if context.answers => ProbeResult::Response,
            _ => ProbeResult::NotForUs,
        },
        Some(QuicPacket::VersionNegotiation) if context.answers => ProbeResult::Response,
        _ => ProbeResult::NotForUs,
    }
}

/// Remaining bytes. Truncated input gives `None`.
#[derive(Clone, Copy, Debug)]
pub struct QuicReader<'a>(pub &'a [u8]);

impl<'a> QuicReader<'a> {
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// An integer of variable length (RFC 9000 section 16).
    pub fn varint(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = self.take(1 << (first >> 6))?;
        let value = bytes[1..]
            .iter()
            .fold(u64::from(first & 0x3f), |value, byte| {
                value << 8 | u64::from(*byte)
            });
        Some(value)
    }

    /// Bytes after their length.
    pub fn vector(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }

    /// A connection ID.
    fn id(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.take(1)?[0]);
        (length <= ID_BYTES_MAX).then(|| self.take(length))?
    }
}
