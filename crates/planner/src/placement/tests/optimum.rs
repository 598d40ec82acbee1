//! Distance of the packing from the optimum: exact for small instances, from a lower bound for larger ones.
//! `cargo test -p planner --lib optimum -- --nocapture` prints the table of bench/runs/2026-11-23-placement.

use std::collections::BTreeMap;

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, microlp, variable};

use super::*;
use crate::simulate::{FlowSizeDistribution, SimulatedWorkload, TrafficLocality, workload};
use crate::topology::LeafSpine;

const MONITOR: ProcessDemand = ProcessDemand {
    mbps: 100.0,
    cores: 1.0,
    memory_gb: 1.0,
};
const ENGINE: ProcessDemand = ProcessDemand {
    mbps: 10.0,
    cores: 1.0,
    memory_gb: 1.0,
};
const HOST: HostResources = HostResources {
    cores: 64.0,
    cores_used: 0.0,
    memory_gb: 64.0,
    memory_used: 0.0,
    mbps: 1000.0,
};

fn demand(flows: &[PlacementFlow], strategy: PlacementStrategy) -> PlacementDemand<'_> {
    PlacementDemand {
        flows,
        monitor: MONITOR,
        aggregator: ENGINE,
        processor: ENGINE,
        extracted: 0.1,
        strategy,
    }
}

/// Minimum number of monitors for flows of a few racks, without splitting flows.
fn fewest_monitors(racks: usize, flows: &[PlacementFlow], most: usize) -> usize {
    let mut problem = ProblemVariables::new();
    let open: Vec<Vec<_>> = (0..racks)
        .map(|_| {
            (0..most)
                .map(|_| problem.add(variable().binary()))
                .collect()
        })
        .collect();
    let given: Vec<BTreeMap<RackId, Vec<_>>> = flows
        .iter()
        .map(|flow| {
            let mut of_rack = |_| {
                (0..most)
                    .map(|_| problem.add(variable().binary()))
                    .collect::<Vec<_>>()
            };
            flow.distinct_racks()
                .map(|rack| (rack, of_rack(rack)))
                .collect()
        })
        .collect();
    let all: Expression = open.iter().flatten().sum();
    let mut model = problem.minimise(all.clone()).using(microlp);
    for by_rack in &given {
        model = model.with(by_rack.values().flatten().sum::<Expression>().eq(1.0));
    }
    for (rack, open) in open.iter().enumerate() {
        for monitor in 0..most {
            let load: Expression = flows
                .iter()
                .zip(&given)
                .filter_map(|(flow, by_rack)| {
                    Some(f64::from(flow.mbps) * by_rack.get(&(rack as RackId))?[monitor])
                })
                .sum();
            model = model.with(load.leq(MONITOR.mbps * open[monitor]));
            if monitor > 0 {
                model = model.with(Expression::from(open[monitor]).leq(open[monitor - 1]));
            }
        }
    }
    model.solve().expect("enough monitors").eval(all).round() as usize
}

/// A lower bound: flows between the same racks are combined and may be split; the number of monitors is an integer in
/// total, or with many racks only for the flows within each rack.
fn bound(racks: usize, flows: &[PlacementFlow], whole: IntegralVariables) -> f64 {
    let mut within = vec![0.0; racks];
    let mut between: BTreeMap<(RackId, RackId), f64> = BTreeMap::new();
    for flow in flows {
        let [a, b] = flow.racks;
        if a == b {
            within[usize::from(a)] += f64::from(flow.mbps)
        } else {
            *between.entry((a.min(b), a.max(b))).or_default() += f64::from(flow.mbps)
        }
    }
    let mut problem = ProblemVariables::new();
    let count = |mbps: &f64| {
        let least = (mbps / MONITOR.mbps).ceil();
        match whole {
            IntegralVariables::Monitors => variable().integer().min(least),
            IntegralVariables::Least => variable().min(least),
        }
    };
    let monitors: Vec<_> = within
        .iter()
        .map(count)
        .map(|one| problem.add(one))
        .collect();
    let mut loads: Vec<Expression> = within.iter().map(|mbps| Expression::from(*mbps)).collect();
    for ((a, b), mbps) in &between {
        let first = problem.add(variable().min(0.0).max(*mbps));
        loads[usize::from(*a)] += first;
        loads[usize::from(*b)] += *mbps - first;
    }
    let all: Expression = monitors.iter().sum();
    let mut model = problem.minimise(all.clone()).using(microlp);
    for (load, monitors) in loads.into_iter().zip(&monitors) {
        model = model.with(load.leq(MONITOR.mbps * *monitors));
    }
    model.solve().expect("enough monitors").eval(all)
}

/// The integral quantity of a bound.
#[derive(Clone, Copy)]
enum IntegralVariables {
    Monitors,
    Least,
}

