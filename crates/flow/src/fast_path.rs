//! The fast path: the next segment in order, which acknowledges nothing unseen, of a connection in which nothing is
//! amiss; nearly all are so. Promises to change exactly what the full state machine would, or nothing: then that has to be asked.
//! Needs one cache line of the flow.

use wire::packet::TcpFlags;
use wire::{Packet, Side, TcpInfo, TcpSeq, Timestamp, Transport};

use crate::gatekeeping::MAX_WINDOW;
use crate::metrics::Letter;
use crate::record::{Hot, SMALL, flag};

/// What a table allows on the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Idle timeout of a connection.
    pub idle_ns: u64,
    /// The table's clock: a packet from before it has to be looked at.
    pub floor: Timestamp,
}

/// The fields of a packet that identify such a segment, and all fields taken from it.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub(crate) ts: Timestamp,
    /// On the wire.
    packet_bytes: u32,
    /// Payload on the wire.
    pub(crate) len: u32,
    pub(crate) seq: TcpSeq,
    pub(crate) ack: TcpSeq,
    /// 0: whatever the packet is, it does not take the fast path.
    window: u16,
    pub(crate) ip_id: u16,
    pub(crate) checksum: u16,
}

impl Segment {
    /// Of any packet.
    #[inline(always)]
    #[must_use]
    pub fn of(packet: &Packet<'_>) -> Segment {
        const SPECIAL: TcpFlags = TcpFlags(0x17); // ACK, RST, SYN, FIN
        let len = packet.payload_original_len;
        let tcp = if let Transport::Tcp(tcp) = packet.transport { tcp } else { TcpInfo::default() };
        let fits_fast_path = (tcp.flags.0 & SPECIAL.0 == TcpFlags::ACK.0)
            & (packet.payload.len() as u32 == len)
            & (len <= SMALL);
        Segment {
            ts: packet.ts,
            packet_bytes: packet.original_len,
            len,
            seq: tcp.seq,
            ack: tcp.ack,
            window: if fits_fast_path { tcp.window } else { 0 },
            ip_id: packet.ip_id,
            checksum: packet.checksum,
        }
    }

    /// Whether nothing in the packet itself keeps it off the fast path.
    #[inline]
    pub(crate) fn fits_fast_path(&self) -> bool {
        self.window != 0
    }
}

/// Takes a segment in; false when it does not take the fast path, and nothing is changed then.
#[inline(always)]
pub(crate) fn take_in(hot: &mut Hot, side: Side, segment: &Segment, rules: Rules) -> bool {
    let (own, other) = (side.index(), side.other().index());
    let &Segment { ts, packet_bytes, len, seq, ack, window, .. } = segment;
    if !(hot.has(flag::FAST) & segment.fits_fast_path()) || !is_timely(hot, ts, rules) {
        return false;
    }
    let advance = ack.distance(hot.ack[own]);
    let ahead = ack.distance(hot.next[other]);
    // What is acknowledged lies behind what was before, by no more than a window: so none goes back, which would be late or
    // damaged.
    if (ahead > 0) | (advance as u32 > MAX_WINDOW) {
        return false;
    }
    let next = hot.next[own];
    let letter = if len > 0 {
        let is_probe = len == 1 && hot.window[other] == 0;
        if seq != next || is_probe {
            return false;
        }
        Letter::PAYLOAD
    } else {
        // It may have been captured before, or be one of those that ask for what is missing.
        let is_news = advance > 0;
        if !is_news || seq != next {
            return false;
        }
        Letter::ACK
    };
    let counts = hot.packets[own].checked_add(1).zip(hot.bytes[own].checked_add(packet_bytes));
    let Some((packets, bytes)) = counts else { return false };
    if !hot.did(side, letter.bit()) && !hot.note_here(side, letter) {
        return false;
    }
    hot.last_ts = ts;
    hot.next[own] = next.plus(len);
    hot.ack[own] = ack;
    hot.window[own] = window;
    (hot.packets[own], hot.bytes[own]) = (packets, bytes);
    true
}

/// Whether the packet comes after the one before, and not too long after.
#[inline]
fn is_timely(hot: &Hot, ts: Timestamp, rules: Rules) -> bool {
    let since = ts.0.wrapping_sub(hot.last_ts.0) as u64;
    (ts.0 >= hot.last_ts.0) & (ts.0 >= rules.floor.0) & (since <= rules.idle_ns)
}
