//! Acceptance of segments before they change their flow: the checks of RFC 9293 §3.10.7 and RFC 5961, adapted to an
//! observer. An observer may lack packets, or see them earlier or later than their receiver; so where an endpoint
//! compares with one number, this compares with a range, and where an endpoint would send a challenge ACK, this waits
//! for the reaction of the others. Only judges; the consequences are applied elsewhere.

use wire::packet::TcpFlags;
use wire::{ChecksumStatus, FlowSide, Packet, TcpInfo, TcpSeq, Timestamp};

use crate::flow::FlowCore;
use crate::flow_layout::{flag, half_bit};

/// Effect of a segment on the flow of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentVerdict {
    /// The segment belongs to the connection and may change its state.
    Acceptable,
    /// The segment begins another connection on the same ports.
    OtherConnection,
    /// A SYN inside an open connection. An endpoint would not accept it (RFC 5961 §4); it is accepted here once the
    /// other end has answered it.
    SynUnconfirmed,
    /// A RST out of window (RFC 5961 §3).
    ResetOutOfWindow,
    /// The segment acknowledges bytes that were never sent (RFC 9293 §3.10.7.4, RFC 5961 §5).
    UnsentAcknowledged,
    /// The segment contradicts the connection, and its checksum is wrong.
    Damaged,
}

/// Distance within which missing or reordered packets explain a difference of numbers.
pub(crate) const NEAR: i32 = 1 << 20;
/// Maximum distance in bytes of a late acknowledgment: 134 ms at 1 Gb/s. Beyond it, further acknowledgments must confirm
/// that many bytes are missing in the capture.
pub(crate) const LATE_ACK: i32 = 1 << 24;
/// Maximum distance at which a late RST counts as in window.
const LATE_RESET: i32 = 1 << 16;
/// TCP's largest window (RFC 7323 §2.3).
pub(crate) const MAX_WINDOW: u32 = 1 << 30;
/// Minimum delay of a confirming packet with the same number: below it, it may be a copy.
const NO_COPY_NS: i64 = 1_000_000;
/// Maximum segment in an Ethernet frame. Longer ones may be several merged by an adapter under the checksum of one.
pub(crate) const FRAME_BYTES: usize = 1_480;

/// Judges a segment of `side`. `young`: the flow's first packet is so recent that this one may precede it.
pub(crate) fn judge(
    flow: FlowCore<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
    tcp: &TcpInfo,
    young: bool,
) -> SegmentVerdict {
    let is = |flags| tcp.flags.intersects(flags);
    if is_next(flow, side, tcp, packet.payload_original_len) {
        return SegmentVerdict::Acceptable;
    }
    let opens = is(TcpFlags::SYN) && !is(TcpFlags::RST);
    if is_damaged(flow, side, packet, tcp) {
        SegmentVerdict::Damaged
    } else if opens {
        judge_syn(flow, side, tcp, young)
    } else if flow.is_terminated() {
        SegmentVerdict::Acceptable
    } else if is(TcpFlags::RST) {
        if is_reset_in_window(flow, side, tcp) {
            SegmentVerdict::Acceptable
        } else {
            SegmentVerdict::ResetOutOfWindow
        }
    } else if is(TcpFlags::ACK) && !is_acknowledgment_credible(flow, side, packet, tcp) {
        SegmentVerdict::UnsentAcknowledged
    } else {
        SegmentVerdict::Acceptable
    }
}

/// Whether a segment is the expected next one: in order, acknowledging only sent bytes. True for nearly all.
fn is_next(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo, len: u32) -> bool {
    const SPECIAL: TcpFlags = TcpFlags(0x17); // ACK, RST, SYN, FIN
    let hot = flow.hot;
    let at = side.index();
    let other = side.other();
    let advance = tcp.ack.distance(hot.ack[at]);
    tcp.flags.0 & SPECIAL.0 == TcpFlags::ACK.0
        && (len == 0 || tcp.seq == hot.next[at])
        && hot.did(side, half_bit::ACK_SEEN)
        && hot.is_started(other)
        && advance as u32 <= MAX_WINDOW
        && !hot.next[other.index()].before(tcp.ack)
}

/// Whether a contradictory segment has a wrong checksum. Checked only for a side with correct checksums so far: some
/// adapters complete them after the capture, and some captures are rewritten.
fn is_damaged(flow: FlowCore<'_>, side: FlowSide, packet: &Packet<'_>, tcp: &TcpInfo) -> bool {
    flow.hot.has(flag::CHECKED << side.index())
        && packet.segment.len() <= FRAME_BYTES
        && contradicts(flow, side, tcp, packet.payload_original_len)
        && packet.verify_checksum() == ChecksumStatus::Wrong
}

/// Whether a segment is not a continuation, possibly after holes: it opens or ends something, repeats, lies
/// elsewhere, or acknowledges unseen bytes.
fn contradicts(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo, len: u32) -> bool {
    let hot = flow.hot;
    let at = side.index();
    let other = side.other();
    let is_special = tcp
        .flags
        .intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
    let is_ahead = |seq| hot.is_started(other) && flow.highest_seq(other).before(seq);
    is_special
        || tcp.ack.before(hot.ack[at])
        || len > 0 && !goes_on(flow, side, tcp.seq)
        || is_ahead(tcp.ack)
}

/// Whether a segment continues its side's stream, possibly after holes.
fn goes_on(flow: FlowCore<'_>, side: FlowSide, seq: TcpSeq) -> bool {
    seq == flow.hot.next[side.index()] || seq == flow.highest_seq(side)
}

