//! A chunk: packets that one worker has read from a shared source, with the positions of each worker's packets.
//!
//! The order of packets is decided once, when a chunk is read; positions are sorted by flow afterwards, without a lock.
//! Every worker receives the end of every epoch together with its last packet in it, so all workers have the same time.

use capture::{BlockView, PacketBlock};
use stream::{LimitedStretch, LossStretch};
use wire::{CapturedPacket, Packet, PacketConsumer, Timestamp};

use crate::PacketAccounting;
use crate::gate::Gate;

/// Distinct from the flow table's hash, so that the flows of one worker spread over its whole table.
const SEED: u64 = 0x7370_7265_6164;

/// Position of a packet in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketPosition {
    block: u16,
    place: u16,
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
    admitted: PacketList,
    /// The same by worker.
    lists: Vec<PacketList>,
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

/// Positions of packets.
#[derive(Default)]
struct PacketList {
    positions: Vec<PacketPosition>,
    /// For each epoch end, the number of positions before it.
    ends: Vec<u32>,
}

/// Adds packets of a block to the admitted ones.
pub(crate) struct AdmittedPlaces<'c> {
    block: u16,
    positions: &'c mut Vec<PacketPosition>,
}

impl AdmittedPlaces<'_> {
    #[inline(always)]
    pub fn push(&mut self, place: usize) {
        let place = place as u16;
        let block = self.block;
        self.positions.push(PacketPosition { block, place });
    }
}

impl PacketList {
    fn clear(&mut self) {
        self.positions.clear();
        self.ends.clear();
    }

    fn end_epoch(&mut self) {
        self.ends.push(self.positions.len() as u32);
    }

    /// Positions by epoch; the last epoch may continue in the next chunk.
    fn epochs(&self) -> impl Iterator<Item = &[PacketPosition]> {
        let all = self.positions.len() as u32;
        let mut from = 0;
        self.ends.iter().copied().chain([all]).map(move |to| {
            let epoch = from as usize..to as usize;
            from = to;
            &self.positions[epoch]
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
        let positions = &mut self.admitted.positions;
        let places = AdmittedPlaces {
            block: block as u16,
            positions,
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
    ) -> impl Iterator<Item = (impl Iterator<Item = CapturedPacket<'_>>, Option<EpochEnd>)> {
        let ends = self.ends.iter().copied().map(Some).chain([None]);
        let lists = self.lists[worker].epochs();
        lists.map(|list| self.select(list)).zip(ends)
    }

    /// The packets at these positions.
    fn select<'a>(
        &'a self,
        positions: &'a [PacketPosition],
    ) -> impl Iterator<Item = CapturedPacket<'a>> {
        let mut view: Option<(u16, BlockView<'a>)> = None;
        positions.iter().map(move |position| {
            let (_, block) = match &mut view {
                Some(known) if known.0 == position.block => known,
                other => {
                    let block = self.blocks[usize::from(position.block)].view();
                    other.insert((position.block, block))
                }
            };
            block.packet(position.place.into())
        })
    }
}

/// Assigns the packets of a chunk to workers: by flow, so that each flow is processed by one worker, or all to one worker
/// if flows do not matter.
pub(crate) struct PacketSorter {
    /// Applies the conditions that the reader has left open; `None`: flows do not matter.
    gate: Option<Gate>,
    accounting: PacketAccounting,
    seed: u64,
    workers: usize,
}

impl PacketSorter {
    /// Creates a sorter for this number of workers; `flow_seed`: seed of the workers' flow tables.
    pub fn new(gate: Option<Gate>, workers: usize, flow_seed: u64) -> PacketSorter {
        PacketSorter {
            gate,
            accounting: PacketAccounting::default(),
            seed: flow_seed ^ SEED,
            workers,
        }
    }

    /// Assigns all packets; `reader`: the worker that has read the chunk.
    pub fn sort(&mut self, chunk: &mut PacketChunk, reader: usize) {
        let mut lists = std::mem::take(&mut chunk.lists);
        lists.resize_with(self.workers, PacketList::default);
        lists.iter_mut().for_each(PacketList::clear);
        if self.gate.is_some() {
            self.sort_by_flow(chunk, &mut lists);
        } else {
            for _ in &chunk.ends {
                lists.iter_mut().for_each(PacketList::end_epoch);
            }
            std::mem::swap(&mut lists[reader], &mut chunk.admitted);
        }
        chunk.lists = lists;
    }

    fn sort_by_flow(&mut self, chunk: &PacketChunk, lists: &mut [PacketList]) {
        let Some(gate) = &mut self.gate else { return };
        for (n, epoch) in chunk.admitted.epochs().enumerate() {
            for (captured, position) in chunk.select(epoch).zip(epoch) {
                let mut enter = FlowDispatch {
                    seed: self.seed,
                    position: *position,
                    lists,
                };
                gate.admit(&captured, &mut self.accounting, &mut enter);
            }
            if n < chunk.ends.len() {
                lists.iter_mut().for_each(PacketList::end_epoch);
            }
        }
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
    lists: &'s mut [PacketList],
}

impl<'a> PacketConsumer<'a> for FlowDispatch<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &CapturedPacket<'a>, packet: &Packet<'a>) {
        let hash = packet.five_tuple.flow_hash(self.seed);
        let worker = ((hash >> 32) * self.lists.len() as u64) >> 32;
        self.lists[worker as usize].positions.push(self.position);
    }
}
