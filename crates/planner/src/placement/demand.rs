//! The demand of a placement: the flows and the three kinds of processes.

use super::strategy::PlacementStrategy;
use crate::topology::{ProcessNeed, RackId};

/// The demand of a placement.
#[derive(Clone, Copy, Debug)]
pub struct PlacementDemand<'f> {
    /// The flows, in the order in which algorithms process them.
    pub flows: &'f [PlacementFlow],
    /// A monitor: its resources, and its capacity in Mb/s of packets.
    pub monitor: ProcessDemand,
    /// An aggregator, with its capacity in Mb/s of tuples.
    pub aggregator: ProcessDemand,
    /// A processor, likewise.
    pub processor: ProcessDemand,
    /// Ratio of output to input of monitors, in Mb/s.
    pub extracted: f64,
    /// The placement strategy.
    pub strategy: PlacementStrategy,
}

/// A flow to be covered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacementFlow {
    /// The racks of its endpoints; equal if both are in one rack, or one is outside the network.
    pub racks: [RackId; 2],
    /// Rate of both directions together.
    pub mbps: f32,
}

/// A kind of process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessDemand {
    /// Input capacity in Mb/s.
    pub mbps: f64,
    /// Required cores.
    pub cores: f64,
    /// Required memory in GB.
    pub memory_gb: f64,
}

impl ProcessDemand {
    /// Resources on its host, with its input counted per stream.
    pub(super) fn need(&self) -> ProcessNeed {
        ProcessNeed {
            cores: self.cores,
            memory_gb: self.memory_gb,
            mirrored_mbps: 0.0,
        }
    }

    /// Resources on its host for copied packets: the link must support the full input capacity.
    pub(super) fn need_mirrored(&self) -> ProcessNeed {
        ProcessNeed {
            mirrored_mbps: self.mbps,
            ..self.need()
        }
    }
}

impl PlacementFlow {
    /// Racks of the flow, without duplicates.
    pub(super) fn distinct_racks(&self) -> impl Iterator<Item = RackId> + use<> {
        let [a, b] = self.racks;
        std::iter::once(a).chain((b != a).then_some(b))
    }

    /// The other rack, if the flow has two.
    pub(super) fn other_rack(&self, rack: RackId) -> Option<RackId> {
        let [a, b] = self.racks;
        (a != b).then_some(if a == rack { b } else { a })
    }
}
