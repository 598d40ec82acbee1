//! A capture in memory, from which packets can be replayed to a monitor in any order. Packets have distinct times, so
//! that a time in a tuple identifies its packet.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Result, ensure};
use testkit::SentPacket;
use wire::packet::TcpFlags;
use wire::{
    CapturedPacket, ChecksumStatus, Endpoint, FiveTuple, LinkType, Packet, Timestamp,
    TransportHeader,
};

use crate::checksums;
use crate::observed_packet::CarriedBytes;
use crate::{ObservedPacket, PacketDamage};

/// The packets.
pub struct PacketRecording {
    bytes: Vec<u8>,
    packets: Vec<RecordedPacket>,
    /// Packets with payload, by time.
    speaking: HashMap<i64, usize>,
    /// The first packet with these bytes.
    firsts: HashMap<(usize, u64), usize>,
    /// The directions of TCP connections: the index of the last one with these endpoints.
    streams: HashMap<FiveTuple, usize>,
    newest: Vec<NewestSegment>,
    /// Minimum distance between packets, in nanoseconds.
    apart: i64,
    /// Whether monitors verify all checksums.
    pub verify_checksums: bool,
}

/// The newest segment of a direction, the reference for the offsets of others.
struct NewestSegment {
    seq: u32,
    offset: u64,
}

struct RecordedPacket {
    ts: Timestamp,
    link_type: LinkType,
    original_len: u32,
    start: usize,
    len: usize,
    ends: Option<(Endpoint, Endpoint)>,
    carried: Option<CarriedBytes>,
    /// Whether the packet was retransmitted.
    repeated: bool,
    /// The packet that first carried the data, if this packet is a retransmission.
    first: Option<usize>,
}

impl PacketRecording {
    /// Loads the first `packets_max` packets of a capture.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a capture.
    pub fn load(path: &Path, packets_max: usize) -> Result<PacketRecording> {
        let mut recording = PacketRecording::new();
        for_each_packet(path, |captured| {
            if recording.len() < packets_max {
                recording.push(captured);
            }
            recording.len() < packets_max
        })?;
        Ok(recording)
    }

    /// Creates a recording of generated packets.
    #[must_use]
    pub fn of(sent: &[SentPacket]) -> PacketRecording {
        let mut recording = PacketRecording::new();
        sent.iter()
            .for_each(|sent| recording.push(&sent.captured(&sent.to_bytes())));
        recording
    }

    /// Creates an empty recording.
    #[must_use]
    pub fn new() -> PacketRecording {
        PacketRecording {
            bytes: Vec::new(),
            packets: Vec::new(),
            speaking: HashMap::new(),
            firsts: HashMap::new(),
            streams: HashMap::new(),
            newest: Vec::new(),
            apart: 1000,
            verify_checksums: false,
        }
    }

    /// The same packets with times scaled so that the busiest connection has this average bit rate.
    #[must_use]
    pub fn at_rate(&self, bits_per_second: f64) -> PacketRecording {
        let mut connections: HashMap<(Endpoint, Endpoint), (i64, i64, u64)> = HashMap::new();
        for p in &self.packets {
            let Some((src, dst)) = p.ends else { continue };
            let ends = if (src.addr.0, src.port) < (dst.addr.0, dst.port) {
                (src, dst)
            } else {
                (dst, src)
            };
            let (_, last, bytes) = connections.entry(ends).or_insert((p.ts.0, p.ts.0, 0));
            *last = p.ts.0;
            *bytes += u64::from(p.original_len);
        }
        let busiest = connections.values().max_by_key(|(.., bytes)| *bytes);
        let (from, to, bytes) = busiest.copied().unwrap_or_default();
        let wanted = bytes as f64 * 8e9 / bits_per_second;
        let pace = wanted / ((to - from) as f64).max(1.0);
        let start = self.packets.first().map_or(0, |p| p.ts.0);
        let mut faster = PacketRecording {
            apart: 10,
            ..PacketRecording::new()
        };
        for (packet, p) in self.packets.iter().enumerate() {
            let ts = Timestamp(start + ((p.ts.0 - start) as f64 * pace) as i64);
            faster.push(&CapturedPacket {
                ts,
                ..self.captured(&ObservedPacket::whole(packet, p.ts))
            });
        }
        faster
    }

