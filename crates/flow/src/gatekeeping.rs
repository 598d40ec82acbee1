//! Whether a segment may say what it says, before anything of its flow changes: the checks of RFC 9293 §3.10.7 and RFC
//! 5961, as far as an observer can make them. He may lack packets, and have others earlier or later than their receiver
//! had them; so where an end compares with one number, a range is compared with here, and where an end would ask back
//! (challenge ACK), the observer waits for who answers what. Judges only: what follows from a verdict is done elsewhere.

use wire::packet::TcpFlags;
use wire::{Checksum, Packet, Side, TcpInfo, TcpSeq, Timestamp};

use crate::flow::FlowCore;
use crate::record::{flag, half_bit};
use crate::unconfirmed;

/// What a segment may do to the flow that its ports name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It belongs to the connection, and may change its state.
    Acceptable,
    /// It begins another connection on the same ports.
    OtherConnection,
    /// It asks for another connection inside of one that is alive. An end would not believe that (RFC 5961 §4); it is
    /// believed here when the other end has answered it.
    SynUnconfirmed,
    /// A RST out of window (RFC 5961 §3).
    ResetOutOfWindow,
    /// It acknowledges what the other end has never sent (RFC 9293 §3.10.7.4, RFC 5961 §5).
    UnsentAcknowledged,
    /// It contradicts what is known, and its checksum says why.
    Damaged,
}

/// Two numbers are near each other when captures that lack some packets, or have them in another order, explain it.
pub(crate) const NEAR: i32 = 1 << 20;
/// An acknowledgment is captured late by no more than this: what 1 Gb/s brings in 134 ms. Others do not follow to confirm it,
/// as they do where many bytes are missing in the capture.
pub(crate) const LATE_ACK: i32 = 1 << 24;
/// A RST that was overtaken by this much is taken for one in window.
const LATE_RESET: i32 = 1 << 16;
/// TCP's largest window (RFC 7323 §2.3).
pub(crate) const MAX_WINDOW: u32 = 1 << 30;
/// How much later than the first a packet must be that confirms it with the same number: it is no copy then.
const NO_COPY_NS: i64 = 1_000_000;
/// Segments longer than an Ethernet frame's may be several that an adapter has merged under the checksum of one.
const FRAME_BYTES: usize = 1_480;

