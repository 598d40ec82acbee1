//! Reassembles IP datagrams from fragments, within a byte limit. A datagram is abandoned at its timeout or
//! when a newer one needs the memory; if its first fragment was captured, the datagram is delivered as a
//! truncated packet. All times are packet timestamps.
//!
//! Overlapping fragments: for IPv4 the first one wins, as in most receivers (RFC 791 leaves this open); an
//! IPv6 datagram is discarded (RFC 5722). A duplicate fragment is not an overlap.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::fragment::{FragmentKey, HeaderRepair};
use wire::{CapturedPacket, IpFragment, LinkType, Timestamp};

/// Reassembly timeout in packet time; the same as in Linux.
pub const PATIENCE_NS: i64 = 30_000_000_000;
/// Accounted overhead in bytes per datagram and per fragment; an upper bound of the actual overhead.
const DATAGRAM_ROOM: usize = 256;
const PART_ROOM: usize = 64;

/// Table of incomplete datagrams.
#[derive(Debug)]
pub struct FragmentReassembler {
    datagrams: BTreeMap<FragmentKey, PartialDatagram>,
    /// Keys in the order of the first fragment seen.
    order: BTreeMap<u64, FragmentKey>,
    begun: u64,
    held_bytes: usize,
    held_bytes_max: usize,
    given_up: Vec<ReassembledPacket>,
    counters: FragmentCounters,
}

/// Counters of datagrams and fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentCounters {
    /// Reassembled datagrams.
    pub reassembled: u64,
    /// Datagrams abandoned at the timeout or at the end of the input.
    pub incomplete: u64,
    /// Datagrams evicted to free memory.
    pub evicted: u64,
    /// Overlapping fragments.
    pub overlaps: u64,
    /// Fragments with contradictory lengths, or beyond the maximum datagram length.
    pub malformed: u64,
}

impl FragmentCounters {
    /// Adds the counts of another table.
    pub fn add(&mut self, other: &FragmentCounters) {
        self.reassembled += other.reassembled;
        self.incomplete += other.incomplete;
        self.evicted += other.evicted;
        self.overlaps += other.overlaps;
        self.malformed += other.malformed;
    }
}

/// A packet reassembled from fragments.
#[derive(Clone, Debug)]
pub struct ReassembledPacket {
    /// Timestamp of the last fragment; of the first if incomplete.
    pub ts: Timestamp,
    /// Link type of the first fragment.
    pub link_type: LinkType,
    /// Total length of all its packets on the wire.
    pub original_len: u32,
    /// Captured bytes up to the first gap.
    pub bytes: Arc<Vec<u8>>,
    /// Number of packets in which the datagram arrived.
    pub packets: u64,
}

impl ReassembledPacket {
    /// Returns the packet in the form a source delivers.
    #[must_use]
    pub fn captured(&self) -> CapturedPacket<'_> {
        let &ReassembledPacket {
            ts,
            link_type,
            original_len,
            ..
        } = self;
        CapturedPacket {
            ts,
            link_type,
            original_len,
            bytes: &self.bytes,
        }
    }
}

/// An incomplete datagram.
#[derive(Debug)]
struct PartialDatagram {
    begun: u64,
    first_ts: Timestamp,
    last_ts: Timestamp,
    /// Headers in front of the first fragment's payload, and the header changes for the whole datagram.
    head: Option<(Vec<u8>, LinkType, HeaderRepair)>,
    /// Sorted by offset, without overlaps; all but the last are at least 8 bytes long.
    parts: Vec<DatagramPart>,
    /// Bytes covered by fragments, and accounted memory.
    covered: u32,
    room: usize,
    /// Payload length, known from the last fragment.
    len: Option<u32>,
    wire_bytes: u32,
    packets: u64,
    /// Set after overlapping IPv6 fragments: the datagram is discarded.
    spoilt: bool,
}

#[derive(Debug)]
struct DatagramPart {
    start: u32,
    end: u32,
    /// Captured bytes.
    bytes: Vec<u8>,
}

