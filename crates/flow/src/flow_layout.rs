//! Memory layout of a flow: [`HotRecord`], one cache line that every packet needs; [`ColdRecord`], for openings, ends, and
//! readers; and [`SpillRecord`], for long or unusual flows. Only packing is done here.
//!
//! A stream's position follows from its next sequence number and an anchor, a sequence number with a known position:
//! 0 at first, later in [`SpillRecord`]. Packet counters have 16 bits and spill over before they are full; since a packet
//! has at most [`SMALL`] bytes, 32-bit byte counters are sufficient until then.

use std::cell::Cell;

use wire::packet::TcpFlags;
use wire::{FlowKey, FlowSide, Packet, TcpInfo, TcpSeq, Timestamp, TransportHeader};

use crate::delivery_order::DeliveryOrder;
use crate::metrics::{HistoryLetter, SideCounters};
use crate::reassembly::BUSY;
use crate::reassembly_budget::ReassemblyBudget;
use crate::waiting_segments::WaitingSegments;

/// State that every packet needs.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct HotRecord {
    /// [`flag`]s above, the first letters of the history below.
    pub word: u64,
    /// Latest packet time.
    pub last_ts: Timestamp,
    /// Addresses of a [`wire::V4Key`], or the hash of a wide key.
    pub addrs: u64,
    /// Ports of the flow, or 0.
    pub ports: u32,
    /// Per side: the sequence number after the contiguous byte stream, FIN included; for other protocols, a count of
    /// payload bytes.
    pub next: [TcpSeq; 2],
    /// Highest acknowledgment sent.
    pub ack: [TcpSeq; 2],
    /// Bytes on the wire, link headers included.
    pub bytes: [u32; 2],
    pub packets: [u16; 2],
    pub window: [u16; 2],
    /// [`half_bit`]s and, below them, the side's letters of the history.
    pub half: [u16; 2],
}

/// State for openings, ends, and readers.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct ColdRecord {
    pub first_ts: Timestamp,
    /// The flow's id, computed on first use.
    pub id: Cell<u64>,
    /// Times of connection milestones; [`UNSET`] if not seen.
    pub syn: Timestamp,
    /// Handshake steps after the SYN.
    pub steps: HandshakeTimes,
    pub terminated: Timestamp,
    /// Start of the active timeout.
    pub active_since: Timestamp,
    /// Per side: a sequence number with a known position.
    pub anchor: [TcpSeq; 2],
    /// Present only for unusual flows.
    pub spill: Option<Box<SpillRecord>>,
}

/// State of long or unusual flows.
#[derive(Debug, Default)]
pub(crate) struct SpillRecord {
    pub counters: [SideCounters; 2],
    pub waiting: [Option<Box<WaitingSegments>>; 2],
    /// Data in order that waits for the other side's bytes.
    pub order: Option<Box<DeliveryOrder>>,
    /// Bits of the byte streams.
    pub stream: [u8; 2],
    /// Positions of the anchors.
    pub pos: [i64; 2],
    /// Distinct payload bytes at the anchors.
    pub unique: [u64; 2],
    /// To be added to the hot record's.
    pub packets: [u64; 2],
    pub bytes: [u64; 2],
    /// Letters of the history from the ninth on.
    pub letters: u128,
    /// Clock time at the last packet, if [`flag::LAGS`].
    pub seen_at: i64,
    /// Last rejected acknowledgment of each side, and its time.
    pub doubted: [Option<(TcpSeq, Timestamp)>; 2],
    /// An unanswered SYN or SYN-ACK.
    pub opening: Option<Box<PendingOpening>>,
    /// Data of an unanswered SYN.
    pub syn_data: Option<Box<SynData>>,
    /// Unusual handshake state.
    pub handshake: UnusualHandshake,
    /// Consecutive wrong checksums of each side.
    pub wrong_checksums: [u8; 2],
    /// Maximum payload of a side's segments that are not merged, if longer than an Ethernet frame: announced by the other side, or
    /// proven by a right checksum.
    pub payload_max: [u16; 2],
    /// Whether the table has counted its memory.
    pub is_counted: bool,
    /// Continued after idleness: the positions of its streams are known.
    pub is_resumed: bool,
}

