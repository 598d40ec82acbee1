//! Reads a shared source in chunks: the work that depends on the order of packets, done by one worker at a time. It
//! divides packets into epochs, reassembles fragments, applies LIMIT, and stores packets; everything else is left to the
//! workers, so that they wait for each other as little as possible.

use std::ops::Range;

use capture::{PacketRecord, PacketSource};
use stream::LimitedStretch;
use wire::{CapturedPacket, Packet, PacketConsumer};

use crate::capture_start::{CaptureStart, wall_clock};
use crate::epochs::EpochSplitter;
use crate::fragments::ReassembledPacket;
use crate::gate::{Gate, GateVerdict};
use crate::limit_meter::{LimitMeter, reached};
use crate::loss_meter::LossMeter;
use crate::packet_chunk::{EpochEnd, PacketChunk};
use crate::source_log::{SourceLog, SourceNews};
use crate::worker::WorkerFinalReport;
use crate::{BatchProgress, PacketAccounting};

/// Packets after which a chunk is complete: amortizes the exchange between workers, while its headers fit the L2 cache.
const CHUNK_PACKETS: usize = 1024;

/// See the module documentation.
pub(crate) struct ChunkReader {
    source: Box<dyn PacketSource>,
    gate: Gate,
    accounting: PacketAccounting,
    epochs: EpochSplitter,
    epoch: u64,
    losses: LossMeter,
    limits: LimitMeter,
    log: SourceLog,
    /// Start of the capture, until its windows are marked as partial.
    start: Option<CaptureStart>,
    /// Windows that are partial, until they are reported.
    partial: Option<LimitedStretch>,
    /// Whether the source may wait for packets: then the ones read so far are not kept waiting.
    may_wait: bool,
}

/// A position at which reading a block is interrupted; it resumes at the next packet.
struct ReadingStop {
    place: usize,
    /// Verdict of the gate on this packet.
    verdict: GateVerdict,
    /// Whether an epoch ends with this packet.
    ends_epoch: bool,
}

impl ChunkReader {
    /// Creates a reader; `gate` is shared by all workers, `flow` is the configuration of their flow tables.
    pub fn new(
        source: Box<dyn PacketSource>,
        gate: Gate,
        flow: &flow::FlowTableConfig,
        start: Option<CaptureStart>,
    ) -> ChunkReader {
        ChunkReader {
            may_wait: source.progress().1.is_none(),
            source,
            gate,
            accounting: PacketAccounting::default(),
            epochs: EpochSplitter::default(),
            epoch: 0,
            losses: LossMeter::default(),
            limits: LimitMeter::new(flow),
            log: SourceLog::default(),
            start,
            partial: None,
        }
    }

    /// Fills an empty chunk with the next packets. Returns whether more may follow.
    pub fn read(
        &mut self,
        chunk: &mut PacketChunk,
        tell: &mut dyn FnMut(SourceNews),
    ) -> BatchProgress {
        loop {
            if !self.source.next_block(chunk.add_block()) {
                chunk.end.clock = self.epochs.clock();
                return BatchProgress::LimitReached;
            }
            let block = chunk.last_block();
            let is_more = block.is_full() && !self.may_wait;
            self.log.look(block, self.source.as_ref(), tell);
            if let Some(start) = self.start
                && let Some(partial) = start.stretch(block, &self.source.counters(), wall_clock())
            {
                self.start = None;
                self.partial = LimitedStretch::union(self.partial, Some(partial));
            }
            let progress = self.read_block(chunk);
            chunk.end.clock = self.epochs.clock();
            if progress == BatchProgress::LimitReached {
                self.log.limit_reached = true;
                return progress;
            }
            if !is_more || chunk.packets() >= CHUNK_PACKETS {
                return BatchProgress::Continue;
            }
        }
    }

    /// Ends the input: adds incomplete datagrams and the final reports to the last chunk.
    pub fn finish(&mut self, chunk: &mut PacketChunk) {
        chunk.add_block();
        let given_up = self.gate.give_up(None);
        self.add(given_up, chunk);
        chunk.end.lost = self.losses.look(self.source.as_ref(), &self.epochs);
        chunk.end.limited = self.look_at_limits();
        chunk.end.clock = self.epochs.clock();
    }

    /// The report on the source.
    pub fn closing(mut self, tell: &mut dyn FnMut(SourceNews)) -> Box<WorkerFinalReport> {
        self.log.tell_names(self.source.as_ref(), tell);
        let accounting = self.accounting();
        self.log
            .closing(accounting, self.source.as_ref(), self.epochs.clock())
    }

    /// The source.
    pub fn source(&self) -> &dyn PacketSource {
        self.source.as_ref()
    }

    /// Admits the packets of the last block.
    fn read_block(&mut self, chunk: &mut PacketChunk) -> BatchProgress {
        let all = chunk.last_block().len();
        let mut left = 0..all;
        while let Some(stop) = self.read_to_stop(chunk, left.clone()) {
            left.start = stop.place + usize::from(stop.verdict != GateVerdict::Over);
            if stop.verdict == GateVerdict::Over
                || self.put_in_place(chunk, stop.place) == Some(GateVerdict::Over)
            {
                let beyond: &[PacketRecord] = &chunk.last_block().records()[left];
                self.log.unwanted.extend_from_slice(beyond);
                return BatchProgress::LimitReached;
            }
            if stop.ends_epoch {
                self.end_epoch(chunk);
            }
        }
        let Some(clock) = chunk.last_block().clock() else {
            return BatchProgress::Continue;
        };
        if self.epochs.ends_at(clock) {
            self.end_epoch(chunk);
        }
        // A time limit ends live input even without packets.
        if all == 0 && self.gate.limiter().is_over(clock) {
            BatchProgress::LimitReached
        } else {
            BatchProgress::Continue
        }
    }

