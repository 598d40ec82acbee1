//! Memory layout of a flow: [`HotRecord`], one cache line that every packet needs; [`ColdRecord`], for openings, ends, and
//! readers; and [`SpillRecord`], for long or unusual flows. Only packing is done here.
//!
//! A stream's position follows from its next sequence number and an anchor, a sequence number with a known position:
//! 0 at first, later in [`SpillRecord`]. Packet counters have 16 bits and spill over before they are full; since a packet
//! has at most [`SMALL`] bytes, 32-bit byte counters are sufficient until then.

use std::cell::Cell;

use wire::packet::TcpFlags;
use wire::{ChecksumStatus, FlowKey, FlowSide, Packet, TcpInfo, TcpSeq, Timestamp, TransportHeader};

use crate::delivery_order::DeliveryOrder;
use crate::duplicates::LatestPacket;
use crate::flow::FlowCore;
use crate::handshake;
use crate::metrics::{HistoryLetter, SideCounters};
use crate::pending_openings::{PendingOpening, SynData};
use crate::reassembly::{BUSY, WaitingSegments};

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
    /// Its ports, or 0.
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
    pub steps: handshake::HandshakeTimes,
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
    pub handshake: handshake::UnusualHandshake,
    /// Whether the table has counted its memory.
    pub is_counted: bool,
}

impl SpillRecord {
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

pub(crate) const UNSET: Timestamp = Timestamp::MIN;

/// Maximum bytes of a packet that do not need [`SpillRecord`] immediately.
pub(crate) const SMALL: u32 = u16::MAX as u32;

/// Letters in [`HotRecord::word`], each of [`LETTER_BITS`].
const HOT_LETTERS: u32 = 8;
const LETTER_BITS: u32 = 5;

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
    /// Its SYN was not seen, but is implied by the other side's SYN-ACK.
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
        self.word = if value { self.word | flags } else { self.word & !flags };
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
        let [a, b] = self.half.map(|half| (half & half_bit::LETTERS).count_ones());
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

/// Mutable access to a flow.
pub(crate) struct FlowMut<'a> {
    pub hot: &'a mut HotRecord,
    pub cold: &'a mut ColdRecord,
    /// Recent packets, if the table stores them.
    pub latest: Option<&'a mut [LatestPacket; 2]>,
}

