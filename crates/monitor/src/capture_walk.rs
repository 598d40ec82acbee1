//! Reads captures for individual flows: the visitor receives every packet with its flow and, for selected flows, the
//! data of both sides in order.
//!
//! Packets pass the gate, and flows start, end, and have the same ids as in a query's first pass over the same input;
//! nothing is parsed. It uses one thread, in the order of the input.

use capture::{PacketBlock, PacketSource};
use flow::{CloseReason, Flow, FlowEvent, FlowEvents, FlowTable, IndexedFlowEvent, TrackingDetail};
use plan::MonitorSpec;
use wire::{CapturedPacket, FlowSide, Packet, PacketConsumer, Timestamp};

use crate::PacketAccounting;
use crate::epochs::EpochSplitter;
use crate::fragments::ReassembledPacket;
use crate::gate::{Gate, GateVerdict};
use crate::limiter::Limiter;
use crate::pipeline::MonitorConfig;
use crate::virtual_networks::VirtualNetworks;

/// Receiver of packets and flow data.
pub trait FlowVisitor {
    /// Whether to deliver the data of the flow; called once, when the flow starts.
    fn opens(&mut self, flow: &Flow<'_>) -> bool;

    /// A packet of a flow.
    fn packet(&mut self, captured: &CapturedPacket<'_>, flow: &Flow<'_>);

    /// Data or an event of a selected flow.
    fn said(&mut self, flow: &Flow<'_>, said: FlowData<'_>);
}

/// Data or an event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowData<'a> {
    /// New bytes of one direction; each is delivered once.
    Bytes(FlowSide, &'a [u8], Timestamp),
    /// A datagram, and the number of its bytes not captured.
    Datagram(FlowSide, &'a [u8], u32, Timestamp),
    /// A gap of this many bytes in one direction.
    Missing(FlowSide, u64, Timestamp),
    /// End of one direction.
    End(FlowSide),
    /// End of the flow.
    Closed(CloseReason),
}

/// Whether the walk continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureWalkStatus {
    On,
    Over,
}

/// Gate and flow table without parsers.
pub struct CaptureWalk {
    gate: Gate,
    table: FlowTable<()>,
    networks: VirtualNetworks,
    events: FlowEvents,
    accounting: PacketAccounting,
}

impl CaptureWalk {
    /// Creates a walk over the packets that match `spec`.
    #[must_use]
    pub fn new(spec: &MonitorSpec, config: MonitorConfig) -> CaptureWalk {
        CaptureWalk {
            gate: Gate::new(spec, Limiter::of(spec), config.fragment_bytes_max),
            table: FlowTable::new(flow::FlowTableConfig {
                detail: TrackingDetail::Payload,
                ..config.flow
            }),
            networks: VirtualNetworks::default(),
            events: FlowEvents::default(),
            accounting: PacketAccounting::default(),
        }
    }

    /// Reads to the end of the input, or until `go_on` returns false.
    pub fn walk(
        mut self,
        source: &mut dyn PacketSource,
        visit: &mut dyn FlowVisitor,
        go_on: &dyn Fn() -> bool,
    ) {
        let mut block = PacketBlock::default();
        let mut epochs = EpochSplitter::default();
        while go_on() && source.next_block(&mut block) {
            if self.walk_block(&block, &mut epochs, visit) == CaptureWalkStatus::Over {
                break;
            }
        }
        let left = self.gate.give_up(None);
        self.wholes(left, visit);
        let clock = epochs.clock();
        while self.table.close_all(clock, &mut self.events) {
            tell(&mut self.table, &self.events, &[], visit);
        }
        tell(&mut self.table, &self.events, &[], visit);
    }

    fn walk_block(
        &mut self,
        block: &PacketBlock,
        epochs: &mut EpochSplitter,
        visit: &mut dyn FlowVisitor,
    ) -> CaptureWalkStatus {
        let mut from = 0;
        while from < block.len() {
            let end = epochs.ends_within(&block.records()[from..]);
            let to = end.map_or(block.len(), |n| from + n);
            for captured in block.range(from..to) {
                if self.enter(&captured, visit) == CaptureWalkStatus::Over {
                    return CaptureWalkStatus::Over;
                }
            }
            if end.is_some() {
                self.advance(epochs.clock(), visit);
            }
            from = to;
        }
        CaptureWalkStatus::On
    }