/// Judges a segment of `side`. `young`: the flow's first packet is so near that this one may belong before it.
pub(crate) fn judge(
    flow: FlowCore<'_>,
    side: Side,
    (packet, tcp): (&Packet<'_>, &TcpInfo),
    young: bool,
) -> Verdict {
    let is = |flags| tcp.flags.intersects(flags);
    if is_next(flow, side, tcp, packet.payload_original_len) {
        return Verdict::Acceptable;
    }
    let opens = is(TcpFlags::SYN) && !is(TcpFlags::RST);
    if is_damaged(flow, side, packet, tcp) {
        Verdict::Damaged
    } else if opens {
        judge_syn(flow, side, tcp, young)
    } else if flow.is_terminated() {
        Verdict::Acceptable
    } else if is(TcpFlags::RST) {
        if is_reset_in_window(flow, side, tcp) { Verdict::Acceptable } else { Verdict::ResetOutOfWindow }
    } else if is(TcpFlags::ACK) && !is_acknowledgment_credible(flow, side, packet, tcp) {
        Verdict::UnsentAcknowledged
    } else {
        Verdict::Acceptable
    }
}

/// Whether a segment is what is expected next of its side: in order, and acknowledging what was sent. Nearly all are.
fn is_next(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo, len: u32) -> bool {
    const SPECIAL: TcpFlags = TcpFlags(0x17); // ACK, RST, SYN, FIN
    let (hot, at, other) = (flow.hot, side.index(), side.other());
    let advance = tcp.ack.distance(hot.ack[at]);
    tcp.flags.0 & SPECIAL.0 == TcpFlags::ACK.0
        && (len == 0 || tcp.seq == hot.next[at])
        && hot.did(side, half_bit::ACK_SEEN)
        && hot.is_started(other)
        && advance as u32 <= MAX_WINDOW
        && !hot.next[other.index()].before(tcp.ack)
}

/// Whether the checksum of a segment that contradicts what is known says that bits are wrong. Asked only of a side whose
/// checksums have been right: some adapters leave them to be filled in behind the capture, some captures are rewritten.
fn is_damaged(flow: FlowCore<'_>, side: Side, packet: &Packet<'_>, tcp: &TcpInfo) -> bool {
    flow.hot.has(flag::CHECKED << side.index())
        && packet.segment.len() <= FRAME_BYTES
        && contradicts(flow, side, tcp, packet.payload_original_len)
        && packet.verify_checksum() == Checksum::Wrong
}

/// Whether a segment is no continuation of what was seen, behind holes perhaps: it opens or ends something, comes
/// again, lies elsewhere, or acknowledges what was not seen.
fn contradicts(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo, len: u32) -> bool {
    let (hot, at, other) = (flow.hot, side.index(), side.other());
    let is_special = tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
    let is_ahead = |seq| hot.is_started(other) && flow.highest_seq(other).before(seq);
    is_special || tcp.ack.before(hot.ack[at]) || len > 0 && !goes_on(flow, side, tcp.seq) || is_ahead(tcp.ack)
}

/// Whether a segment continues what was seen of its side, behind holes perhaps.
fn goes_on(flow: FlowCore<'_>, side: Side, seq: TcpSeq) -> bool {
    seq == flow.hot.next[side.index()] || seq == flow.highest_seq(side)
}

/// Whether a segment lies where TCP's largest window may reach. One that does not may still be the first of a
/// stream that goes on elsewhere, so its bytes are looked at; what it acknowledges is not.
pub(crate) fn is_in_reach(flow: FlowCore<'_>, side: Side, seq: TcpSeq) -> bool {
    let distance = seq.distance(flow.hot.next[side.index()]);
    !flow.hot.is_started(side) || distance.unsigned_abs() <= MAX_WINDOW
}

fn judge_syn(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo, young: bool) -> Verdict {
    if is_own_syn(flow, side, tcp, young) {
        Verdict::Acceptable
    } else if flow.is_terminated() || !is_alive(flow, side) {
        Verdict::OtherConnection
    } else {
        Verdict::SynUnconfirmed
    }
}

/// Whether more was seen of a connection than SYNs of one side: those are tries, each new one makes the ones before void.
fn is_alive(flow: FlowCore<'_>, side: Side) -> bool {
    flow.packets(side.other()) > 0 || flow.hot.did(side, half_bit::ACK_SEEN) || flow.unique_bytes(side) > 0
}

/// Whether a SYN or SYN-ACK can be the one with which `side` has opened this connection.
fn is_own_syn(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo, young: bool) -> bool {
    let (hot, other) = (flow.hot, side.other());
    let begins = tcp.seq.plus(1);
    let late = |known: TcpSeq| young && (0..=NEAR).contains(&known.distance(begins));
    let is_answer = tcp.flags.contains(TcpFlags::ACK);
    if is_answer && !answers_syn(flow, side, tcp, young) {
        return false;
    }
    if hot.is_started(side) {
        let is_the_same = flow.start_seq(side) == begins;
        return is_the_same
            || !flow.is_terminated()
                && if hot.did(side, half_bit::SYN) {
                    is_second_answer(flow, side, tcp)
                } else {
                    late(flow.start_seq(side))
                };
    }
    let heard = hot.ack[other.index()];
    !flow.is_terminated()
        && (is_answer || !hot.did(other, half_bit::ACK_SEEN) || heard == begins || late(heard))
}

/// Whether a SYN-ACK acknowledges the other side's SYN: that and what came with it, no other number (RFC 9293
/// §3.10.7.3).
fn answers_syn(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo, young: bool) -> bool {
    let (hot, other) = (flow.hot, side.other());
    if !hot.is_started(other) {
        return flow.packets(other) == 0 || young;
    }
    let ahead = tcp.ack.distance(flow.start_seq(other));
    if hot.did(other, half_bit::SYN) {
        let sent = hot.next[other.index()].plus(unconfirmed::bytes_of_syn(flow, other));
        return ahead >= 0 && tcp.ack.distance(sent) <= 0;
    }
    // Without the SYN its number is known from what came after it: perhaps from later bytes.
    (0..=NEAR).contains(&ahead) || young && (-NEAR..0).contains(&ahead)
}

/// Another SYN-ACK to the same SYN before the handshake is done: the server has forgotten its first.
fn is_second_answer(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo) -> bool {
    let other = side.other();
    tcp.flags.contains(TcpFlags::ACK)
        && !flow.hot.has(flag::HANDSHAKE_DONE)
        && flow.hot.is_started(other)
        && flow.start_seq(other) == tcp.ack
        && flow.is_untouched(side)
}

/// Near what its sender would send next or what the other side waits for: behind that by no more than a packet may be late,
/// before it by no more than may be missing in the capture. A sender of whom nothing is known (it refuses a SYN) must
/// acknowledge that SYN (RFC 9293 §3.10.7.3).
fn is_reset_in_window(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo) -> bool {
    let (hot, other) = (flow.hot, side.other());
    let near = |seq: TcpSeq| (-LATE_RESET..=NEAR).contains(&tcp.seq.distance(seq));
    let heard = hot.did(other, half_bit::ACK_SEEN);
    if heard && near(hot.ack[other.index()]) {
        return true;
    }
    if hot.is_started(side) && flow.packets(side) > 1 {
        return near(hot.next[side.index()]);
    }
    if tcp.flags.contains(TcpFlags::ACK) && hot.is_started(other) {
        return (0..=NEAR).contains(&tcp.ack.distance(flow.start_seq(other)));
    }
    !heard
}

/// Whether the other side can have sent what is acknowledged. Bytes that the capture lacks are acknowledged, too; but where
/// that would be many, or what was heard before was wrong, it takes a second segment that says so, or a sound one.
fn is_acknowledgment_credible(flow: FlowCore<'_>, side: Side, packet: &Packet<'_>, tcp: &TcpInfo) -> bool {
    let (hot, at, other) = (flow.hot, side.index(), side.other());
    let heard = hot.did(side, half_bit::ACK_SEEN).then_some(hot.ack[at]);
    let sent = hot.is_started(other).then(|| flow.highest_seq(other));
    if sent.is_some() && hot.did(other, half_bit::SYN) && is_before_start(flow, other, tcp.ack) {
        return false;
    }
    let later = |a: TcpSeq, b: TcpSeq| if a.before(b) { b } else { a };
    let known = heard.into_iter().chain(sent).reduce(later);
    let most = NEAR + unconfirmed::bytes_of_syn(flow, other) as i32;
    let is_late = heard.is_some_and(|heard| tcp.ack.distance(heard) < -LATE_ACK);
    // A direction without captured packets may have sent any number of bytes.
    let is_seen = flow.packets(other) > 0;
    let is_early = is_seen && known.is_some_and(|known| tcp.ack.distance(known) > most);
    // An attacker cannot guess the sequence number as well, and damage does not leave the checksum valid.
    let is_sound = || goes_on(flow, side, tcp.seq) && packet.verify_checksum() == Checksum::Right;
    !is_late && (!is_early || is_sound()) || confirms_doubted(flow, side, tcp, packet.ts)
}

/// Whether a number is none of a stream whose first is known.
pub(crate) fn is_before_start(flow: FlowCore<'_>, side: Side, seq: TcpSeq) -> bool {
    let (pos, _) = flow.place(side);
    pos + i64::from(seq.distance(flow.next_byte(side))) < 0
}

/// Whether the segment before that was not believed acknowledged nearly the same, and this is no copy of it.
fn confirms_doubted(flow: FlowCore<'_>, side: Side, tcp: &TcpInfo, ts: Timestamp) -> bool {
    let doubted = flow.cold.spill.as_ref().and_then(|spill| spill.doubted[side.index()]);
    doubted.is_some_and(|(ack, since)| {
        let ahead = tcp.ack.distance(ack);
        (1..=NEAR).contains(&ahead) || ahead == 0 && ts.since(since) > NO_COPY_NS
    })
}
