//! NetAlytics' Algorithm 2: repeatedly places an engine in the pod (aggregation switch) with the most remaining
//! monitors, and assigns its monitors in order up to the first that exceeds the capacity.
//!
//! Cases left open by the paper: "enough capacity" includes the links for the first monitor, so that every engine
//! gets at least one; a monitor for which no host has enough capacity is skipped.

use super::stage::EngineStage;
use super::strategy::NearbyScope;
use crate::topology::{HostId, NetworkLoad, PodId};

/// Places engines.
pub(super) fn engage(stage: &mut EngineStage<'_>, nearby: NearbyScope, load: &mut NetworkLoad<'_>) {
    let mut of_pod: Vec<Vec<usize>> = vec![Vec::new(); load.network.pods()];
    // The next monitor of a pod is the last of its list.
    for (index, source) in stage.sources.iter().enumerate().rev() {
        of_pod[usize::from(load.network.pod_of(load.network.rack_of(source.host)))].push(index);
    }
    let most = |of_pod: &[Vec<usize>]| (0..of_pod.len()).rev().max_by_key(|pod| of_pod[*pod].len());
    while let Some(pod) = most(&of_pod) {
        let Some(first) = of_pod[pod].last().copied() else {
            return;
        };
        let Some(host) = host(stage, first, pod as PodId, nearby, load) else {
            of_pod[pod].pop();
            continue;
        };
        let engine = stage.open(host, load);
        while of_pod[pod]
            .last()
            .is_some_and(|source| stage.try_give(*source, engine, load))
        {
            of_pod[pod].pop();
        }
    }
}

fn host(
    stage: &EngineStage<'_>,
    first: usize,
    pod: PodId,
    nearby: NearbyScope,
    load: &NetworkLoad<'_>,
) -> Option<HostId> {
    let network = load.network;
    let source = &stage.sources[first];
    let fits = |host: HostId| stage.could_open(host, source, load);
    let in_rack = match nearby {
        NearbyScope::Rack => load.least_used(network.hosts_of(network.rack_of(source.host)), fits),
        NearbyScope::Pod => None,
    };
    in_rack
        .or_else(|| load.least_used(network.hosts_of_pod(pod), fits))
        .or_else(|| load.least_used(network.all_hosts(), fits))
}
