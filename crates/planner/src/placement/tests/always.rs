//! Invariants of every placement and strategy, also with insufficient capacity.

use std::collections::BTreeMap;

use super::*;
use crate::topology::graph::TreeGraph;
use crate::topology::{HostId, LINK_CLASSES, LinkTraffic, NetworkLoad, ProcessNeed};

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs())
}

fn check(instance: &PlacementInstance, strategy: PlacementStrategy, seed: u64) {
    let demand = instance.demand(strategy);
    let placed = place(&instance.network, &demand, seed);
    assert_eq!(
        placed,
        place(&instance.network, &demand, seed),
        "the same again"
    );
    flows_are_covered_once(instance, &demand, &placed);
    let hosts: Vec<HostId> = placed.monitors.iter().map(|monitor| monitor.host).collect();
    let sent: Vec<f64> = placed
        .monitors
        .iter()
        .map(|monitor| monitor.mbps * demand.extracted)
        .collect();
    streams_are_all_that_is_sent(&placed.aggregation, &demand.aggregator, &sent);
    let engines = &placed.aggregation.engines;
    let sent: Vec<f64> = engines.iter().map(|engine| engine.mbps).collect();
    streams_are_all_that_is_sent(&placed.processing, &demand.processor, &sent);
    let aggregators: Vec<HostId> = engines.iter().map(|engine| engine.host).collect();
    nothing_has_more_than_there_is(instance, &demand, &placed, &hosts, &aggregators);
    bandwidth_is_the_sum_over_ways(instance, &placed, &hosts, &aggregators);
}

fn flows_are_covered_once(
    instance: &PlacementInstance,
    demand: &PlacementDemand<'_>,
    placed: &Placement,
) {
    let network = &instance.network;
    let mut sums = vec![(0.0, 0); placed.monitors.len()];
    let mut uncovered = UncoveredFlows::default();
    let mut load = NetworkLoad::new(network);
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
    placed
        .monitors
        .iter()
        .for_each(|monitor| load.place(monitor.host, &need));
    for (flow, monitor) in demand.flows.iter().zip(&placed.monitor_of) {
        if *monitor != NOBODY {
            let sum = &mut sums[*monitor as usize];
            *sum = (sum.0 + f64::from(flow.mbps), sum.1 + 1);
            assert!(
                flow.racks
                    .contains(&network.rack_of(placed.monitors[*monitor as usize].host))
            );
        } else if f64::from(flow.mbps) > mbps {
            uncovered.too_big += 1;
        } else {
            uncovered.no_room += 1;
            let mut hosts = flow
                .racks
                .into_iter()
                .flat_map(|rack| network.hosts_of(rack));
            assert!(
                !hosts.any(|host| load.bears(host, &need)),
                "a host would have room for a monitor"
            );
        }
    }
    assert_eq!(placed.uncovered, uncovered);
    for ((sum, count), monitor) in sums.iter().zip(&placed.monitors) {
        assert!(
            close(*sum, monitor.mbps) && *count == monitor.flows && *count > 0,
            "{sum} {count} {monitor:?}"
        );
        assert!(*sum <= mbps + 1e-6, "{sum} in a monitor");
    }
}

fn streams_are_all_that_is_sent(layer: &EngineLayer, process: &ProcessDemand, sent: &[f64]) {
    let mut of = vec![0.0; sent.len()];
    let mut taken = vec![0.0; layer.engines.len()];
    for stream in &layer.streams {
        of[stream.from as usize] += stream.mbps;
        if let Some(to) = stream.to {
            taken[to as usize] += stream.mbps;
        }
    }
    assert!(
        of.iter().zip(sent).all(|(of, sent)| close(*of, *sent)),
        "{of:?} {sent:?}"
    );
    for (taken, engine) in taken.iter().zip(&layer.engines) {
        assert!(
            close(*taken, engine.mbps) && *taken <= process.mbps + 1e-6 && *taken > 0.0,
            "{taken} {engine:?}"
        );
    }
}

/// Host of sender, host of engine, and rate of each assigned stream.
fn streams<'p>(
    layer: &'p EngineLayer,
    from: &'p [HostId],
) -> impl Iterator<Item = (HostId, HostId, f64)> + 'p {
    let of = |stream: &EngineStream| {
        let to = layer.engines[stream.to? as usize].host;
        Some((from[stream.from as usize], to, stream.mbps))
    };
    layer.streams.iter().filter_map(of)
}