    /// Admits packets up to the first one that needs other treatment.
    fn read_to_stop(
        &mut self,
        chunk: &mut PacketChunk,
        places: Range<usize>,
    ) -> Option<ReadingStop> {
        if self.gate.needs_order() {
            return self.admit_each(chunk, places);
        }
        let (block, mut admitted) = chunk.split_last();
        let is_part = |captured: CapturedPacket<'_>| !Packet::is_surely_whole(&captured);
        let begin = places.start;
        let whole = block.range(places.clone()).position(is_part);
        let to = whole.map_or(places.end, |n| begin + n);
        let end = self.epochs.ends_within(&block.records()[begin..to]);
        let to = end.map_or(to, |n| begin + n);
        if to > begin {
            admitted.push(begin..to);
        }
        if end.is_some() {
            return Some(ReadingStop {
                place: to - 1,
                verdict: GateVerdict::Entered,
                ends_epoch: true,
            });
        }
        (to < places.end)
            .then(|| self.admit_each(chunk, to..to + 1))?
            .or(Some(ReadingStop {
                place: to,
                verdict: GateVerdict::Entered,
                ends_epoch: false,
            }))
    }

    /// The same, one by one: the gate depends on the order of packets, or they may be fragments.
    fn admit_each(&mut self, chunk: &mut PacketChunk, places: Range<usize>) -> Option<ReadingStop> {
        let needs_order = self.gate.needs_order();
        let (block, mut admitted) = chunk.split_last();
        for (place, captured) in places.clone().zip(block.range(places)) {
            let verdict = if needs_order {
                self.gate
                    .admit(&captured, &mut self.accounting, &mut Discard)
            } else {
                self.gate
                    .admit_fragment(&captured, &mut self.accounting)
                    .unwrap_or(GateVerdict::Entered)
            };
            if verdict == GateVerdict::Entered {
                admitted.push(place..place + 1);
            }
            // A packet beyond LIMIT does not advance time.
            let ends_epoch = verdict != GateVerdict::Over
                && self.epochs.ends_with(captured.ts, captured.bytes.len());
            if ends_epoch || matches!(verdict, GateVerdict::Over | GateVerdict::Completed) {
                return Some(ReadingStop {
                    place,
                    verdict,
                    ends_epoch,
                });
            }
        }
        None
    }

    /// Ends an epoch after the packets read so far.
    fn end_epoch(&mut self, chunk: &mut PacketChunk) {
        let clock = self.epochs.clock();
        let given_up = self.gate.give_up(Some(clock));
        self.add(given_up, chunk);
        let lost = self.losses.look(self.source.as_ref(), &self.epochs);
        let limited = self.look_at_limits();
        chunk.end_epoch(EpochEnd {
            epoch: self.epoch,
            clock,
            lost,
            limited,
        });
        self.epoch += 1;
    }

    fn look_at_limits(&mut self) -> Option<LimitedStretch> {
        let limited = self
            .limits
            .look(self.epochs.clock(), reached(&self.accounting()));
        LimitedStretch::union(limited, self.partial.take())
    }

    /// Appends reassembled datagrams to the last block.
    fn add(&mut self, wholes: Vec<ReassembledPacket>, chunk: &mut PacketChunk) {
        for whole in wholes {
            let block = chunk.last_block();
            let place = block.len();
            let record = record_of(&whole, block);
            block.push(record);
            self.admit_whole(&whole, chunk, place);
            self.put_in_place(chunk, place);
        }
    }

    /// Replaces the packet that completed a datagram by the reassembled datagram, which may itself be the
    /// missing fragment of another. Returns the verdict on the last one.
    fn put_in_place(&mut self, chunk: &mut PacketChunk, place: usize) -> Option<GateVerdict> {
        let mut verdict = None;
        while let Some(whole) = self.gate.take_whole() {
            let block = chunk.last_block();
            let record = record_of(&whole, block);
            block.replace(place, record);
            verdict = Some(self.admit_whole(&whole, chunk, place));
        }
        verdict
    }

    /// Admits a reassembled packet, stored at position `place` of the last block.
    fn admit_whole(
        &mut self,
        whole: &ReassembledPacket,
        chunk: &mut PacketChunk,
        place: usize,
    ) -> GateVerdict {
        let verdict = self
            .gate
            .admit_whole(whole, &mut self.accounting, &mut Discard);
        if verdict == GateVerdict::Entered {
            chunk.split_last().1.push(place..place + 1);
        }
        verdict
    }

    /// Counts of packets that were not admitted.
    fn accounting(&self) -> PacketAccounting {
        PacketAccounting {
            fragments: self.gate.fragments(),
            ..self.accounting.clone()
        }
    }
}

/// Stores a reassembled packet in its own buffer of the block.
fn record_of(whole: &ReassembledPacket, block: &mut capture::PacketBlock) -> PacketRecord {
    let bytes = whole.bytes.clone();
    block.add_packet(whole.ts, whole.link_type, whole.original_len, bytes)
}

/// Discards admitted packets; they are decoded again by the worker that processes them.
struct Discard;

impl<'a> PacketConsumer<'a> for Discard {
    fn packet(&mut self, _: &CapturedPacket<'a>, _: &Packet<'a>) {}
}