impl FlowMut<'_> {
    #[inline]
    pub fn core(&self) -> FlowCore<'_> {
        FlowCore { hot: self.hot, cold: self.cold }
    }

    pub fn counters_mut(&mut self, side: FlowSide) -> &mut SideCounters {
        &mut self.spill_mut().counters[side.index()]
    }

    pub fn spill_mut(&mut self) -> &mut SpillRecord {
        self.cold.spill.get_or_insert_default()
    }

    /// Determines by a side's first packets whether its checksums are valid.
    pub fn learn_checksum(&mut self, side: FlowSide, packet: &Packet<'_>) {
        const TRIES: u64 = 3;
        let checked = flag::CHECKED << side.index();
        if !self.hot.has(flag::TCP) || self.hot.has(checked) || self.core().packets(side) >= TRIES {
            return;
        }
        self.hot.put(checked, packet.verify_checksum() == ChecksumStatus::Right);
    }

    pub fn put_client(&mut self, client: FlowSide) {
        self.hot.put(flag::CLIENT_B, client == FlowSide::B);
    }

    /// Counts a packet of any kind.
    #[inline]
    pub fn count(&mut self, side: FlowSide, packet: &Packet<'_>) {
        self.hot.last_ts = self.hot.last_ts.max(packet.ts);
        let at = side.index();
        let packets = self.hot.packets[at].checked_add(1);
        let bytes = self.hot.bytes[at].checked_add(packet.original_len);
        let Some((packets, bytes)) = packets.zip(bytes) else {
            self.spill_over();
            let spill = self.spill_mut();
            spill.packets[at] += 1;
            spill.bytes[at] += u64::from(packet.original_len);
            return;
        };
        (self.hot.packets[at], self.hot.bytes[at]) = (packets, bytes);
    }

    /// Empties the small counters into [`SpillRecord`].
    fn spill_over(&mut self) {
        for side in [FlowSide::A, FlowSide::B] {
            let at = side.index();
            let place = self.core().place(side);
            self.drop_anchor(side, place);
            let packets = self.hot.packets[at];
            let bytes = self.hot.bytes[at];
            let spill = self.spill_mut();
            spill.packets[at] += u64::from(packets);
            spill.bytes[at] += u64::from(bytes);
            (self.hot.packets[at], self.hot.bytes[at]) = (0, 0);
        }
    }

    /// Sets the stream's position to `pos`, with `unique` distinct bytes seen.
    pub fn drop_anchor(&mut self, side: FlowSide, (pos, unique): (i64, u64)) {
        let at = side.index();
        self.cold.anchor[at] = self.core().next_byte(side);
        let spill = self.spill_mut();
        (spill.pos[at], spill.unique[at]) = (pos, unique);
    }

    /// Sets the stream's first byte to `seq`. Only before any byte was received.
    pub fn start(&mut self, side: FlowSide, seq: TcpSeq) {
        debug_assert_eq!(self.core().place(side).0, 0, "a stream is not moved once it has bytes");
        self.hot.word |= flag::STARTED << side.index();
        self.hot.next[side.index()] = seq;
        self.cold.anchor[side.index()] = seq;
    }

    /// Counts the payload of a transport without streams.
    pub fn count_payload(&mut self, side: FlowSide, len: u32) {
        match len {
            0..=SMALL => self.hot.next[side.index()] = self.hot.next[side.index()].plus(len),
            _ => self.spill_mut().unique[side.index()] += u64::from(len),
        }
    }

    /// Adds the letter of a segment to the history.
    #[inline]
    pub fn note(&mut self, side: FlowSide, tcp: &TcpInfo, len: u32) {
        if let Some(letter) = HistoryLetter::of(tcp.flags, len) {
            self.note_letter(side, letter);
        }
    }

    #[inline]
    pub fn note_letter(&mut self, side: FlowSide, letter: HistoryLetter) {
        if !self.hot.did(side, letter.bit()) && !self.hot.note_here(side, letter) {
            let at = (self.hot.n_letters() - HOT_LETTERS) * LETTER_BITS;
            self.spill_mut().letters |= u128::from(letter.packed(side)) << at;
            self.hot.half[side.index()] |= letter.bit();
        }
    }

    /// Sets the clock time at this flow's last packet.
    #[inline]
    pub fn set_seen_at(&mut self, now: i64) {
        let lags = now != self.hot.last_ts.0;
        self.hot.put(flag::LAGS, lags);
        if lags {
            self.spill_mut().seen_at = now;
        }
    }

    /// Updates whether the next segment in order can take the fast path; called after any change.
    #[inline]
    pub fn classify(&mut self) {
        let fast = self.core().has_fast_path();
        self.hot.put(flag::FAST, fast);
    }
}

/// Creates a flow with its first packet, sent by `first`; `addrs`, `ports`, and `kind` are the stored form of its
/// key.
pub(crate) fn open(
    key: &FlowKey,
    first: FlowSide,
    packet: &Packet<'_>,
    (addrs, ports, kind): (u64, u32, u64),
    server_ports: &[u16],
) -> (HotRecord, ColdRecord) {
    let mut hot = HotRecord {
        word: kind | flag::LIVE,
        last_ts: packet.ts,
        addrs,
        ports,
        next: Default::default(),
        ack: Default::default(),
        bytes: [0; 2],
        packets: [0; 2],
        window: [0; 2],
        half: [0; 2],
    };
    hot.put(flag::FIRST_B, first == FlowSide::B);
    guess_client(&mut hot, (key, first), packet, server_ports);
    let cold = ColdRecord {
        first_ts: packet.ts,
        id: Cell::new(0),
        syn: UNSET,
        steps: handshake::HandshakeTimes::default(),
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
    (key, first): (&FlowKey, FlowSide),
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
    use std::mem::size_of;

    #[test]
    fn an_ordinary_flow_is_small() {
        assert_eq!(
            (size_of::<HotRecord>(), size_of::<ColdRecord>(), size_of::<[LatestPacket; 2]>()),
            (64, 64, 32)
        );
    }
}
