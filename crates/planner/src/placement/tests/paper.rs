//! The paper's algorithms as printed, searching all sets at every step.

use super::*;
use crate::topology::{HostId, NetworkLoad, ProcessNeed};

/// Algorithm 1: host and flows of each monitor.
fn algorithm_1(
    demand: &PlacementDemand<'_>,
    load: &mut NetworkLoad<'_>,
    mut pick: impl FnMut(&[Vec<usize>]) -> usize,
) -> Vec<(HostId, Vec<usize>)> {
    let ProcessDemand {
        mbps,
        cores,
        memory_gb,
    } = demand.monitor;
    let need = ProcessNeed {
        cores,
        memory_gb,
        mirrored_mbps: mbps,
    };
    let mut monitors = Vec::new();
    let mut full: Vec<RackId> = Vec::new();
    let mut f: Vec<usize> = (0..demand.flows.len()).collect();
    f.retain(|f| f64::from(demand.flows[*f].mbps) <= mbps);
    loop {
        let covered_by = |sw: RackId| -> Vec<usize> {
            f.iter()
                .copied()
                .filter(|f| demand.flows[*f].racks.contains(&sw) && !full.contains(&sw))
                .collect()
        };
        let covered: Vec<Vec<usize>> = (0..load.network.racks() as RackId)
            .map(covered_by)
            .collect();
        if covered.iter().all(Vec::is_empty) {
            return monitors;
        }
        let sw = pick(&covered);
        let hosts: Vec<HostId> = load
            .network
            .hosts_of(sw as RackId)
            .filter(|h| load.bears(*h, &need))
            .collect();
        let Some(h) = hosts
            .into_iter()
            .min_by(|a, b| load.used(*a).total_cmp(&load.used(*b)))
        else {
            full.push(sw as RackId);
            continue;
        };
        load.place(h, &need);
        let mut m = Vec::new();
        let mut used = mbps;
        for flow in &covered[sw] {
            let rate = f64::from(demand.flows[*flow].mbps);
            if rate > used {
                break;
            }
            used -= rate;
            m.push(*flow);
            f.retain(|other| other != flow);
        }
        monitors.push((h, m));
    }
}

/// The switch that covers the most flows, the first of several.
fn most(covered: &[Vec<usize>]) -> usize {
    let most = covered.iter().map(Vec::len).max().expect("racks");
    covered
        .iter()
        .position(|flows| flows.len() == most)
        .expect("one of them")
}

/// Algorithm 2 for streams of senders at hosts: host and streams of each engine.
fn algorithm_2(
    m: &[(HostId, f64)],
    process: ProcessDemand,
    nearby: NearbyScope,
    load: &mut NetworkLoad<'_>,
) -> Vec<(HostId, Vec<usize>)> {
    let network = load.network;
    let need = ProcessNeed {
        cores: process.cores,
        memory_gb: process.memory_gb,
        mirrored_mbps: 0.0,
    };
    let pod = |h: HostId| network.pod_of(network.rack_of(h));
    let mut engines = Vec::new();
    let mut left: Vec<usize> = (0..m.len()).collect();
    while !left.is_empty() {
        let under = |sw: u16| {
            left.iter()
                .copied()
                .filter(|i| pod(m[*i].0) == sw)
                .collect::<Vec<_>>()
        };
        let all: Vec<Vec<usize>> = (0..network.pods() as u16).map(under).collect();
        let sw = most(&all);
        let (host, mbps) = m[all[sw][0]];
        let mut candidates: Vec<HostId> = network.all_hosts().collect();
        candidates.retain(|h| load.bears(*h, &need) && load.carries(host, *h, mbps));
        let near = |h: HostId| match nearby {
            NearbyScope::Rack if network.rack_of(h) == network.rack_of(host) => 0,
            _ if pod(h) == sw as u16 => 1,
            _ => 2,
        };
        let order = |a: &HostId, b: &HostId| {
            near(*a)
                .cmp(&near(*b))
                .then(load.used(*a).total_cmp(&load.used(*b)))
        };
        let Some(h) = candidates.into_iter().min_by(order) else {
            left.retain(|i| *i != all[sw][0]);
            continue;
        };
        load.place(h, &need);
        let mut a = Vec::new();
        let mut room = process.mbps;
        for i in &all[sw] {
            if m[*i].1 > room + 1e-9 || !load.carries(m[*i].0, h, m[*i].1) {
                break;
            }
            load.carry(m[*i].0, h, m[*i].1);
            room -= m[*i].1;
            a.push(*i);
            left.retain(|other| other != i);
        }
        engines.push((h, a));
    }
    engines
}