impl FragmentReassembler {
    /// Creates a table with a limit in bytes, overhead included.
    #[must_use]
    pub fn new(held_bytes_max: usize) -> FragmentReassembler {
        FragmentReassembler {
            datagrams: BTreeMap::new(),
            order: BTreeMap::new(),
            begun: 0,
            held_bytes: 0,
            held_bytes_max,
            given_up: Vec::new(),
            counters: FragmentCounters::default(),
        }
    }

    /// Adds a fragment that arrived in `packets` packets with `wire_bytes` bytes on the wire; returns the datagram when
    /// it is complete.
    pub fn add(
        &mut self,
        fragment: &IpFragment<'_>,
        packets: u64,
        wire_bytes: u32,
    ) -> Option<ReassembledPacket> {
        let datagram = self.datagrams.entry(fragment.key).or_insert_with(|| {
            self.begun += 1;
            self.order.insert(self.begun, fragment.key);
            self.held_bytes += DATAGRAM_ROOM;
            PartialDatagram::new(self.begun, fragment.ts)
        });
        datagram.packets += packets;
        datagram.last_ts = datagram.last_ts.max(fragment.ts);
        datagram.wire_bytes = datagram.wire_bytes.saturating_add(wire_bytes);
        let before = datagram.room;
        let is_malformed = datagram.add(fragment, &mut self.counters).is_none();
        self.counters.malformed += u64::from(is_malformed);
        self.held_bytes = self.held_bytes + datagram.room - before;
        if datagram.is_complete() {
            let datagram = self.take(fragment.key)?;
            self.counters.reassembled += 1;
            return datagram.into_whole(true);
        }
        while self.held_bytes > self.held_bytes_max && !self.order.is_empty() {
            self.counters.evicted += 1;
            self.give_up_oldest();
        }
        None
    }

    /// Returns the datagrams that timed out by `now` or were evicted, as truncated packets. Datagrams without
    /// a first fragment are only counted.
    pub fn give_up(&mut self, now: Timestamp) -> Vec<ReassembledPacket> {
        let is_late = |datagram: &PartialDatagram| now.since(datagram.first_ts) > PATIENCE_NS;
        while let Some((_, key)) = self.order.first_key_value()
            && self.datagrams.get(key).is_none_or(is_late)
        {
            self.counters.incomplete += 1;
            self.give_up_oldest();
        }
        std::mem::take(&mut self.given_up)
    }

    /// Abandons all datagrams at the end of the input; returns them as [`FragmentReassembler::give_up`] does.
    pub fn give_up_all(&mut self) -> Vec<ReassembledPacket> {
        self.counters.incomplete += self.order.len() as u64;
        while !self.order.is_empty() {
            self.give_up_oldest();
        }
        std::mem::take(&mut self.given_up)
    }

    /// Bytes held, overhead included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &FragmentCounters {
        &self.counters
    }

    fn give_up_oldest(&mut self) {
        let oldest = self.order.first_key_value().map(|(_, key)| *key);
        let datagram = oldest.and_then(|key| self.take(key));
        self.given_up
            .extend(datagram.and_then(|datagram| datagram.into_whole(false)));
    }

    fn take(&mut self, key: FragmentKey) -> Option<PartialDatagram> {
        let datagram = self.datagrams.remove(&key)?;
        self.order.remove(&datagram.begun);
        self.held_bytes -= DATAGRAM_ROOM + datagram.room;
        Some(datagram)
    }
}

impl PartialDatagram {
    fn new(begun: u64, ts: Timestamp) -> PartialDatagram {
        PartialDatagram {
            begun,
            first_ts: ts,
            last_ts: ts,
            head: None,
            parts: Vec::new(),
            covered: 0,
            room: 0,
            len: None,
            wire_bytes: 0,
            packets: 0,
            spoilt: false,
        }
    }

