//! Deals the packets of one input to several workers: by flow, so that each flow is seen whole by one of them, or by
//! whole blocks in turn, where flows do not matter and every packet enters. The gate stands here, before the packets are dealt; blocks are shared and not copied, a worker is told which places
//! of a block are its own. Every worker is told of every block's end, so that all keep the same time.

use std::collections::VecDeque;
use std::sync::Arc;

use capture::Block;
use wire::{Captured, Packet, TakePacket, Timestamp};

use crate::gate::{Gate, Verdict};
use crate::ring::{Receiver, Sender, ring};
use crate::worker::Epochs;
use crate::{Accounting, Progress};

/// Blocks that wait for a worker at most: enough to bridge its busy moments, and what bounds the memory in flight.
const BLOCKS_WAITING: usize = 64;

/// A worker's part of a block.
pub(crate) struct Share {
    pub block: Arc<Block>,
    /// Which of its packets.
    pub places: Vec<u16>,
    /// How late it is at the block's end.
    pub clock: Timestamp,
    /// The epoch that the block ends.
    pub epoch: Option<u64>,
}

/// See the module's text.
pub(crate) struct Spread {
    gate: Gate,
    accounting: Accounting,
    seed: u64,
    by_block: bool,
    turn: usize,
    lanes: Vec<Sender<Share>>,
    shares: Vec<Vec<u16>>,
    epochs: Epochs,
    epoch: u64,
    clock: Timestamp,
    /// Blocks that have been dealt; the first is free again when nobody has it any more.
    dealt: VecDeque<Arc<Block>>,
}

/// The worker at the other end is gone.
pub(crate) struct WorkerGone;

impl Spread {
    /// Deals to `workers` workers; also where each finds its shares. What a plan asks of `packets_only` needs no flows.
    pub fn new(
        gate: Gate,
        workers: usize,
        (seed, packets_only): (u64, bool),
    ) -> (Spread, Vec<Receiver<Share>>) {
        let by_block = packets_only && gate.is_open();
        let (lanes, receivers) = (0..workers).map(|_| ring(BLOCKS_WAITING)).unzip();
        let spread = Spread {
            gate,
            accounting: Accounting::default(),
            seed,
            by_block,
            turn: 0,
            lanes,
            shares: vec![Vec::new(); workers],
            epochs: Epochs::default(),
            epoch: 0,
            clock: Timestamp::MIN,
            dealt: VecDeque::new(),
        };
        (spread, receivers)
    }

    /// An empty block to fill: one that all workers are done with, or a new one.
    pub fn empty_block(&mut self) -> Block {
        let free = self.dealt.pop_front_if(|block| Arc::strong_count(block) == 1);
        free.and_then(Arc::into_inner).unwrap_or_default()
    }

    /// Deals a block.
    pub fn deal(&mut self, block: Block) -> Result<Progress, WorkerGone> {
        let mut progress = self.sort(&block);
        if let (Some(clock), Progress::Continue) = (block.clock(), progress) {
            self.clock = self.clock.max(clock);
            // Live input ends on time even where nothing comes.
            if block.is_empty() && self.gate.limiter().is_over(clock) {
                progress = Progress::LimitReached;
            }
        }
        let block = Arc::new(block);
        let epoch = self.epochs.is_over(self.clock).then_some(self.epoch);
        self.epoch += u64::from(epoch.is_some());
        for (lane, share) in self.lanes.iter_mut().zip(&mut self.shares) {
            let places = share.clone();
            share.clear();
            let share = Share { block: block.clone(), places, clock: self.clock, epoch };
            lane.send(share).map_err(|_| WorkerGone)?;
        }
        self.dealt.push_back(block);
        Ok(progress)
    }

    /// How late it is by the packets dealt.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// The packets that did not get as far as a worker.
    pub fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    fn sort(&mut self, block: &Block) -> Progress {
        if self.by_block {
            self.turn = (self.turn + 1) % self.shares.len();
            self.shares[self.turn].extend(0..block.len() as u16);
            self.clock = block.records().iter().map(|record| record.ts).fold(self.clock, Timestamp::max);
            return Progress::Continue;
        }
        for (place, captured) in block.packets().enumerate() {
            let mut deal = Deal { seed: self.seed, place: place as u16, shares: &mut self.shares };
            let verdict = self.gate.admit(&captured, &mut self.accounting, &mut deal);
            if verdict == Verdict::Over {
                return Progress::LimitReached;
            }
            self.clock = self.clock.max(captured.ts);
        }
        Progress::Continue
    }
}

/// Gives a packet to the worker that has its flow.
struct Deal<'s> {
    seed: u64,
    place: u16,
    shares: &'s mut [Vec<u16>],
}

impl<'a> TakePacket<'a> for Deal<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &Captured<'a>, packet: &Packet<'a>) {
        let hash = packet.five_tuple.flow_key().0.hash(self.seed);
        let lane = ((hash >> 32) * self.shares.len() as u64) >> 32;
        self.shares[lane as usize].push(self.place);
    }
}
