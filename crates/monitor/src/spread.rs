//! Deals the packets of one input to several workers: by flow, so that each flow is seen whole by one of them, or by
//! whole blocks in turn, where flows do not matter and every packet enters. The gate stands here, before the packets are dealt; blocks are shared and not copied, a worker is told which places
//! of a block are its own. Every worker is told of every block's end, so that all keep the same time.

use std::collections::VecDeque;
use std::sync::Arc;

use capture::{Block, Record};
use wire::{Captured, Packet, TakePacket, Timestamp};

use crate::fragments::Whole;
use crate::gate::{Gate, Verdict};
use crate::ring::{Receiver, Sender, ring};
use crate::worker::Epochs;
use crate::{Accounting, Progress};

/// Blocks that wait for a worker at most: enough to bridge its busy moments, and what bounds the memory in flight.
const BLOCKS_WAITING: usize = 64;

/// A worker's part of a block.
pub(crate) struct Share {
    dealt: Arc<Dealt>,
    worker: usize,
    /// How late it is at the block's end.
    pub clock: Timestamp,
    /// The epoch that the block ends.
    pub epoch: Option<u64>,
}

impl Share {
    /// The worker's packets of the block.
    pub fn packets(&self) -> impl Iterator<Item = Captured<'_>> {
        self.dealt.block.select(&self.dealt.places[self.worker])
    }
}

/// A block and, for each worker, which of its packets it has. Shared and used again as a whole, so that nothing is
/// allocated in one thread and freed in another.
#[derive(Default)]
struct Dealt {
    block: Block,
    places: Vec<Vec<u16>>,
}