/// Whether a segment lies within TCP's largest window. One outside may be the first of a stream that continues
/// elsewhere, so its bytes are examined; its acknowledgment is not.
pub(crate) fn is_in_reach(flow: FlowCore<'_>, side: FlowSide, seq: TcpSeq) -> bool {
    let distance = seq.distance(flow.hot.next[side.index()]);
    !flow.hot.is_started(side) || distance.unsigned_abs() <= MAX_WINDOW
}

fn judge_syn(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo, young: bool) -> SegmentVerdict {
    if is_own_syn(flow, side, tcp, young) {
        SegmentVerdict::Acceptable
    } else if flow.is_terminated() || !is_alive(flow, side) {
        SegmentVerdict::OtherConnection
    } else {
        SegmentVerdict::SynUnconfirmed
    }
}

/// Whether a connection has more than SYNs of one side, which are attempts, each superseding the previous.
fn is_alive(flow: FlowCore<'_>, side: FlowSide) -> bool {
    flow.packets(side.other()) > 0
        || flow.hot.did(side, half_bit::ACK_SEEN)
        || flow.unique_bytes(side) > 0
}

/// Whether a SYN or SYN-ACK can be the one with which `side` opened this connection.
fn is_own_syn(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo, young: bool) -> bool {
    let hot = flow.hot;
    let other = side.other();
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

/// Whether a SYN-ACK acknowledges exactly the other side's SYN and its data (RFC 9293 §3.10.7.3).
fn answers_syn(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo, young: bool) -> bool {
    let hot = flow.hot;
    let other = side.other();
    if !hot.is_started(other) {
        return flow.packets(other) == 0 || young;
    }
    let ahead = tcp.ack.distance(flow.start_seq(other));
    if hot.did(other, half_bit::SYN) {
        let sent = hot.next[other.index()].plus(flow.bytes_of_syn(other));
        return ahead >= 0 && tcp.ack.distance(sent) <= 0;
    }
    // Without the SYN its number is derived from later segments, possibly not the first.
    (0..=NEAR).contains(&ahead) || young && (-NEAR..0).contains(&ahead)
}

/// Another SYN-ACK to the same SYN before the handshake is complete: the server has lost its first state.
fn is_second_answer(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo) -> bool {
    let other = side.other();
    tcp.flags.contains(TcpFlags::ACK)
        && !flow.hot.has(flag::HANDSHAKE_DONE)
        && flow.hot.is_started(other)
        && flow.start_seq(other) == tcp.ack
        && flow.is_untouched(side)
}

/// Whether a RST is near its sender's next byte or the other side's acknowledgment: at most as late as a packet may
/// be, or as far ahead as bytes may be missing in the capture. A RST of an unseen sender, which rejects a SYN, must
/// acknowledge that SYN (RFC 9293 §3.10.7.3).
fn is_reset_in_window(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo) -> bool {
    let hot = flow.hot;
    let other = side.other();
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

/// Whether the other side can have sent the acknowledged bytes. Missing bytes are acknowledged, too; but if they
/// would be many, or the previous acknowledgment was wrong, a second segment must confirm it, or the segment must be
/// verified.
fn is_acknowledgment_credible(
    flow: FlowCore<'_>,
    side: FlowSide,
    packet: &Packet<'_>,
    tcp: &TcpInfo,
) -> bool {
    let hot = flow.hot;
    let at = side.index();
    let other = side.other();
    let heard = hot.did(side, half_bit::ACK_SEEN).then_some(hot.ack[at]);
    let sent = hot.is_started(other).then(|| flow.highest_seq(other));
    if sent.is_some() && hot.did(other, half_bit::SYN) && is_before_start(flow, other, tcp.ack) {
        return false;
    }
    let later = |a: TcpSeq, b: TcpSeq| if a.before(b) { b } else { a };
    let known = heard.into_iter().chain(sent).reduce(later);
    let most = NEAR + flow.bytes_of_syn(other) as i32;
    let is_late = heard.is_some_and(|heard| tcp.ack.distance(heard) < -LATE_ACK);
    // A direction without captured packets may have sent any number of bytes.
    let is_seen = flow.packets(other) > 0;
    let is_early = is_seen && known.is_some_and(|known| tcp.ack.distance(known) > most);
    // An attacker cannot guess the sequence number as well, and damage does not leave the checksum valid.
    let is_sound =
        || goes_on(flow, side, tcp.seq) && packet.verify_checksum() == ChecksumStatus::Right;
    !is_late && (!is_early || is_sound()) || confirms_doubted(flow, side, tcp, packet.ts)
}

/// Whether a number precedes the known start of a stream.
pub(crate) fn is_before_start(flow: FlowCore<'_>, side: FlowSide, seq: TcpSeq) -> bool {
    let (pos, _) = flow.place(side);
    pos + i64::from(seq.distance(flow.next_byte(side))) < 0
}

/// Whether the previous rejected segment had nearly the same acknowledgment, and this is no copy of it.
fn confirms_doubted(flow: FlowCore<'_>, side: FlowSide, tcp: &TcpInfo, ts: Timestamp) -> bool {
    let doubted = flow
        .cold
        .spill
        .as_ref()
        .and_then(|spill| spill.doubted[side.index()]);
    doubted.is_some_and(|(ack, since)| {
        let ahead = tcp.ack.distance(ack);
        (1..=NEAR).contains(&ahead) || ahead == 0 && ts.since(since) > NO_COPY_NS
    })
}