impl SpillRecord {
    /// Drops everything held and returns its cost to the budget.
    pub fn release(&mut self, budget: &mut ReassemblyBudget) {
        let waiting = self.waiting.iter_mut().filter_map(Option::take);
        let waiting = waiting.map(|waiting| waiting.cost()).sum::<usize>();
        let order = self.order.take().map_or(0, |order| order.held());
        let syn_data = self.syn_data.take().map_or(0, |data| data.cost());
        self.stream.iter_mut().for_each(|bits| *bits &= !BUSY);
        budget.release(waiting + order + syn_data);
    }

    /// Cost of all that the flow holds, counted piece by piece.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        let waiting = self.waiting.iter().flatten();
        let order = self.order.as_ref();
        let syn_data = self.syn_data.as_ref();
        waiting
            .map(|waiting| waiting.cost_of_pieces())
            .sum::<usize>()
            + order.map_or(0, |order| order.cost_of_pieces())
            + syn_data.map_or(0, |data| data.cost())
    }

    /// Counts a packet of the connection for each stream that waits for bytes. Other packets must not count: those on
    /// the fast path are not seen here.
    pub fn count_waiting_packet(&mut self) {
        for (waiting, bits) in self.waiting.iter_mut().zip(self.stream) {
            if let Some(waiting) = waiting.as_mut().filter(|_| bits & BUSY != 0) {
                waiting.count_packet();
            }
        }
    }
}

/// Steps after the SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeStep {
    /// The server's first SYN-ACK.
    SynAck,
    /// Both sides have acknowledged the other's SYN.
    Done,
}

/// Times of the steps in ns after the SYN; [`ELSEWHERE`] if unknown or too large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakeTimes(pub [u32; 2]);

pub(crate) const ELSEWHERE: u32 = u32::MAX;

/// State of unusual handshakes, by step.
#[derive(Debug, Default)]
pub(crate) struct UnusualHandshake {
    /// Steps that do not fit [`HandshakeTimes`].
    pub at: [Option<Timestamp>; 2],
    pub trips: [RttAmbiguity; 2],
}

/// Whether the packet that a step answers is known (Karn's algorithm, RFC 6298 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RttAmbiguity {
    #[default]
    Clear,
    Ambiguous,
}

impl Default for HandshakeTimes {
    fn default() -> HandshakeTimes {
        HandshakeTimes([ELSEWHERE; 2])
    }
}

/// A SYN or SYN-ACK that begins another connection if both ends agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingOpening {
    pub key: FlowKey,
    pub side: FlowSide,
    pub ts: Timestamp,
    pub packet_bytes: u32,
    pub tcp: TcpInfo,
    pub len: u32,
    pub ttl: u8,
    pub ip_id: u16,
    pub checksum: u16,
}

/// Data of a SYN (TCP Fast Open, RFC 7413). The server may accept it or not; its answer shows which, and its first
/// sequence number: only then is the position of these bytes known.
#[derive(Debug)]
pub(crate) struct SynData {
    pub side: FlowSide,
    pub seq: TcpSeq,
    pub len: u32,
    pub bytes: Vec<u8>,
    pub ts: Timestamp,
}

pub(crate) const UNSET: Timestamp = Timestamp::MIN;

/// Maximum bytes of a packet that do not need [`SpillRecord`] immediately.
pub(crate) const SMALL: u32 = u16::MAX as u32;

/// Number of letters in [`HotRecord::word`], of [`LETTER_BITS`] bits each.
pub(crate) const HOT_LETTERS: u32 = 8;
pub(crate) const LETTER_BITS: u32 = 5;

