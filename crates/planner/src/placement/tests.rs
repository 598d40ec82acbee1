//! Comparison of Algorithms 1 and 2 with direct implementations of the paper's text; invariants of all placements;
//! distance of the packing algorithms from the optimum.

mod always;
mod optimum;
mod paper;

use super::*;
use crate::random::SeededRandom;
use crate::topology::{FatTree, HostResources, RackId, TreeNetwork};

/// A small network and flows from a seed, sometimes with insufficient capacity.
struct PlacementInstance {
    k: usize,
    network: TreeNetwork,
    flows: Vec<PlacementFlow>,
}

impl PlacementInstance {
    fn new(seed: u64) -> PlacementInstance {
        let mut random = SeededRandom::new(seed);
        let k = [2, 4, 6][random.below(3)];
        let scarce = random.between(0.0, 0.9);
        let host = || HostResources {
            cores: 1.0 + random.below(16) as f64,
            cores_used: random.between(scarce, 1.0),
            memory_gb: random.between(4.0, 64.0),
            memory_used: random.between(scarce, 1.0),
            mbps: [50.0, 150.0, 250.0][random.below(3)],
        };
        let network = FatTree { k, link_mbps: 40.0 }
            .network(host)
            .expect("a fat tree");
        let count = random.below(300);
        let rack = |random: &mut SeededRandom| random.below(network.racks()) as RackId;
        let flow = |_| {
            let first = rack(&mut random);
            let second = if random.below(2) == 0 {
                first
            } else {
                rack(&mut random)
            };
            // One in a hundred is too large.
            let mbps = (1.01 / (0.01 + random.unit())) as f32 * [0.1, 1.0][random.below(2)];
            PlacementFlow {
                racks: [first, second],
                mbps: mbps + 0.01,
            }
        };
        PlacementInstance {
            k,
            flows: (0..count).map(flow).collect(),
            network,
        }
    }

    fn demand(&self, strategy: PlacementStrategy) -> PlacementDemand<'_> {
        PlacementDemand {
            flows: &self.flows,
            monitor: ProcessDemand {
                mbps: 50.0,
                cores: 1.0,
                memory_gb: 2.0,
            },
            aggregator: ProcessDemand {
                mbps: 10.0,
                cores: 1.0,
                memory_gb: 2.0,
            },
            processor: ProcessDemand {
                mbps: 3.0,
                cores: 0.5,
                memory_gb: 1.0,
            },
            extracted: 0.3,
            strategy,
        }
    }
}

/// All strategies, with both interpretations of Algorithm 2.
fn strategies() -> impl Iterator<Item = PlacementStrategy> {
    STRATEGIES
        .into_iter()
        .chain([PlacementStrategy::NetalyticsNetwork(NearbyScope::Pod)])
}
