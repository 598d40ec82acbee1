//! Effect of a TCP segment on its flow: handshake, acknowledgments, FIN, and RST (RFC 9293 §3). `segment_check` has
//! accepted the segment; the bytes go to `reassembly`. As the capture may be incomplete, missing packets are inferred
//! from the other end's.

use wire::packet::TcpFlags;
use wire::{FlowSide, Packet, TcpInfo, TcpSeq, Timestamp};

use crate::event_outlet::ReassemblyTimeouts;
use crate::flow::FlowCore;
use crate::flow_layout::{HandshakeStep, SMALL, UNSET, flag, half_bit};
use crate::flow_mut::FlowMut;
use crate::handshake;
use crate::metrics::HistoryLetter;
use crate::pending_openings::{flush_syn_data, hold_syn_data, settle_syn_data};
use crate::reassembly::{PROBED, Segment};
use crate::reassembly_budget::ReassemblyBudget;
use crate::segment_check::{LATE_ACK, NEAR, is_before_start, is_in_reach};
use crate::segment_context::{SegmentContext, note_repeats, repeats_of, take_back};
use crate::{CloseReason, EventBytes, FlowEvent, StreamPlace};

/// Processes an accepted segment of an open flow.
pub(crate) fn on_segment(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
    tcp: &TcpInfo,
    cx: &mut SegmentContext<'_>,
) {
    let len = packet.payload_original_len;
    flow.note(side, tcp, len);
    if flow.core().is_terminated() {
        return count_straggler(flow, side, tcp, len, cx);
    }
    if let Some(spill) = &mut flow.cold.spill {
        spill.count_waiting_packet();
    }
    let special = tcp
        .flags
        .intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
    if flow.hot.is_started(side) && flow.core().packets(side) == 1 {
        on_first(flow, side, cx);
    }
    if special && tcp.flags.contains(TcpFlags::RST) {
        // The payload of a RST, if any, is not stream data (RFC 9293 §3.10.7.4).
        flow.hot.half[side.index()] |= half_bit::RST;
        return terminate(flow, CloseReason::Rst, cx);
    }
    if special && tcp.flags.contains(TcpFlags::SYN) {
        on_syn(flow, side, tcp, cx);
    }
    let in_reach = is_in_reach(flow.core(), side, tcp.seq);
    if in_reach && tcp.flags.contains(TcpFlags::ACK) {
        settle_syn_data(flow, side, tcp, cx);
        on_ack(flow, side, packet, tcp, cx);
    }
    check_side(flow, side.other(), cx);
    if len > 0 || tcp.flags.contains(TcpFlags::FIN) {
        on_payload(flow, side, packet, tcp, cx);
    }
    check_side(flow, side, cx);
    cx.settle(flow, packet.payload);
    end_when_both_have(flow, cx);
}

/// Processes a copy: bytes cut off by the snaplen before are filled from it.
pub(crate) fn on_copy(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
    tcp: &TcpInfo,
    cx: &mut SegmentContext<'_>,
) {
    if packet.payload.is_empty() || tcp.flags.contains(TcpFlags::SYN) || flow.core().is_terminated()
    {
        return;
    }
    let seq = tcp.seq;
    let len = packet.payload_original_len;
    let ts = packet.ts;
    let segment = Segment {
        seq,
        len,
        payload: packet.payload,
        fin: false,
        ts,
        ack: None,
    };
    cx.on_stream(flow, side, |stream, out| {
        stream.fill(&segment, out);
        stream.settle(out.acked);
    });
    cx.settle(flow, packet.payload);
    end_when_both_have(flow, cx);
}

/// Abandons bytes that either side has missed for too long.
pub(crate) fn check(flow: &mut FlowMut<'_>, cx: &mut SegmentContext<'_>) {
    if !flow.core().is_terminated() {
        check_side(flow, FlowSide::A, cx);
        check_side(flow, FlowSide::B, cx);
        cx.settle(flow, &[]);
        end_when_both_have(flow, cx);
    }
}

#[inline]
fn end_when_both_have(flow: &mut FlowMut<'_>, cx: &mut SegmentContext<'_>) {
    if flow.hot.is_ended(FlowSide::A) && flow.hot.is_ended(FlowSide::B) {
        terminate(flow, CloseReason::Fin, cx);
    }
}

