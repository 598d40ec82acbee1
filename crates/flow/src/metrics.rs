//! What is counted: of one side of a flow, of the whole table; and the two words in which Zeek sums a connection
//! up, `conn_state` and `history`.

use wire::Side;
use wire::packet::TcpFlags;

use crate::CloseReason;

/// What went wrong, or was at least unusual, with what one side of a flow sent. All zero for most flows, which
/// therefore keep none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Segments that held bytes seen before.
    pub retransmissions: u32,
    /// SYNs and SYN-ACKs that were sent before.
    pub syn_retransmissions: u32,
    /// FINs without payload that were sent before.
    pub fin_retransmissions: u32,
    /// Packets captured before: copied by a mirror, not sent again. Nothing else counts them.
    pub duplicates: u32,
    /// Segments that came behind a higher one and filled a hole.
    pub out_of_order: u32,
    /// Gaps declared; those that the snaplen made are only in `cut_bytes`.
    pub gaps: u32,
    /// Times the stream went on at a place no gap explains.
    pub resyncs: u32,
    /// Segments, RSTs, SYNs and acknowledgments at a place that no window allows, and damaged ones; ignored.
    pub implausible: u32,
    /// ACKs that say nothing new while data is outstanding.
    pub duplicate_acks: u32,
    /// Segments that offer no window.
    pub zero_windows: u32,
    /// Single bytes sent against a window of zero.
    pub zero_window_probes: u32,
    /// Segments of no or one byte, right before the next: keep-alives (RFC 9293 §3.8.4).
    pub keep_alives: u32,
    /// Segments with payload after the flow had terminated, retransmissions apart.
    pub stragglers: u32,
    /// Payload that was not new or not believed, in bytes.
    pub repeated_bytes: u64,
    /// Bytes in gaps.
    pub gap_bytes: u64,
    /// Bytes cut off by the snaplen.
    pub cut_bytes: u64,
    /// Bytes that came after their gap was declared, or from before the stream's start.
    pub late_bytes: u64,
    /// Bytes that the other side acknowledged but the capture does not have.
    pub acked_unseen_bytes: u64,
}

impl SideCounters {
    /// Segments that were sent before: data, SYNs and FINs.
    #[must_use]
    pub fn resent(&self) -> u64 {
        [self.retransmissions, self.syn_retransmissions, self.fin_retransmissions].map(u64::from).iter().sum()
    }
}

/// What the whole table has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets processed.
    pub packets: u64,
    /// Flows opened.
    pub opened: u64,
    /// Of these the ones that go on with a flow that was evicted: parts of one that was counted before.
    pub reopened: u64,
    /// Flows closed, by [`CloseReason`].
    pub closed: [u64; 6],
    /// Flows that saw a RST or both FINs.
    pub terminated: u64,
    /// Gaps declared.
    pub gaps: u64,
    /// Bytes in them.
    pub gap_bytes: u64,
    /// Gaps declared because too much was held.
    pub held_overflows: u64,
    /// Acknowledgments that cannot be true: what they came with is not put in order by them.
    pub acks_disbelieved: u64,
    /// Most bytes ever held at once, overhead included.
    pub held_bytes_peak: u64,
    /// Segments at implausible places.
    pub implausible: u64,
    /// Streams that went on at another place.
    pub resyncs: u64,
    /// RSTs out of window.
    pub resets_ignored: u64,
    /// Unanswered SYNs and SYN-ACKs inside a connection or with a wrong acknowledgment number.
    pub syns_ignored: u64,
    /// Segments that acknowledge what was never sent.
    pub acks_ignored: u64,
    /// Segments that contradict what is known, with a checksum that is wrong.
    pub damaged: u64,
    /// Packets of terminated flows.
    pub stragglers: u64,
    /// Copies of packets captured before.
    pub duplicates: u64,
    /// Packets like one just before of which nothing says whether they are a copy or were sent again: they count as the
    /// latter.
    pub duplicates_ambiguous: u64,
    /// Distinct bytes of TCP streams seen.
    pub stream_bytes: u64,
    /// Bytes that an end acknowledged but the capture does not have: lost on the way to it.
    pub acked_unseen_bytes: u64,
    /// The same of streams of which nothing was captured: the other direction goes another way.
    pub unseen_direction_bytes: u64,
    /// Times the packets' clock was set back for good.
    pub clock_rebases: u64,
    /// Connections that went on after they had left as idle.
    pub connections_resumed: u64,
    /// Idle connections that were forgotten because too many were remembered.
    pub connections_forgotten: u64,
}

