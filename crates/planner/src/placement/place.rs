//! Entry point: runs the algorithms of a strategy with a common account of free capacity.

use super::algorithm_1::SwitchPick;
use super::assignment::MonitorAssignment;
use super::by_rack::FlowsByRack;
use super::demand::{PlacementDemand, ProcessDemand};
use super::packed_engines::MergeReach;
use super::result::{EngineLayer, Placement};
use super::stage::{self, EngineStage};
use super::strategy::{NearbyScope, PlacementStrategy};
use super::{algorithm_1, algorithm_2, first_fit, local_random, packed_engines, packed_monitors};
use crate::random::SeededRandom;
use crate::topology::{HostId, NetworkLoad, ProcessNeed, TreeNetwork};

/// Places all processes.
#[must_use]
pub fn place(network: &TreeNetwork, demand: &PlacementDemand<'_>, seed: u64) -> Placement {
    let mut random = SeededRandom::new(seed);
    let mut load = NetworkLoad::new(network);
    let by_rack = FlowsByRack::new(network.racks(), demand.flows);
    let assignment = cover(demand, &by_rack, &mut load, &mut random);
    let MonitorAssignment {
        monitors,
        monitor_of,
        uncovered,
    } = assignment;
    // During the assignment each monitor reserves its maximum link rate; now the actual rate.
    monitors
        .iter()
        .for_each(|monitor| load.give_back(monitor.host, demand.monitor.mbps - monitor.mbps));
    let from: Vec<(HostId, f64)> = monitors
        .iter()
        .map(|m| (m.host, m.mbps * demand.extracted))
        .collect();
    let aggregation = layer(&from, demand, &demand.aggregator, &mut load, &mut random);
    let from: Vec<(HostId, f64)> = aggregation
        .engines
        .iter()
        .map(|a| (a.host, a.mbps))
        .collect();
    let processing = layer(&from, demand, &demand.processor, &mut load, &mut random);
    Placement {
        monitors,
        monitor_of,
        uncovered,
        aggregation,
        processing,
    }
}

/// Places only aggregators, with Algorithm 2, for placed monitors given by host, resources, and output rate.
#[must_use]
pub fn aggregators(
    network: &TreeNetwork,
    monitors: &[(HostId, ProcessNeed, f64)],
    process: &ProcessDemand,
    nearby: NearbyScope,
) -> EngineLayer {
    let mut load = NetworkLoad::new(network);
    monitors
        .iter()
        .for_each(|(host, need, _)| load.place(*host, need));
    let from: Vec<(HostId, f64)> = monitors
        .iter()
        .map(|(host, _, mbps)| (*host, *mbps))
        .collect();
    let sources = stage::shares(&from, process.mbps);
    let mut stage = EngineStage::new(&sources, *process);
    algorithm_2::engage(&mut stage, nearby, &mut load);
    stage.into_layer()
}

/// Places one layer of engines for the output of senders.
fn layer(
    from: &[(HostId, f64)],
    demand: &PlacementDemand<'_>,
    process: &ProcessDemand,
    load: &mut NetworkLoad<'_>,
    random: &mut SeededRandom,
) -> EngineLayer {
    let sources = stage::shares(from, process.mbps);
    let mut stage = EngineStage::new(&sources, *process);
    engage(demand.strategy, &mut stage, load, random);
    stage.into_layer()
}

/// Places monitors for the flows.
fn cover(
    demand: &PlacementDemand<'_>,
    by_rack: &FlowsByRack,
    load: &mut NetworkLoad<'_>,
    random: &mut SeededRandom,
) -> MonitorAssignment {
    match demand.strategy {
        PlacementStrategy::LocalRandom | PlacementStrategy::NetalyticsNode => {
            algorithm_1::cover(demand, by_rack, SwitchPick::random(random), load)
        }
        PlacementStrategy::NetalyticsNetwork(_) => {
            algorithm_1::cover(demand, by_rack, SwitchPick::most_flows(by_rack), load)
        }
        PlacementStrategy::PackedNode | PlacementStrategy::PackedNetwork => {
            packed_monitors::cover(demand, by_rack, load)
        }
    }
}

/// Places engines for streams.
fn engage(
    strategy: PlacementStrategy,
    stage: &mut EngineStage<'_>,
    load: &mut NetworkLoad<'_>,
    random: &mut SeededRandom,
) {
    match strategy {
        PlacementStrategy::LocalRandom => local_random::engage(stage, load, random),
        PlacementStrategy::NetalyticsNode => first_fit::engage(stage, load, random),
        PlacementStrategy::NetalyticsNetwork(nearby) => algorithm_2::engage(stage, nearby, load),
        PlacementStrategy::PackedNode => packed_engines::engage(stage, MergeReach::Network, load),
        PlacementStrategy::PackedNetwork => packed_engines::engage(stage, MergeReach::Pod, load),
    }
}
