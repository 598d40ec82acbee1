//! What is to be covered, and by what: the flows and the three kinds of processes.

use super::strategy::Strategy;
use crate::topology::{Need, RackId};

/// What is to be covered, and by what.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'f> {
    /// The flows. Their order is the one in which algorithms take them.
    pub flows: &'f [Flow],
    /// A monitor: what it takes of its host, and how many Mb/s of packets it can read.
    pub monitor: Process,
    /// An aggregator, and how many Mb/s of tuples it can take in.
    pub aggregator: Process,
    /// A processor, likewise.
    pub processor: Process,
    /// What is left of packets in tuples: Mb/s sent on, of one received.
    pub extracted: f64,
    /// How it is done.
    pub strategy: Strategy,
}

/// A flow to be covered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The racks of its ends; the same twice where both are there, or one is outside of the network.
    pub racks: [RackId; 2],
    /// Its rate, both directions together.
    pub mbps: f32,
}

/// A kind of process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// How much it can take in, in Mb/s.
    pub mbps: f64,
    /// Cores that it takes of its host.
    pub cores: f64,
    /// Memory that it takes, in GB.
    pub memory_gb: f64,
}

impl Process {
    /// What it takes of its host, when its input is counted stream by stream.
    pub(super) fn need(&self) -> Need {
        Need { cores: self.cores, memory_gb: self.memory_gb, mirrored_mbps: 0.0 }
    }

    /// The same, when the switch copies packets to it: the host's link has to bear as much as it can read.
    pub(super) fn need_mirrored(&self) -> Need {
        Need { mirrored_mbps: self.mbps, ..self.need() }
    }
}

impl Flow {
    /// Its racks, one that is named twice only once.
    pub(super) fn distinct_racks(&self) -> impl Iterator<Item = RackId> + use<> {
        let [a, b] = self.racks;
        std::iter::once(a).chain((b != a).then_some(b))
    }

    /// The other of its racks, if there are two.
    pub(super) fn other_rack(&self, rack: RackId) -> Option<RackId> {
        let [a, b] = self.racks;
        (a != b).then_some(if a == rack { b } else { a })
    }
}
