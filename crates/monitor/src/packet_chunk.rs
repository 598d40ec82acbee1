//! A chunk: packets that one worker has read from a shared source, with the positions of each worker's packets.
//!
//! The order of packets is decided once, when a chunk is read; positions are sorted by flow afterward, without a lock.
//! Every worker receives the end of every epoch together with its last packet in it, so all workers have the same time.

use std::ops::Range;

use capture::{BlockView, PacketBlock};
use stream::{LimitedStretch, LossStretch};
use wire::{CapturedPacket, Packet, PacketConsumer, Timestamp};

use crate::PacketAccounting;
use crate::gate::Gate;
use crate::pipeline::PreparedPacket;

/// Odd factor (2^64 divided by the golden ratio), whose product depends on all bits of a hash in its upper half.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Position of a packet in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketPosition {
    block: u16,
    place: u16,
}

/// Consecutive packets of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketRange {
    block: u16,
    places: Range<usize>,
}

/// End of an epoch, as sent to every worker.
#[derive(Clone, Copy)]
pub(crate) struct EpochEnd {
    /// Number of the epoch.
    pub epoch: u64,
    /// Event time at the end of the epoch.
    pub clock: Timestamp,
    /// Losses reported by the source since the last report.
    pub lost: Option<LossStretch>,
    /// Limits of the gate that took effect in this epoch.
    pub limited: Option<LimitedStretch>,
}

/// Packets with their memory. Reused, so that no memory is allocated in one thread and freed in another.
#[derive(Default)]
pub(crate) struct PacketChunk {
    /// Storage of blocks, of which the first `len` are filled.
    blocks: Vec<PacketBlock>,
    len: usize,
    /// Admitted packets, in their order.
    admitted: PacketList<PacketRange>,
    /// Admitted packets of each worker, if flows matter.
    lists: Vec<PacketList<(PacketPosition, PreparedPacket)>>,
    /// Otherwise: the worker that processes all of them.
    processor: usize,
    /// Epochs that end in the chunk.
    ends: Vec<EpochEnd>,
    /// State of the source at the end of the chunk.
    pub end: ChunkEnd,
}

/// State of a source at the end of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct ChunkEnd {
    /// Event time.
    pub clock: Timestamp,
    /// Losses reported by the source since the last report; only in the last chunk.
    pub lost: Option<LossStretch>,
    /// Limits of the gate that took effect since the last epoch; only in the last chunk.
    pub limited: Option<LimitedStretch>,
}

impl Default for ChunkEnd {
    fn default() -> ChunkEnd {
        ChunkEnd {
            clock: Timestamp::MIN,
            lost: None,
            limited: None,
        }
    }
}

/// Packets by epoch.
struct PacketList<P> {
    packets: Vec<P>,
    /// For each epoch end, the number of packets before it.
    ends: Vec<u32>,
}

/// A worker's packets in an epoch.
pub(crate) enum EpochPackets<'c> {
    /// See [`PacketChunk::range`].
    Undecoded(&'c [PacketRange]),
    /// See [`PacketChunk::select_prepared`].
    Prepared(&'c [(PacketPosition, PreparedPacket)]),
}

/// Adds packets of a block to the admitted ones.
pub(crate) struct AdmittedPlaces<'c> {
    block: u16,
    ranges: &'c mut Vec<PacketRange>,
    /// Number of ranges of ended epochs.
    ended: usize,
}

impl AdmittedPlaces<'_> {
    #[inline(always)]
    pub fn push(&mut self, places: Range<usize>) {
        let block = self.block;
        match self.ranges[self.ended..].last_mut() {
            Some(last) if last.block == block && last.places.end == places.start => {
                last.places.end = places.end;
            }
            _ => self.ranges.push(PacketRange { block, places }),
        }
    }
}

