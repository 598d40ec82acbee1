//! Divides packets into batches and prepares each batch: admits its packets and prefetches the memory of
//! their flows.

use arrayvec::ArrayVec;
use flow::{Events, Hashed, Segment, Table};
use parsers::Stream;
use wire::{Captured, Packet, TakePacket};

use super::{FlowState, Monitor, Progress};
use crate::fragments::Whole;
use crate::gate::Verdict;
use crate::networks::Networks;
use crate::outputs::TakeTuples;

/// Packets per batch: enough to hide a cache miss, few enough to stay in the L1 cache.
pub(super) const BATCH: usize = 64;
/// Cache lines of a parser to prefetch.
const PARSER_LINES: usize = 8;

/// An admitted packet. Packets off the fast path are decoded again, which costs less than storing the first
/// result.
pub(super) struct Admitted {
    /// Position of its flow in the table.
    pub at: Hashed,
    /// Header fields for the fast path.
    pub segment: Segment,
    /// Index in the batch.
    pub place: u8,
    /// Offset of the payload in the packet.
    pub payload: u32,
}

impl Monitor {
    /// Processes packets that need flows, in batches.
    pub(super) fn on_batches<'a>(
        &mut self,
        mut packets: impl Iterator<Item = Captured<'a>>,
        out: &mut dyn TakeTuples,
    ) -> Progress {
        let mut events = std::mem::take(&mut self.events);
        let mut progress = Progress::Continue;
        while progress == Progress::Continue {
            let batch: ArrayVec<Captured<'a>, BATCH> = packets.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            progress = self.on_whole_batch(&batch, &mut events);
            self.flush_full(out);
        }
        self.events = events;
        progress
    }

    /// Processes a reassembled packet, and the datagram it completes if it is a fragment itself.
    pub(super) fn on_whole_with_flow(&mut self, whole: &Whole) -> Progress {
        let mut events = std::mem::take(&mut self.events);
        let progress = self.on_whole(whole, &mut events);
        self.events = events;
        progress
    }

    /// Processes a batch; a datagram completed by a packet is processed before the next packet.
    #[inline]
    fn on_whole_batch(&mut self, mut batch: &[Captured<'_>], events: &mut Events) -> Progress {
        loop {
            let (progress, n) = self.on_batch(batch, events);
            batch = &batch[n..];
            if progress == Progress::LimitReached || batch.is_empty() && !self.gate.has_whole() {
                return progress;
            }
            if self.complete(events) == Progress::LimitReached {
                return Progress::LimitReached;
            }
        }
    }

    /// Processes the datagram completed by the last packet.
    #[cold]
    fn complete(&mut self, events: &mut Events) -> Progress {
        self.gate.take_whole().map_or(Progress::Continue, |whole| self.on_whole(&whole, events))
    }

    fn on_whole(&mut self, whole: &Whole, events: &mut Events) -> Progress {
        let mut admitted = ArrayVec::<Admitted, BATCH>::new();
        let (table, networks) = (&self.table, &mut self.networks);
        let mut enter = Enter { table, networks, place: 0, admitted: &mut admitted };
        let verdict = self.gate.admit_whole(whole, &mut self.accounting, &mut enter);
        for ready in &admitted {
            self.accounting.received += 1;
            self.accounting.parsed += 1;
            self.on_slow_path(&whole.captured(), &ready.at, events);
        }
        if verdict == Verdict::Over { Progress::LimitReached } else { self.complete(events) }
    }

    /// Prefetches the flows of admitted packets and counts the packets.
    #[inline]
    pub(super) fn prefetch(&mut self, admitted: &mut ArrayVec<Admitted, BATCH>) {
        for ready in admitted.iter_mut() {
            self.table.prefetch_flow(&mut ready.at, capture::prefetch);
        }
        for ready in admitted.iter() {
            self.table.prefetch_rest(&ready.at, &ready.segment, capture::prefetch);
        }
        if self.asks.payload {
            self.prefetch_parsers(admitted);
        }
        self.accounting.received += admitted.len() as u64;
        self.accounting.parsed += admitted.len() as u64;
    }

    /// Prefetches the parser state of the flows.
    #[inline]
    fn prefetch_parsers(&self, admitted: &[Admitted]) {
        for state in admitted.iter().filter_map(|ready| self.table.state_of(&ready.at)) {
            capture::prefetch(std::ptr::from_ref(state).cast());
        }
        for state in admitted.iter().filter_map(|ready| self.table.state_of(&ready.at)) {
            if let Stream::Parsing { parser, .. } = &state.stream {
                // The first lines hold the fields that every message uses.
                let lines = size_of_val(parser.as_ref()).div_ceil(64).min(PARSER_LINES);
                let parser: *const u8 = std::ptr::from_ref(parser.as_ref()).cast();
                (0..lines).for_each(|line| capture::prefetch(parser.wrapping_add(64 * line)));
            }
        }
    }

    /// Admits packets of a batch and prefetches their flows. Also returns the number examined, up to and
    /// including one that completes a datagram.
    #[inline]
    pub(super) fn admit(
        &mut self,
        batch: &[Captured<'_>],
        admitted: &mut ArrayVec<Admitted, BATCH>,
    ) -> (Progress, usize) {
        for (place, captured) in batch.iter().enumerate() {
            let (table, networks) = (&self.table, &mut self.networks);
            let mut enter = Enter { table, networks, place: place as u8, admitted };
            let verdict = self.gate.admit(captured, &mut self.accounting, &mut enter);
            if verdict == Verdict::Over {
                return (Progress::LimitReached, place);
            }
            self.latest = self.latest.max(captured.ts);
            if verdict == Verdict::Completed {
                return (Progress::Continue, place + 1);
            }
        }
        (Progress::Continue, batch.len())
    }
}

/// Records the flow position of an admitted packet.
struct Enter<'m> {
    table: &'m Table<FlowState>,
    networks: &'m mut Networks,
    place: u8,
    admitted: &'m mut ArrayVec<Admitted, BATCH>,
}

impl<'a> TakePacket<'a> for Enter<'_> {
    #[inline(always)]
    fn packet(&mut self, captured: &Captured<'a>, packet: &Packet<'a>) {
        let at = self.table.hash_in(packet, self.networks.of(packet));
        self.table.prefetch_index(&at, capture::prefetch);
        let payload = packet.payload.as_ptr().addr().wrapping_sub(captured.bytes.as_ptr().addr()) as u32;
        self.admitted.push(Admitted { at, segment: Segment::of(packet), place: self.place, payload });
    }
}