impl Counters {
    /// Adds the counters of another table. Peaks of held bytes are summed, as an upper bound of the joint peak.
    pub fn add(&mut self, other: &Counters) {
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

    /// Flows, each of them once however often it was evicted.
    #[must_use]
    pub fn flows(&self) -> u64 {
        self.opened - self.reopened
    }

    /// What is missing in the capture, as far as acknowledgments tell.
    #[must_use]
    pub fn capture_loss(&self) -> CaptureLoss {
        CaptureLoss { seen: self.stream_bytes, unseen: self.acked_unseen_bytes }
    }

    /// Flows closed for `reason`.
    #[must_use]
    pub fn closed_for(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }
}

/// Bytes of TCP streams that the capture has, and that it has not though they were acknowledged; of directions that were
/// captured at all. Zeek estimates capture loss alike, by acknowledgments that cover a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureLoss {
    /// Captured.
    pub seen: u64,
    /// Acknowledged and not captured.
    pub unseen: u64,
}

impl CaptureLoss {
    /// Adds that of another table.
    pub fn add(&mut self, other: CaptureLoss) {
        self.seen += other.seen;
        self.unseen += other.unseen;
    }

    /// What is missing of all.
    #[must_use]
    pub fn share(self) -> f64 {
        let all = self.seen + self.unseen;
        if all == 0 { 0.0 } else { self.unseen as f64 / all as f64 }
    }
}

/// How a connection went, in Zeek's words (`conn.log`, `conn_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnState {
    /// Attempt seen, no reply.
    S0,
    /// Established, not terminated.
    S1,
    /// Established, the client wants to close, no reply from the server.
    S2,
    /// Established, the server wants to close, no reply from the client.
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
    /// Midstream traffic and what fits nowhere.
    Oth,
}

impl ConnState {
    /// As `conn.log` writes it.
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

/// What one end of a TCP flow has done, as Zeek's endpoint states have it.
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

/// One letter of the history, by its place in [`LETTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter(u8);

const LETTERS: &[u8; 11] = b"shadfrgtwiq";

impl Letter {
    /// How many there are.
    pub const COUNT: usize = LETTERS.len();
    pub const SYN: Letter = Letter(0);
    pub const SYN_ACK: Letter = Letter(1);
    pub const ACK: Letter = Letter(2);
    pub const PAYLOAD: Letter = Letter(3);
    pub const FIN: Letter = Letter(4);
    pub const RST: Letter = Letter(5);
    pub const GAP: Letter = Letter(6);
    pub const RETRANSMISSION: Letter = Letter(7);
    pub const ZERO_WINDOW: Letter = Letter(8);
    /// FIN and RST together.
    pub const INCONSISTENT: Letter = Letter(9);
    /// SYN with FIN or RST.
    pub const MULTI_FLAG: Letter = Letter(10);

    /// The letter of a packet by its flags and payload (Zeek's `update_history`).
    #[inline]
    pub fn of(flags: TcpFlags, len: u32) -> Option<Letter> {
        let special = flags.0 & (TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST).0;
        match TcpFlags(special) {
            TcpFlags(0) if len > 0 => Some(Letter::PAYLOAD),
            TcpFlags(0) if flags.contains(TcpFlags::ACK) => Some(Letter::ACK),
            TcpFlags(0) => None,
            TcpFlags::SYN if flags.contains(TcpFlags::ACK) => Some(Letter::SYN_ACK),
            TcpFlags::SYN => Some(Letter::SYN),
            TcpFlags::FIN => Some(Letter::FIN),
            TcpFlags::RST => Some(Letter::RST),
            both if both.contains(TcpFlags::FIN | TcpFlags::RST) => Some(Letter::INCONSISTENT),
            _ => Some(Letter::MULTI_FLAG),
        }
    }

    /// For the set of letters that a side has.
    #[inline]
    pub fn bit(self) -> u16 {
        1 << self.0
    }

    /// The letter and who had it, in five bits.
    #[inline]
    pub fn packed(self, side: Side) -> u8 {
        self.0 | if side == Side::B { OF_B } else { 0 }
    }
}

/// A history from its packed letters as text: upper case for the client; `^` first when the sender of the first
/// packet is not the client.
pub(crate) fn render_history(letters: impl Iterator<Item = u8>, client: Side, flipped: bool) -> String {
    let letter = |packed: u8| {
        let side = if packed & OF_B != 0 { Side::B } else { Side::A };
        let letter = char::from(LETTERS[usize::from(packed & !OF_B) % LETTERS.len()]);
        if side == client { letter.to_ascii_uppercase() } else { letter }
    };
    flipped.then_some('^').into_iter().chain(letters.map(letter)).collect()
}

const OF_B: u8 = 0x10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_one_letter() {
        let check = |flags: u8, len, letter: &str| {
            let found = Letter::of(TcpFlags(flags), len).map(|l| char::from(LETTERS[usize::from(l.0)]));
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
            .flat_map(|l| [Letter(l).packed(Side::B), Letter(l).packed(Side::A)])
            .collect();
        let text = render_history(all.into_iter(), Side::B, true);
        assert_eq!(text, "^SsHhAaDdFfRrGgTtWwIiQq");
    }
}
