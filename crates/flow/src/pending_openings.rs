//! Segments that need the other end's confirmation: a SYN inside an open connection, and data of a SYN. RFC 9293
//! (§3.10.7.4) defines the decision of an endpoint, of which an observer sees only the result.

use wire::packet::TcpFlags;
use wire::{FiveTuple, FlowKey, FlowSide, Packet, TcpInfo, TcpSeq, TransportHeader};

use crate::StreamPlace;
use crate::event::FlowEvent;
use crate::flow::FlowCore;
use crate::flow_layout::{PendingOpening, SynData, half_bit};
use crate::flow_mut::FlowMut;
use crate::segment_check::NEAR;
use crate::segment_context::SegmentContext;

impl PendingOpening {
    pub fn of(key: FlowKey, side: FlowSide, packet: &Packet<'_>, tcp: &TcpInfo) -> PendingOpening {
        let &Packet {
            ts,
            original_len: packet_bytes,
            ttl,
            ip_id,
            checksum,
            ..
        } = packet;
        let len = packet.payload_original_len;
        PendingOpening {
            key,
            side,
            ts,
            packet_bytes,
            tcp: *tcp,
            len,
            ttl,
            ip_id,
            checksum,
        }
    }

    pub fn is_of(&self, key: &FlowKey) -> bool {
        self.key == *key
    }

    /// Whether this is a retransmission or copy of `other`.
    pub fn is_sent_again_as(&self, other: &PendingOpening) -> bool {
        (self.side, self.tcp.seq, self.tcp.ack) == (other.side, other.tcp.seq, other.tcp.ack)
    }

    /// Whether a segment of `side` proves that both ends use the connection opened by this segment.
    pub fn is_confirmed_by(&self, flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo) -> bool {
        let begins = self.tcp.seq.plus(1);
        let is = |flags| tcp.flags.contains(flags);
        let is_answer = self.tcp.flags.contains(TcpFlags::ACK);
        if is(TcpFlags::RST) {
            return false;
        }
        if side == self.side {
            // The sender of the SYN continues there, so the response was lost.
            let fits = !is_answer || (0..=NEAR).contains(&tcp.ack.distance(self.tcp.ack));
            let goes_on = is(TcpFlags::ACK) && !is(TcpFlags::SYN) && tcp.seq == begins;
            return goes_on && fits && is_elsewhere(flow, self.side, begins);
        }
        match (is(TcpFlags::SYN), is(TcpFlags::ACK)) {
            (true, false) => is_answer && tcp.seq.plus(1) == self.tcp.ack,
            (true, true) => !is_answer && (0..=self.len as i32).contains(&tcp.ack.distance(begins)),
            (false, true) => {
                // At least one number has to be exactly the expected one, which an attacker cannot guess.
                let ahead = tcp.ack.distance(begins);
                let fits = ahead == 0
                    || is_answer && tcp.seq == self.tcp.ack && (0..=NEAR).contains(&ahead);
                fits && is_elsewhere(flow, self.side, begins)
            }
            (false, false) => false,
        }
    }

    /// The segment as the first packet of the connection that it opened, without its data. Accepted data becomes a
    /// hole.
    /// `tuple`: five-tuple of a packet sent by `sender`.
    pub fn packet(&self, tuple: &FiveTuple, sender: FlowSide) -> Packet<'static> {
        let &PendingOpening {
            ts,
            packet_bytes,
            tcp,
            ttl,
            ip_id,
            checksum,
            ..
        } = self;
        let (src, dst) = if sender == self.side {
            (tuple.src, tuple.dst)
        } else {
            (tuple.dst, tuple.src)
        };
        Packet {
            ts,
            original_len: packet_bytes,
            five_tuple: FiveTuple { src, dst, ..*tuple },
            ttl,
            ip_id,
            macs: None,
            vlan: None,
            tunnel: wire::Tunnel::default(),
            transport: TransportHeader::Tcp(tcp),
            checksum,
            ip_header: &[],
            segment: &[],
            payload: &[],
            payload_original_len: 0,
        }
    }

    /// Removes the segment from the counts of a flow it was not part of.
    pub fn uncount(&self, flow: &mut FlowMut<'_>) {
        let at = self.side.index();
        let counts = flow.hot.packets[at]
            .checked_sub(1)
            .zip(flow.hot.bytes[at].checked_sub(self.packet_bytes));
        if let Some((packets, bytes)) = counts {
            flow.hot.packets[at] = packets;
            flow.hot.bytes[at] = bytes;
        }
    }
}