/// Minimum number of engines for streams, without splitting streams.
fn fewest_engines(streams: &[f64], most: usize) -> usize {
    let mut problem = ProblemVariables::new();
    let open: Vec<_> = (0..most)
        .map(|_| problem.add(variable().binary()))
        .collect();
    let given: Vec<Vec<_>> = streams
        .iter()
        .map(|_| {
            (0..most)
                .map(|_| problem.add(variable().binary()))
                .collect()
        })
        .collect();
    let all: Expression = open.iter().sum();
    let mut model = problem.minimise(all.clone()).using(microlp);
    for to in &given {
        model = model.with(to.iter().sum::<Expression>().eq(1.0));
    }
    for engine in 0..most {
        let load: Expression = streams
            .iter()
            .zip(&given)
            .map(|(mbps, to)| *mbps * to[engine])
            .sum();
        model = model.with(load.leq(ENGINE.mbps * open[engine]));
        if engine > 0 {
            model = model.with(Expression::from(open[engine]).leq(open[engine - 1]));
        }
    }
    model.solve().expect("enough engines").eval(all).round() as usize
}

fn drawn(
    network: &TreeNetwork,
    flows: u32,
    mbps: f64,
    sizes: FlowSizeDistribution,
    seed: u64,
) -> Vec<PlacementFlow> {
    let locality = TrafficLocality {
        rack: 0.5,
        pod: 0.3,
        core: 0.2,
    };
    let of = SimulatedWorkload {
        flows,
        mbps,
        flows_of_host: 1.0..=10.0,
        locality,
        sizes,
    };
    let mut drawn = workload(&of, network, flows, &mut SeededRandom::new(seed));
    drawn
        .iter_mut()
        .for_each(|flow| flow.mbps = flow.mbps.min(MONITOR.mbps as f32));
    drawn
}

#[test]
fn few_flows_have_nearly_the_fewest_processes() {
    let network = LeafSpine {
        leaves: 3,
        spines: 2,
        hosts: 3,
        link_mbps: 1000.0,
    }
    .network(|| HOST)
    .expect("one");
    let mut monitors = (0, 0);
    let mut greedy = 0;
    let mut engines = (0, 0);
    for seed in 0..20 {
        let flows = drawn(&network, 9, 350.0, FlowSizeDistribution::Exponential, seed);
        let placed = place(
            &network,
            &demand(&flows, PlacementStrategy::PackedNode),
            seed,
        );
        assert_eq!(placed.uncovered, UncoveredFlows::default(), "seed {seed}");
        let fewest = fewest_monitors(3, &flows, 3);
        assert!(
            fewest <= placed.monitors.len(),
            "seed {seed}: the optimum is one"
        );
        monitors = (monitors.0 + placed.monitors.len(), monitors.1 + fewest);
        let printed = place(
            &network,
            &demand(
                &flows,
                PlacementStrategy::NetalyticsNetwork(NearbyScope::Rack),
            ),
            seed,
        );
        greedy += printed.monitors.len();
        let streams: Vec<f64> = placed
            .aggregation
            .streams
            .iter()
            .map(|stream| stream.mbps)
            .collect();
        let fewest = fewest_engines(&streams, placed.aggregation.engines.len());
        assert!(
            fewest <= placed.aggregation.engines.len(),
            "seed {seed}: the optimum is one"
        );
        engines = (
            engines.0 + placed.aggregation.engines.len(),
            engines.1 + fewest,
        );
    }
    println!(
        "3 racks, 9 flows, 20 seeds: monitors {monitors:?}, Algorithm 1 {greedy}; aggregators {engines:?}"
    );
    assert!(
        monitors.0 as f64 <= 1.06 * monitors.1 as f64,
        "monitors, and fewest: {monitors:?}"
    );
    assert!(
        engines.0 as f64 <= 1.02 * engines.1 as f64,
        "aggregators, and fewest: {engines:?}"
    );
    assert!(monitors.0 < greedy, "Algorithm 1 needs more: {greedy}");
}

#[test]
fn many_flows_are_near_the_bound() {
    for (k, whole, gap) in [
        (4, IntegralVariables::Monitors, 1.12),
        (6, IntegralVariables::Least, 1.12),
        (8, IntegralVariables::Least, 1.12),
    ] {
        let network = FatTree {
            k,
            link_mbps: 1000.0,
        }
        .network(|| HOST)
        .expect("a fat tree");
        let mut ours = 0;
        let mut lower = 0.0;
        let mut greedy = 0;
        for seed in 0..3 {
            let racks = network.racks();
            let flows = drawn(
                &network,
                400 * racks as u32,
                110.0 * racks as f64,
                FlowSizeDistribution::Datacenter,
                seed,
            );
            ours += place(
                &network,
                &demand(&flows, PlacementStrategy::PackedNode),
                seed,
            )
            .monitors
            .len();
            greedy += place(
                &network,
                &demand(
                    &flows,
                    PlacementStrategy::NetalyticsNetwork(NearbyScope::Rack),
                ),
                seed,
            )
            .monitors
            .len();
            lower += bound(racks, &flows, whole).ceil();
        }
        println!("k = {k}: monitors {ours}, bound {lower}, Algorithm 1 {greedy}");
        assert!(
            lower <= ours as f64 && ours as f64 <= gap * lower,
            "k = {k}: {ours}, at least {lower}"
        );
        assert!(ours < greedy, "k = {k}: {ours}, Algorithm 1 {greedy}");
    }
}
