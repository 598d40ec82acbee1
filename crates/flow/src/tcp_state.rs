//! What a TCP segment means to its flow: handshake, acknowledgments, FIN and RST, and whether a SYN begins another
//! connection (RFC 9293 §3). The bytes go to `reassembly`. Observes, as a capture may be imperfect: what an end
//! would refuse is counted and ignored, what is missing is inferred from what the other end says.

use wire::packet::TcpFlags;
use wire::{Packet, Side, TcpInfo, TcpSeq, Timestamp};

use crate::flow::{FlowCore, flow_bit, half_bit};
use crate::metrics::{Counters, Letter};
use crate::reassembly::{Budget, Outlet, Patience, Segment};
use crate::{CloseReason, Events, FlowEvent, FlowIdx};

/// What a call works with besides the flow.
pub(crate) struct Context<'a> {
    pub events: &'a mut Events,
    pub flow: FlowIdx,
    pub reassemble: bool,
    pub patience: Patience,
    pub budget: &'a mut Budget,
    pub totals: &'a mut Counters,
    pub now: Timestamp,
}

/// A RST, and a SYN that comes late, may be this far from where they are expected.
const NEAR: i32 = 1 << 20;

impl Context<'_> {
    /// The outlet for what `side` sends.
    fn outlet<'b>(
        &'b mut self,
        flow: &'b mut FlowCore,
        side: Side,
    ) -> (&'b mut crate::flow::Half, Outlet<'b>) {
        let deliver = self.reassemble && flow.bits & flow_bit::IGNORED == 0;
        let [a, b] = &mut flow.halves;
        let (half, other) = if side == Side::A { (a, b) } else { (b, a) };
        let acked = (other.bits & half_bit::ACK_SEEN != 0).then_some(other.ack);
        let out = Outlet {
            events: &mut *self.events,
            flow: self.flow,
            side,
            deliver,
            now: self.now,
            acked,
            patience: self.patience,
            budget: &mut *self.budget,
            counters: &mut flow.counters,
            totals: &mut *self.totals,
        };
        (half, out)
    }
}

