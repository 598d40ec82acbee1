//! Entry point: runs the algorithms of a strategy with a common account of free capacity.

use super::algorithm_1::Pick;
use super::assignment::Assignment;
use super::by_rack::ByRack;
use super::demand::{Demand, Process};
use super::packed_engines::Reach;
use super::placed::{Layer, Placement};
use super::stage::{self, Stage};
use super::strategy::{Nearby, Strategy};
use super::{algorithm_1, algorithm_2, first_fit, local_random, packed_engines, packed_monitors};
use crate::random::Random;
use crate::topology::{HostId, Load, Need, Network};

/// Places all processes.
#[must_use]
pub fn place(network: &Network, demand: &Demand<'_>, seed: u64) -> Placement {
    let mut random = Random::new(seed);
    let mut load = Load::new(network);
    let by_rack = ByRack::new(network.racks(), demand.flows);
    let assignment = cover(demand, &by_rack, &mut load, &mut random);
    let Assignment { monitors, monitor_of, uncovered } = assignment;
    // During the assignment each monitor reserves its maximum link rate; now the actual rate.
    monitors.iter().for_each(|monitor| load.give_back(monitor.host, demand.monitor.mbps - monitor.mbps));
    let from: Vec<(HostId, f64)> = monitors.iter().map(|m| (m.host, m.mbps * demand.extracted)).collect();
    let aggregation = layer(&from, demand, &demand.aggregator, &mut load, &mut random);
    let from: Vec<(HostId, f64)> = aggregation.engines.iter().map(|a| (a.host, a.mbps)).collect();
    let processing = layer(&from, demand, &demand.processor, &mut load, &mut random);
    Placement { monitors, monitor_of, uncovered, aggregation, processing }
}

/// Places only aggregators, with Algorithm 2, for placed monitors given by host, resources, and output rate.
#[must_use]
pub fn aggregators(
    network: &Network,
    monitors: &[(HostId, Need, f64)],
    process: &Process,
    nearby: Nearby,
) -> Layer {
    let mut load = Load::new(network);
    monitors.iter().for_each(|(host, need, _)| load.place(*host, need));
    let from: Vec<(HostId, f64)> = monitors.iter().map(|(host, _, mbps)| (*host, *mbps)).collect();
    let sources = stage::shares(&from, process.mbps);
    let mut stage = Stage::new(&sources, *process);
    algorithm_2::engage(&mut stage, nearby, &mut load);
    stage.into_layer()
}

/// Places one layer of engines for the output of senders.
fn layer(
    from: &[(HostId, f64)],
    demand: &Demand<'_>,
    process: &Process,
    load: &mut Load<'_>,
    random: &mut Random,
) -> Layer {
    let sources = stage::shares(from, process.mbps);
    let mut stage = Stage::new(&sources, *process);
    engage(demand.strategy, &mut stage, load, random);
    stage.into_layer()
}

/// Places monitors for the flows.
fn cover(demand: &Demand<'_>, by_rack: &ByRack, load: &mut Load<'_>, random: &mut Random) -> Assignment {
    match demand.strategy {
        Strategy::LocalRandom | Strategy::NetalyticsNode => {
            algorithm_1::cover(demand, by_rack, Pick::random(random), load)
        }
        Strategy::NetalyticsNetwork(_) => {
            algorithm_1::cover(demand, by_rack, Pick::most_flows(by_rack), load)
        }
        Strategy::PackedNode | Strategy::PackedNetwork => packed_monitors::cover(demand, by_rack, load),
    }
}

/// Places engines for streams.
fn engage(strategy: Strategy, stage: &mut Stage<'_>, load: &mut Load<'_>, random: &mut Random) {
    match strategy {
        Strategy::LocalRandom => local_random::engage(stage, load, random),
        Strategy::NetalyticsNode => first_fit::engage(stage, load, random),
        Strategy::NetalyticsNetwork(nearby) => algorithm_2::engage(stage, nearby, load),
        Strategy::PackedNode => packed_engines::engage(stage, Reach::Network, load),
        Strategy::PackedNetwork => packed_engines::engage(stage, Reach::Pod, load),
    }
}
