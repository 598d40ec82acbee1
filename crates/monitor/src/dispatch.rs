//! Distributes the packets of one input to several workers: by flow, so that each flow is processed by one worker, or
//! in whole blocks if flows do not matter.
//!
//! The gate admits packets before they are distributed. Blocks are shared, not copied; a worker receives the positions
//! of its packets within a block. Every worker receives the end of every epoch together with its last packet in it, so
//! all workers have the same time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use capture::{PacketBlock, PacketRecord, PacketSource};
use stream::{LimitedStretch, LossStretch};
use wire::{CapturedPacket, Packet, PacketConsumer, Timestamp};

use crate::epochs::EpochSplitter;
use crate::fragments::ReassembledPacket;
use crate::gate::{Gate, GateVerdict};
use crate::limit_meter::{LimitMeter, reached};
use crate::loss_meter::LossMeter;
use crate::ring::{RingReceiver, RingSender, ring};
use crate::{BatchProgress, PacketAccounting};

/// Maximum queued blocks per worker: covers short stalls and bounds the memory in flight.
const BLOCKS_WAITING: usize = 64;

/// Distinct from the flow table's hash, so that the flows of one worker spread over its whole table.
const SEED: u64 = 0x7370_7265_6164;

/// One worker's packets of a block.
pub(crate) struct WorkerShare {
    dealt: Arc<AssignedBlock>,
    worker: usize,
    /// Event time at the end of the block.
    pub clock: Timestamp,
    /// Losses reported by the source since the last report; only with the final share.
    pub lost: Option<LossStretch>,
    /// Limits of the gate that took effect since the last epoch; only with the final share.
    pub limited: Option<LimitedStretch>,
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

impl WorkerShare {
    /// The worker's packets by epoch; the last epoch may continue in the next block.
    pub fn epochs(
        &self,
    ) -> impl Iterator<Item = (impl Iterator<Item = CapturedPacket<'_>>, Option<EpochEnd>)> {
        let block = &self.dealt.block;
        let hand = &self.dealt.hands[self.worker];
        let mut from = 0;
        (0..=self.dealt.ends.len()).map(move |n| {
            let to = hand
                .ends
                .get(n)
                .map_or(hand.places.len(), |to| usize::from(*to));
            let places = &hand.places[std::mem::replace(&mut from, to)..to];
            (block.select(places), self.dealt.ends.get(n).copied())
        })
    }
}

/// A block with the packet positions of each worker. Shared and reused as a whole, so that no memory is
/// allocated in one thread and freed in another.
#[derive(Default)]
struct AssignedBlock {
    block: PacketBlock,
    hands: Vec<WorkerPackets>,
    /// Epochs that end in the block.
    ends: Vec<EpochEnd>,
}

/// One worker's packets of a block.
#[derive(Default)]
struct WorkerPackets {
    /// Positions in the block.
    places: Vec<u16>,
    /// For each epoch end, the number of positions before it.
    ends: Vec<u16>,
}

/// Distributes blocks to workers.
pub(crate) struct PacketDispatcher {
    gate: Gate,
    accounting: PacketAccounting,
    seed: u64,
    by_block: bool,
    turn: usize,
    lanes: Vec<RingSender<WorkerShare>>,
    /// Assignments of the block being distributed.
    hands: Vec<WorkerPackets>,
    ends: Vec<EpochEnd>,
    epochs: EpochSplitter,
    epoch: u64,
    losses: LossMeter,
    limits: LimitMeter,
    /// Windows that are partial, until they are reported.
    partial: Option<LimitedStretch>,
    /// Packets that were read together with earlier ones but lie beyond LIMIT.
    unwanted: Vec<PacketRecord>,
    /// Distributed blocks; the first is reused when all workers have released it.
    dealt: VecDeque<Arc<AssignedBlock>>,
}

/// A position at which distribution is interrupted; it resumes at the next packet.
struct DispatchStop {
    place: usize,
    /// Verdict of the gate on this packet.
    verdict: GateVerdict,
    /// Whether an epoch ends with this packet.
    ends_epoch: bool,
}

/// The worker has closed its channel.
pub(crate) struct WorkerGone;

impl PacketDispatcher {
    /// Creates a dispatcher and one receiver per worker. With `packets_only`, whole blocks are distributed
    /// instead of flows.
    pub fn new(
        gate: Gate,
        workers: usize,
        packets_only: bool,
        flow: &flow::FlowTableConfig,
    ) -> (PacketDispatcher, Vec<RingReceiver<WorkerShare>>) {
        let seed = flow.seed ^ SEED;
        let by_block = packets_only && gate.is_open();
        let (lanes, receivers) = (0..workers).map(|_| ring(BLOCKS_WAITING)).unzip();
        let dispatch = PacketDispatcher {
            gate,
            accounting: PacketAccounting::default(),
            seed,
            by_block,
            turn: 0,
            lanes,
            hands: Vec::new(),
            ends: Vec::new(),
            epochs: EpochSplitter::default(),
            epoch: 0,
            losses: LossMeter::default(),
            limits: LimitMeter::new(flow),
            partial: None,
            unwanted: Vec::new(),
            dealt: VecDeque::new(),
        };
        (dispatch, receivers)
    }

