//! Counters of one side of a flow and of the whole table; and Zeek's summaries of a connection, `conn_state` and
//! `history`.

use wire::FlowSide;
use wire::packet::TcpFlags;

use crate::CloseReason;

/// Irregularities of the packets of one side. All zero for most flows, which therefore store none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Segments with bytes seen before.
    pub retransmissions: u32,
    /// Retransmitted SYNs and SYN-ACKs.
    pub syn_retransmissions: u32,
    /// Retransmitted FINs without payload.
    pub fin_retransmissions: u32,
    /// Copies made by a mirror; not included in other counts.
    pub duplicates: u32,
    /// Segments that arrived after a higher one and filled a hole.
    pub out_of_order: u32,
    /// Gaps; those caused by the snaplen are only in `cut_bytes`.
    pub gaps: u32,
    /// Times the stream continued at a position that no gap explains.
    pub resyncs: u32,
    /// Damaged segments, and segments, RSTs, SYNs, and acknowledgments outside any window; ignored.
    pub implausible: u32,
    /// Duplicate ACKs while data is outstanding.
    pub duplicate_acks: u32,
    /// Segments with a window of zero.
    pub zero_windows: u32,
    /// Single-byte probes of a zero window.
    pub zero_window_probes: u32,
    /// Segments of at most one byte directly before the next: keep-alives (RFC 9293 §3.8.4).
    pub keep_alives: u32,
    /// Segments with payload after termination, except retransmissions.
    pub stragglers: u32,
    /// Payload bytes that were repeated or rejected.
    pub repeated_bytes: u64,
    /// Bytes in gaps.
    pub gap_bytes: u64,
    /// Bytes cut off by the snaplen.
    pub cut_bytes: u64,
    /// Bytes that arrived after their gap was declared, or from before the stream's start.
    pub late_bytes: u64,
    /// Bytes acknowledged by the other side but missing in the capture.
    pub acked_unseen_bytes: u64,
}

impl SideCounters {
    /// Retransmitted segments: data, SYNs, and FINs.
    #[must_use]
    pub fn resent(&self) -> u64 {
        [
            self.retransmissions,
            self.syn_retransmissions,
            self.fin_retransmissions,
        ]
        .map(u64::from)
        .iter()
        .sum()
    }
}

/// Counters of the whole table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTableCounters {
    /// Packets processed.
    pub packets: u64,
    /// Flows opened.
    pub opened: u64,
    /// Flows that continue an evicted one; included in `opened`.
    pub reopened: u64,
    /// Flows closed, by [`CloseReason`].
    pub closed: [u64; 6],
    /// Flows with a RST or both FINs.
    pub terminated: u64,
    /// Gaps declared.
    pub gaps: u64,
    /// Bytes in gaps.
    pub gap_bytes: u64,
    /// Gaps declared because the limit of held bytes was reached.
    pub held_overflows: u64,
    /// Implausible acknowledgments, not used for ordering.
    pub acks_disbelieved: u64,
    /// Peak of held bytes, overhead included.
    pub held_bytes_peak: u64,
    /// Segments at implausible positions.
    pub implausible: u64,
    /// Streams that continued at another position.
    pub resyncs: u64,
    /// RSTs out of window.
    pub resets_ignored: u64,
    /// Unanswered SYNs and SYN-ACKs inside a connection or with a wrong acknowledgment number.
    pub syns_ignored: u64,
    /// Segments that acknowledge bytes never sent.
    pub acks_ignored: u64,
    /// Packets with a wrong checksum: contradictory segments, and all if checksums are verified.
    pub damaged: u64,
    /// TCP and UDP packets that are read although their checksums prove nothing, if all are to be verified: left to an adapter, absent,
    /// cut by the snaplen, of merged segments, or of a side without valid ones.
    pub checksums_unverified: u64,
    /// Packets of terminated flows.
    pub stragglers: u64,
    /// Copies of packets captured before.
    pub duplicates: u64,
    /// Packets that may be copies or retransmissions; counted as retransmissions.
    pub duplicates_ambiguous: u64,
    /// Distinct bytes of TCP streams.
    pub stream_bytes: u64,
    /// Bytes acknowledged but missing in the capture: lost before it.
    pub acked_unseen_bytes: u64,
    /// Same for directions without any captured packet: they take another path.
    pub unseen_direction_bytes: u64,
    /// Permanent backward steps of the packets' clock.
    pub clock_rebases: u64,
    /// Connections continued after they had left as idle.
    pub connections_resumed: u64,
    /// Idle connections removed because of the limit.
    pub connections_forgotten: u64,
}