/// Time of the next [`check`], if any.
pub(crate) fn deadline(flow: FlowCore<'_>, patience: ReassemblyTimeouts) -> Option<Timestamp> {
    let spill = flow.cold.spill.as_ref()?;
    let busy = [FlowSide::A, FlowSide::B]
        .into_iter()
        .filter(|side| flow.is_busy(*side));
    let missing = busy
        .filter_map(|side| spill.waiting[side.index()].as_ref()?.deadline(patience))
        .min();
    // Data that waits without a hole waits for a side without packets.
    missing.or(spill
        .order
        .as_ref()
        .map(|_| flow.first_ts().plus(patience.reorder_wait_ns)))
}

/// Delivers waiting data when the flow leaves the table. A FIN in a capture of one direction terminates the flow now.
pub(crate) fn on_close(flow: &mut FlowMut<'_>, cx: &mut SegmentContext<'_>) {
    if flow.core().is_terminated() || !flow.core().is_tcp() {
        return;
    }
    flush_syn_data(flow, cx);
    cx.flush(flow);
    let over = |side: FlowSide| flow.hot.is_ended(side) || flow.core().packets(side) == 0;
    if over(FlowSide::A) && over(FlowSide::B) {
        terminate(flow, CloseReason::Fin, cx);
    }
}

/// Drops everything that waits in a flow, however the flow ends.
pub(crate) fn forget(flow: &mut FlowMut<'_>, budget: &mut ReassemblyBudget) {
    if let Some(spill) = &mut flow.cold.spill {
        spill.release(budget);
    }
}

/// Handles a SYN or SYN-ACK.
fn on_syn(flow: &mut FlowMut<'_>, side: FlowSide, tcp: &TcpInfo, cx: &mut SegmentContext<'_>) {
    let begins = tcp.seq.plus(1);
    let is_answer = tcp.flags.contains(TcpFlags::ACK);
    if !flow.hot.is_started(side)
        || flow.core().start_seq(side) != begins && flow.core().is_untouched(side)
    {
        flow.start(side, begins);
    } else if !flow.hot.did(side, half_bit::SYN) {
        begin_earlier(flow, side, begins, cx);
    }
    if flow.hot.did(side, half_bit::SYN) {
        flow.counters_mut(side).syn_retransmissions += 1;
        handshake::sent_again(flow, is_answer);
    }
    flow.hot.half[side.index()] |= half_bit::SYN;
    let other = side.other();
    if flow.hot.did(other, half_bit::ACK_SEEN)
        && is_before_start(flow.core(), side, flow.hot.ack[other.index()])
    {
        flow.hot.ack[other.index()] = flow.core().start_seq(side);
    }
    if is_answer && !flow.hot.is_started(other) {
        flow.start(other, tcp.ack);
        flow.hot.half[other.index()] |= half_bit::SYN_IMPLIED;
    } else if is_answer
        && !flow.hot.did(other, half_bit::SYN)
        && begin_earlier(flow, other, tcp.ack, cx)
    {
        flow.hot.half[other.index()] |= half_bit::SYN_IMPLIED;
    }
    name_client(flow, side, is_answer, cx.now);
    if is_answer {
        handshake::pass(flow, HandshakeStep::SynAck, cx.now);
    }
    // If a stream's first captured bytes preceded its SYN, they may not be its first.
    let is_whole = |side: FlowSide| {
        !flow.hot.is_started(side) || flow.hot.did(side, half_bit::SYN | half_bit::SYN_IMPLIED)
    };
    let joined = flow.core().start_seq(side) != begins
        || !is_whole(other) && !flow.core().is_untouched(other);
    flow.hot.put(flag::MIDSTREAM, joined);
}

/// Moves the start of a stream back to `begins`, which was captured later than other bytes, if none of those has been
/// delivered and no longer copy of a cut one is awaited. Returns whether it did.
fn begin_earlier(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    begins: TcpSeq,
    cx: &mut SegmentContext<'_>,
) -> bool {
    let start = flow.core().start_seq(side);
    if !(1..=NEAR).contains(&start.distance(begins)) {
        return false;
    }
    let spill = flow.cold.spill.as_mut().filter(|spill| {
        let waiting = spill.waiting[side.index()].as_deref();
        waiting.is_none_or(|waiting| waiting.cut_end().is_none())
    });
    let order = spill.and_then(|spill| spill.order.as_mut());
    let Some(pieces) = order.and_then(|order| order.take_all_from(side, start, cx.budget)) else {
        return false;
    };
    cx.on_stream(flow, side, |stream, out| {
        stream.begin_earlier(begins, pieces, out)
    });
    true
}