    /// The same packets with right checksums, as on the wire, for monitors that verify all of them.
    #[must_use]
    pub fn verified(&self) -> PacketRecording {
        let mut verified = PacketRecording {
            apart: self.apart,
            verify_checksums: true,
            ..PacketRecording::new()
        };
        for seen in self.whole() {
            let captured = self.captured(&seen);
            let bytes = &checksums::completed(&captured);
            verified.push(&CapturedPacket { bytes, ..captured });
        }
        verified
    }

    /// Appends a packet, with a time after all others.
    pub fn push(&mut self, captured: &CapturedPacket<'_>) {
        let after_last = self
            .packets
            .last()
            .map_or(i64::MIN, |p| p.ts.0 + self.apart);
        let ts = Timestamp((captured.ts.0 / self.apart * self.apart).max(after_last));
        let decoded = Packet::decode(captured).ok();
        let carried = decoded.as_ref().and_then(|packet| self.carried_by(packet));
        let this = self.packets.len();
        let speaks = decoded.as_ref().is_some_and(|p| p.payload_original_len > 0);
        if speaks {
            self.speaking.insert(ts.0, this);
        }
        let said = carried.map(|c| (c.stream, c.offset)).filter(|_| speaks);
        let first = said
            .map(|said| *self.firsts.entry(said).or_insert(this))
            .filter(|first| *first != this);
        if let Some(first) = first {
            self.packets[first].repeated = true;
        }
        self.packets.push(RecordedPacket {
            ts,
            link_type: captured.link_type,
            original_len: captured.original_len,
            start: self.bytes.len(),
            len: captured.bytes.len(),
            ends: decoded.map(|p| (p.five_tuple.src, p.five_tuple.dst)),
            carried,
            repeated: false,
            first,
        });
        self.bytes.extend_from_slice(captured.bytes);
    }

    fn carried_by(&mut self, packet: &Packet<'_>) -> Option<CarriedBytes> {
        let TransportHeader::Tcp(tcp) = packet.transport else {
            return None;
        };
        let known = self.streams.get(&packet.five_tuple).copied();
        let seq = tcp.seq.0;
        let opens = tcp.flags.contains(TcpFlags::SYN);
        let stream = match known {
            Some(stream) if !opens || self.newest[stream].seq == seq => stream,
            _ => {
                self.newest.push(NewestSegment {
                    seq,
                    offset: 1 << 40,
                });
                let stream = self.newest.len() - 1;
                self.streams.insert(packet.five_tuple, stream);
                stream
            }
        };
        let newest = &mut self.newest[stream];
        let offset = newest
            .offset
            .wrapping_add_signed(i64::from(seq.wrapping_sub(newest.seq) as i32));
        if offset > newest.offset {
            *newest = NewestSegment { seq, offset };
        }
        let len = u64::from(packet.payload_original_len);
        let cut = len.saturating_sub(packet.payload.len() as u64);
        // A SYN occupies a sequence number before its data.
        Some(CarriedBytes {
            stream,
            offset: offset + u64::from(opens),
            len,
            cut,
        })
    }