/// Takes in one segment of a live flow.
#[inline]
pub(crate) fn on_segment(
    flow: &mut FlowCore,
    side: Side,
    (packet, tcp): (&Packet<'_>, &TcpInfo),
    cx: &mut Context<'_>,
) {
    let len = packet.payload_original_len;
    flow.note(side, tcp, len);
    if flow.is_terminated() {
        return count_straggler(flow, side, (tcp, len), cx);
    }
    let special = tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
    if special && tcp.flags.contains(TcpFlags::RST) {
        return on_rst(flow, side, tcp, cx);
    }
    if special && tcp.flags.contains(TcpFlags::SYN) && !on_syn(flow, side, tcp, cx) {
        return;
    }
    if tcp.flags.contains(TcpFlags::ACK) {
        on_ack(flow, side, (packet, tcp), cx);
    }
    check_side(flow, side.other(), cx);
    if len > 0 || tcp.flags.contains(TcpFlags::FIN) {
        on_payload(flow, side, (packet, tcp), cx);
    }
    check_side(flow, side, cx);
    if flow.half(side).stream.is_ended() && flow.half(side.other()).stream.is_ended() {
        terminate(flow, CloseReason::Fin, cx);
    }
}

/// Gives up on what both sides miss for too long.
pub(crate) fn check(flow: &mut FlowCore, cx: &mut Context<'_>) {
    if !flow.is_terminated() {
        check_side(flow, Side::A, cx);
        check_side(flow, Side::B, cx);
        if flow.half(Side::A).stream.is_ended() && flow.half(Side::B).stream.is_ended() {
            terminate(flow, CloseReason::Fin, cx);
        }
    }
}

/// When [`check`] will have something to do.
pub(crate) fn deadline(flow: &FlowCore, patience: Patience) -> Option<Timestamp> {
    flow.halves.iter().filter_map(|half| half.stream.deadline(patience)).min()
}

/// The flow leaves the table: delivers what waits. A FIN in a capture that lacks the other direction altogether
/// terminates it now.
pub(crate) fn on_close(flow: &mut FlowCore, cx: &mut Context<'_>) {
    if flow.is_terminated() || !flow.is_tcp() {
        return;
    }
    for side in [Side::A, Side::B] {
        let (half, mut out) = cx.outlet(flow, side);
        half.stream.flush(&mut out);
    }
    let over = |side: Side| flow.half(side).stream.is_ended() || flow.packets(side) == 0;
    if over(Side::A) && over(Side::B) {
        terminate(flow, CloseReason::Fin, cx);
    }
}

/// Whether a SYN or SYN-ACK of `side` cannot belong to this flow: its ports are used again.
pub(crate) fn is_another_connection(flow: &FlowCore, side: Side, tcp: &TcpInfo, young: bool) -> bool {
    let (own, other) = (flow.half(side), flow.half(side.other()));
    let begins = tcp.seq.plus(1);
    let late = |known: TcpSeq| young && (0..=NEAR).contains(&known.distance(begins));
    if own.stream.is_started() {
        if own.stream.start_seq() == begins {
            return false;
        }
        if own.bits & half_bit::SYN != 0 {
            return flow.is_terminated() || !is_second_answer(flow, side, tcp);
        }
        return flow.is_terminated() || !late(own.stream.start_seq());
    }
    if flow.is_terminated() {
        return true;
    }
    if tcp.flags.contains(TcpFlags::ACK) {
        let in_reply = |start: TcpSeq| (0..=NEAR).contains(&tcp.ack.distance(start));
        let known = other.stream.is_started();
        let fits = in_reply(other.stream.start_seq()) || (young && late_reply(other.stream.start_seq(), tcp));
        return if known { !fits } else { other.packets > 0 && !young };
    }
    other.bits & half_bit::ACK_SEEN != 0 && other.ack != begins && !late(other.ack)
}

/// A SYN-ACK that came after the data it should precede in the file.
fn late_reply(start: TcpSeq, tcp: &TcpInfo) -> bool {
    (0..=NEAR).contains(&start.distance(tcp.ack))
}

/// Another SYN-ACK to the same SYN before the handshake is done: the server has forgotten its first.
fn is_second_answer(flow: &FlowCore, side: Side, tcp: &TcpInfo) -> bool {
    let other = flow.half(side.other());
    tcp.flags.contains(TcpFlags::ACK)
        && !flow.has(flow_bit::HANDSHAKE_DONE)
        && other.stream.is_started()
        && other.stream.start_seq() == tcp.ack
        && flow.half(side).stream.is_untouched()
}

/// Notes a SYN or SYN-ACK; false when it is not believed.
fn on_syn(flow: &mut FlowCore, side: Side, tcp: &TcpInfo, cx: &mut Context<'_>) -> bool {
    let begins = tcp.seq.plus(1);
    let is_answer = tcp.flags.contains(TcpFlags::ACK);
    let own = flow.half_mut(side);
    if own.stream.is_started() && own.stream.start_seq() != begins {
        if !own.stream.is_untouched() && own.bits & half_bit::SYN != 0 {
            flow.counters_mut(side).implausible += 1;
            cx.totals.implausible += 1;
            return false;
        }
        if own.stream.is_untouched() {
            own.stream.start(begins);
        }
    } else if !own.stream.is_started() {
        own.stream.start(begins);
    }
    let again = own.bits & half_bit::SYN != 0;
    own.bits |= half_bit::SYN;
    if again {
        flow.counters_mut(side).control_retransmissions += 1;
    }
    let other = flow.half_mut(side.other());
    if is_answer && !other.stream.is_started() {
        other.stream.start(tcp.ack);
        other.bits |= half_bit::SYN_IMPLIED;
    }
    name_client(flow, side, is_answer, cx.now);
    true
}

/// The first SYN names the client; a SYN-ACK does as long as there was none.
fn name_client(flow: &mut FlowCore, side: Side, is_answer: bool, ts: Timestamp) {
    let time = if is_answer { &mut flow.times.syn_ack } else { &mut flow.times.syn };
    if *time == Timestamp::MIN {
        *time = ts;
    }
    if !flow.has(flow_bit::CLIENT_BY_SYN) {
        flow.put_client(if is_answer { side.other() } else { side });
        flow.bits &= !(flow_bit::CLIENT_GUESSED | flow_bit::MIDSTREAM);
        flow.bits |= flow_bit::CLIENT_BY_SYN;
    }
}

/// Acknowledgments: how far the other side's bytes have come, and what that says of bytes not seen.
#[inline]
fn on_ack(flow: &mut FlowCore, side: Side, (packet, tcp): (&Packet<'_>, &TcpInfo), cx: &mut Context<'_>) {
    let [a, b] = &mut flow.halves;
    let (own, other) = if side == Side::A { (a, b) } else { (b, a) };
    let first = own.bits & half_bit::ACK_SEEN == 0;
    let advance = if first { 0 } else { tcp.ack.distance(own.ack) };
    let repeats = !first && advance == 0 && tcp.window == own.window;
    own.bits |= half_bit::ACK_SEEN;
    own.window = tcp.window;
    if first || (1..=1 << 30).contains(&advance) {
        own.ack = tcp.ack;
    }
    if !other.stream.is_started() {
        if advance > 0 {
            flow.counters_mut(side.other()).acked_unseen_bytes += advance as u64;
        }
    } else {
        let ahead = own.ack.distance(other.stream.next());
        if ahead > 0 {
            other.stream.acknowledged_beyond(own.ack, first || advance > 0, cx.now);
        }
        let pure = packet.payload_original_len == 0 && tcp.flags.0 & 7 == 0;
        if pure && tcp.seq.plus(1) == own.stream.next() && own.stream.is_started() && !own.stream.is_ended() {
            flow.counters_mut(side).keep_alives += 1;
        } else if repeats && pure && (ahead < 0 || other.stream.is_busy()) {
            flow.counters_mut(side).duplicate_acks += 1;
        }
    }
    if tcp.window == 0 && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN) {
        flow.counters_mut(side).zero_windows += 1;
        flow.note_letter(side, Letter::ZERO_WINDOW);
    }
    if !flow.has(flow_bit::HANDSHAKE_DONE) {
        check_handshake(flow, cx.now);
    }
}

/// The handshake is done when both SYNs are acknowledged, however they crossed.
fn check_handshake(flow: &mut FlowCore, ts: Timestamp) {
    let acknowledged = |side: Side| {
        let (own, other) = (flow.half(side), flow.half(side.other()));
        own.bits & (half_bit::SYN | half_bit::SYN_IMPLIED) != 0
            && other.bits & half_bit::ACK_SEEN != 0
            && !other.ack.before(own.stream.start_seq())
    };
    if acknowledged(Side::A) && acknowledged(Side::B) {
        flow.bits |= flow_bit::HANDSHAKE_DONE;
        flow.times.handshake_done = ts;
    }
}

/// Payload and FIN.
#[inline]
fn on_payload(flow: &mut FlowCore, side: Side, (packet, tcp): (&Packet<'_>, &TcpInfo), cx: &mut Context<'_>) {
    let syn = u32::from(tcp.flags.contains(TcpFlags::SYN));
    let seq = tcp.seq.plus(syn);
    let fin = tcp.flags.contains(TcpFlags::FIN);
    let len = packet.payload_original_len;
    if !flow.half(side).stream.is_started() {
        start_midway(flow, side, seq);
    }
    if len == 1 && !fin && is_single_byte_probe(flow, side, seq) {
        return;
    }
    if fin {
        on_fin(flow, side, packet);
    }
    let before = repeats_of(flow, side);
    let (half, mut out) = cx.outlet(flow, side);
    half.stream.accept(&Segment { seq, len, payload: packet.payload, fin, ts: packet.ts }, &mut out);
    if flow.counters.is_some() {
        note_repeats(flow, side, before);
    }
}

/// The stream will say when the FIN is reached; this is when it was first seen.
fn on_fin(flow: &mut FlowCore, side: Side, packet: &Packet<'_>) {
    let half = flow.half_mut(side);
    let again = half.bits & half_bit::FIN != 0;
    half.bits |= half_bit::FIN;
    if !again {
        flow.times.fins[side.index()] = packet.ts;
    } else if packet.payload_original_len == 0 {
        flow.counters_mut(side).control_retransmissions += 1;
    }
}

fn repeats_of(flow: &FlowCore, side: Side) -> (u32, u32) {
    flow.counters.as_ref().map_or((0, 0), |c| (c[side.index()].retransmissions, c[side.index()].gaps))
}

/// Zeek's letters for a retransmission and a gap.
fn note_repeats(flow: &mut FlowCore, side: Side, before: (u32, u32)) {
    let after = repeats_of(flow, side);
    if after.0 > before.0 {
        flow.note_letter(side, Letter::RETRANSMISSION);
    }
    if after.1 > before.1 {
        flow.note_letter(side, Letter::GAP);
    }
}

/// A direction without SYN begins at its first byte; if the other side's SYN was seen, at what that side has
/// acknowledged first, so that bytes lost before are a gap.
fn start_midway(flow: &mut FlowCore, side: Side, seq: TcpSeq) {
    let other = flow.half(side.other());
    let told = other.bits & half_bit::ACK_SEEN != 0 && other.bits & half_bit::SYN != 0;
    // The first ACK says where the stream began; what was acknowledged since has been counted.
    let unseen = flow.counters.as_ref().map_or(0, |c| c[side.index()].acked_unseen_bytes);
    let began = other.ack.plus((unseen as u32).wrapping_neg());
    let start = if told && (1..=NEAR).contains(&seq.distance(began)) { began } else { seq };
    flow.half_mut(side).stream.start(start);
}

/// One byte that is no news: a keep-alive, or a probe of a zero window (RFC 9293 §3.8.4, §3.8.6.1).
fn is_single_byte_probe(flow: &mut FlowCore, side: Side, seq: TcpSeq) -> bool {
    let (own, other) = (flow.half(side), flow.half(side.other()));
    let heard = other.bits & half_bit::ACK_SEEN != 0;
    let closed = heard && other.window == 0;
    let distance = seq.distance(own.stream.next());
    if distance == -1 && !own.stream.is_ended() {
        let acknowledged = !heard || !other.ack.before(own.stream.next());
        if acknowledged || closed {
            flow.counters_mut(side).keep_alives += 1;
            return true;
        }
    }
    if distance == 0 && closed {
        flow.half_mut(side).stream.expect_probe();
        flow.counters_mut(side).zero_window_probes += 1;
    }
    false
}

/// A RST ends the flow if it is in window; its payload, if any, is no stream data (RFC 9293 §3.10.7.4).
fn on_rst(flow: &mut FlowCore, side: Side, tcp: &TcpInfo, cx: &mut Context<'_>) {
    if !is_rst_in_window(flow, side, tcp) {
        flow.counters_mut(side).implausible += 1;
        cx.totals.resets_ignored += 1;
        return;
    }
    flow.half_mut(side).bits |= half_bit::RST;
    flow.times.rst = cx.now;
    if side == Side::B {
        flow.bits |= flow_bit::RST_BY_B;
    }
    terminate(flow, CloseReason::Rst, cx);
}

/// Near what its sender would send next or what the other side waits for; a sender of whom nothing is known (it
/// refuses a SYN) must acknowledge that SYN (RFC 9293 §3.10.7.3).
fn is_rst_in_window(flow: &FlowCore, side: Side, tcp: &TcpInfo) -> bool {
    let (own, other) = (flow.half(side), flow.half(side.other()));
    let near = |seq: TcpSeq| (-NEAR..=NEAR).contains(&tcp.seq.distance(seq));
    if other.bits & half_bit::ACK_SEEN != 0 && near(other.ack) {
        return true;
    }
    if own.stream.is_started() && own.packets > 1 {
        return near(own.stream.next());
    }
    if tcp.flags.contains(TcpFlags::ACK) && other.stream.is_started() {
        return (0..=NEAR).contains(&tcp.ack.distance(other.stream.start_seq()));
    }
    other.bits & half_bit::ACK_SEEN == 0
}

fn terminate(flow: &mut FlowCore, reason: CloseReason, cx: &mut Context<'_>) {
    for side in [Side::A, Side::B] {
        let (half, mut out) = cx.outlet(flow, side);
        half.stream.flush(&mut out);
        half.stream.forget(out.budget);
    }
    flow.bits |= flow_bit::TERMINATED;
    flow.times.terminated = cx.now;
    cx.totals.terminated += 1;
    cx.events.push(cx.flow, FlowEvent::Terminated { reason, ts: cx.now });
}

fn count_straggler(flow: &mut FlowCore, side: Side, (tcp, len): (&TcpInfo, u32), cx: &mut Context<'_>) {
    cx.totals.stragglers += 1;
    let sent_before = |flag, bit| tcp.flags.contains(flag) && flow.half(side).bits & bit != 0;
    if len == 0 && (sent_before(TcpFlags::SYN, half_bit::SYN) || sent_before(TcpFlags::FIN, half_bit::FIN)) {
        flow.counters_mut(side).control_retransmissions += 1;
    }
    if len > 0 {
        let counters = flow.counters_mut(side);
        counters.stragglers += 1;
        counters.repeated_bytes += u64::from(len);
    }
}

#[inline]
fn check_side(flow: &mut FlowCore, side: Side, cx: &mut Context<'_>) {
    if flow.half(side).stream.is_busy() {
        let before = repeats_of(flow, side);
        let (half, mut out) = cx.outlet(flow, side);
        half.stream.check(&mut out);
        note_repeats(flow, side, before);
    }
}
