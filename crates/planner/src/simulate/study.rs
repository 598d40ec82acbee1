//! Parameters of a study, and the run of one seed: network, workload, placements, and costs.

use std::ops::RangeInclusive;

use super::sizes::FlowSizeDistribution;
use super::workload::{SimulatedWorkload, TrafficLocality, workload};
use crate::placement::{
    PlacementCost, PlacementDemand, PlacementStrategy, ProcessDemand, STRATEGIES, UncoveredFlows,
    cost, place,
};
use crate::random::SeededRandom;
use crate::topology::{FatTree, HostResources, LinkWeights, TopologyError, TreeNetwork};

/// Parameters of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementStudy {
    /// Parameter k of the fat tree.
    pub k: usize,
    /// Link capacity per direction, in Mb/s.
    pub link_mbps: f64,
    /// Resources of hosts.
    pub hosts: HostRanges,
    /// Traffic of the network.
    pub workload: SimulatedWorkload,
    /// Numbers of monitored flows, ascending.
    pub monitored: Vec<u32>,
    /// A monitor.
    pub monitor: ProcessDemand,
    /// An aggregator.
    pub aggregator: ProcessDemand,
    /// A processor.
    pub processor: ProcessDemand,
    /// Ratio of output to input of monitors.
    pub extracted: f64,
    /// Weight of a Mb/s per link class.
    pub weights: LinkWeights,
    /// Compared strategies.
    pub strategies: Vec<PlacementStrategy>,
}

/// Resources of hosts, uniformly distributed.
#[derive(Clone, Debug, PartialEq)]
pub struct HostRanges {
    /// Memory in GB.
    pub memory_gb: RangeInclusive<f64>,
    /// Cores, integral.
    pub cores: RangeInclusive<u32>,
    /// Share of cores in use, and independently of memory.
    pub used: RangeInclusive<f64>,
}

/// Result of one placement.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyRun {
    /// Seed of network, workload, and placement.
    pub seed: u64,
    /// Strategy.
    pub strategy: PlacementStrategy,
    /// Number of monitored flows.
    pub monitored: u32,
    /// Cost of the placement.
    pub cost: PlacementCost,
    /// Uncovered flows.
    pub uncovered: UncoveredFlows,
    /// Streams without an engine.
    pub unprocessed: usize,
}

impl PlacementStudy {
    /// Parameters of the paper, if stated.
    #[must_use]
    pub fn paper() -> PlacementStudy {
        PlacementStudy {
            k: 16,
            link_mbps: 10_000.0,
            hosts: HostRanges {
                memory_gb: 32.0..=128.0,
                cores: 12..=24,
                used: 0.4..=0.8,
            },
            workload: SimulatedWorkload {
                flows: 1_000_000,
                mbps: 1_200_000.0,
                flows_of_host: 2_000.0..=20_000.0,
                locality: TrafficLocality {
                    rack: 0.5,
                    pod: 0.3,
                    core: 0.2,
                },
                sizes: FlowSizeDistribution::Datacenter,
            },
            monitored: (1..=10).map(|tenth| tenth * 100_000).collect(),
            // Four monitoring cores for 40 Gb/s. Memory is not stated.
            monitor: ProcessDemand {
                mbps: 10_000.0,
                cores: 1.0,
                memory_gb: 4.0,
            },
            aggregator: ProcessDemand {
                mbps: 1_000.0,
                cores: 1.0,
                memory_gb: 8.0,
            },
            processor: ProcessDemand {
                mbps: 500.0,
                cores: 1.0,
                memory_gb: 4.0,
            },
            extracted: 0.1,
            weights: LinkWeights::PAPER,
            strategies: STRATEGIES.to_vec(),
        }
    }

    /// Generates a network.
    ///
    /// # Errors
    /// If k is invalid for a fat tree.
    pub fn network(&self, random: &mut SeededRandom) -> Result<TreeNetwork, TopologyError> {
        let HostRanges {
            memory_gb,
            cores,
            used,
        } = &self.hosts;
        FatTree {
            k: self.k,
            link_mbps: self.link_mbps,
        }
        .network(|| {
            let kinds = (cores.end() - cores.start()) as usize + 1;
            HostResources {
                cores: f64::from(cores.start() + random.below(kinds) as u32),
                cores_used: random.between(*used.start(), *used.end()),
                memory_gb: random.between(*memory_gb.start(), *memory_gb.end()),
                memory_used: random.between(*used.start(), *used.end()),
                mbps: self.link_mbps,
            }
        })
    }

    /// Runs one seed: each number of flows with each strategy, on the same network and workload. `on_run` receives
    /// each run.
    ///
    /// # Errors
    /// If k is invalid for a fat tree.
    pub fn run(&self, seed: u64, mut on_run: impl FnMut(&StudyRun)) -> Result<(), TopologyError> {
        let mut random = SeededRandom::new(seed);
        let network = self.network(&mut random.fork())?;
        let most = self.monitored.iter().copied().max().unwrap_or(0);
        // Flows are independent and identically distributed, so a prefix is a random selection.
        let flows = workload(&self.workload, &network, most, &mut random.fork());
        for monitored in &self.monitored {
            for strategy in &self.strategies {
                let demand = PlacementDemand {
                    flows: &flows[..*monitored as usize],
                    monitor: self.monitor,
                    aggregator: self.aggregator,
                    processor: self.processor,
                    extracted: self.extracted,
                    strategy: *strategy,
                };
                let placed = place(&network, &demand, seed);
                on_run(&StudyRun {
                    seed,
                    strategy: *strategy,
                    monitored: *monitored,
                    cost: cost(&network, &placed),
                    uncovered: placed.uncovered,
                    unprocessed: placed.unprocessed(),
                });
            }
        }
        Ok(())
    }
}