/// Flags of a flow.
pub(crate) mod flag {
    const FIRST: u32 = super::HOT_LETTERS * super::LETTER_BITS;

    /// An established connection in normal state: the next segment in order needs only the hot record.
    pub const FAST: u64 = 1 << FIRST;
    pub const TCP: u64 = 2 << FIRST;
    pub const UDP: u64 = 4 << FIRST;
    /// The key does not fit the hot record: not IPv4, or neither TCP nor UDP.
    pub const WIDE: u64 = 8 << FIRST;
    /// Both FINs or a RST: no more data is delivered.
    pub const TERMINATED: u64 = 16 << FIRST;
    pub const HANDSHAKE_DONE: u64 = 32 << FIRST;
    pub const MIDSTREAM: u64 = 64 << FIRST;
    /// The client is side B.
    pub const CLIENT_B: u64 = 128 << FIRST;
    /// The client is a guess.
    pub const CLIENT_GUESSED: u64 = 256 << FIRST;
    /// The client was determined by a SYN.
    pub const CLIENT_BY_SYN: u64 = 512 << FIRST;
    /// Side B sent the first packet.
    pub const FIRST_B: u64 = 1024 << FIRST;
    /// The caller does not need the payload.
    pub const IGNORED: u64 = 2048 << FIRST;
    /// Not evicted while there are flows without this flag.
    pub const VALUED: u64 = 4096 << FIRST;
    /// In the table.
    pub const LIVE: u64 = 8192 << FIRST;
    /// The clock time at the last packet differs from the latest packet time: it is in [`super::SpillRecord::seen_at`].
    pub const LAGS: u64 = 16384 << FIRST;
    /// The first byte of side A's stream is known; shifted by one: side B's.
    pub const STARTED: u64 = 32768 << FIRST;
    /// The FIN of side A was reached; shifted by one: side B's.
    pub const ENDED: u64 = STARTED << 2;
    /// Two bits for the caller.
    pub const MARK_SHIFT: u32 = FIRST + 19;
    /// Packets of this flow are captured twice.
    pub const MIRRORED: u64 = 1 << (FIRST + 21);
    /// A checksum of side A was correct; shifted by one: side B.
    pub const CHECKED: u64 = MIRRORED << 1;
    /// Key comparison and transport.
    pub const KIND: u64 = TCP | UDP | WIDE;
}

/// Bits per side, above those of its letters.
pub(crate) mod half_bit {
    use crate::metrics::HistoryLetter;

    pub const ACK_SEEN: u16 = 1 << HistoryLetter::COUNT;
    pub const SYN: u16 = 2 << HistoryLetter::COUNT;
    /// The side's SYN was not seen, but the other side's SYN-ACK implies it.
    pub const SYN_IMPLIED: u16 = 4 << HistoryLetter::COUNT;
    pub const FIN: u16 = 8 << HistoryLetter::COUNT;
    pub const RST: u16 = 16 << HistoryLetter::COUNT;
    pub const LETTERS: u16 = ACK_SEEN - 1;
}

impl HotRecord {
    #[inline]
    pub fn has(&self, flags: u64) -> bool {
        self.word & flags != 0
    }

    #[inline]
    pub fn put(&mut self, flags: u64, value: bool) {
        self.word = if value {
            self.word | flags
        } else {
            self.word & !flags
        };
    }

    #[inline]
    pub fn did(&self, side: FlowSide, bits: u16) -> bool {
        self.half[side.index()] & bits != 0
    }

    #[inline]
    pub fn is_started(&self, side: FlowSide) -> bool {
        self.has(flag::STARTED << side.index())
    }

    #[inline]
    pub fn is_ended(&self, side: FlowSide) -> bool {
        self.has(flag::ENDED << side.index())
    }

    /// Number of letters in the history.
    pub fn n_letters(&self) -> u32 {
        let [a, b] = self
            .half
            .map(|half| (half & half_bit::LETTERS).count_ones());
        a + b
    }