/// The same structure for a placement.
fn found(placed: &Placement) -> Vec<(HostId, Vec<usize>)> {
    let flows_of = |monitor: usize| {
        let of = placed
            .monitor_of
            .iter()
            .enumerate()
            .filter(|(_, of)| **of == monitor as u32);
        of.map(|(flow, _)| flow).collect()
    };
    placed
        .monitors
        .iter()
        .enumerate()
        .map(|(index, monitor)| (monitor.host, flows_of(index)))
        .collect()
}

fn engines(layer: &EngineLayer) -> Vec<(HostId, Vec<usize>)> {
    let streams_of = |engine: usize| {
        let of = layer
            .streams
            .iter()
            .enumerate()
            .filter(|(_, stream)| stream.to == Some(engine as u32));
        of.map(|(index, _)| index).collect()
    };
    layer
        .engines
        .iter()
        .enumerate()
        .map(|(index, engine)| (engine.host, streams_of(index)))
        .collect()
}

#[test]
fn algorithms_equal_those_of_the_paper() {
    for seed in 0..300 {
        let instance = PlacementInstance::new(seed);
        for nearby in [NearbyScope::Rack, NearbyScope::Pod] {
            let demand = instance.demand(PlacementStrategy::NetalyticsNetwork(nearby));
            let placed = place(&instance.network, &demand, seed);
            let mut load = NetworkLoad::new(&instance.network);
            assert_eq!(
                found(&placed),
                algorithm_1(&demand, &mut load, most),
                "seed {seed}"
            );
            for monitor in &placed.monitors {
                load.give_back(monitor.host, demand.monitor.mbps - monitor.mbps);
            }
            for (layer, process, from) in [
                (
                    &placed.aggregation,
                    demand.aggregator,
                    placed.monitors.iter().map(|m| m.host).collect::<Vec<_>>(),
                ),
                (
                    &placed.processing,
                    demand.processor,
                    placed.aggregation.engines.iter().map(|a| a.host).collect(),
                ),
            ] {
                let streams: Vec<(HostId, f64)> = layer
                    .streams
                    .iter()
                    .map(|stream| (from[stream.from as usize], stream.mbps))
                    .collect();
                assert_eq!(
                    engines(layer),
                    algorithm_2(&streams, process, nearby, &mut load),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn random_switches_are_drawn_as_in_the_paper() {
    for seed in 0..300 {
        let instance = PlacementInstance::new(seed);
        let demand = instance.demand(PlacementStrategy::NetalyticsNode);
        let placed = place(&instance.network, &demand, seed);
        let mut random = SeededRandom::new(seed);
        let any = |covered: &[Vec<usize>]| loop {
            let sw = random.below(covered.len());
            if !covered[sw].is_empty() {
                return sw;
            }
        };
        let expected = algorithm_1(&demand, &mut NetworkLoad::new(&instance.network), any);
        assert_eq!(found(&placed), expected, "seed {seed}");
    }
}

/// The paper's figure 2: three flows, two of which end in rack 5.
#[test]
fn figure_2_has_two_monitors() {
    let host = HostResources {
        cores: 8.0,
        cores_used: 0.0,
        memory_gb: 16.0,
        memory_used: 0.0,
        mbps: 10_000.0,
    };
    let network = FatTree {
        k: 4,
        link_mbps: 10_000.0,
    }
    .network(|| host)
    .expect("a fat tree");
    let flow = |from, to| PlacementFlow {
        racks: [from, to],
        mbps: 1.0,
    };
    let flows = [flow(1, 4), flow(2, 5), flow(3, 4)];
    let process = ProcessDemand {
        mbps: 1000.0,
        cores: 1.0,
        memory_gb: 1.0,
    };
    let strategy = PlacementStrategy::NetalyticsNetwork(NearbyScope::Rack);
    let demand = PlacementDemand {
        flows: &flows,
        monitor: process,
        aggregator: process,
        processor: process,
        extracted: 0.1,
        strategy,
    };
    let placed = place(&network, &demand, 1);
    assert_eq!(placed.monitor_of, [0, 1, 0]);
    assert_eq!(network.rack_of(placed.monitors[0].host), 4);
}