    /// Number of packets.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Number of directions of TCP connections.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.newest.len()
    }

    /// All packets unchanged.
    #[must_use]
    pub fn whole(&self) -> Vec<ObservedPacket> {
        self.packets
            .iter()
            .enumerate()
            .map(|(packet, p)| ObservedPacket::whole(packet, p.ts))
            .collect()
    }

    /// The packets found in another capture of the same traffic, compared byte by byte, and all others.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a capture.
    pub fn seen_in(&self, path: &Path) -> Result<Vec<ObservedPacket>> {
        let mut known: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for packet in (0..self.len()).rev() {
            known.entry(self.bytes_of(packet)).or_default().push(packet);
        }
        let mut seen = Vec::new();
        for_each_packet(path, |captured| {
            let packet = known.get_mut(captured.bytes).and_then(Vec::pop);
            seen.push(match packet {
                Some(packet) => ObservedPacket::whole(packet, captured.ts),
                None => ObservedPacket {
                    packet: 0,
                    ts: captured.ts,
                    kind: PacketDamage::Forged,
                    bytes: Some(captured.bytes.into()),
                },
            });
            true
        })?;
        Ok(seen)
    }

    /// Source and destination of a packet.
    #[must_use]
    pub fn ends(&self, packet: usize) -> Option<(Endpoint, Endpoint)> {
        self.packets[packet].ends
    }

    /// The part of a TCP stream in a packet.
    #[must_use]
    pub fn carried(&self, packet: usize) -> Option<CarriedBytes> {
        self.packets[packet].carried
    }

    /// The packet that first carried the same data, if it is another.
    #[must_use]
    pub fn first_of(&self, packet: usize) -> Option<usize> {
        self.packets[packet].first
    }

    /// Whether the data of a packet was retransmitted later.
    #[must_use]
    pub fn is_repeated(&self, packet: usize) -> bool {
        self.packets[packet].repeated
    }

    /// A packet's bytes.
    #[must_use]
    pub fn bytes_of(&self, packet: usize) -> &[u8] {
        let p = &self.packets[packet];
        &self.bytes[p.start..p.start + p.len]
    }

    /// Link type of a packet.
    #[must_use]
    pub fn link_type(&self, packet: usize) -> LinkType {
        self.packets[packet].link_type
    }

    /// The packet with payload from `src` to `dst` at `ts`.
    #[must_use]
    pub fn at(&self, ts: i64, src: Endpoint, dst: Endpoint) -> Option<usize> {
        let packet = *self.speaking.get(&ts)?;
        (self.ends(packet) == Some((src, dst))).then_some(packet)
    }

    /// Whether monitors must discard a packet: they verify checksums, and that of the packet is wrong.
    #[must_use]
    pub fn is_discarded(&self, seen: &ObservedPacket) -> bool {
        let captured = self.captured(seen);
        let status = Packet::decode(&captured).map(|packet| packet.verify_checksum());
        self.verify_checksums
            && !matches!(status, Ok(ChecksumStatus::Right | ChecksumStatus::Unknown))
    }

    /// The packet as delivered by a capture source.
    #[must_use]
    pub fn captured<'a>(&'a self, seen: &'a ObservedPacket) -> CapturedPacket<'a> {
        let p = &self.packets[seen.packet];
        let bytes = seen.bytes.as_deref().unwrap_or(self.bytes_of(seen.packet));
        let original_len = match seen.kind {
            _ if seen.bytes.is_none() => p.original_len,
            PacketDamage::Cut => p.original_len,
            _ => bytes.len() as u32,
        };
        CapturedPacket {
            ts: seen.ts,
            link_type: p.link_type,
            original_len,
            bytes,
        }
    }
}

impl Default for PacketRecording {
    fn default() -> PacketRecording {
        PacketRecording::new()
    }
}

/// Reads a capture until `f` returns false.
///
/// # Errors
/// If the file cannot be read, or is not a capture.
pub fn for_each_packet(path: &Path, mut f: impl FnMut(&CapturedPacket<'_>) -> bool) -> Result<()> {
    let mut source = capture::open(&[path.to_owned()]);
    let mut block = capture::PacketBlock::default();
    let mut any = false;
    let mut more = true;
    while more && source.next_block(&mut block) {
        for captured in block.packets() {
            any = true;
            more = more && f(&captured);
        }
    }
    ensure!(any, "{}: no packets; {:?}", path.display(), source.errors());
    Ok(())
}