    /// Adds a fragment; returns `None` if it is malformed.
    fn add(&mut self, fragment: &IpFragment<'_>, counters: &mut FragmentCounters) -> Option<()> {
        if self.spoilt {
            return Some(());
        }
        let start = fragment.offset;
        let mut len = fragment.payload.original_len;
        if fragment.more && !len.is_multiple_of(8) {
            // An IPv4 receiver truncates to a multiple of 8 bytes; an IPv6 receiver rejects the fragment (RFC
            // 8200 §4.5).
            len = if fragment.is_v6 {
                return None;
            } else {
                len - len % 8
            };
        }
        let end = start
            .checked_add(len)
            .filter(|end| *end <= 0xffff && len > 0)?;
        let reaches = self.parts.last().map_or(0, |part| part.end);
        let contradicts = match (self.len, fragment.more) {
            (Some(known), true) => end > known,
            (Some(known), false) => end != known,
            (None, true) => false,
            (None, false) => end < reaches,
        };
        if contradicts {
            return None;
        }
        let bytes = &fragment.payload.bytes[..fragment.payload.bytes.len().min(len as usize)];
        let neighbor = self
            .parts
            .get(self.parts.partition_point(|part| part.end <= start));
        let is_copy = neighbor.is_some_and(|part| (part.start, part.end) == (start, end));
        if !is_copy && neighbor.is_some_and(|part| part.start < end) {
            counters.overlaps += 1;
            if fragment.is_v6 {
                self.spoilt = true;
                self.head = None;
                self.parts = Vec::new();
                self.room = 0;
                return Some(());
            }
        }
        if !fragment.more {
            self.len = Some(end);
        }
        if start == 0 && self.head.is_none() {
            self.room += fragment.head.len();
            self.head = Some((fragment.head.to_vec(), fragment.link_type, fragment.repair));
        }
        if !is_copy {
            self.fill(start, end, bytes);
        }
        Some(())
    }

    /// Copies the bytes that no earlier fragment covers.
    fn fill(&mut self, mut start: u32, end: u32, bytes: &[u8]) {
        let origin = start;
        let mut at = self.parts.partition_point(|part| part.end <= start);
        while start < end {
            let next = self
                .parts
                .get(at)
                .map_or((end, end), |part| (part.start.min(end), part.end));
            if start < next.0 {
                let from = bytes.len().min((start - origin) as usize);
                let to = bytes.len().min((next.0 - origin) as usize);
                let part = DatagramPart {
                    start,
                    end: next.0,
                    bytes: bytes[from..to].to_vec(),
                };
                self.covered += part.end - part.start;
                self.room += part.bytes.len() + PART_ROOM;
                self.parts.insert(at, part);
                at += 1;
            }
            start = next.1.max(start);
            at += 1;
        }
    }

    fn is_complete(&self) -> bool {
        self.head.is_some() && self.len == Some(self.covered)
    }