/// Whether a number is outside the current stream and its near continuation.
fn is_elsewhere(flow: FlowCore<'_>, side: FlowSide, seq: TcpSeq) -> bool {
    let hot = flow.hot;
    let other = side.other();
    let next = hot.next[side.index()];
    let heard = if hot.did(other, half_bit::ACK_SEEN) {
        hot.ack[other.index()]
    } else {
        next
    };
    let (first, last) = if heard.before(next) {
        (heard, next)
    } else {
        (next, heard)
    };
    !hot.is_started(side) || seq.distance(first) < -NEAR || seq.distance(last) > NEAR
}

/// Holds the data of `side`'s SYN until its answer; without memory it becomes a gap. A second copy is a
/// retransmission.
pub(crate) fn hold_syn_data(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
    tcp: &TcpInfo,
    cx: &mut SegmentContext<'_>,
) {
    let len = packet.payload_original_len;
    if flow
        .cold
        .spill
        .as_ref()
        .is_some_and(|spill| spill.syn_data.is_some())
    {
        let counters = flow.counters_mut(side);
        counters.retransmissions += 1;
        counters.repeated_bytes += u64::from(len);
        return;
    }
    let bytes = if cx.delivers(flow) {
        packet.payload
    } else {
        &[]
    };
    let seq = tcp.seq.plus(1);
    let data = SynData {
        side,
        seq,
        len,
        bytes: bytes.to_vec(),
        ts: packet.ts,
    };
    if !cx.budget.fits_table(data.cost()) {
        cx.totals.held_overflows += 1;
        return;
    }
    cx.budget.take(data.cost(), cx.totals);
    flow.spill_mut().syn_data = Some(Box::new(data));
}

/// Handles a segment of `side` with an acknowledgment, which shows how much of a SYN's data was accepted.
pub(crate) fn settle_syn_data(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    tcp: &TcpInfo,
    cx: &mut SegmentContext<'_>,
) {
    let Some(data) = flow
        .cold
        .spill
        .as_mut()
        .and_then(|spill| spill.syn_data.take())
    else {
        return;
    };
    // Either the other end acknowledges it, or the sender continues after it.
    let (end, first) = if side == data.side {
        (tcp.seq, tcp.ack)
    } else {
        (tcp.ack, tcp.seq)
    };
    // The sender of a SYN has received nothing yet, whatever it has received since.
    let other = data.side.other();
    let heard = if flow.hot.is_started(other) {
        flow.core().start_seq(other)
    } else {
        first
    };
    let taken = end.distance(data.seq).clamp(0, data.len as i32) as u32;
    deliver(flow, *data, taken, Some(heard), cx);
}

/// Delivers the data of an unanswered SYN: it was not accepted, but it was sent.
pub(crate) fn flush_syn_data(flow: &mut FlowMut<'_>, cx: &mut SegmentContext<'_>) {
    let Some(data) = flow
        .cold
        .spill
        .as_mut()
        .and_then(|spill| spill.syn_data.take())
    else {
        return;
    };
    let all = data.len;
    deliver(flow, *data, all, None, cx);
}

impl SynData {
    /// Cost in the budget.
    pub fn cost(&self) -> usize {
        self.bytes.len() + size_of::<SynData>()
    }
}

/// Delivers the first `taken` bytes of a SYN's data, if no other bytes took their position.
fn deliver(
    flow: &mut FlowMut<'_>,
    data: SynData,
    taken: u32,
    heard: Option<TcpSeq>,
    cx: &mut SegmentContext<'_>,
) {
    cx.budget.release(data.cost());
    let SynData {
        side,
        seq,
        bytes,
        ts,
        ..
    } = data;
    if taken == 0 || !flow.core().is_untouched(side) || flow.hot.next[side.index()] != seq {
        return;
    }
    flow.hot.next[side.index()] = seq.plus(taken);
    cx.totals.stream_bytes += u64::from(taken);
    let captured = bytes.len().min(taken as usize);
    if !cx.delivers(flow) {
        return;
    }
    if captured > 0 {
        let chunk = cx.events.hold(&bytes[..captured]);
        cx.events.push(
            cx.flow,
            FlowEvent::Bytes {
                side,
                chunk,
                ts,
                place: StreamPlace { seq, ack: heard },
            },
        );
    }
    let cut = u64::from(taken) - captured as u64;
    if cut > 0 {
        flow.counters_mut(side).cut_bytes += cut;
        cx.events.push(
            cx.flow,
            FlowEvent::Gap {
                side,
                seq: seq.plus(captured as u32),
                len: cut,
                ts,
            },
        );
    }
}