/// Sets the client, which the first SYN determines, or a SYN-ACK without a SYN.
fn name_client(flow: &mut FlowMut<'_>, side: FlowSide, is_answer: bool, ts: Timestamp) {
    if !is_answer && flow.cold.syn == UNSET {
        flow.cold.syn = ts;
    }
    if !flow.hot.has(flag::CLIENT_BY_SYN) {
        flow.put_client(if is_answer { side.other() } else { side });
        flow.hot.put(flag::CLIENT_GUESSED, false);
        flow.hot.put(flag::CLIENT_BY_SYN, true);
    }
}

/// Handles an acknowledgment: progress of the other side's bytes, and missing bytes.
fn on_ack(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
    tcp: &TcpInfo,
    cx: &mut SegmentContext<'_>,
) {
    let at = side.index();
    let other = side.other();
    let first = !flow.hot.did(side, half_bit::ACK_SEEN);
    let advance = if first {
        0
    } else {
        tcp.ack.distance(flow.hot.ack[at])
    };
    let repeats = !first && advance == 0 && tcp.window == flow.hot.window[at];
    flow.hot.half[at] |= half_bit::ACK_SEEN;
    flow.hot.window[at] = tcp.window;
    let contradicts = advance < 0 && contradicts(flow.core(), side, (packet.ts, tcp));
    // A larger step back is not lateness: the earlier acknowledgment was wrong.
    let is_late = (-LATE_ACK..=0).contains(&advance);
    if contradicts {
        cx.totals.acks_disbelieved += 1;
        take_back(flow, side, tcp.ack);
    } else if first || !is_late {
        flow.hot.ack[at] = tcp.ack;
    }
    if let Some(order) = flow
        .cold
        .spill
        .as_mut()
        .and_then(|spill| spill.order.as_mut())
    {
        order.had_heard(side, tcp.seq, tcp.ack);
    }
    // A SYN-ACK determines the start of a direction that may not be captured at all.
    if flow.hot.is_started(other) && flow.core().is_captured(other) {
        let acked = flow.hot.ack[at];
        let now = cx.now;
        let ahead = acked.distance(flow.hot.next[other.index()]);
        if ahead > 0 && !flow.hot.is_ended(other) {
            let newly = first || advance > 0 || contradicts;
            let by = (now, (tcp.ack == acked).then_some(tcp.seq));
            cx.on_stream(flow, other, |stream, _| {
                stream.acknowledged_beyond(acked, newly, by)
            });
        }
        let pure = packet.payload_original_len == 0 && tcp.flags.0 & 7 == 0;
        let goes_on = flow.hot.is_started(side) && !flow.hot.is_ended(side);
        if pure && goes_on && tcp.seq.plus(1) == flow.hot.next[at] {
            flow.counters_mut(side).keep_alives += 1;
        } else if repeats && pure && (ahead < 0 || flow.core().is_busy(other)) {
            flow.counters_mut(side).duplicate_acks += 1;
        }
    } else if advance > 0 {
        flow.counters_mut(other).acked_unseen_bytes += advance as u64;
        cx.totals.unseen_direction_bytes += advance as u64;
    }
    if tcp.window == 0 && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN) {
        flow.counters_mut(side).zero_windows += 1;
        flow.note_letter(side, HistoryLetter::ZERO_WINDOW);
    }
    if !flow.hot.has(flag::HANDSHAKE_DONE) {
        check_handshake(flow, side, tcp, cx.now);
    }
}

/// Handles the first packet of a side whose start is known from the other side's SYN-ACK: earlier acknowledged bytes
/// are missing in a captured direction.
fn on_first(flow: &mut FlowMut<'_>, side: FlowSide, cx: &mut SegmentContext<'_>) {
    let counters = flow
        .cold
        .spill
        .as_mut()
        .map(|spill| &mut spill.counters[side.index()]);
    let unseen = counters.map_or(0, |counters| {
        std::mem::take(&mut counters.acked_unseen_bytes)
    });
    if unseen > 0 {
        // Bytes of gaps are not among those of unseen directions.
        cx.totals.unseen_direction_bytes = cx.totals.unseen_direction_bytes.saturating_sub(unseen);
        let acked = flow.hot.ack[side.other().index()];
        let by = (cx.now, None);
        cx.on_stream(flow, side, |stream, _| {
            stream.acknowledged_beyond(acked, true, by)
        });
    }
}

/// Whether a segment with a lower acknowledgment than its side's earlier one proves that one wrong.
fn contradicts(flow: FlowCore<'_>, side: FlowSide, (ts, tcp): (Timestamp, &TcpInfo)) -> bool {
    let waiting = flow
        .cold
        .spill
        .as_ref()
        .and_then(|spill| spill.waiting[side.other().index()].as_ref());
    waiting.is_some_and(|waiting| waiting.is_contradicted((ts, tcp.seq)))
}