    /// Returns the packet up to the first gap.
    fn into_whole(self, is_complete: bool) -> Option<ReassembledPacket> {
        let (mut bytes, link_type, repair) = self.head?;
        let stated = || repair.stated_len(&self.parts.first()?.bytes);
        let reached = || self.parts.last().map(|part| part.end);
        let len = self.len.or_else(|| stated().max(reached()))?;
        if !repair.apply(&mut bytes, len) {
            return None;
        }
        let mut at = 0;
        for part in &self.parts {
            if part.start != at {
                break;
            }
            bytes.extend_from_slice(&part.bytes);
            // A fragment truncated by the capture is followed by a gap.
            at = part.start + part.bytes.len() as u32;
        }
        let ts = if is_complete {
            self.last_ts
        } else {
            self.first_ts
        };
        // The number of missing packets is unknown.
        let original_len = self.wire_bytes.max(bytes.len() as u32);
        Some(ReassembledPacket {
            ts,
            link_type,
            original_len,
            bytes: Arc::new(bytes),
            packets: self.packets,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::packet::SentPacket;
    use wire::{DecodeError, Packet};

    use super::*;

    /// Fragments of a datagram as Ethernet frames, cut at these offsets in units of 8 bytes.
    fn pieces(v6: bool, payload: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
        let ends = if v6 {
            ("[fd00::1]:9", "[fd00::2]:53")
        } else {
            ("10.0.0.1:9", "10.0.0.2:53")
        };
        let ends = (
            ends.0.parse().expect("an end"),
            ends.1.parse().expect("an end"),
        );
        let frame = SentPacket::udp(Timestamp(0), ends, payload).to_bytes();
        let (head, body) = frame.split_at(if v6 { 54 } else { 34 });
        let cuts = cuts
            .iter()
            .map(|cut| cut * 8)
            .filter(|cut| *cut < body.len());
        let mut places: Vec<usize> = cuts.chain([0, body.len()]).collect();
        places.sort_unstable();
        places.dedup();
        let piece = |range: &[usize]| {
            part(
                v6,
                head,
                &body[range[0]..range[1]],
                range[0],
                range[1] < body.len(),
            )
        };
        places.windows(2).map(piece).collect()
    }

    fn part(v6: bool, head: &[u8], bytes: &[u8], offset: usize, more: bool) -> Vec<u8> {
        let mut packet = head.to_vec();
        let put = |packet: &mut Vec<u8>, at: usize, n: usize| {
            packet[at..at + 2].copy_from_slice(&(n as u16).to_be_bytes());
        };
        if v6 {
            packet[20] = 44;
            put(&mut packet, 18, 8 + bytes.len());
            packet.extend([17, 0, 0, 0, 0, 0, 0, 7]);
            put(&mut packet, 56, offset | usize::from(more));
        } else {
            put(&mut packet, 16, 20 + bytes.len());
            put(&mut packet, 20, (offset / 8) | (usize::from(more) << 13));
        }
        packet.extend(bytes);
        packet
    }

    fn captured(bytes: &[u8], ts: i64) -> CapturedPacket<'_> {
        let original_len = bytes.len() as u32;
        CapturedPacket {
            ts: Timestamp(ts),
            link_type: LinkType::Ethernet,
            original_len,
            bytes,
        }
    }

    fn add(table: &mut FragmentReassembler, packet: &[u8], ts: i64) -> Option<ReassembledPacket> {
        let captured = captured(packet, ts);
        table.add(
            &IpFragment::of(&captured).expect("a fragment"),
            1,
            captured.wire_len(),
        )
    }

    fn payload_of(whole: &ReassembledPacket) -> Vec<u8> {
        let captured = whole.captured();
        let packet = Packet::decode(&captured).expect("a whole packet");
        assert_eq!(
            (packet.five_tuple.src.port, packet.five_tuple.dst.port),
            (9, 53)
        );
        packet.payload.to_vec()
    }

    proptest! {
        /// Any order, with duplicates.
        #[test]
        fn datagrams_are_reassembled_in_any_order(
            v6: bool,
            payload in prop::collection::vec(any::<u8>(), 17..2000),
            cuts in prop::collection::vec(1usize..300, 1..20),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let pieces = pieces(v6, &payload, &cuts);
            prop_assume!(pieces.len() > 1);
            let mut table = FragmentReassembler::new(1 << 20);
            let mut missing: Vec<usize> = (0..pieces.len()).collect();
            let order: Vec<usize> = order.iter().map(|i| i.index(pieces.len())).chain(0..pieces.len()).collect();
            for (n, i) in order.into_iter().enumerate() {
                missing.retain(|m| *m != i);
                let whole = add(&mut table, &pieces[i], n as i64);
                prop_assert_eq!(whole.is_some(), missing.is_empty());
                if let Some(whole) = whole {
                    prop_assert_eq!(payload_of(&whole), payload);
                    prop_assert_eq!((whole.packets, whole.ts), (n as u64 + 1, Timestamp(n as i64)));
                    prop_assert_eq!((table.held_bytes, table.order.len(), table.counters.overlaps), (0, 0, 0));
                    return Ok(());
                }
            }
        }

        /// Random fragments: for IPv4 the first byte at an offset wins, as in an array that is written once.
        #[test]
        fn first_bytes_count(parts in prop::collection::vec((0usize..12, 1usize..6, any::<u8>()), 1..30)) {
            let head = &pieces(false, &[0; 9], &[])[0][..34];
            let mut table = FragmentReassembler::new(1 << 20);
            let mut array = vec![None; 200];
            for (at, len, byte) in parts {
                let start = at * 8;
                let end = (at + len) * 8;
                let packet = part(false, head, &vec![byte; end - start], start, true);
                prop_assert!(add(&mut table, &packet, 0).is_none());
                array[start..end].iter_mut().for_each(|place| *place = place.or(Some(byte)));
            }
            let datagram = table.datagrams.values().next().expect("a datagram that waits");
            let covered = array.iter().filter(|place| place.is_some()).count();
            prop_assert_eq!(datagram.covered as usize, covered);
            for part in &datagram.parts {
                let start = part.start as usize;
                let end = part.end as usize;
                let expected: Option<Vec<u8>> = array[start..end].iter().copied().collect();
                prop_assert_eq!(Some(part.bytes.clone()), expected);
            }
        }
    }

    #[test]
    fn overlaps_spoil_v6_only() {
        for v6 in [false, true] {
            let coarse = pieces(v6, &[7; 56], &[4]);
            let fine = pieces(v6, &[7; 56], &[2, 6]);
            let mut table = FragmentReassembler::new(1 << 20);
            assert!(
                add(&mut table, &coarse[0], 0).is_none() && add(&mut table, &fine[1], 0).is_none()
            );
            assert_eq!(
                add(&mut table, &coarse[1], 0).map(|whole| payload_of(&whole)),
                (!v6).then(|| vec![7; 56])
            );
            assert_eq!(table.counters.overlaps, if v6 { 1 } else { 2 });
        }
    }

    #[test]
    fn first_fragment_of_an_incomplete_datagram_is_used() {
        for v6 in [false, true] {
            let pieces = pieces(v6, &[7; 100], &[3, 6]);
            let mut table = FragmentReassembler::new(1 << 20);
            add(&mut table, &pieces[0], 5);
            assert!(
                table.give_up(Timestamp(PATIENCE_NS)).is_empty(),
                "it may still come"
            );
            let given_up = table.give_up(Timestamp(PATIENCE_NS + 6));
            let captured = given_up[0].captured();
            let packet = Packet::decode(&captured).expect("a packet that was cut");
            assert_eq!(
                (packet.payload, packet.payload_original_len),
                (&[7; 16][..], 100)
            );
            assert_eq!(
                (packet.ts, table.counters.incomplete, table.held_bytes),
                (Timestamp(5), 1, 0)
            );
            // A datagram without its first fragment is not delivered.
            add(&mut table, &pieces[1], 5);
            assert!(table.give_up_all().is_empty());
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut table = FragmentReassembler::new(10_000);
        let first = &pieces(false, &[7; 400], &[20])[0];
        for ident in 0..1000u16 {
            let mut packet = first.clone();
            packet[18..20].copy_from_slice(&ident.to_be_bytes());
            add(&mut table, &packet, 0);
            assert!(table.held_bytes <= 10_000);
        }
        let given_up = table.give_up(Timestamp(0));
        assert_eq!(given_up.len() as u64, table.counters.evicted);
        assert_eq!(given_up.len() + table.order.len(), 1000);
    }

    #[test]
    fn impossible_parts() {
        let head = &pieces(false, &[0; 9], &[])[0][..34];
        let mut table = FragmentReassembler::new(1 << 20);
        for (offset, len, more, malformed) in [
            (8, 56, true, 0),
            (65_528, 8, true, 1),
            (32, 8, false, 2),
            (64, 8, false, 2),
            (72, 8, true, 3),
            (0, 0, true, 4),
            (0, 8, true, 4),
        ] {
            add(
                &mut table,
                &part(false, head, &vec![0; len], offset, more),
                0,
            );
            assert_eq!(table.counters.malformed, malformed, "{offset} {len} {more}");
        }
        assert_eq!(
            table.counters.reassembled, 1,
            "the good ones are a datagram"
        );
        assert_eq!(
            Packet::decode(&captured(&[], 0)).err(),
            Some(DecodeError::Malformed)
        );
    }
}
