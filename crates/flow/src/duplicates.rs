//! Detection of copies made by a mirror: the same packet captured at both ends of a path, or on the way into and out
//! of a switch, untagged and tagged, with one hop less. Distinguishes copies from retransmissions.
//!
//! A retransmission has a new IP identification. The last 64 identifications of a side are stored in a window as
//! IPsec does for sequence numbers (RFC 4303 §3.4.3); a packet with a known one and no new content is a copy. Without
//! an identification (IPv6; 0, as RFC 6864 §4.1 allows), a copy has the same content as a recent packet and a
//! different path (hop limit, VLAN, Ethernet addresses), arrives sooner than any sender would retransmit, or belongs
//! to a flow whose packets all come in pairs. Undecidable cases are [`PacketSighting::Ambiguous`].

use wire::packet::TcpFlags;
use wire::{FlowSide, Packet, TcpInfo, TcpSeq, Timestamp, TransportHeader};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::flow::FlowCore;
use crate::flow_layout::{flag, half_bit};

/// Maximum delay of a copy after the newest packet of its side; TCP retransmits after at least 200 ms without an
/// acknowledgment (Linux; RFC 6298 §2.4 requires a second).
const WITHIN_US: u32 = 100_000;
/// Maximum delay of a copy without identification: less than any round trip in a mirrored network.
const AT_ONCE_US: u32 = 1_000;
/// Bytes of a datagram in its fingerprint, besides its checksum and length.
const FINGERPRINT_BYTES: usize = 64;

/// Whether a packet is captured for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketSighting {
    /// No equal packet was captured recently, or it is a retransmission.
    First,
    /// Captured before.
    Copy,
    /// Equal to an earlier packet on the same path, and of a kind that senders do send twice.
    Ambiguous,
}

/// Recent packets of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatestPacket {
    /// Capture time of its newest packet, in units of 1.024 µs modulo 2^32.
    at: u32,
    /// TCP: payload length of the newest packet, modulo 2^16. Others: its fingerprint.
    last: u16,
    /// Highest IP identification of the side in circular order; 0 if none.
    ip_id: u16,
    /// Bit n is set if identification `ip_id` - n was seen; 0 if all packets have the same one. Without
    /// identifications: from the lowest bits on, the fingerprints of the last three packets, and their path.
    seen: u64,
}

const PATH: u64 = 0xffff << 48;

fn ticks(ts: Timestamp) -> u32 {
    (ts.0 >> 10) as u32
}

/// Equal for segments with equal content; different for most others.
#[inline]
pub(crate) fn fingerprint(seq: TcpSeq, ack: TcpSeq, len: u32, checksum: u16) -> u16 {
    let mixed = (seq.0 ^ ack.0.rotate_left(11) ^ len.rotate_left(22)).wrapping_mul(0x9e37_79b1);
    (mixed >> 16) as u16 ^ checksum
}

fn fingerprint_of(packet: &Packet<'_>) -> u16 {
    let len = packet.payload_original_len;
    match &packet.transport {
        TransportHeader::Tcp(tcp) => fingerprint(tcp.seq, tcp.ack, len, packet.checksum),
        _ => {
            let seed = u64::from(len) << 16 | u64::from(packet.checksum);
            let start = &packet.payload[..packet.payload.len().min(FINGERPRINT_BYTES)];
            xxh3_64_with_seed(start, seed) as u16
        }
    }
}

/// Path of a packet: equal for all packets of one side captured at one place; never 0.
fn path_of(packet: &Packet<'_>) -> u16 {
    let mut bytes = [0; 17];
    bytes[..12].copy_from_slice(packet.macs.unwrap_or(&[0; 12]));
    bytes[12] = packet.ttl;
    bytes[13..15].copy_from_slice(&packet.vlan.unwrap_or(0).to_be_bytes());
    bytes[15..].copy_from_slice(&u16::from(packet.vlan.is_some()).to_be_bytes());
    xxh3_64(&bytes) as u16 | 1
}

impl LatestPacket {
    /// Records a segment of an established connection that is not a copy.
    #[inline]
    pub fn note(
        &mut self,
        ts: Timestamp,
        last: u16,
        ip_id: u16,
        fingerprint: impl FnOnce() -> u16,
    ) {
        self.at = ticks(ts);
        self.last = last;
        if ip_id == 0 {
            if self.ip_id == 0 {
                self.seen = self.seen & PATH | self.seen << 16 & !PATH | u64::from(fingerprint());
            }
            return;
        }
        let ahead = ip_id.wrapping_sub(self.ip_id) as i16;
        match ahead {
            1..64 if self.ip_id != 0 => {
                self.ip_id = ip_id;
                self.seen = self.seen << ahead | 1;
            }
            0 if self.seen <= 1 && self.ip_id != 0 => self.seen = 0,
            -63..=0 if self.ip_id != 0 => self.seen |= 1 << -ahead,
            _ => {
                self.ip_id = ip_id;
                self.seen = 1;
            }
        }
    }

    /// Records any packet that is not a copy, and its path unless several paths are known.
    pub fn note_packet(&mut self, packet: &Packet<'_>, is_mirrored: bool) {
        let last = match packet.transport {
            TransportHeader::Tcp(_) => packet.payload_original_len as u16,
            _ => fingerprint_of(packet),
        };
        self.note(packet.ts, last, packet.ip_id, || fingerprint_of(packet));
        if self.ip_id == 0 && (!is_mirrored || self.seen & PATH == 0) {
            self.seen = self.seen & !PATH | u64::from(path_of(packet)) << 48;
        }
    }

