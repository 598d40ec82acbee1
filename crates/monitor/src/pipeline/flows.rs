//! Packets with their flows, a batch at a time: so the memory of their flows is asked for while the packets before are
//! still being worked on.

use arrayvec::ArrayVec;
use flow::{Events, FlowIdx, Hashed, Segment, Table};
use parsers::Stream;
use wire::packet::TcpFlags;
use wire::{Captured, Packet, TakePacket, Transport};

use super::{FlowState, FlowVerdict, Monitor, Progress};
use crate::fragments::Whole;
use crate::gate::Verdict;
use crate::networks::Networks;
use crate::outputs::TakeTuples;
use crate::sample::Adaptive;

/// Packets worked on at a time: enough to hide a cache miss, few enough to stay in the first-level cache.
const BATCH: usize = 64;
/// Cache lines of a parser that are asked for.
const PARSER_LINES: usize = 8;

/// A packet that is to be worked on.
struct Admitted {
    at: Hashed,
    /// All there is to know of a segment on the fast path.
    segment: Segment,
    /// Where the packet is in its batch, and its payload in the packet. What does not take the fast path is decoded once
    /// more: that costs less than carrying what came of it the first time.
    place: u8,
    payload: u32,
}

impl Monitor {
    /// Packets one by one with their flows: a batch at a time, so that memory is there when it is needed.
    pub(super) fn on_flows<'a>(
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
            progress = self.on_batch(&batch, &mut events);
            self.flush_full(out);
        }
        self.events = events;
        progress
    }

    /// A packet that was put together, and what it completes if it carries a part itself.
    pub(super) fn on_whole_with_flow(&mut self, whole: &Whole) -> Progress {
        let mut events = std::mem::take(&mut self.events);
        let progress = self.on_whole(whole, &mut events);
        self.events = events;
        progress
    }

    /// The packets of a batch; where one of them completes a datagram, that is worked on before the next.
    #[inline]
    fn on_batch(&mut self, mut batch: &[Captured<'_>], events: &mut Events) -> Progress {
        loop {
            let mut admitted = ArrayVec::<Admitted, BATCH>::new();
            let (progress, n) = self.admit(batch, &mut admitted);
            self.work(batch, &mut admitted, events);
            batch = &batch[n..];
            if progress == Progress::LimitReached || batch.is_empty() && !self.gate.has_whole() {
                return progress;
            }
            if self.complete(events) == Progress::LimitReached {
                return Progress::LimitReached;
            }
        }
    }

    /// The datagram that the last packet has completed.
    #[cold]
    fn complete(&mut self, events: &mut Events) -> Progress {
        self.gate.take_whole().map_or(Progress::Continue, |whole| self.on_whole(&whole, events))
    }

    fn on_whole(&mut self, whole: &Whole, events: &mut Events) -> Progress {
        let mut admitted = ArrayVec::<Admitted, BATCH>::new();
        let (table, networks) = (&self.table, &mut self.networks);
        let mut enter = Enter { table, networks, place: 0, admitted: &mut admitted };
        let verdict = self.gate.admit_whole(whole, &mut self.accounting, &mut enter);
        self.work(&[whole.captured()], &mut admitted, events);
        if verdict == Verdict::Over { Progress::LimitReached } else { self.complete(events) }
    }

    /// Works on the packets of a batch that are admitted.
    #[inline]
    fn work(
        &mut self,
        batch: &[Captured<'_>],
        admitted: &mut ArrayVec<Admitted, BATCH>,
        events: &mut Events,
    ) {
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
        let may_be_fast = !self.asks.packets && !self.adaptive.has_changed();
        for ready in admitted.iter() {
            let captured = &batch[usize::from(ready.place)];
            if may_be_fast && let Some(idx) = self.table.process_fast(&ready.at, &ready.segment, events) {
                if self.asks.payload && !events.list().is_empty() {
                    self.now = self.clock.max(captured.ts);
                    self.on_fast(idx, events, &captured.bytes[ready.payload as usize..]);
                }
                self.leaves_out(idx);
                continue;
            }
            let mut work = Work { monitor: self, at: &ready.at, events };
            let decoded = Packet::decode_into(captured, &mut work);
            debug_assert!(decoded.is_ok(), "it was decoded when it was admitted");
        }
    }

    /// Asks for the memory of what knows the flows' protocols.
    #[inline]
    fn prefetch_parsers(&self, admitted: &[Admitted]) {
        for state in admitted.iter().filter_map(|ready| self.table.state_of(&ready.at)) {
            capture::prefetch(std::ptr::from_ref(state).cast());
        }
        for state in admitted.iter().filter_map(|ready| self.table.state_of(&ready.at)) {
            if let Stream::Parsing { parser, .. } = &state.stream {
                // What every message touches lies in the first lines.
                let lines = size_of_val(parser.as_ref()).div_ceil(64).min(PARSER_LINES);
                let parser: *const u8 = std::ptr::from_ref(parser.as_ref()).cast();
                (0..lines).for_each(|line| capture::prefetch(parser.wrapping_add(64 * line)));
            }
        }
    }

    /// Chooses the packets of a batch that are worked on, and asks for the memory of their flows. Also how many it has
    /// looked at: those up to one that completes a datagram.
    #[inline]
    fn admit(
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

    /// One packet, from its headers to its tuples.
    #[inline(always)]
    fn on_packet(&mut self, packet: &Packet<'_>, at: &Hashed, events: &mut Events) {
        self.now = self.clock.max(packet.ts);
        if self.adaptive.has_changed() {
            return self.on_sampled_packet(*packet, at, events);
        }
        let idx = self.table.process_hashed(packet, at, events);
        self.on_flow_packet(idx, packet, events);
    }

    /// The same once SAMPLE auto has changed the rate: the packets of flows that are in, or get in by them.
    #[inline(never)]
    fn on_sampled_packet(&mut self, packet: Packet<'_>, at: &Hashed, events: &mut Events) {
        let goes_on = self.table.goes_on(&packet, at, events);
        // What was left of a flow that it has shown to be over.
        self.on_events(events, &[], None);
        let rate = self.adaptive.rate_of(&packet);
        if !goes_on && !Adaptive::takes(&packet.five_tuple.flow_key().0, rate) {
            self.accounting.parsed -= 1;
            self.accounting.sampled_out += 1;
            return;
        }
        let idx = self.table.process_hashed(&packet, at, events);
        let state = self.table.state_mut(idx);
        // Flows from before the first change were all in; into others such a packet would have let any flow like this.
        if !goes_on || state.rate > 0.0 {
            state.rate = state.rate.max(rate);
        }
        self.on_flow_packet(idx, &packet, events);
    }

    /// Whether FROM and TO leave out the flow of a packet that the table has taken in; counts it then.
    #[inline(always)]
    fn leaves_out(&mut self, idx: FlowIdx) -> bool {
        let out = !self.asks.every_flow && self.verdict(idx) == FlowVerdict::Out;
        if out {
            self.accounting.parsed -= 1;
            self.accounting.filtered.direction += 1;
        }
        out
    }

    /// A packet that the table has taken in.
    #[inline(always)]
    fn on_flow_packet(&mut self, idx: FlowIdx, packet: &Packet<'_>, events: &Events) {
        if !events.list().is_empty() {
            // A copy: what others borrow has to lie in memory, for every packet if it is this one.
            let packet = *packet;
            self.on_events(events, packet.payload, Some(&packet));
        }
        if self.leaves_out(idx) {
            return;
        }
        if self.asks.packets && self.asked_for(idx) {
            let (packet, context) = (*packet, self.context(idx));
            self.outputs.on_packet(&packet, &context);
        }
        if self.asks.connections
            && let Transport::Tcp(tcp) = &packet.transport
            && tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN)
        {
            self.on_control_segment(idx, tcp.flags, packet.ts);
        }
    }
}

/// Notes where a packet's flow will be looked for.
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

/// Works on a packet with its flow.
struct Work<'m> {
    monitor: &'m mut Monitor,
    at: &'m Hashed,
    events: &'m mut Events,
}

impl<'a> TakePacket<'a> for Work<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &Captured<'a>, packet: &Packet<'a>) {
        self.monitor.on_packet(packet, self.at, self.events);
    }
}
