//! The ordinary segment of an ordinary connection: in order, acknowledging nothing unseen, of a flow in which nothing
//! is amiss. Promises to change exactly what the full state machine would, or nothing: then that has to be asked.
//! Needs one cache line of the flow.

use wire::packet::TcpFlags;
use wire::{Packet, Side, TcpInfo, Timestamp};

use crate::metrics::Letter;
use crate::record::{Hot, SMALL, flag};

/// What a table allows of a plain segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// A connection may be silent for so long.
    pub idle_ns: u64,
    /// The table's clock: a packet from before it has to be looked at.
    pub floor: Timestamp,
}

/// Takes a segment in; false when it is not plain, and nothing is changed then.
#[inline]
pub(crate) fn take_in(
    hot: &mut Hot,
    side: Side,
    (packet, tcp): (&Packet<'_>, &TcpInfo),
    rules: Rules,
) -> bool {
    let (own, other, len) = (side.index(), side.other().index(), packet.payload_original_len);
    let special = (TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST | TcpFlags::ACK).0;
    let is_ordinary = hot.has(flag::PLAIN) & (tcp.flags.0 & special == TcpFlags::ACK.0) & (tcp.window != 0);
    if !is_ordinary || !is_timely(hot, packet.ts, rules) {
        return false;
    }
    let advance = tcp.ack.distance(hot.ack[own]);
    let acked = if advance > 0 { tcp.ack } else { hot.ack[own] };
    let ahead = acked.distance(hot.next[other]);
    if (ahead > 0) | (advance > 1 << 30) {
        return false;
    }
    let next = hot.next[own];
    let letter = if len > 0 {
        let is_probe = len == 1 && hot.window[other] == 0;
        if tcp.seq != next || packet.payload.len() as u32 != len || len > SMALL || is_probe {
            return false;
        }
        Letter::PAYLOAD
    } else {
        // It may have been captured before, or be one of those that ask for what is missing.
        let is_news = advance > 0;
        if !is_news || tcp.seq.plus(1) == next {
            return false;
        }
        Letter::ACK
    };
    let counts = hot.packets[own].checked_add(1).zip(hot.bytes[own].checked_add(packet.original_len));
    let Some((packets, bytes)) = counts else { return false };
    if !hot.did(side, letter.bit()) && !hot.note_here(side, letter) {
        return false;
    }
    hot.last_ts = packet.ts;
    hot.next[own] = next.plus(len);
    hot.ack[own] = acked;
    hot.window[own] = tcp.window;
    (hot.packets[own], hot.bytes[own]) = (packets, bytes);
    true
}

/// Whether the packet comes after the one before, and not too long after.
#[inline]
fn is_timely(hot: &Hot, ts: Timestamp, rules: Rules) -> bool {
    let since = ts.0.wrapping_sub(hot.last_ts.0) as u64;
    (ts.0 >= hot.last_ts.0) & (ts.0 >= rules.floor.0) & (since <= rules.idle_ns)
}
