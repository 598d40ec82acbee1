//! The result of a placement: monitors with their flows, and the engines behind them.

use crate::topology::HostId;

/// The monitor of a flow, or the engine of a stream; `None` without capacity.
pub type AssignedIndex = Option<u32>;

/// The result of a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The monitors.
    pub monitors: Vec<PlacedMonitor>,
    /// The monitor of each flow, or [`NOBODY`]: four bytes each, because there are millions of flows.
    pub monitor_of: Vec<u32>,
    /// Counts of uncovered flows.
    pub uncovered: UncoveredFlows,
    /// The aggregators and the streams of monitors.
    pub aggregation: EngineLayer,
    /// The processors and the streams of aggregators.
    pub processing: EngineLayer,
}

/// Marks an uncovered flow in [`Placement::monitor_of`].
pub const NOBODY: u32 = u32::MAX;

/// A monitor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedMonitor {
    /// Host of the monitor.
    pub host: HostId,
    /// Total rate of its flows.
    pub mbps: f64,
    /// Number of its flows.
    pub flows: u32,
}

/// Processes of one kind and their input streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineLayer {
    /// The processes.
    pub engines: Vec<PlacedEngine>,
    /// The streams.
    pub streams: Vec<EngineStream>,
}

/// An aggregator or a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedEngine {
    /// Host of the engine.
    pub host: HostId,
    /// Input rate.
    pub mbps: f64,
}

/// Output of a process to one of the next layer. Output that exceeds the capacity of one engine is divided equally
/// between several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineStream {
    /// Index of the sender: a monitor or aggregator.
    pub from: u32,
    /// The receiving engine.
    pub to: AssignedIndex,
    /// Rate.
    pub mbps: f64,
}

/// Flows without a monitor, and the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncoveredFlows {
    /// Flows that exceed the capacity of a monitor. With them Algorithm 1 as printed would never end.
    pub too_big: u32,
    /// Flows without a host with capacity in their racks.
    pub no_room: u32,
}

impl Placement {
    /// Number of all processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.monitors.len() + self.aggregation.engines.len() + self.processing.engines.len()
    }

    /// Number of streams without an engine.
    #[must_use]
    pub fn unprocessed(&self) -> usize {
        let of = |layer: &EngineLayer| {
            layer
                .streams
                .iter()
                .filter(|stream| stream.to.is_none())
                .count()
        };
        of(&self.aggregation) + of(&self.processing)
    }
}