    fn has(&self, ip_id: u16) -> bool {
        let behind = self.ip_id.wrapping_sub(ip_id);
        self.ip_id != 0 && behind < 64 && self.seen >> behind & 1 != 0
    }

    fn is_constant(&self) -> bool {
        self.ip_id != 0 && self.seen == 0
    }

    /// Fingerprints of the last three packets, newest first; 0 if there are fewer.
    fn fingerprints(&self) -> [u16; 3] {
        if self.ip_id != 0 {
            return [0; 3];
        }
        [
            self.seen as u16,
            (self.seen >> 16) as u16,
            (self.seen >> 32) as u16,
        ]
    }

    /// Whether the two newest packets are equal.
    fn ends_in_a_pair(&self) -> bool {
        let [newest, before, _] = self.fingerprints();
        newest == before && newest != 0
    }
}

/// Judges a packet of `side` in an open flow by the recent packets of both sides.
pub(crate) fn judge(
    latest: &[LatestPacket; 2],
    flow: FlowCore<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
) -> PacketSighting {
    let [own, other] = [side, side.other()].map(|side| &latest[side.index()]);
    let apart = (ticks(packet.ts).wrapping_sub(own.at) as i32).unsigned_abs();
    let numbered = packet.ip_id != 0 && !own.is_constant();
    if numbered && !own.has(packet.ip_id) || apart > WITHIN_US || flow.packets(side) == 0 {
        return PacketSighting::First;
    }
    match &packet.transport {
        // A datagram has no sequence number that shows new content.
        _ if !flow.is_tcp() => {}
        TransportHeader::Tcp(tcp) if is_old(flow, side, tcp, packet.payload_original_len) => {}
        _ => return PacketSighting::First,
    }
    if numbered && !flow.is_tcp() {
        return own.judge_number(flow.packets(side) == 1, packet, apart);
    }
    if numbered || is_syn(packet) {
        return PacketSighting::Copy;
    }
    let fingerprint = fingerprint_of(packet);
    let is_known =
        own.fingerprints().contains(&fingerprint) || !flow.is_tcp() && own.last == fingerprint;
    if own.ip_id == 0
        && own.seen & PATH != u64::from(path_of(packet)) << 48
        && (is_known || flow.is_tcp())
    {
        return PacketSighting::Copy;
    }
    if apart > AT_ONCE_US || own.ip_id == 0 && !is_known {
        return PacketSighting::First;
    }
    let [_, before, third] = own.fingerprints();
    let in_pairs =
        own.fingerprints()[0] != before && before == third && before != 0 || other.ends_in_a_pair();
    if is_newest(own, flow, side, packet) || is_known && (in_pairs || flow.hot.has(flag::MIRRORED))
    {
        return PacketSighting::Copy;
    }
    if is_known {
        PacketSighting::Ambiguous
    } else {
        PacketSighting::First
    }
}

impl LatestPacket {
    /// Judges a datagram with a known identification. The first one may be a constant.
    fn judge_number(&self, is_second: bool, packet: &Packet<'_>, apart: u32) -> PacketSighting {
        if self.seen.count_ones() > 1 {
            return PacketSighting::Copy;
        }
        if self.last != fingerprint_of(packet) {
            PacketSighting::First
        } else if is_second {
            PacketSighting::Copy
        } else if apart <= AT_ONCE_US {
            PacketSighting::Ambiguous
        } else {
            PacketSighting::First
        }
    }
}

/// Whether this is a SYN, which is not retransmitted so soon (RFC 6298 §2.1: after a second).
fn is_syn(packet: &Packet<'_>) -> bool {
    matches!(&packet.transport, TransportHeader::Tcp(tcp) if tcp.flags.contains(TcpFlags::SYN))
}

/// Whether a segment is its side's newest one with sequence numbers of its own: bytes or FIN.
fn is_newest(own: &LatestPacket, flow: FlowCore<'_>, side: FlowSide, packet: &Packet<'_>) -> bool {
    let TransportHeader::Tcp(tcp) = &packet.transport else {
        return false;
    };
    let len = packet.payload_original_len;
    let takes = len + u32::from(tcp.flags.contains(TcpFlags::FIN));
    takes > 0 && own.last == len as u16 && tcp.seq.plus(takes) == flow.hot.next[side.index()]
}

/// Whether a segment has no new content: its bytes are complete, its SYN, FIN, or RST was seen, and its
/// acknowledgment is not new.
fn is_old(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo, len: u32) -> bool {
    let did = |flag, bit| !tcp.flags.intersects(flag) || flow.hot.did(side, bit);
    let known_ack =
        flow.hot.did(side, half_bit::ACK_SEEN) && tcp.ack.distance(flow.hot.ack[side.index()]) <= 0;
    let is_syn = tcp.flags.contains(TcpFlags::SYN);
    let first = tcp.seq.plus(u32::from(is_syn));
    did(TcpFlags::SYN, half_bit::SYN)
        && (!is_syn || flow.start_seq(side) == first)
        && did(TcpFlags::FIN, half_bit::FIN)
        && did(TcpFlags::RST, half_bit::RST)
        && (known_ack || flow.is_terminated() || !tcp.flags.contains(TcpFlags::ACK))
        && (len == 0 || flow.has_bytes(side, first, len) || is_syn)
}
