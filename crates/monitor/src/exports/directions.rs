//! Counts a flow once if its exporter observes it at two points: as it enters and as it leaves, or at two interfaces.
//!
//! Flow records with a direction (element 61): of each flow key and exporter, the direction of the first record counts,
//! and records of the other direction are dropped. Records without a direction all count. A flow that the exporter
//! sends in both directions has two keys.
//!
//! Samples: one whose data source is its output interface is an egress sample; it is dropped if the agent also samples
//! at the interface by which the packet entered.

use std::net::IpAddr;

use telemetry::{ClockMap, ExportedFlow, FlowDirection, SampleContext, SampleInterface};

/// Flows and interfaces whose direction is known; the least recently used ones are forgotten.
const KEYS_MAX: usize = 262_144;

/// A flow at an exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ObservedFlow {
    exporter: IpAddr,
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    ports: (Option<u16>, Option<u16>),
    protocol: Option<u8>,
    macs: (Option<[u8; 6]>, Option<[u8; 6]>),
}

/// Directions seen so far.
#[derive(Debug)]
pub(super) struct ObservedDirections {
    flows: ClockMap<ObservedFlow, FlowDirection>,
    /// Interfaces at which an agent samples packets that enter.
    ingress: ClockMap<(IpAddr, u32), ()>,
}

impl Default for ObservedDirections {
    fn default() -> ObservedDirections {
        ObservedDirections {
            flows: ClockMap::new(KEYS_MAX),
            ingress: ClockMap::new(KEYS_MAX),
        }
    }
}

impl ObservedDirections {
    /// Whether another record reports the same packets.
    pub fn repeats_flow(&mut self, flow: &ExportedFlow<'_>) -> bool {
        let Some(direction) = flow.direction else {
            return false;
        };
        let key = ObservedFlow {
            exporter: flow.domain.exporter,
            source: flow.source,
            destination: flow.destination,
            ports: (flow.source_port, flow.destination_port),
            protocol: flow.protocol,
            macs: match flow.source {
                Some(_) => (None, None),
                None => (flow.source_mac, flow.destination_mac),
            },
        };
        match self.flows.get_mut(&key) {
            Some(first) => *first != direction,
            None => {
                self.flows.insert(key, direction);
                false
            }
        }
    }

    /// Whether the agent samples the packet at its input interface, too.
    pub fn repeats_sample(&mut self, context: &SampleContext<'_>) -> bool {
        let exporter = context.domain.exporter;
        let SampleInterface::Index(input) = context.input else {
            return false;
        };
        if context.source_index == input {
            if self.ingress.get_mut(&(exporter, input)).is_none() {
                self.ingress.insert((exporter, input), ());
            }
            return false;
        }
        context.output == SampleInterface::Index(context.source_index)
            && self.ingress.get_mut(&(exporter, input)).is_some()
    }
}