    /// Returns an empty block: a recycled one if all workers have released it.
    pub fn empty_block(&mut self) -> PacketBlock {
        let free = self
            .dealt
            .pop_front_if(|dealt| Arc::strong_count(dealt) == 1);
        let AssignedBlock { block, hands, ends } =
            free.and_then(Arc::into_inner).unwrap_or_default();
        (self.hands, self.ends) = (hands, ends);
        block
    }

    /// Distributes a block read from `source`.
    pub fn deal(
        &mut self,
        mut block: PacketBlock,
        source: &dyn PacketSource,
    ) -> Result<BatchProgress, WorkerGone> {
        self.begin();
        let mut progress = self.sort(&mut block, source);
        if let (Some(clock), BatchProgress::Continue) = (block.clock(), progress) {
            // A time limit ends live input even without packets.
            if block.is_empty() && self.gate.limiter().is_over(clock) {
                progress = BatchProgress::LimitReached;
            }
            if self.epochs.ends_at(clock) {
                self.end_epoch(&mut block, source);
            }
        }
        self.send(block, None, None)?;
        Ok(progress)
    }

    /// Ends the input: distributes incomplete datagrams and the final reports.
    pub fn finish(&mut self, source: &dyn PacketSource) -> Result<(), WorkerGone> {
        self.begin();
        let mut block = PacketBlock::default();
        let given_up = self.gate.give_up(None);
        self.add(given_up, &mut block);
        let lost = self.losses.look(source, &self.epochs);
        let limited = self.look_at_limits();
        if block.is_empty() && lost.is_none() && limited.is_none() {
            return Ok(());
        }
        self.send(block, lost, limited)
    }

    /// Clears all assignments.
    fn begin(&mut self) {
        self.hands
            .resize_with(self.lanes.len(), WorkerPackets::default);
        self.hands.iter_mut().for_each(|hand| {
            hand.places.clear();
            hand.ends.clear();
        });
        self.ends.clear();
    }

    /// Ends an epoch after the packets distributed so far.
    fn end_epoch(&mut self, block: &mut PacketBlock, source: &dyn PacketSource) {
        let clock = self.epochs.clock();
        let given_up = self.gate.give_up(Some(clock));
        self.add(given_up, block);
        self.hands
            .iter_mut()
            .for_each(|hand| hand.ends.push(hand.places.len() as u16));
        let lost = self.losses.look(source, &self.epochs);
        let limited = self.look_at_limits();
        self.ends.push(EpochEnd {
            epoch: self.epoch,
            clock,
            lost,
            limited,
        });
        self.epoch += 1;
    }

    /// Marks windows as partial.
    pub fn mark_partial(&mut self, stretch: LimitedStretch) {
        self.partial = LimitedStretch::union(self.partial, Some(stretch));
    }

    fn look_at_limits(&mut self) -> Option<LimitedStretch> {
        let limited = self
            .limits
            .look(self.epochs.clock(), reached(&self.accounting()));
        LimitedStretch::union(limited, self.partial.take())
    }

    /// Appends reassembled datagrams to the block.
    fn add(&mut self, wholes: Vec<ReassembledPacket>, block: &mut PacketBlock) {
        for whole in wholes {
            let record = record_of(&whole, block);
            block.push(record);
            self.admit_whole(&whole, block.len() - 1);
            self.put_in_place(block, block.len() - 1);
        }
    }

    fn send(
        &mut self,
        block: PacketBlock,
        lost: Option<LossStretch>,
        limited: Option<LimitedStretch>,
    ) -> Result<(), WorkerGone> {
        let hands = std::mem::take(&mut self.hands);
        let ends = std::mem::take(&mut self.ends);
        let dealt = Arc::new(AssignedBlock { block, hands, ends });
        for (worker, lane) in self.lanes.iter_mut().enumerate() {
            let share = WorkerShare {
                dealt: dealt.clone(),
                worker,
                clock: self.epochs.clock(),
                lost,
                limited,
            };
            lane.send(share).map_err(|_| WorkerGone)?;
        }
        self.dealt.push_back(dealt);
        Ok(())
    }

    /// Event time of the packets distributed so far.
    pub fn clock(&self) -> Timestamp {
        self.epochs.clock()
    }

    /// Packets that were read but lie beyond LIMIT.
    pub fn unwanted(&self) -> Vec<PacketRecord> {
        self.unwanted.clone()
    }

    /// Counts of packets that did not reach a worker.
    pub fn accounting(&self) -> PacketAccounting {
        PacketAccounting {
            fragments: self.gate.fragments(),
            ..self.accounting.clone()
        }
    }

