//! Parameters of a study, and the run of one seed: network, workload, placements, and costs.

use std::ops::RangeInclusive;

use super::sizes::Sizes;
use super::workload::{Locality, Workload, workload};
use crate::placement::{Cost, Demand, Process, STRATEGIES, Strategy, Uncovered, cost, place};
use crate::random::Random;
use crate::topology::{FatTree, Host, Network, Unfit, Weights};

/// Parameters of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Parameter k of the fat tree.
    pub k: usize,
    /// Link capacity per direction, in Mb/s.
    pub link_mbps: f64,
    /// Resources of hosts.
    pub hosts: Hosts,
    /// Traffic of the network.
    pub workload: Workload,
    /// Numbers of monitored flows, ascending.
    pub monitored: Vec<u32>,
    /// A monitor.
    pub monitor: Process,
    /// An aggregator.
    pub aggregator: Process,
    /// A processor.
    pub processor: Process,
    /// Ratio of output to input of monitors.
    pub extracted: f64,
    /// Weight of a Mb/s per link class.
    pub weights: Weights,
    /// Compared strategies.
    pub strategies: Vec<Strategy>,
}

/// Resources of hosts, uniformly distributed.
#[derive(Clone, Debug, PartialEq)]
pub struct Hosts {
    /// Memory in GB.
    pub memory_gb: RangeInclusive<f64>,
    /// Cores, integral.
    pub cores: RangeInclusive<u32>,
    /// Share of cores in use, and independently of memory.
    pub used: RangeInclusive<f64>,
}

/// Result of one placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Seed of network, workload, and placement.
    pub seed: u64,
    /// Strategy.
    pub strategy: Strategy,
    /// Number of monitored flows.
    pub monitored: u32,
    /// What it costs.
    pub cost: Cost,
    /// Uncovered flows.
    pub uncovered: Uncovered,
    /// Streams without an engine.
    pub unprocessed: usize,
}

impl Study {
    /// Parameters of the paper, if stated.
    #[must_use]
    pub fn paper() -> Study {
        Study {
            k: 16,
            link_mbps: 10_000.0,
            hosts: Hosts { memory_gb: 32.0..=128.0, cores: 12..=24, used: 0.4..=0.8 },
            workload: Workload {
                flows: 1_000_000,
                mbps: 1_200_000.0,
                flows_of_host: 2_000.0..=20_000.0,
                locality: Locality { rack: 0.5, pod: 0.3, core: 0.2 },
                sizes: Sizes::Datacenter,
            },
            monitored: (1..=10).map(|tenth| tenth * 100_000).collect(),
            // Four monitoring cores for 40 Gb/s. Memory is not stated.
            monitor: Process { mbps: 10_000.0, cores: 1.0, memory_gb: 4.0 },
            aggregator: Process { mbps: 1_000.0, cores: 1.0, memory_gb: 8.0 },
            processor: Process { mbps: 500.0, cores: 1.0, memory_gb: 4.0 },
            extracted: 0.1,
            weights: Weights::PAPER,
            strategies: STRATEGIES.to_vec(),
        }
    }

    /// Generates a network.
    ///
    /// # Errors
    /// If k is invalid for a fat tree.
    pub fn network(&self, random: &mut Random) -> Result<Network, Unfit> {
        let Hosts { memory_gb, cores, used } = &self.hosts;
        FatTree { k: self.k, link_mbps: self.link_mbps }.network(|| {
            let kinds = (cores.end() - cores.start()) as usize + 1;
            Host {
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
    pub fn run(&self, seed: u64, mut on_run: impl FnMut(&Run)) -> Result<(), Unfit> {
        let mut random = Random::new(seed);
        let network = self.network(&mut random.fork())?;
        let most = self.monitored.iter().copied().max().unwrap_or(0);
        // Flows are independent and identically distributed, so a prefix is a random selection.
        let flows = workload(&self.workload, &network, most, &mut random.fork());
        for monitored in &self.monitored {
            for strategy in &self.strategies {
                let demand = Demand {
                    flows: &flows[..*monitored as usize],
                    monitor: self.monitor,
                    aggregator: self.aggregator,
                    processor: self.processor,
                    extracted: self.extracted,
                    strategy: *strategy,
                };
                let placed = place(&network, &demand, seed);
                on_run(&Run {
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