    /// Adds a new letter if it fits here; otherwise returns false.
    #[inline]
    pub fn note_here(&mut self, side: FlowSide, letter: HistoryLetter) -> bool {
        let n = self.n_letters();
        if n >= HOT_LETTERS {
            return false;
        }
        self.word |= u64::from(letter.packed(side)) << (n * LETTER_BITS);
        self.half[side.index()] |= letter.bit();
        true
    }
}

/// The stored form of a key.
pub(crate) struct StoredKey {
    /// Addresses of a [`wire::V4Key`], or the hash of a wide key.
    pub addrs: u64,
    /// Ports of the flow, or 0.
    pub ports: u32,
    /// [`flag::KIND`].
    pub kind: u64,
}

/// Creates a flow with its first packet, sent by `first`.
pub(crate) fn open(
    key: &FlowKey,
    first: FlowSide,
    packet: &Packet<'_>,
    stored: StoredKey,
    server_ports: &[u16],
) -> (HotRecord, ColdRecord) {
    let mut hot = HotRecord {
        word: stored.kind | flag::LIVE,
        last_ts: packet.ts,
        addrs: stored.addrs,
        ports: stored.ports,
        next: Default::default(),
        ack: Default::default(),
        bytes: [0; 2],
        packets: [0; 2],
        window: [0; 2],
        half: [0; 2],
    };
    hot.put(flag::FIRST_B, first == FlowSide::B);
    guess_client(&mut hot, key, first, packet, server_ports);
    let cold = ColdRecord {
        first_ts: packet.ts,
        id: Cell::new(0),
        syn: UNSET,
        steps: HandshakeTimes::default(),
        terminated: UNSET,
        active_since: packet.ts,
        anchor: Default::default(),
        spill: None,
    };
    (hot, cold)
}

/// Guesses the client: the endpoint without a server port if the other has one; otherwise the sender of the first
/// datagram, or for TCP the endpoint with the higher port. Only the sender of a first datagram to a server port is
/// certain; a SYN will determine the client.
fn guess_client(
    hot: &mut HotRecord,
    key: &FlowKey,
    first: FlowSide,
    packet: &Packet<'_>,
    server_ports: &[u16],
) {
    let tcp = match packet.transport {
        TransportHeader::Tcp(tcp) if tcp.flags.intersects(TcpFlags::SYN) => return,
        TransportHeader::Tcp(_) => true,
        _ => false,
    };
    let is_server = |port: u16| server_ports.binary_search(&port).is_ok();
    let a = key.a.port;
    let b = key.b.port;
    let client = match (is_server(a), is_server(b)) {
        (true, false) => FlowSide::B,
        (false, true) => FlowSide::A,
        _ if !tcp || a == b => first,
        _ if b > a => FlowSide::B,
        _ => FlowSide::A,
    };
    hot.put(flag::CLIENT_B, client == FlowSide::B);
    hot.put(flag::MIDSTREAM, tcp);
    hot.put(flag::CLIENT_GUESSED, tcp || client != first);
}

/// Letters of a flow's history, in order.
pub(crate) fn letters(hot: &HotRecord, cold: &ColdRecord) -> impl Iterator<Item = u8> {
    let here = hot.word;
    let spilt = cold.spill.as_ref().map_or(0, |spill| spill.letters);
    (0..hot.n_letters()).map(move |n| {
        let packed = match n.checked_sub(HOT_LETTERS) {
            None => here >> (n * LETTER_BITS),
            Some(n) => (spilt >> (n * LETTER_BITS)) as u64,
        };
        packed as u8 & ((1 << LETTER_BITS) - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duplicates::LatestPacket;
    use std::mem::size_of;

    #[test]
    fn an_ordinary_flow_is_small() {
        assert_eq!(
            (
                size_of::<HotRecord>(),
                size_of::<ColdRecord>(),
                size_of::<[LatestPacket; 2]>()
            ),
            (64, 64, 32)
        );
    }
}