impl FlowTableCounters {
    /// Adds the counters of another table. Peaks of held bytes are summed, as an upper bound of the joint peak.
    pub fn add(&mut self, other: &FlowTableCounters) {
        self.packets += other.packets;
        self.opened += other.opened;
        self.reopened += other.reopened;
        for (mine, theirs) in self.closed.iter_mut().zip(other.closed) {
            *mine += theirs;
        }
        self.terminated += other.terminated;
        self.gaps += other.gaps;
        self.gap_bytes += other.gap_bytes;
        self.held_overflows += other.held_overflows;
        self.acks_disbelieved += other.acks_disbelieved;
        self.held_bytes_peak += other.held_bytes_peak;
        self.implausible += other.implausible;
        self.resyncs += other.resyncs;
        self.resets_ignored += other.resets_ignored;
        self.syns_ignored += other.syns_ignored;
        self.acks_ignored += other.acks_ignored;
        self.damaged += other.damaged;
        self.checksums_unverified += other.checksums_unverified;
        self.stragglers += other.stragglers;
        self.duplicates += other.duplicates;
        self.duplicates_ambiguous += other.duplicates_ambiguous;
        self.stream_bytes += other.stream_bytes;
        self.acked_unseen_bytes += other.acked_unseen_bytes;
        self.unseen_direction_bytes += other.unseen_direction_bytes;
        self.clock_rebases += other.clock_rebases;
        self.connections_resumed += other.connections_resumed;
        self.connections_forgotten += other.connections_forgotten;
    }

    /// Number of flows, counting an evicted and reopened flow once.
    #[must_use]
    pub fn flows(&self) -> u64 {
        self.opened - self.reopened
    }

    /// Missing bytes, as far as acknowledgments show.
    #[must_use]
    pub fn capture_loss(&self) -> CaptureLoss {
        CaptureLoss {
            seen: self.stream_bytes,
            unseen: self.acked_unseen_bytes,
        }
    }

    /// Flows closed for `reason`.
    #[must_use]
    pub fn closed_for(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }
}

/// Bytes of TCP streams that were captured, and that were acknowledged but not captured, without directions that were
/// not captured at all. Same estimate as Zeek's capture loss, by acknowledgments that cover a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureLoss {
    /// Captured.
    pub seen: u64,
    /// Acknowledged and not captured.
    pub unseen: u64,
}

impl CaptureLoss {
    /// Adds the counts of another table.
    pub fn add(&mut self, other: CaptureLoss) {
        self.seen += other.seen;
        self.unseen += other.unseen;
    }

    /// Share of missing bytes.
    #[must_use]
    pub fn share(self) -> f64 {
        let all = self.seen + self.unseen;
        if all == 0 {
            0.0
        } else {
            self.unseen as f64 / all as f64
        }
    }
}

/// Zeek's connection state (`conn.log`, `conn_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnState {
    /// Attempt seen, no reply.
    S0,
    /// Established, not terminated.
    S1,
    /// Established, close attempt by the client, no reply from the server.
    S2,
    /// Established, close attempt by the server, no reply from the client.
    S3,
    /// Normal establishment and termination.
    Sf,
    /// Attempt rejected.
    Rej,
    /// The client aborted.
    Rsto,
    /// The server aborted.
    Rstr,
    /// SYN, then RST of the client; no SYN-ACK.
    Rstos0,
    /// SYN-ACK, then RST of the server; no SYN.
    Rstrh,
    /// SYN, then FIN of the client; no SYN-ACK.
    Sh,
    /// SYN-ACK, then FIN of the server; no SYN.
    Shr,
    /// Midstream traffic and everything else.
    Oth,
}

impl ConnState {
    /// Name as in `conn.log`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::S0 => "S0",
            Self::S1 => "S1",
            Self::S2 => "S2",
            Self::S3 => "S3",
            Self::Sf => "SF",
            Self::Rej => "REJ",
            Self::Rsto => "RSTO",
            Self::Rstr => "RSTR",
            Self::Rstos0 => "RSTOS0",
            Self::Rstrh => "RSTRH",
            Self::Sh => "SH",
            Self::Shr => "SHR",
            Self::Oth => "OTH",
        }
    }
}

/// Zeek's state of one endpoint of a TCP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndState {
    Inactive,
    SynSent,
    Partial,
    Established,
    Closed,
    Reset,
}

/// Zeek's decision (`scripts/base/protocols/conn/main.zeek`, `determine_conn_state`); `unread`: no payload seen.
pub(crate) fn conn_state(client: EndState, server: EndState, unread: bool) -> ConnState {
    use EndState::{Closed, Established, Inactive, Partial, Reset, SynSent};
    let absent = |end| matches!(end, Inactive | Partial);
    match (client, server) {
        (SynSent, Reset) => ConnState::Rej,
        (Reset, Reset) if unread => ConnState::Rej,
        (c, Reset) if absent(c) => ConnState::Rstrh,
        (_, Reset) => ConnState::Rstr,
        (Reset, s) if absent(s) => ConnState::Rstos0,
        (Reset, _) => ConnState::Rsto,
        (Closed, Closed) => ConnState::Sf,
        (Closed, s) if absent(s) => ConnState::Sh,
        (Closed, _) => ConnState::S2,
        (c, Closed) if absent(c) => ConnState::Shr,
        (_, Closed) => ConnState::S3,
        (SynSent, Inactive) => ConnState::S0,
        (Established, Established) => ConnState::S1,
        _ => ConnState::Oth,
    }
}

