//! Cost of a placement: added traffic per link class, and number of processes.

use super::result::{EngineLayer, Placement};
use crate::topology::{HostId, LinkTraffic, TreeNetwork};

/// Cost of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlacementCost {
    /// Packets copied by edge switches to the monitors' hosts.
    pub mirrored: LinkTraffic,
    /// Tuples from monitors to aggregators, the figure used by NetAlytics.
    pub extracted: LinkTraffic,
    /// Tuples from aggregators to processors.
    pub analyzed: LinkTraffic,
    /// Monitors.
    pub monitors: usize,
    /// Aggregators.
    pub aggregators: usize,
    /// Processors.
    pub processors: usize,
}

impl PlacementCost {
    /// All processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.monitors + self.aggregators + self.processors
    }
}

/// Computes the cost of a placement.
#[must_use]
pub fn cost(network: &TreeNetwork, placed: &Placement) -> PlacementCost {
    let mut mirrored = LinkTraffic::default();
    placed
        .monitors
        .iter()
        .for_each(|monitor| mirrored += LinkTraffic::to_host(monitor.mbps));
    PlacementCost {
        mirrored,
        extracted: sent(network, &placed.aggregation, |from| {
            placed.monitors[from].host
        }),
        analyzed: sent(network, &placed.processing, |from| {
            placed.aggregation.engines[from].host
        }),
        monitors: placed.monitors.len(),
        aggregators: placed.aggregation.engines.len(),
        processors: placed.processing.engines.len(),
    }
}

/// Traffic toward a layer.
fn sent(
    network: &TreeNetwork,
    layer: &EngineLayer,
    sender: impl Fn(usize) -> HostId,
) -> LinkTraffic {
    let mut traffic = LinkTraffic::default();
    for stream in &layer.streams {
        if let Some(to) = stream.to {
            let to = layer.engines[to as usize].host;
            traffic += LinkTraffic::over(
                network.distance(sender(stream.from as usize), to),
                stream.mbps,
            );
        }
    }
    traffic
}
