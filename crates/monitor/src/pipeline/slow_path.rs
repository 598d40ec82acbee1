//! Packets that are not on the fast path: those that open, change or end a flow, are out of order, or are looked at whole. The same
//! way as in `on_batch`, with all that is known of the packet.

use flow::{Events, FlowIdx, Hashed};
use wire::packet::TcpFlags;
use wire::{Captured, Packet, TakePacket, Transport};

use super::{CUT_OFF, FlowVerdict, Monitor};
use crate::sample::Adaptive;
use crate::slice::is_in;

impl Monitor {
    /// A packet that the gate has admitted.
    #[inline]
    pub(super) fn on_slow_path(&mut self, captured: &Captured<'_>, at: &Hashed, events: &mut Events) {
        let mut work = Work { monitor: self, at, events };
        let decoded = Packet::decode_into(captured, &mut work);
        debug_assert!(decoded.is_ok(), "it was decoded when it was admitted");
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
        let (rate, slice) = (self.adaptive.rate_of(&packet), self.adaptive.slice_of(&packet));
        let ends = [packet.five_tuple.src, packet.five_tuple.dst];
        self.accounting.strays += u64::from(!is_in(self.adaptive.slice(), &ends));
        let lets_in = is_in(slice, &ends) && Adaptive::takes(&packet.five_tuple.flow_key().0, rate);
        if !goes_on && !lets_in {
            self.accounting.parsed -= 1;
            self.accounting.sampled_out += 1;
            return;
        }
        let idx = self.table.process_hashed(&packet, at, events);
        let state = self.table.state_mut(idx);
        if state.level == CUT_OFF && lets_in {
            self.come_again(idx, slice.level);
        }
        let state = self.table.state_mut(idx);
        if !goes_on || state.level > slice.level && state.level != CUT_OFF {
            state.level = slice.level;
        }
        // Flows from before the first change were all in; into others such a packet would have let any flow like this.
        if !goes_on || state.rate > 0.0 {
            state.rate = state.rate.max(rate);
        }
        self.on_flow_packet(idx, &packet, events);
    }

    /// Whether the flow of a packet that the table has taken in is left out; counts it then.
    #[inline(always)]
    pub(super) fn leaves_out(&mut self, idx: FlowIdx) -> bool {
        if self.asks.every_flow {
            return false;
        }
        let filtered = &mut self.accounting.filtered;
        match FlowVerdict::of_mark(self.table.mark(idx)) {
            FlowVerdict::Open | FlowVerdict::In => return false,
            FlowVerdict::Out if self.table.state(idx).level == CUT_OFF => self.accounting.sampled_out += 1,
            FlowVerdict::Out => filtered.direction += 1,
            FlowVerdict::Elsewhere => filtered.tap += 1,
        }
        self.accounting.parsed -= 1;
        true
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
