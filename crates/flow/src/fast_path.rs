//! The fast path: the next segment in order, without an acknowledgment of unseen bytes, of a connection in normal
//! state; nearly all segments. Changes exactly what the full state machine would, or nothing: then the full one is
//! used. Needs one cache line of the flow.

use wire::packet::TcpFlags;
use wire::{FlowSide, Packet, TcpInfo, TcpSeq, Timestamp, TransportHeader};

use crate::event::{FlowIdx, StreamPlace};
use crate::flow_layout::{HotRecord, SMALL, flag};
use crate::metrics::HistoryLetter;
use crate::segment_check::MAX_WINDOW;

/// Conditions of a table for the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPathRules {
    /// Idle timeout of a connection.
    pub idle_ns: u64,
    /// The table's clock: earlier packets need the slow path.
    pub floor: Timestamp,
}

/// The header fields that the fast path tests and uses.
#[derive(Clone, Copy, Debug)]
pub struct FastPathSegment {
    pub(crate) ts: Timestamp,
    /// Length on the wire.
    packet_bytes: u32,
    /// Payload length on the wire.
    pub(crate) len: u32,
    pub(crate) seq: TcpSeq,
    pub(crate) ack: TcpSeq,
    /// 0: the packet does not take the fast path.
    window: u16,
    pub(crate) ip_id: u16,
    pub(crate) checksum: u16,
}

/// A segment that the fast path has processed.
#[derive(Clone, Copy, Debug)]
pub struct FastPathOutcome {
    /// Flow of the packet.
    pub flow: FlowIdx,
    /// Position of the payload, the next bytes of its side, if a parser needs them.
    pub bytes: Option<StreamPlace>,
}

impl FastPathSegment {
    /// Extracts the fields of any packet.
    #[inline(always)]
    #[must_use]
    pub fn of(packet: &Packet<'_>) -> FastPathSegment {
        const SPECIAL: TcpFlags = TcpFlags(0x17); // ACK, RST, SYN, FIN
        let len = packet.payload_original_len;
        let tcp = if let TransportHeader::Tcp(tcp) = packet.transport {
            tcp
        } else {
            TcpInfo::default()
        };
        let fits_fast_path = (tcp.flags.0 & SPECIAL.0 == TcpFlags::ACK.0)
            & (packet.payload.len() as u32 == len)
            & (len <= SMALL);
        FastPathSegment {
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

    /// Length of the payload.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.len as usize
    }

    /// Whether the packet itself is eligible for the fast path.
    #[inline]
    pub(crate) fn fits_fast_path(&self) -> bool {
        self.window != 0
    }
}

/// Processes a segment; returns false, without any change, if the fast path does not apply.
#[inline(always)]
pub(crate) fn take_in(
    hot: &mut HotRecord,
    side: FlowSide,
    segment: &FastPathSegment,
    rules: FastPathRules,
) -> bool {
    let own = side.index();
    let other = side.other().index();
    let &FastPathSegment {
        ts,
        packet_bytes,
        len,
        seq,
        ack,
        window,
        ..
    } = segment;
    if !(hot.has(flag::FAST) & segment.fits_fast_path()) || !is_timely(hot, ts, rules) {
        return false;
    }
    let advance = ack.distance(hot.ack[own]);
    let ahead = ack.distance(hot.next[other]);
    // The acknowledgment advances by at most a window; one that goes back would be late or damaged.
    if (ahead > 0) | (advance as u32 > MAX_WINDOW) {
        return false;
    }
    let next = hot.next[own];
    let letter = if len > 0 {
        let is_probe = len == 1 && hot.window[other] == 0;
        if seq != next || is_probe {
            return false;
        }
        HistoryLetter::PAYLOAD
    } else {
        // Without progress, the packet may be a copy or a duplicate acknowledgment.
        let is_news = advance > 0;
        if !is_news || seq != next {
            return false;
        }
        HistoryLetter::ACK
    };
    let counts = hot.packets[own]
        .checked_add(1)
        .zip(hot.bytes[own].checked_add(packet_bytes));
    let Some((packets, bytes)) = counts else {
        return false;
    };
    if !hot.did(side, letter.bit()) && !hot.note_here(side, letter) {
        return false;
    }
    hot.last_ts = ts;
    hot.next[own] = next.plus(len);
    hot.ack[own] = ack;
    hot.window[own] = window;
    hot.packets[own] = packets;
    hot.bytes[own] = bytes;
    true
}

/// Whether the packet follows the previous one within the idle timeout.
#[inline]
fn is_timely(hot: &HotRecord, ts: Timestamp, rules: FastPathRules) -> bool {
    let since = ts.0.wrapping_sub(hot.last_ts.0) as u64;
    (ts.0 >= hot.last_ts.0) & (ts.0 >= rules.floor.0) & (since <= rules.idle_ns)
}
