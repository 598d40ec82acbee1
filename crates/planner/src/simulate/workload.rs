//! The workload: flows whose hosts and sizes are drawn, most of them between neighbours (a staggered distribution).

use std::ops::RangeInclusive;

use super::sizes::Sizes;
use crate::placement::Flow;
use crate::random::Random;
use crate::topology::{Network, RackId};

/// What goes on in the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// All flows, whether monitored or not.
    pub flows: u32,
    /// Their rates together, in Mb/s.
    pub mbps: f64,
    /// How many flows a host begins, relative to others: drawn evenly for each host.
    pub flows_of_host: RangeInclusive<f64>,
    /// How near their ends are.
    pub locality: Locality,
    /// How large they are.
    pub sizes: Sizes,
}

/// The shares of flows that stay within a rack, within a pod, or cross the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locality {
    /// Within a rack.
    pub rack: f64,
    /// Between racks of a pod.
    pub pod: f64,
    /// Between pods.
    pub core: f64,
}

/// The first `count` flows of a workload, as they are drawn. Their rates are such that all flows would have the
/// workload's rate.
#[must_use]
pub fn workload(of: &Workload, network: &Network, count: u32, random: &mut Random) -> Vec<Flow> {
    let sources = Sources::new(of, network, random);
    let mean = of.mbps / f64::from(of.flows);
    let flow = |_| {
        let from = sources.draw(random);
        let to = other_end(from, of.locality, network, random);
        Flow { racks: [from, to], mbps: (mean * of.sizes.draw(random)) as f32 }
    };
    (0..count).map(flow).collect()
}

/// Racks, each as often as its hosts' flows say.
struct Sources {
    /// Up to and with each rack.
    sums: Vec<f64>,
}

impl Sources {
    fn new(of: &Workload, network: &Network, random: &mut Random) -> Sources {
        let mut sum = 0.0;
        let mut upto = |rack: RackId| {
            let (low, high) = (*of.flows_of_host.start(), *of.flows_of_host.end());
            sum += network.hosts_of(rack).map(|_| random.between(low, high)).sum::<f64>();
            sum
        };
        Sources { sums: (0..network.racks() as RackId).map(&mut upto).collect() }
    }

    fn draw(&self, random: &mut Random) -> RackId {
        let at = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1) as RackId
    }
}

/// The rack of the other end. Where a network is too small for the distance drawn, the next nearer.
fn other_end(from: RackId, locality: Locality, network: &Network, random: &mut Random) -> RackId {
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
        // The racks of the pod without this one: the last stands for it.
        let rack = pod.start + random.below(pod.len() - 1) as RackId;
        return if rack == from { pod.end - 1 } else { rack };
    }
    let others = all.len() - pod.len();
    let rack = random.below(others) as RackId;
    if rack < pod.start { rack } else { rack + pod.len() as RackId }
}
