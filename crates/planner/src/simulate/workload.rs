//! The workload: flows with random hosts and sizes, most of them between neighbors (a staggered distribution).

use std::ops::RangeInclusive;

use super::sizes::FlowSizeDistribution;
use crate::placement::PlacementFlow;
use crate::random::SeededRandom;
use crate::topology::{RackId, TreeNetwork};

/// Traffic of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedWorkload {
    /// Number of all flows, monitored or not.
    pub flows: u32,
    /// Total rate in Mb/s.
    pub mbps: f64,
    /// Relative number of flows started by a host, uniformly distributed.
    pub flows_of_host: RangeInclusive<f64>,
    /// Distance between endpoints.
    pub locality: TrafficLocality,
    /// Flow sizes.
    pub sizes: FlowSizeDistribution,
}

/// The shares of flows within a rack, within a pod, and across the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrafficLocality {
    /// Within a rack.
    pub rack: f64,
    /// Between racks of a pod.
    pub pod: f64,
    /// Between pods.
    pub core: f64,
}

/// The first `count` flows of a random workload. Rates are scaled so that all flows together have the workload's
/// rate.
#[must_use]
pub fn workload(
    of: &SimulatedWorkload,
    network: &TreeNetwork,
    count: u32,
    random: &mut SeededRandom,
) -> Vec<PlacementFlow> {
    let sources = FlowSources::new(of, network, random);
    let mean = of.mbps / f64::from(of.flows);
    let flow = |_| {
        let from = sources.draw(random);
        let to = other_end(from, of.locality, network, random);
        PlacementFlow {
            racks: [from, to],
            mbps: (mean * of.sizes.draw(random)) as f32,
        }
    };
    (0..count).map(flow).collect()
}

/// Racks weighted by the flows of their hosts.
struct FlowSources {
    /// Cumulative weights.
    sums: Vec<f64>,
}

impl FlowSources {
    fn new(
        of: &SimulatedWorkload,
        network: &TreeNetwork,
        random: &mut SeededRandom,
    ) -> FlowSources {
        let mut sum = 0.0;
        let mut upto = |rack: RackId| {
            let low = *of.flows_of_host.start();
            let high = *of.flows_of_host.end();
            sum += network
                .hosts_of(rack)
                .map(|_| random.between(low, high))
                .sum::<f64>();
            sum
        };
        FlowSources {
            sums: (0..network.racks() as RackId).map(&mut upto).collect(),
        }
    }

    fn draw(&self, random: &mut SeededRandom) -> RackId {
        let at = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        self.sums
            .partition_point(|sum| *sum <= at)
            .min(self.sums.len() - 1) as RackId
    }
}

/// The rack of the other endpoint. If the network is too small for the drawn distance, the next shorter one is used.
fn other_end(
    from: RackId,
    locality: TrafficLocality,
    network: &TreeNetwork,
    random: &mut SeededRandom,
) -> RackId {
    let all = 0..network.racks() as RackId;
    let pod = network.racks_of(network.pod_of(from));
    let drawn = random.unit() * (locality.rack + locality.pod + locality.core);
    if drawn < locality.rack || all.len() == 1 {
        return from;
    }
    if drawn < locality.rack + locality.pod || pod.len() == all.len() {
        if pod.len() == 1 {
            return from;
        }
        // The racks of the pod without this one: the last takes its number.
        let rack = pod.start + random.below(pod.len() - 1) as RackId;
        return if rack == from { pod.end - 1 } else { rack };
    }
    let others = all.len() - pod.len();
    let rack = random.below(others) as RackId;
    if rack < pod.start {
        rack
    } else {
        rack + pod.len() as RackId
    }
}
