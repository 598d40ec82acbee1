//! Cost of a placement: added traffic per link class, and number of processes.

use super::placed::{Layer, Placement};
use crate::topology::{HostId, Network, Traffic};

/// Cost of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Packets copied by edge switches to the monitors' hosts.
    pub mirrored: Traffic,
    /// Tuples from monitors to aggregators, the figure used by NetAlytics.
    pub extracted: Traffic,
    /// Tuples from aggregators to processors.
    pub analysed: Traffic,
    /// Monitors.
    pub monitors: usize,
    /// Aggregators.
    pub aggregators: usize,
    /// Processors.
    pub processors: usize,
}

impl Cost {
    /// All processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.monitors + self.aggregators + self.processors
    }
}

/// Computes the cost of a placement.
#[must_use]
pub fn cost(network: &Network, placed: &Placement) -> Cost {
    let mut mirrored = Traffic::default();
    placed.monitors.iter().for_each(|monitor| mirrored += Traffic::to_host(monitor.mbps));
    Cost {
        mirrored,
        extracted: sent(network, &placed.aggregation, |from| placed.monitors[from].host),
        analysed: sent(network, &placed.processing, |from| placed.aggregation.engines[from].host),
        monitors: placed.monitors.len(),
        aggregators: placed.aggregation.engines.len(),
        processors: placed.processing.engines.len(),
    }
}

/// Traffic toward a layer.
fn sent(network: &Network, layer: &Layer, sender: impl Fn(usize) -> HostId) -> Traffic {
    let mut traffic = Traffic::default();
    for stream in &layer.streams {
        if let Some(to) = stream.to {
            let to = layer.engines[to as usize].host;
            traffic += Traffic::over(network.distance(sender(stream.from as usize), to), stream.mbps);
        }
    }
    traffic
}
