//! Where everything is: monitors with the flows that they cover, and the engines behind them.

use crate::topology::HostId;

/// The monitor of a flow, or the engine of a stream; `None` without capacity.
pub type Who = Option<u32>;

/// Where everything is.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The monitors, and by index which of them covers each flow.
    pub monitors: Vec<Monitor>,
    /// The monitor of each flow, or [`NOBODY`]: four bytes each, because there are millions of flows.
    pub monitor_of: Vec<u32>,
    /// What was left uncovered.
    pub uncovered: Uncovered,
    /// The aggregators, and what each monitor sends to them.
    pub aggregation: Layer,
    /// The processors, and what each aggregator sends to them.
    pub processing: Layer,
}

/// In [`Placement::monitor_of`].
pub const NOBODY: u32 = u32::MAX;

/// A monitor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Monitor {
    /// Where it runs.
    pub host: HostId,
    /// The rate of all flows that it covers.
    pub mbps: f64,
    /// How many they are.
    pub flows: u32,
}

/// Processes of one kind, and the streams that they take in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// The processes.
    pub engines: Vec<Engine>,
    /// The streams.
    pub streams: Vec<Stream>,
}

/// An aggregator or a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Engine {
    /// Where it runs.
    pub host: HostId,
    /// What it takes in.
    pub mbps: f64,
}

/// What a process sends to one of the next layer. Who sends more than one can take in sends equal shares to several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// The sender: a monitor's index, or an aggregator's.
    pub from: u32,
    /// The engine that takes it.
    pub to: Who,
    /// Its rate.
    pub mbps: f64,
}

/// Flows without a monitor, and the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncovered {
    /// They need more than a whole monitor. With them Algorithm 1 as printed would never end.
    pub too_big: u32,
    /// No host of their racks has room for one more monitor.
    pub no_room: u32,
}

impl Placement {
    /// All processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.monitors.len() + self.aggregation.engines.len() + self.processing.engines.len()
    }

    /// Streams that no host had room for.
    #[must_use]
    pub fn unprocessed(&self) -> usize {
        let of = |layer: &Layer| layer.streams.iter().filter(|stream| stream.to.is_none()).count();
        of(&self.aggregation) + of(&self.processing)
    }
}
