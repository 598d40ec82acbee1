//! Copies that a mirror made: the same packet captured at both ends of a path, or on the way into and out of a switch,
//! plain and tagged, with one hop less. Tells them from what was sent again.
//!
//! A sender that sends again does so under a new IP identification. The last 64 of a side are remembered as IPsec
//! remembers sequence numbers (RFC 4303 §3.4.3), and what brings nothing new under one of them is a copy. Where there is
//! none to go by (IPv6; 0, as RFC 6864 §4.1 allows) a copy is what repeats the newest segment sooner than any sender
//! would.

use wire::packet::TcpFlags;
use wire::{Packet, Side, TcpInfo, Timestamp, Transport};

use crate::flow::FlowCore;
use crate::record::half_bit;

/// A copy comes sooner after the newest packet of its side; TCP sends again after 200 ms at the earliest when it hears
/// nothing (Linux; RFC 6298 §2.4 asks for a second).
const WITHIN_US: u32 = 100_000;
/// Without identification: sooner than any round trip through a network that is worth mirroring twice.
const AT_ONCE_US: u32 = 1_000;

/// What one side sent last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    /// When its newest packet was captured, in units of 1.024 µs modulo 2^32.
    at: u32,
    /// How much payload that had, modulo 2^16.
    len: u16,
    /// Its highest IP identification, counting round; 0 when there was none.
    ip_id: u16,
    /// The last identifications: bit n stands for `ip_id` - n.
    seen: u64,
}

fn ticks(ts: Timestamp) -> u32 {
    (ts.0 >> 10) as u32
}

impl Latest {
    /// Remembers a packet that is no copy.
    #[inline]
    pub fn note(&mut self, ts: Timestamp, len: u32, ip_id: u16) {
        (self.at, self.len) = (ticks(ts), len as u16);
        if ip_id == 0 {
            return;
        }
        let ahead = ip_id.wrapping_sub(self.ip_id) as i16;
        match ahead {
            1..64 => (self.ip_id, self.seen) = (ip_id, self.seen << ahead | 1),
            -63..=0 if self.ip_id != 0 => self.seen |= 1 << -ahead,
            _ => (self.ip_id, self.seen) = (ip_id, 1),
        }
    }

    fn has(&self, ip_id: u16) -> bool {
        let behind = self.ip_id.wrapping_sub(ip_id);
        behind < 64 && self.seen >> behind & 1 != 0
    }

    /// Whether a packet of a living flow, of the side that this is of, is one that was captured before.
    pub fn is_copied(&self, flow: FlowCore<'_>, side: Side, packet: &Packet<'_>) -> bool {
        let numbered = packet.ip_id != 0;
        if flow.packets(side) == 0 || numbered && !self.has(packet.ip_id) {
            return false;
        }
        let apart = (ticks(packet.ts).wrapping_sub(self.at) as i32).unsigned_abs();
        let (len, in_time) = (packet.payload_original_len, apart <= WITHIN_US);
        // One that gives all packets the same number does not count.
        let counts = numbered && self.seen.count_ones() > 1;
        match &packet.transport {
            // Whether a datagram is news cannot be seen.
            _ if !flow.is_tcp() => counts && in_time && self.len == len as u16,
            Transport::Tcp(tcp) if is_old(flow, side, tcp, len) => {
                if counts || numbered && tcp.flags.contains(TcpFlags::SYN) {
                    return in_time;
                }
                let special = tcp.flags.0 & (TcpFlags::SYN | TcpFlags::FIN).0;
                let takes = len + special.count_ones();
                let is_newest = self.len == len as u16 && tcp.seq.plus(takes) == flow.hot.next[side.index()];
                is_newest && takes > 0 && apart <= AT_ONCE_US
            }
            _ => false,
        }
    }
}

/// Whether all that a segment says is known: none of its bytes are missing, its SYN, FIN or RST has been seen, and what
/// it acknowledges was acknowledged before.
fn is_old(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo, len: u32) -> bool {
    let did = |flag, bit| !tcp.flags.intersects(flag) || flow.hot.did(side, bit);
    let known_ack =
        flow.hot.did(side, half_bit::ACK_SEEN) && tcp.ack.distance(flow.hot.ack[side.index()]) <= 0;
    let syn = u32::from(tcp.flags.contains(TcpFlags::SYN));
    did(TcpFlags::SYN, half_bit::SYN)
        && did(TcpFlags::FIN, half_bit::FIN)
        && did(TcpFlags::RST, half_bit::RST)
        && (known_ack || flow.is_terminated() || !tcp.flags.contains(TcpFlags::ACK))
        && (len == 0 || flow.has_bytes(side, tcp.seq.plus(syn), len))
}