/// See the module's text.
pub(crate) struct Spread {
    gate: Gate,
    accounting: Accounting,
    seed: u64,
    by_block: bool,
    turn: usize,
    lanes: Vec<Sender<Share>>,
    /// For the next block.
    places: Vec<Vec<u16>>,
    epochs: Epochs,
    epoch: u64,
    clock: Timestamp,
    /// Blocks that have been dealt; the first is free again when nobody has it any more.
    dealt: VecDeque<Arc<Dealt>>,
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
            places: Vec::new(),
            epochs: Epochs::default(),
            epoch: 0,
            clock: Timestamp::MIN,
            dealt: VecDeque::new(),
        };
        (spread, receivers)
    }

    /// An empty block to fill: one that all workers are done with, or a new one.
    pub fn empty_block(&mut self) -> Block {
        let free = self.dealt.pop_front_if(|dealt| Arc::strong_count(dealt) == 1);
        let Dealt { block, places } = free.and_then(Arc::into_inner).unwrap_or_default();
        self.places = places;
        block
    }

    /// Deals a block.
    pub fn deal(&mut self, mut block: Block) -> Result<Progress, WorkerGone> {
        self.begin();
        let mut progress = self.sort(&mut block);
        if let (Some(clock), Progress::Continue) = (block.clock(), progress) {
            self.clock = self.clock.max(clock);
            // Live input ends on time even where nothing comes.
            if block.is_empty() && self.gate.limiter().is_over(clock) {
                progress = Progress::LimitReached;
            }
        }
        let given_up = self.gate.give_up(Some(self.clock));
        self.add(given_up, &mut block);
        self.send(block)?;
        Ok(progress)
    }

    /// The input has ended: deals what waited for more of it.
    pub fn finish(&mut self) -> Result<(), WorkerGone> {
        self.begin();
        let mut block = Block::default();
        let given_up = self.gate.give_up(None);
        self.add(given_up, &mut block);
        if block.is_empty() { Ok(()) } else { self.send(block) }
    }

    /// No worker has a place yet.
    fn begin(&mut self) {
        self.places.resize_with(self.lanes.len(), Vec::new);
        self.places.iter_mut().for_each(Vec::clear);
    }

    /// Adds packets to a block that were put together.
    fn add(&mut self, wholes: Vec<Whole>, block: &mut Block) {
        for whole in wholes {
            let record = record_of(&whole, block);
            block.push(record);
            self.admit_whole(&whole, block.len() - 1);
            self.put_in_place(block, block.len() - 1);
        }
    }

    fn send(&mut self, block: Block) -> Result<(), WorkerGone> {
        let dealt = Arc::new(Dealt { block, places: std::mem::take(&mut self.places) });
        let epoch = self.epochs.is_over(self.clock).then_some(self.epoch);
        self.epoch += u64::from(epoch.is_some());
        for (worker, lane) in self.lanes.iter_mut().enumerate() {
            let share = Share { dealt: dealt.clone(), worker, clock: self.clock, epoch };
            lane.send(share).map_err(|_| WorkerGone)?;
        }
        self.dealt.push_back(dealt);
        Ok(())
    }

    /// How late it is by the packets dealt.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// The packets that did not get as far as a worker.
    pub fn accounting(&self) -> Accounting {
        Accounting { fragments: self.gate.fragments(), ..self.accounting.clone() }
    }

    fn sort(&mut self, block: &mut Block) -> Progress {
        let mut place = 0;
        loop {
            let (progress, stopped) = match self.by_block {
                true => self.sort_by_block(block, place),
                false => self.sort_by_flow(block, place),
            };
            match self.put_in_place(block, stopped) {
                None => return progress,
                Some(Verdict::Over) => return Progress::LimitReached,
                Some(_) => place = stopped + 1,
            }
        }
    }

    /// A datagram that has become whole takes the place of the packet that made it so; what the gate says of the last
    /// one, as it may itself be the missing part of another.
    fn put_in_place(&mut self, block: &mut Block, place: usize) -> Option<Verdict> {
        let mut verdict = None;
        while let Some(whole) = self.gate.take_whole() {
            let record = record_of(&whole, block);
            block.replace(place, record);
            verdict = Some(self.admit_whole(&whole, place));
        }
        verdict
    }

    /// Gives packets from a place on to the workers that have their flows, up to one that completes a datagram.
    fn sort_by_flow(&mut self, block: &Block, from: usize) -> (Progress, usize) {
        for (place, captured) in block.packets().enumerate().skip(from) {
            let mut deal = Deal { seed: self.seed, place: place as u16, places: &mut self.places };
            let verdict = self.gate.admit(&captured, &mut self.accounting, &mut deal);
            if verdict == Verdict::Over {
                return (Progress::LimitReached, place);
            }
            self.clock = self.clock.max(captured.ts);
            if verdict == Verdict::Completed {
                return (Progress::Continue, place);
            }
        }
        (Progress::Continue, block.len())
    }

    /// The same where flows do not matter: all of a block to one worker.
    fn sort_by_block(&mut self, block: &Block, from: usize) -> (Progress, usize) {
        if from == 0 {
            self.turn = (self.turn + 1) % self.lanes.len();
        }
        for (place, captured) in block.packets().enumerate().skip(from) {
            self.clock = self.clock.max(captured.ts);
            if Packet::is_surely_whole(&captured) {
                self.places[self.turn].push(place as u16);
                continue;
            }
            match self.gate.admit_fragment(&captured, &mut self.accounting) {
                None => self.places[self.turn].push(place as u16),
                Some(Verdict::Completed) => return (Progress::Continue, place),
                Some(_) => {}
            }
        }
        (Progress::Continue, block.len())
    }

    /// Gives a packet that was put together, and will be at this place, to its worker.
    fn admit_whole(&mut self, whole: &Whole, place: usize) -> Verdict {
        let mut deal = Deal { seed: self.seed, place: place as u16, places: &mut self.places };
        self.gate.admit_whole(whole, &mut self.accounting, &mut deal)
    }
}

/// Where a packet lies that was put together: in a buffer of its own.
fn record_of(whole: &Whole, block: &mut Block) -> Record {
    let len = whole.bytes.len() as u32;
    let buffer = block.add_buffer(whole.bytes.clone());
    let &Whole { ts, link_type, original_len, .. } = whole;
    Record { ts, link_type, original_len, len, start: 0, buffer }
}

/// Gives a packet to the worker that has its flow.
struct Deal<'s> {
    seed: u64,
    place: u16,
    places: &'s mut [Vec<u16>],
}

impl<'a> TakePacket<'a> for Deal<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &Captured<'a>, packet: &Packet<'a>) {
        let hash = packet.five_tuple.flow_hash(self.seed);
        let lane = ((hash >> 32) * self.places.len() as u64) >> 32;
        self.places[lane as usize].push(self.place);
    }
}
