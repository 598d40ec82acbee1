//! Reads captures for individual flows: the visitor receives every packet with its flow and, for selected flows, the
//! data of both sides in order.
//!
//! Packets pass the gate, and flows start, end, and have the same ids as in a query's first pass over the same input;
//! nothing is parsed. It uses one thread, in the order of the input.

use capture::{Block, Source};
use flow::{CloseReason, Detail, Event, Events, Flow, FlowEvent, Table};
use plan::MonitorSpec;
use wire::{Captured, Packet, Side, TakePacket, Timestamp};

use crate::Accounting;
use crate::epochs::Epochs;
use crate::fragments::Whole;
use crate::gate::{Gate, Verdict};
use crate::limiter::Limiter;
use crate::networks::Networks;
use crate::pipeline::Config;

/// Receiver of packets and flow data.
pub trait Visit {
    /// Whether to deliver the data of the flow; called once, when the flow starts.
    fn opens(&mut self, flow: &Flow<'_>) -> bool;

    /// A packet of a flow.
    fn packet(&mut self, captured: &Captured<'_>, flow: &Flow<'_>);

    /// Data or an event of a selected flow.
    fn said(&mut self, flow: &Flow<'_>, said: Said<'_>);
}

/// Data or an event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// New bytes of one direction; each is delivered once.
    Bytes(Side, &'a [u8], Timestamp),
    /// A datagram, and the number of its bytes not captured.
    Datagram(Side, &'a [u8], u32, Timestamp),
    /// A gap of this many bytes in one direction.
    Missing(Side, u64, Timestamp),
    /// End of one direction.
    End(Side),
    /// End of the flow.
    Closed(CloseReason),
}

/// Whether the walk continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    On,
    Over,
}

/// Gate and flow table without parsers.
pub struct Walk {
    gate: Gate,
    table: Table<()>,
    networks: Networks,
    events: Events,
    accounting: Accounting,
}

impl Walk {
    /// Creates a walk over the packets that match `spec`.
    #[must_use]
    pub fn new(spec: &MonitorSpec, config: Config) -> Walk {
        Walk {
            gate: Gate::new(spec, Limiter::of(spec), config.fragment_bytes_max),
            table: Table::new(flow::Config { detail: Detail::Payload, ..config.flow }),
            networks: Networks::default(),
            events: Events::default(),
            accounting: Accounting::default(),
        }
    }

    /// Reads to the end of the input, or until `go_on` returns false.
    pub fn walk(mut self, source: &mut dyn Source, visit: &mut dyn Visit, go_on: &dyn Fn() -> bool) {
        let (mut block, mut epochs) = (Block::default(), Epochs::default());
        while go_on() && source.next_block(&mut block) {
            if self.walk_block(&block, &mut epochs, visit) == Reach::Over {
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

    fn walk_block(&mut self, block: &Block, epochs: &mut Epochs, visit: &mut dyn Visit) -> Reach {
        let mut from = 0;
        while from < block.len() {
            let end = epochs.ends_within(&block.records()[from..]);
            let to = end.map_or(block.len(), |n| from + n);
            for captured in block.range(from..to) {
                if self.enter(&captured, visit) == Reach::Over {
                    return Reach::Over;
                }
            }
            if end.is_some() {
                self.advance(epochs.clock(), visit);
            }
            from = to;
        }
        Reach::On
    }

    /// Processes a packet and the datagrams it completes.
    fn enter(&mut self, captured: &Captured<'_>, visit: &mut dyn Visit) -> Reach {
        let Walk { gate, table, networks, events, accounting } = self;
        let mut step = Step { table, networks, events, visit };
        let mut verdict = gate.admit(captured, accounting, &mut step);
        while let (Verdict::Completed, Some(whole)) = (verdict, gate.take_whole()) {
            verdict = gate.admit_whole(&whole, accounting, &mut step);
        }
        if verdict == Verdict::Over { Reach::Over } else { Reach::On }
    }

    fn wholes(&mut self, wholes: Vec<Whole>, visit: &mut dyn Visit) {
        let Walk { gate, table, networks, events, accounting } = self;
        for whole in wholes {
            gate.admit_whole(&whole, accounting, &mut Step { table, networks, events, visit });
        }
    }

    /// Ends an epoch.
    fn advance(&mut self, clock: Timestamp, visit: &mut dyn Visit) {
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
struct Step<'w> {
    table: &'w mut Table<()>,
    networks: &'w mut Networks,
    events: &'w mut Events,
    visit: &'w mut dyn Visit,
}

impl<'a> TakePacket<'a> for Step<'_> {
    fn packet(&mut self, captured: &Captured<'a>, packet: &Packet<'a>) {
        let at = self.table.hash_in(packet, self.networks.of(packet));
        let idx = self.table.process_hashed(packet, &at, self.events);
        tell(self.table, self.events, packet.payload, self.visit);
        self.visit.packet(captured, &self.table.flow(idx));
    }
}

fn tell(table: &mut Table<()>, events: &Events, payload: &[u8], visit: &mut dyn Visit) {
    for &Event { flow, what } in events.list() {
        let bytes = |chunk| events.bytes(chunk, payload);
        let said = match what {
            FlowEvent::Opened => {
                if !visit.opens(&table.flow(flow)) {
                    table.ignore_payload(flow);
                }
                continue;
            }
            FlowEvent::Bytes { side, chunk, ts, .. } => Said::Bytes(side, bytes(chunk), ts),
            FlowEvent::Datagram { side, chunk, cut, ts } => Said::Datagram(side, bytes(chunk), cut, ts),
            FlowEvent::Gap { side, len, ts, .. } => Said::Missing(side, len, ts),
            FlowEvent::End { side, .. } => Said::End(side),
            FlowEvent::Terminated { reason, .. } if reason == CloseReason::Rst => Said::Closed(reason),
            FlowEvent::Resumed { .. } | FlowEvent::Terminated { .. } | FlowEvent::ActiveTimeout => continue,
            FlowEvent::Closed { reason, .. } => Said::Closed(reason),
        };
        visit.said(&table.flow(flow), said);
    }
}
