//! The workload has the requested properties; studies are reproducible and show the paper's ordering.

use super::*;
use crate::placement::{NearbyScope, PlacementStrategy};
use crate::random::SeededRandom;
use crate::topology::LinkWeights;

fn small() -> PlacementStudy {
    let paper = PlacementStudy::paper();
    let workload = SimulatedWorkload {
        flows: 40_000,
        mbps: 300_000.0,
        sizes: FlowSizeDistribution::Exponential,
        ..paper.workload.clone()
    };
    PlacementStudy {
        k: 8,
        workload,
        monitored: vec![10_000, 40_000],
        ..paper
    }
}

#[test]
fn flows_have_the_requested_locality() {
    let study = small();
    let network = study
        .network(&mut SeededRandom::new(1))
        .expect("a fat tree");
    let flows = workload(&study.workload, &network, 40_000, &mut SeededRandom::new(2));
    let mut near = [0; 3];
    let mut mbps = 0.0;
    for flow in &flows {
        let [a, b] = flow.racks;
        let same_pod = network.pod_of(a) == network.pod_of(b);
        near[if a == b { 0 } else { 2 - usize::from(same_pod) }] += 1;
        mbps += f64::from(flow.mbps);
    }
    let shares = near.map(|count| f64::from(count) / 40_000.0);
    for (found, expected) in shares.into_iter().zip([0.5, 0.3, 0.2]) {
        assert!((found - expected).abs() < 0.01, "{shares:?}");
    }
    assert!((mbps / study.workload.mbps - 1.0).abs() < 0.02, "{mbps}");
    // Every other rack is the other end of some flow from the first rack.
    let met: std::collections::BTreeSet<_> = flows
        .iter()
        .filter(|flow| flow.racks[0] == 0)
        .map(|flow| flow.racks[1])
        .collect();
    assert_eq!(met.len(), network.racks());
}

#[test]
fn networks_of_one_rack_or_one_pod_have_near_flows_only() {
    for k in [2, 4] {
        let study = PlacementStudy { k, ..small() };
        let network = study
            .network(&mut SeededRandom::new(1))
            .expect("a fat tree");
        let flows = workload(&study.workload, &network, 1000, &mut SeededRandom::new(2));
        assert!(flows.iter().all(|flow| {
            flow.racks
                .iter()
                .all(|rack| usize::from(*rack) < network.racks())
        }));
    }
}

fn points(study: &PlacementStudy) -> Vec<StudyPoint> {
    let mut runs = Vec::new();
    for seed in 0..3 {
        study
            .run(seed, |run| runs.push(run.clone()))
            .expect("a fat tree");
    }
    summarize(study, &runs)
}

#[test]
fn the_papers_ordering_comes_out() {
    let study = small();
    let points = points(&study);
    assert_eq!(points, self::points(&study), "the same again");
    let of = |name: &str| {
        points
            .iter()
            .find(|p| p.strategy.name() == name && p.monitored == 40_000)
            .expect(name)
    };
    let random = of("local-random");
    let node = of("netalytics-node");
    let network = of("netalytics-network");
    assert!(
        network.extra.mean < random.extra.mean && random.extra.mean < node.extra.mean,
        "{points:#?}"
    );
    assert!(
        node.aggregators.mean <= network.aggregators.mean,
        "{points:#?}"
    );
    let ours = of("packed-node");
    for theirs in [random, node, network] {
        assert!(
            ours.extra_all.mean < theirs.extra_all.mean,
            "{ours:#?} {theirs:#?}"
        );
        assert!(
            ours.processes.mean < theirs.processes.mean,
            "{ours:#?} {theirs:#?}"
        );
    }
    assert!(points.iter().all(|point| point.left_out.mean == 0.0));
}

#[test]
fn traffic_in_the_rack_counts_the_same_with_weights() {
    let study = PlacementStudy {
        strategies: vec![PlacementStrategy::NetalyticsNetwork(NearbyScope::Rack)],
        ..small()
    };
    let points = points(&PlacementStudy {
        weights: LinkWeights([1.0, 1.0, 1.0]),
        ..study
    });
    assert!(points.iter().all(|point| point.extra == point.weighted));
}

#[test]
fn deviations_are_of_a_sample() {
    let figure = MeanDeviation::of(&[2.0, 4.0, 6.0]);
    assert_eq!((figure.mean, figure.deviation), (4.0, 2.0));
    assert_eq!(
        MeanDeviation::of(&[5.0]),
        MeanDeviation {
            mean: 5.0,
            deviation: 0.0
        }
    );
}
