//! Modified packets: truncated, or with damaged fields.

use testkit::SeededRng;
use wire::{Packet, TransportHeader};

use super::HeaderFieldKind;
use crate::checksums;
use crate::segment::{EditableSegment, flags};
use crate::{ObservedPacket, PacketDamage, PacketRecording};

/// Length of the two ports of a TCP or UDP header.
const PORT_BYTES: usize = 4;

/// Truncates every packet to `len` bytes.
pub fn cut(recording: &PacketRecording, seen: &mut [ObservedPacket], len: usize) {
    for one in seen {
        let bytes = recording.bytes_of(one.packet);
        if bytes.len() > len {
            one.kind = PacketDamage::Cut;
            one.bytes = Some(bytes[..len].into());
        }
    }
}

/// Damages a header field of some segments with payload.
pub fn header(
    recording: &PacketRecording,
    seen: &mut [ObservedPacket],
    field: HeaderFieldKind,
    p: f64,
    rng: &mut SeededRng,
) {
    for one in seen {
        let Some(mut segment) = chosen(recording, one, p, rng) else {
            continue;
        };
        if segment.payload().is_empty() {
            continue;
        }
        one.kind = match field {
            HeaderFieldKind::Acknowledgment => {
                // One bit: the number is too high or too low, by any distance.
                segment.set_ack(segment.ack() ^ (1 << rng.below(32)));
                PacketDamage::DamagedHeader
            }
            HeaderFieldKind::Length => {
                let len = segment.ip_payload_len();
                segment.set_ip_payload_len((len ^ (1 << rng.below(11))).max(20));
                PacketDamage::DamagedPayload
            }
        };
        one.bytes = Some(segment.into_bytes().into());
    }
}

/// Damages length fields of messages: numbers of text protocols, or the first or last byte of a binary length.
pub fn message_length(
    recording: &PacketRecording,
    seen: &mut [ObservedPacket],
    p: f64,
    rng: &mut SeededRng,
) {
    for one in seen {
        let Some(mut segment) = chosen(recording, one, p, rng) else {
            continue;
        };
        if segment.payload().len() < 5 {
            continue;
        }
        let at = length_in(segment.payload(), rng);
        let payload = segment.payload_mut();
        payload[at] = match payload[at] {
            digit if digit.is_ascii_digit() => b'0' + (digit - b'0' + 1 + rng.below(9) as u8) % 10,
            byte => byte ^ (1 << rng.below(8)),
        };
        one.kind = PacketDamage::DamagedPayload;
        one.bytes = Some(segment.into_bytes().into());
    }
}

/// Damages one bit of some segments and datagrams, half of the time in the first bytes. The recorded packet follows
/// within the same microsecond, as the retransmission.
pub fn bit(
    recording: &PacketRecording,
    seen: &[ObservedPacket],
    p: f64,
    rng: &mut SeededRng,
) -> Vec<ObservedPacket> {
    let mut out = Vec::with_capacity(seen.len());
    for one in seen {
        let damaged = rng.chance(p).then(|| with_damaged_bit(recording, one, rng));
        out.extend(damaged.flatten());
        out.push(one.clone());
    }
    out
}

fn with_damaged_bit(
    recording: &PacketRecording,
    one: &ObservedPacket,
    rng: &mut SeededRng,
) -> Option<ObservedPacket> {
    const FIRST: u64 = 64;
    let captured = recording.captured(one);
    let packet = Packet::decode(&captured).ok()?;
    if !matches!(
        packet.transport,
        TransportHeader::Tcp(_) | TransportHeader::Udp
    ) {
        return None;
    }
    // With another port, it is a packet of another flow.
    let start = checksums::offset_in(&captured, packet.segment) + PORT_BYTES;
    let len = packet.segment.len().checked_sub(PORT_BYTES)? as u64;
    let len = if rng.chance(0.5) { len.min(FIRST) } else { len };
    let mut bytes = captured.bytes.to_vec();
    bytes[start + rng.below(len) as usize] ^= 1 << rng.below(8);
    Some(ObservedPacket {
        ts: one.ts.plus(-500),
        kind: PacketDamage::DamagedPayload,
        bytes: Some(bytes.into()),
        ..one.clone()
    })
}

/// Position of the length in a message.
fn length_in(payload: &[u8], rng: &mut SeededRng) -> usize {
    let digits = |from: usize| (from..payload.len()).find(|i| payload[*i].is_ascii_digit());
    let named = payload
        .windows(16)
        .position(|w| w.eq_ignore_ascii_case(b"content-length: "));
    match payload[0] {
        // memcached's binary protocol: key length or total length.
        0x80 | 0x81 if payload.len() >= 24 => [2, 3, 8, 11][rng.below(4) as usize],
        _ if named.is_some() => digits(named.unwrap_or(0)).unwrap_or(0),
        b'A'..=b'Z' | b'a'..=b'z' if payload[4..].iter().take(40).all(|b| (9..127).contains(b)) => {
            let line = payload
                .iter()
                .position(|b| *b == b'\r')
                .unwrap_or(payload.len());
            (0..line)
                .rev()
                .find(|i| payload[*i].is_ascii_digit())
                .unwrap_or(0)
        }
        // MySQL: three bytes at the start.
        _ => rng.below(3) as usize,
    }
}

/// The segment of a packet within a connection, if randomly selected.
fn chosen(
    recording: &PacketRecording,
    one: &ObservedPacket,
    p: f64,
    rng: &mut SeededRng,
) -> Option<EditableSegment> {
    let segment = EditableSegment::parse(
        recording.link_type(one.packet),
        recording.bytes_of(one.packet),
    )?;
    (segment.flags() & (flags::SYN | flags::RST) == 0 && rng.chance(p)).then_some(segment)
}