fn nothing_has_more_than_there_is(
    instance: &PlacementInstance,
    demand: &PlacementDemand<'_>,
    placed: &Placement,
    monitors: &[HostId],
    aggregators: &[HostId],
) {
    let network = &instance.network;
    let mut hosts: BTreeMap<HostId, (f64, f64)> = BTreeMap::new();
    let mut takes = |host: HostId, process: &ProcessDemand| {
        let host = hosts.entry(host).or_default();
        *host = (host.0 + process.cores, host.1 + process.memory_gb);
    };
    monitors
        .iter()
        .for_each(|host| takes(*host, &demand.monitor));
    aggregators
        .iter()
        .for_each(|host| takes(*host, &demand.aggregator));
    placed
        .processing
        .engines
        .iter()
        .for_each(|engine| takes(engine.host, &demand.processor));
    for (host, (cores, memory_gb)) in hosts {
        let has = network.hosts()[host as usize];
        assert!(
            cores <= has.cores * (1.0 - has.cores_used) + 1e-6,
            "cores of {host}"
        );
        assert!(
            memory_gb <= has.memory_gb * (1.0 - has.memory_used) + 1e-6,
            "memory of {host}"
        );
    }
    // Each direction of each link: kind of link, number, and whether it is upward.
    let mut links: BTreeMap<(usize, usize, bool), f64> = BTreeMap::new();
    for monitor in &placed.monitors {
        *links.entry((0, monitor.host as usize, false)).or_default() += monitor.mbps;
    }
    for (from, to, mbps) in
        streams(&placed.aggregation, monitors).chain(streams(&placed.processing, aggregators))
    {
        let numbers = |host: HostId| {
            let rack = network.rack_of(host);
            [
                host as usize,
                usize::from(rack),
                usize::from(network.pod_of(rack)),
            ]
        };
        for (kind, (a, b)) in numbers(from)
            .into_iter()
            .zip(numbers(to))
            .enumerate()
            .filter(|(_, (a, b))| a != b)
        {
            *links.entry((kind, a, true)).or_default() += mbps;
            *links.entry((kind, b, false)).or_default() += mbps;
        }
    }
    for ((kind, number, _), mbps) in links {
        let bears = match kind {
            0 => network.hosts()[number].mbps,
            1 => network.rack_up(number as RackId),
            _ => network.pod_up(number as u16),
        };
        assert!(
            mbps <= bears + 1e-3,
            "{mbps} of {bears} on link {kind} {number}"
        );
    }
}

fn bandwidth_is_the_sum_over_ways(
    instance: &PlacementInstance,
    placed: &Placement,
    monitors: &[HostId],
    aggregators: &[HostId],
) {
    let graph = TreeGraph::fat_tree(instance.k);
    let counted = cost(&instance.network, placed);
    for (layer, from, found) in [
        (&placed.aggregation, monitors, counted.extracted),
        (&placed.processing, aggregators, counted.analyzed),
    ] {
        let mut expected = LinkTraffic::default();
        for (from, to, mbps) in streams(layer, from) {
            for class in graph.way(from as usize, to as usize) {
                expected.0[LINK_CLASSES
                    .iter()
                    .position(|other| *other == class)
                    .expect("a class")] += mbps;
            }
        }
        assert!(
            expected.0.iter().zip(found.0).all(|(a, b)| close(*a, b)),
            "{expected:?} {found:?}"
        );
    }
    assert_eq!(counted.processes(), placed.processes());
    let covered: f64 = placed.monitors.iter().map(|monitor| monitor.mbps).sum();
    assert!(close(counted.mirrored.0[0], covered));
}

proptest::proptest! {
    #[test]
    fn placements_keep_their_promises(seed: u64) {
        let instance = PlacementInstance::new(seed);
        strategies().for_each(|strategy| check(&instance, strategy, seed));
    }
}

/// A seed that violated an invariant in an earlier version.
#[test]
fn invariants_hold_for_a_former_counterexample() {
    let seed = 12_943_801_637_506_755_579;
    let instance = PlacementInstance::new(seed);
    strategies().for_each(|strategy| check(&instance, strategy, seed));
}

/// The seeds cover all cases: sufficient and insufficient capacity, and flows that are too large.
#[test]
fn instances_are_of_all_kinds() {
    let mut kinds = [0; 4];
    for seed in 0..100 {
        let instance = PlacementInstance::new(seed);
        let placed = place(
            &instance.network,
            &instance.demand(PlacementStrategy::PackedNode),
            seed,
        );
        kinds[0] += usize::from(placed.uncovered.no_room == 0 && placed.monitors.len() > 4);
        kinds[1] += usize::from(placed.uncovered.no_room > 0);
        kinds[2] += usize::from(placed.uncovered.too_big > 0);
        kinds[3] += usize::from(placed.unprocessed() > 0);
    }
    assert!(kinds.iter().all(|count| *count > 5), "{kinds:?}");
}