/// Completes the handshake when both SYNs are acknowledged, in any order.
fn check_handshake(flow: &mut FlowMut<'_>, by: FlowSide, tcp: &TcpInfo, ts: Timestamp) {
    let acknowledged = |side: FlowSide| {
        flow.hot.did(side, half_bit::SYN | half_bit::SYN_IMPLIED)
            && flow.hot.did(side.other(), half_bit::ACK_SEEN)
            && !flow.hot.ack[side.other().index()].before(flow.core().start_seq(side))
    };
    if acknowledged(FlowSide::A) && acknowledged(FlowSide::B) {
        flow.hot.put(flag::HANDSHAKE_DONE, true);
        let answers = by == flow.core().client().0
            && !tcp.flags.contains(TcpFlags::SYN)
            && tcp.seq == flow.hot.next[by.index()];
        if !answers {
            handshake::is_ambiguous(flow, HandshakeStep::Done);
        }
        handshake::pass(flow, HandshakeStep::Done, ts);
    }
}

/// Handles payload and FIN.
fn on_payload(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
    tcp: &TcpInfo,
    cx: &mut SegmentContext<'_>,
) {
    let syn = u32::from(tcp.flags.contains(TcpFlags::SYN));
    let seq = tcp.seq.plus(syn);
    let fin = tcp.flags.contains(TcpFlags::FIN);
    let len = packet.payload_original_len;
    if !flow.hot.is_started(side) {
        start_midway(flow, side, seq);
    }
    if syn > 0 && !fin && !tcp.flags.contains(TcpFlags::ACK) && !flow.hot.is_started(side.other()) {
        return hold_syn_data(flow, side, packet, tcp, cx);
    }
    if len == 1 && !fin && is_single_byte_probe(flow, side, seq) {
        return;
    }
    if flow.core().is_unopened() {
        begin_earlier(flow, side, seq, cx);
    }
    if fin && is_in_reach(flow.core(), side, seq) {
        on_fin(flow, side, packet);
    }
    let ack = heard_by(flow.core(), side, tcp);
    let segment = Segment {
        seq,
        len,
        payload: packet.payload,
        fin,
        ts: packet.ts,
        ack,
    };
    if is_next_in_order(flow.core(), side, &segment) && cx.heard(flow.core()).allows(side, ack) {
        return accept_in_order(flow, side, &segment, cx);
    }
    cx.make_room(flow, side, packet.payload.len());
    let before = repeats_of(flow, side);
    cx.on_stream(flow, side, |stream, out| stream.accept(&segment, out));
    note_repeats(flow, side, before);
}

/// The sender's acknowledgment. Without the flag the field is invalid; the sender of a SYN has received nothing.
fn heard_by(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo) -> Option<TcpSeq> {
    let hot = flow.hot;
    if tcp.flags.contains(TcpFlags::ACK) {
        return Some(tcp.ack);
    }
    let heard_before = hot.did(side, half_bit::ACK_SEEN) && !tcp.flags.contains(TcpFlags::SYN);
    heard_before.then_some(hot.ack[side.index()])
}

/// Whether a segment is complete and next in order, and nothing waits after a hole.
fn is_next_in_order(flow: FlowCore<'_>, side: FlowSide, segment: &Segment<'_>) -> bool {
    segment.seq == flow.hot.next[side.index()]
        && !flow.hot.is_ended(side)
        && segment.payload.len() as u32 == segment.len
        && segment.len <= SMALL
        && !flow.is_busy(side)
        && !flow.holds_back()
}

/// Same as [`ByteStream::accept`] for such a segment, without unpacking the stream.
fn accept_in_order(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    segment: &Segment<'_>,
    cx: &mut SegmentContext<'_>,
) {
    let at = side.index();
    let next = segment.seq.plus(segment.len);
    flow.hot.next[at] = next;
    if segment.len > 0 {
        cx.totals.stream_bytes += u64::from(segment.len);
        if cx.delivers(flow) {
            cx.events.push(
                cx.flow,
                bytes_of(
                    side,
                    segment.len,
                    segment.ts,
                    StreamPlace {
                        seq: segment.seq,
                        ack: segment.ack,
                    },
                ),
            );
        }
    }
    if segment.fin {
        flow.hot.next[at] = next.plus(1);
        flow.hot.put(flag::ENDED << at, true);
        cx.events.push(
            cx.flow,
            FlowEvent::End {
                side,
                ts: segment.ts,
            },
        );
    }
}