    /// Distributes the packets of a block, except those appended during distribution, which are already
    /// assigned.
    fn sort(&mut self, block: &mut PacketBlock, source: &dyn PacketSource) -> BatchProgress {
        let mut left = 0..block.len();
        if self.by_block {
            self.turn = (self.turn + 1) % self.lanes.len();
        }
        loop {
            let stop = if self.by_block {
                self.sort_by_block(block, left.clone())
            } else {
                self.sort_by_flow(block, left.clone())
            };
            let Some(DispatchStop {
                place,
                verdict,
                ends_epoch,
            }) = stop
            else {
                return BatchProgress::Continue;
            };
            left.start = place + usize::from(verdict != GateVerdict::Over);
            if verdict == GateVerdict::Over
                || self.put_in_place(block, place) == Some(GateVerdict::Over)
            {
                self.unwanted.extend_from_slice(&block.records()[left]);
                return BatchProgress::LimitReached;
            }
            if ends_epoch {
                self.end_epoch(block, source);
            }
        }
    }

    /// Replaces the packet that completed a datagram by the reassembled datagram, which may itself be the
    /// missing fragment of another. Returns the verdict on the last one.
    fn put_in_place(&mut self, block: &mut PacketBlock, place: usize) -> Option<GateVerdict> {
        let mut verdict = None;
        while let Some(whole) = self.gate.take_whole() {
            let record = record_of(&whole, block);
            block.replace(place, record);
            verdict = Some(self.admit_whole(&whole, place));
        }
        verdict
    }

    /// Assigns packets to workers by flow, up to the first packet that needs other treatment.
    fn sort_by_flow(&mut self, block: &PacketBlock, places: Range<usize>) -> Option<DispatchStop> {
        for (place, captured) in places.clone().zip(block.range(places)) {
            let mut deal = FlowDispatch {
                seed: self.seed,
                place: place as u16,
                hands: &mut self.hands,
            };
            let verdict = self.gate.admit(&captured, &mut self.accounting, &mut deal);
            if let Some(stop) = self.stop(place, verdict, &captured) {
                return Some(stop);
            }
        }
        None
    }

    /// Assigns the whole block to one worker, for queries that do not need flows.
    fn sort_by_block(&mut self, block: &PacketBlock, places: Range<usize>) -> Option<DispatchStop> {
        for (place, captured) in places.clone().zip(block.range(places)) {
            let verdict = if Packet::is_surely_whole(&captured) {
                None
            } else {
                self.gate.admit_fragment(&captured, &mut self.accounting)
            };
            if verdict.is_none() {
                self.hands[self.turn].places.push(place as u16);
            }
            if let Some(stop) = self.stop(place, verdict.unwrap_or(GateVerdict::Entered), &captured)
            {
                return Some(stop);
            }
        }
        None
    }

    /// Returns a stop if the verdict on this packet, or the end of an epoch, interrupts distribution.
    #[inline(always)]
    fn stop(
        &mut self,
        place: usize,
        verdict: GateVerdict,
        packet: &CapturedPacket<'_>,
    ) -> Option<DispatchStop> {
        // A packet beyond LIMIT does not advance time.
        let ends_epoch =
            verdict != GateVerdict::Over && self.epochs.ends_with(packet.ts, packet.bytes.len());
        let stops = ends_epoch || matches!(verdict, GateVerdict::Over | GateVerdict::Completed);
        stops.then_some(DispatchStop {
            place,
            verdict,
            ends_epoch,
        })
    }

    /// Assigns a reassembled packet, stored at position `place`, to its worker.
    fn admit_whole(&mut self, whole: &ReassembledPacket, place: usize) -> GateVerdict {
        let mut deal = FlowDispatch {
            seed: self.seed,
            place: place as u16,
            hands: &mut self.hands,
        };
        self.gate
            .admit_whole(whole, &mut self.accounting, &mut deal)
    }
}

/// Stores a reassembled packet in its own buffer of the block.
fn record_of(whole: &ReassembledPacket, block: &mut PacketBlock) -> PacketRecord {
    let len = whole.bytes.len() as u32;
    let buffer = block.add_buffer(whole.bytes.clone());
    let &ReassembledPacket {
        ts,
        link_type,
        original_len,
        ..
    } = whole;
    PacketRecord {
        ts,
        link_type,
        original_len,
        len,
        start: 0,
        buffer,
    }
}

/// Assigns a packet to the worker of its flow.
struct FlowDispatch<'s> {
    seed: u64,
    place: u16,
    hands: &'s mut [WorkerPackets],
}

impl<'a> PacketConsumer<'a> for FlowDispatch<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &CapturedPacket<'a>, packet: &Packet<'a>) {
        let hash = packet.five_tuple.flow_hash(self.seed);
        let lane = ((hash >> 32) * self.hands.len() as u64) >> 32;
        self.hands[lane as usize].places.push(self.place);
    }
}