impl<P> Default for PacketList<P> {
    fn default() -> PacketList<P> {
        PacketList {
            packets: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl<P> PacketList<P> {
    fn clear(&mut self) {
        self.packets.clear();
        self.ends.clear();
    }

    fn end_epoch(&mut self) {
        self.ends.push(self.packets.len() as u32);
    }

    /// Packets by epoch; the last epoch may continue in the next chunk.
    fn epochs(&self) -> impl Iterator<Item = &[P]> {
        let all = self.packets.len() as u32;
        let mut from = 0;
        self.ends.iter().copied().chain([all]).map(move |to| {
            let epoch = from as usize..to as usize;
            from = to;
            &self.packets[epoch]
        })
    }
}

impl PacketChunk {
    /// Removes all packets; keeps the storage.
    pub fn clear(&mut self) {
        self.blocks[..self.len]
            .iter_mut()
            .for_each(PacketBlock::clear);
        self.len = 0;
        self.admitted.clear();
        self.ends.clear();
        self.end = ChunkEnd::default();
    }

    /// An empty block, added at the end.
    pub fn add_block(&mut self) -> &mut PacketBlock {
        if self.len == self.blocks.len() {
            self.blocks.push(PacketBlock::default());
        }
        self.len += 1;
        &mut self.blocks[self.len - 1]
    }

    /// The block that was added last.
    ///
    /// # Panics
    /// Without a block.
    pub fn last_block(&mut self) -> &mut PacketBlock {
        &mut self.blocks[self.len - 1]
    }

    /// Number of packets that were read.
    pub fn packets(&self) -> usize {
        self.blocks[..self.len].iter().map(PacketBlock::len).sum()
    }

    /// The last block, and the list of admitted packets to which its packets are added.
    ///
    /// # Panics
    /// Without a block.
    pub fn split_last(&mut self) -> (&PacketBlock, AdmittedPlaces<'_>) {
        let block = self.len - 1;
        let places = AdmittedPlaces {
            block: block as u16,
            ended: self.admitted.ends.last().map_or(0, |end| *end as usize),
            ranges: &mut self.admitted.packets,
        };
        (&self.blocks[block], places)
    }

    /// Ends an epoch after the packets admitted so far.
    pub fn end_epoch(&mut self, end: EpochEnd) {
        self.admitted.end_epoch();
        self.ends.push(end);
    }

    /// The worker's packets by epoch; the last epoch may continue in the next chunk.
    pub fn epochs(
        &self,
        worker: usize,
    ) -> impl Iterator<Item = (EpochPackets<'_>, Option<EpochEnd>)> {
        let list = self.lists.get(worker);
        let prepared = list.into_iter().flat_map(PacketList::epochs);
        let is_all = list.is_none() && worker == self.processor;
        let undecoded = self
            .admitted
            .epochs()
            .map(move |epoch| if is_all { epoch } else { &[] });
        let ends = self.ends.iter().copied().map(Some).chain([None]);
        prepared
            .map(EpochPackets::Prepared)
            .chain(undecoded.map(EpochPackets::Undecoded))
            .zip(ends)
    }

    /// The packets of a range.
    pub fn range(&self, range: &PacketRange) -> impl Iterator<Item = CapturedPacket<'_>> {
        self.blocks[usize::from(range.block)].range(range.places.clone())
    }

    /// Prepared packets.
    pub fn select_prepared<'a>(
        &'a self,
        packets: &'a [(PacketPosition, PreparedPacket)],
    ) -> impl Iterator<Item = (CapturedPacket<'a>, PreparedPacket)> {
        let mut reader = PositionReader::new(&self.blocks);
        packets
            .iter()
            .map(move |(at, prepared)| (reader.packet(*at), *prepared))
    }
}

/// Reads packets; caches the last block, which is usually that of the next packet.
struct PositionReader<'a> {
    blocks: &'a [PacketBlock],
    block: u16,
    view: Option<BlockView<'a>>,
}

impl<'a> PositionReader<'a> {
    fn new(blocks: &'a [PacketBlock]) -> PositionReader<'a> {
        PositionReader {
            blocks,
            block: u16::MAX,
            view: None,
        }
    }

    #[inline(always)]
    fn packet(&mut self, PacketPosition { block, place }: PacketPosition) -> CapturedPacket<'a> {
        let view = match &mut self.view {
            Some(view) if self.block == block => view,
            view => {
                self.block = block;
                view.insert(self.blocks[usize::from(block)].view())
            }
        };
        view.packet(place.into())
    }
}

/// Assigns the packets of a chunk to workers: by flow, so that each flow is processed by one worker, or all to the reader
/// of the chunk if flows do not matter.
pub(crate) struct PacketSorter {
    /// Applies the conditions that the reader has left open; `None`: flows do not matter.
    gate: Option<Gate>,
    accounting: PacketAccounting,
    /// Seed of the workers' flow tables.
    seed: u64,
    workers: usize,
}

impl PacketSorter {
    /// Creates a sorter for this number of workers; `seed`: seed of their flow tables.
    pub fn new(gate: Option<Gate>, workers: usize, seed: u64) -> PacketSorter {
        PacketSorter {
            gate,
            accounting: PacketAccounting::default(),
            seed,
            workers,
        }
    }

    /// Assigns all packets; `reader`: the worker that has read the chunk.
    pub fn sort(&mut self, chunk: &mut PacketChunk, reader: usize) {
        chunk.processor = reader;
        let Some(gate) = &mut self.gate else { return };
        let mut lists = std::mem::take(&mut chunk.lists);
        lists.resize_with(self.workers, PacketList::default);
        lists.iter_mut().for_each(PacketList::clear);
        for (n, epoch) in chunk.admitted.epochs().enumerate() {
            for range in epoch {
                for (captured, place) in chunk.range(range).zip(range.places.clone()) {
                    let mut enter = FlowDispatch {
                        seed: self.seed,
                        position: PacketPosition {
                            block: range.block,
                            place: place as u16,
                        },
                        lists: &mut lists,
                    };
                    gate.admit(&captured, &mut self.accounting, &mut enter);
                }
            }
            if n < chunk.ends.len() {
                lists.iter_mut().for_each(PacketList::end_epoch);
            }
        }
        chunk.lists = lists;
    }

    /// Counts of packets that were not assigned.
    pub fn accounting(&self) -> &PacketAccounting {
        &self.accounting
    }
}

/// Assigns a packet to the worker of its flow.
struct FlowDispatch<'s> {
    seed: u64,
    position: PacketPosition,
    lists: &'s mut [PacketList<(PacketPosition, PreparedPacket)>],
}

impl<'a> PacketConsumer<'a> for FlowDispatch<'_> {
    #[inline(always)]
    fn packet(&mut self, captured: &CapturedPacket<'a>, packet: &Packet<'a>) {
        let prepared = PreparedPacket::new(captured, packet, self.seed);
        // Independent of the bits that flow tables use, so that the flows of a worker spread over its whole table.
        let hash = prepared.hash().wrapping_mul(SPREAD) >> 32;
        let worker = (hash * self.lists.len() as u64) >> 32;
        self.lists[worker as usize]
            .packets
            .push((self.position, prepared));
    }
}