/// The event of a packet whose complete payload is next in order.
#[inline]
pub(crate) fn bytes_of(side: FlowSide, len: u32, ts: Timestamp, place: StreamPlace) -> FlowEvent {
    FlowEvent::Bytes {
        side,
        chunk: EventBytes::InPacket { start: 0, end: len },
        ts,
        place,
    }
}

/// Records the first arrival of a FIN; the stream reports when it is reached.
fn on_fin(flow: &mut FlowMut<'_>, side: FlowSide, packet: &Packet<'_>) {
    let again = flow.hot.did(side, half_bit::FIN);
    flow.hot.half[side.index()] |= half_bit::FIN;
    if again && packet.payload_original_len == 0 {
        flow.counters_mut(side).fin_retransmissions += 1;
    }
}

/// Starts a direction without SYN at its first byte; if the other side's SYN was seen, at that side's first
/// acknowledgment, so that bytes lost before are a gap.
fn start_midway(flow: &mut FlowMut<'_>, side: FlowSide, seq: TcpSeq) {
    let other = side.other();
    let told = flow.hot.did(other, half_bit::ACK_SEEN) && flow.hot.did(other, half_bit::SYN);
    // The first ACK determines the stream's start; bytes acknowledged since have been counted.
    let unseen = flow
        .cold
        .spill
        .as_ref()
        .map_or(0, |s| s.counters[side.index()].acked_unseen_bytes);
    let began = flow.hot.ack[other.index()].plus((unseen as u32).wrapping_neg());
    let is_known = told && (0..=NEAR).contains(&seq.distance(began));
    flow.start(side, if is_known { began } else { seq });
    if !is_known {
        flow.hot.put(flag::MIDSTREAM, true);
    }
}

/// Whether a segment has one repeated byte: a keep-alive, or a probe of a zero window (RFC 9293 §3.8.4, §3.8.6.1).
fn is_single_byte_probe(flow: &mut FlowMut<'_>, side: FlowSide, seq: TcpSeq) -> bool {
    let next = flow.hot.next[side.index()];
    let other = side.other();
    let heard = flow.hot.did(other, half_bit::ACK_SEEN);
    let closed = heard && flow.hot.window[other.index()] == 0;
    let distance = seq.distance(next);
    if distance == -1 && !flow.hot.is_ended(side) {
        let acknowledged = !heard || !flow.hot.ack[other.index()].before(next);
        if acknowledged || closed {
            flow.counters_mut(side).keep_alives += 1;
            return true;
        }
    }
    if distance == 0 && closed {
        flow.spill_mut().stream[side.index()] |= PROBED;
        flow.counters_mut(side).zero_window_probes += 1;
    }
    false
}

fn terminate(flow: &mut FlowMut<'_>, reason: CloseReason, cx: &mut SegmentContext<'_>) {
    flush_syn_data(flow, cx);
    cx.flush(flow);
    forget(flow, cx.budget);
    flow.hot.put(flag::TERMINATED, true);
    flow.cold.terminated = cx.now;
    cx.totals.terminated += 1;
    cx.events
        .push(cx.flow, FlowEvent::Terminated { reason, ts: cx.now });
}

fn count_straggler(
    flow: &mut FlowMut<'_>,
    side: FlowSide,
    tcp: &TcpInfo,
    len: u32,
    cx: &mut SegmentContext<'_>,
) {
    cx.totals.stragglers += 1;
    let sent_before = |flag, bit| tcp.flags.contains(flag) && flow.hot.did(side, bit);
    if len > 0 {
        let is_known = flow.core().has_bytes(side, tcp.seq, len);
        let counters = flow.counters_mut(side);
        counters.repeated_bytes += u64::from(len);
        let count = if is_known {
            &mut counters.retransmissions
        } else {
            &mut counters.stragglers
        };
        *count += 1;
    } else if sent_before(TcpFlags::SYN, half_bit::SYN) {
        flow.counters_mut(side).syn_retransmissions += 1;
    } else if sent_before(TcpFlags::FIN, half_bit::FIN) {
        flow.counters_mut(side).fin_retransmissions += 1;
    }
}

#[inline(always)]
fn check_side(flow: &mut FlowMut<'_>, side: FlowSide, cx: &mut SegmentContext<'_>) {
    if flow.core().is_busy(side) {
        give_up(flow, side, cx);
    }
}

#[inline(never)]
fn give_up(flow: &mut FlowMut<'_>, side: FlowSide, cx: &mut SegmentContext<'_>) {
    let before = repeats_of(flow, side);
    cx.on_stream(flow, side, |stream, out| stream.check(out));
    note_repeats(flow, side, before);
}
