//! Packets off the fast path: those that open, change, or end a flow, are out of order, or are read whole.
//! Same steps as `on_batch`, with the fully decoded packet.

use flow::{FlowEvents, FlowIdx, HashedKey};
use wire::packet::TcpFlags;
use wire::{CapturedPacket, Packet, PacketConsumer, TransportHeader};

use super::{CUT_OFF, FlowVerdict, Monitor};
use crate::sample::AdaptiveSampler;
use crate::slice::is_in;

impl Monitor {
    /// Processes an admitted packet.
    #[inline]
    pub(super) fn on_slow_path(
        &mut self,
        captured: &CapturedPacket<'_>,
        at: &HashedKey,
        events: &mut FlowEvents,
    ) {
        let mut work = SlowPathWork {
            monitor: self,
            at,
            events,
        };
        let decoded = Packet::decode_into(captured, &mut work);
        debug_assert!(decoded.is_ok(), "it was decoded when it was admitted");
    }

    /// Processes one packet, from headers to tuples.
    #[inline(always)]
    fn on_packet(&mut self, packet: &Packet<'_>, at: &HashedKey, events: &mut FlowEvents) {
        self.now = self.clock.max(packet.ts);
        if self.adaptive.has_changed() {
            return self.on_sampled_packet(*packet, at, events);
        }
        let idx = self.table.process_hashed(packet, at, events);
        self.on_flow_packet(idx, packet, events);
    }

    /// Same after a rate change by SAMPLE auto: processes packets of flows already selected or selected by
    /// this packet.
    #[inline(never)]
    fn on_sampled_packet(&mut self, packet: Packet<'_>, at: &HashedKey, events: &mut FlowEvents) {
        let goes_on = self.table.goes_on(&packet, at, events);
        // Closes a previous flow that this packet has shown to have ended.
        self.on_events(events, &[], None);
        let rate = self.adaptive.rate_of(&packet);
        let slice = self.adaptive.slice_of(&packet);
        let ends = [packet.five_tuple.src, packet.five_tuple.dst];
        self.accounting.strays += u64::from(!is_in(self.adaptive.slice(), &ends));
        let lets_in =
            is_in(slice, &ends) && AdaptiveSampler::takes(&packet.five_tuple.flow_key().0, rate);
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
        // Flows older than the first change were all selected; a new flow is selected at this packet's rate.
        if !goes_on || state.rate > 0.0 {
            state.rate = state.rate.max(rate);
        }
        self.on_flow_packet(idx, &packet, events);
    }

    /// Whether the packet's flow is excluded; counts the packet if so.
    #[inline(always)]
    pub(super) fn leaves_out(&mut self, idx: FlowIdx) -> bool {
        if self.asks.every_flow {
            return false;
        }
        let filtered = &mut self.accounting.filtered;
        match FlowVerdict::of_mark(self.table.mark(idx)) {
            FlowVerdict::Open | FlowVerdict::In => return false,
            FlowVerdict::Out if self.table.state(idx).level == CUT_OFF => {
                self.accounting.sampled_out += 1
            }
            FlowVerdict::Out => filtered.direction += 1,
            FlowVerdict::Elsewhere => filtered.tap += 1,
        }
        self.accounting.parsed -= 1;
        true
    }

    /// Processes a packet after the flow table has added it.
    #[inline(always)]
    fn on_flow_packet(&mut self, idx: FlowIdx, packet: &Packet<'_>, events: &FlowEvents) {
        if !events.list().is_empty() {
            // A copy: a borrowed packet would have to be stored in memory on every call.
            let packet = *packet;
            self.on_events(events, packet.payload, Some(&packet));
        }
        if self.leaves_out(idx) {
            return;
        }
        if self.asks.packets && self.asked_for(idx) {
            let packet = *packet;
            let context = self.context(idx);
            self.outputs.on_packet(&packet, &context);
        }
        if self.asks.connections
            && let TransportHeader::Tcp(tcp) = &packet.transport
            && tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN)
        {
            self.on_control_segment(idx, tcp.flags, packet.ts);
        }
    }
}

/// Processes a decoded packet with its flow.
struct SlowPathWork<'m> {
    monitor: &'m mut Monitor,
    at: &'m HashedKey,
    events: &'m mut FlowEvents,
}

impl<'a> PacketConsumer<'a> for SlowPathWork<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &CapturedPacket<'a>, packet: &Packet<'a>) {
        self.monitor.on_packet(packet, self.at, self.events);
    }
}