    /// Processes a packet and the datagrams it completes.
    fn enter(
        &mut self,
        captured: &CapturedPacket<'_>,
        visit: &mut dyn FlowVisitor,
    ) -> CaptureWalkStatus {
        let CaptureWalk {
            gate,
            table,
            networks,
            events,
            accounting,
        } = self;
        let mut step = CaptureWalkStep {
            table,
            networks,
            events,
            visit,
        };
        let mut verdict = gate.admit(captured, accounting, &mut step);
        while let (GateVerdict::Completed, Some(whole)) = (verdict, gate.take_whole()) {
            verdict = gate.admit_whole(&whole, accounting, &mut step);
        }
        if verdict == GateVerdict::Over {
            CaptureWalkStatus::Over
        } else {
            CaptureWalkStatus::On
        }
    }

    fn wholes(&mut self, wholes: Vec<ReassembledPacket>, visit: &mut dyn FlowVisitor) {
        let CaptureWalk {
            gate,
            table,
            networks,
            events,
            accounting,
        } = self;
        for whole in wholes {
            gate.admit_whole(
                &whole,
                accounting,
                &mut CaptureWalkStep {
                    table,
                    networks,
                    events,
                    visit,
                },
            );
        }
    }

    /// Ends an epoch.
    fn advance(&mut self, clock: Timestamp, visit: &mut dyn FlowVisitor) {
        let given_up = self.gate.give_up(Some(clock));
        self.wholes(given_up, visit);
        while self.table.expire(clock, &mut self.events) {
            tell(&mut self.table, &self.events, &[], visit);
        }
        tell(&mut self.table, &self.events, &[], visit);
        self.networks.forget(clock);
    }
}

/// Processes one packet.
struct CaptureWalkStep<'w> {
    table: &'w mut FlowTable<()>,
    networks: &'w mut VirtualNetworks,
    events: &'w mut FlowEvents,
    visit: &'w mut dyn FlowVisitor,
}

impl<'a> PacketConsumer<'a> for CaptureWalkStep<'_> {
    fn packet(&mut self, captured: &CapturedPacket<'a>, packet: &Packet<'a>) {
        let at = self.table.hash_in(packet, self.networks.of(packet));
        let idx = self.table.process_hashed(packet, &at, self.events);
        tell(self.table, self.events, packet.payload, self.visit);
        self.visit.packet(captured, &self.table.flow(idx));
    }
}

fn tell(
    table: &mut FlowTable<()>,
    events: &FlowEvents,
    payload: &[u8],
    visit: &mut dyn FlowVisitor,
) {
    for &IndexedFlowEvent { flow, what } in events.list() {
        let bytes = |chunk| events.bytes(chunk, payload);
        let said = match what {
            FlowEvent::Opened => {
                if !visit.opens(&table.flow(flow)) {
                    table.ignore_payload(flow);
                }
                continue;
            }
            FlowEvent::Bytes {
                side, chunk, ts, ..
            } => FlowData::Bytes(side, bytes(chunk), ts),
            FlowEvent::Datagram {
                side,
                chunk,
                cut,
                ts,
            } => FlowData::Datagram(side, bytes(chunk), cut, ts),
            FlowEvent::Gap { side, len, ts, .. } => FlowData::Missing(side, len, ts),
            FlowEvent::End { side, .. } => FlowData::End(side),
            FlowEvent::Terminated { reason, .. } if reason == CloseReason::Rst => {
                FlowData::Closed(reason)
            }
            FlowEvent::Resumed { .. } | FlowEvent::Terminated { .. } | FlowEvent::ActiveTimeout => {
                continue;
            }
            FlowEvent::Closed { reason, .. } => FlowData::Closed(reason),
        };
        visit.said(&table.flow(flow), said);
    }
}