/// One letter of the history, as an index into [`LETTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryLetter(u8);

const LETTERS: &[u8; 11] = b"shadfrgtwiq";

impl HistoryLetter {
    /// Number of letters.
    pub const COUNT: usize = LETTERS.len();
    pub const SYN: HistoryLetter = HistoryLetter(0);
    pub const SYN_ACK: HistoryLetter = HistoryLetter(1);
    pub const ACK: HistoryLetter = HistoryLetter(2);
    pub const PAYLOAD: HistoryLetter = HistoryLetter(3);
    pub const FIN: HistoryLetter = HistoryLetter(4);
    pub const RST: HistoryLetter = HistoryLetter(5);
    pub const GAP: HistoryLetter = HistoryLetter(6);
    pub const RETRANSMISSION: HistoryLetter = HistoryLetter(7);
    pub const ZERO_WINDOW: HistoryLetter = HistoryLetter(8);
    /// FIN and RST together.
    pub const INCONSISTENT: HistoryLetter = HistoryLetter(9);
    /// SYN with FIN or RST.
    pub const MULTI_FLAG: HistoryLetter = HistoryLetter(10);

    /// The letter of a packet by its flags and payload (Zeek's `update_history`).
    #[inline]
    pub fn of(flags: TcpFlags, len: u32) -> Option<HistoryLetter> {
        let special = flags.0 & (TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST).0;
        match TcpFlags(special) {
            TcpFlags(0) if len > 0 => Some(HistoryLetter::PAYLOAD),
            TcpFlags(0) if flags.contains(TcpFlags::ACK) => Some(HistoryLetter::ACK),
            TcpFlags(0) => None,
            TcpFlags::SYN if flags.contains(TcpFlags::ACK) => Some(HistoryLetter::SYN_ACK),
            TcpFlags::SYN => Some(HistoryLetter::SYN),
            TcpFlags::FIN => Some(HistoryLetter::FIN),
            TcpFlags::RST => Some(HistoryLetter::RST),
            both if both.contains(TcpFlags::FIN | TcpFlags::RST) => {
                Some(HistoryLetter::INCONSISTENT)
            }
            _ => Some(HistoryLetter::MULTI_FLAG),
        }
    }

    /// Bit in a side's set of letters.
    #[inline]
    pub fn bit(self) -> u16 {
        1 << self.0
    }

    /// The letter and its side, in five bits.
    #[inline]
    pub fn packed(self, side: FlowSide) -> u8 {
        self.0 | if side == FlowSide::B { OF_B } else { 0 }
    }
}

/// History as text from packed letters: upper case for the client; begins with `^` if the sender of the first packet
/// is not the client.
pub(crate) fn render_history(
    letters: impl Iterator<Item = u8>,
    client: FlowSide,
    flipped: bool,
) -> String {
    let letter = |packed: u8| {
        let side = if packed & OF_B != 0 {
            FlowSide::B
        } else {
            FlowSide::A
        };
        let letter = char::from(LETTERS[usize::from(packed & !OF_B) % LETTERS.len()]);
        if side == client {
            letter.to_ascii_uppercase()
        } else {
            letter
        }
    };
    flipped
        .then_some('^')
        .into_iter()
        .chain(letters.map(letter))
        .collect()
}

const OF_B: u8 = 0x10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_one_letter() {
        let check = |flags: u8, len, letter: &str| {
            let found = HistoryLetter::of(TcpFlags(flags), len)
                .map(|l| char::from(LETTERS[usize::from(l.0)]));
            assert_eq!(found, letter.chars().next(), "flags {flags:x}, {len} bytes");
        };
        check(0x02, 0, "s");
        check(0x02, 9, "s");
        check(0x12, 0, "h");
        check(0x10, 0, "a");
        check(0x18, 5, "d");
        check(0x19, 5, "f");
        check(0x14, 0, "r");
        check(0x15, 0, "i");
        check(0x03, 0, "q");
        check(0x06, 0, "q");
        check(0x00, 0, "");
    }

    #[test]
    fn a_history_is_read_back() {
        let all: Vec<u8> = (0..LETTERS.len() as u8)
            .flat_map(|l| {
                [
                    HistoryLetter(l).packed(FlowSide::B),
                    HistoryLetter(l).packed(FlowSide::A),
                ]
            })
            .collect();
        let text = render_history(all.into_iter(), FlowSide::B, true);
        assert_eq!(text, "^SsHhAaDdFfRrGgTtWwIiQq");
    }
}
