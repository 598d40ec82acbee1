//! Packing of engines, not from the paper: streams are merged into as few engines as possible, beginning with nearby
//! ones: of a host, a rack, a pod, and, if fewer engines are worth the distance, of the network. The largest is
//! processed first, and assigned to the engine with the least remaining capacity (best fit decreasing). Then the
//! emptiest groups are dissolved if the others of their area have capacity. A group's engine is placed on the host of
//! one of its senders, near most of its traffic.

use std::collections::BTreeSet;

use super::stage::{EngineStage, StreamSource};
use crate::topology::{HostId, LinkTraffic, LinkWeights, NetworkLoad, RackId, TreeNetwork};

/// Maximum distance of merged streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeReach {
    /// Within a pod.
    Pod,
    /// Any distance.
    Network,
}

/// The areas within which groups are merged, the smallest first.
#[derive(Clone, Copy)]
enum MergeArea {
    Host,
    Rack,
    Pod,
    Network,
}

/// Streams of one engine.
#[derive(Clone)]
struct StreamGroup {
    sources: Vec<usize>,
    mbps: f64,
}

/// Places engines.
pub(super) fn engage(stage: &mut EngineStage<'_>, reach: MergeReach, load: &mut NetworkLoad<'_>) {
    let each = stage.sources.iter().enumerate();
    let mut groups: Vec<StreamGroup> = each
        .map(|(index, source)| StreamGroup {
            sources: vec![index],
            mbps: source.mbps,
        })
        .collect();
    let areas: &[MergeArea] = match reach {
        MergeReach::Pod => &[MergeArea::Host, MergeArea::Rack, MergeArea::Pod],
        MergeReach::Network => &[
            MergeArea::Host,
            MergeArea::Rack,
            MergeArea::Pod,
            MergeArea::Network,
        ],
    };
    for area in areas {
        groups = merge(groups, stage, load.network, *area);
        dissolve(&mut groups, stage, load.network, *area);
    }
    groups.sort_by(|a, b| b.mbps.total_cmp(&a.mbps));
    for group in groups {
        settle(&group, stage, load);
    }
}

/// Merges the groups of each area.
fn merge(
    groups: Vec<StreamGroup>,
    stage: &EngineStage<'_>,
    network: &TreeNetwork,
    area: MergeArea,
) -> Vec<StreamGroup> {
    let of = |group: &StreamGroup| number(network, area, stage.sources[group.sources[0]].host);
    let mut groups: Vec<(u32, StreamGroup)> = groups
        .into_iter()
        .map(|group| (of(&group), group))
        .collect();
    groups.sort_by(|(a, x), (b, y)| a.cmp(b).then(y.mbps.total_cmp(&x.mbps)));
    let mut merged: Vec<(u32, StreamGroup)> = Vec::new();
    let mut begin = 0;
    for (number, group) in groups {
        if merged.get(begin).is_some_and(|(other, _)| *other != number) {
            begin = merged.len();
        }
        let fits =
            |other: &&mut (u32, StreamGroup)| other.1.mbps + group.mbps <= stage.process.mbps;
        let fullest = merged[begin..]
            .iter_mut()
            .filter(fits)
            .max_by(|a, b| a.1.mbps.total_cmp(&b.1.mbps));
        match fullest {
            Some((_, other)) => {
                other.sources.extend(group.sources);
                other.mbps += group.mbps;
            }
            None => merged.push((number, group)),
        }
    }
    merged.into_iter().map(|(_, group)| group).collect()
}

/// Distributes the streams of the emptiest groups over others of their area, each to the fullest with sufficient
/// capacity; a group is dissolved only if all of its streams fit.
fn dissolve(
    groups: &mut Vec<StreamGroup>,
    stage: &EngineStage<'_>,
    network: &TreeNetwork,
    area: MergeArea,
) {
    let number = |group: &StreamGroup| number(network, area, stage.sources[group.sources[0]].host);
    groups.sort_by(|a, b| a.mbps.total_cmp(&b.mbps));
    let mut at = 0;
    while at < groups.len() {
        let mut group = groups.remove(at);
        group
            .sources
            .sort_by(|a, b| stage.sources[*b].mbps.total_cmp(&stage.sources[*a].mbps));
        let mut rates: Vec<f64> = groups.iter().map(|other| other.mbps).collect();
        let mut deal = |source: &usize| {
            let mbps = stage.sources[*source].mbps;
            let fits = |other: &usize| {
                rates[*other] + mbps <= stage.process.mbps
                    && number(&groups[*other]) == number(&group)
            };
            let to = (0..rates.len())
                .filter(fits)
                .max_by(|a, b| rates[*a].total_cmp(&rates[*b]))?;
            rates[to] += mbps;
            Some((*source, to))
        };
        match group
            .sources
            .iter()
            .map(&mut deal)
            .collect::<Option<Vec<_>>>()
        {
            None => {
                groups.insert(at, group);
                at += 1;
            }
            Some(dealt) => {
                for (source, to) in dealt {
                    groups[to].sources.push(source);
                    groups[to].mbps = rates[to];
                }
            }
        }
    }
}

fn number(network: &TreeNetwork, area: MergeArea, host: HostId) -> u32 {
    let rack = network.rack_of(host);
    match area {
        MergeArea::Host => host,
        MergeArea::Rack => u32::from(rack),
        MergeArea::Pod => u32::from(network.pod_of(rack)),
        MergeArea::Network => 0,
    }
}

/// Places the engine of a group; streams that exceed link capacity get another engine.
fn settle(group: &StreamGroup, stage: &mut EngineStage<'_>, load: &mut NetworkLoad<'_>) {
    let mut rest = group.sources.clone();
    while let Some(first) = rest.first().copied() {
        let Some(host) = host(&rest, stage, load) else {
            rest.remove(0);
            continue;
        };
        let engine = stage.open(host, load);
        stage.give(first, engine, load);
        rest.retain(|source| *source != first && !stage.try_give(*source, engine, load));
    }
}

/// The best host of an engine for some streams: that of a sender or in its rack with the lowest path cost; otherwise
/// the nearest to the first sender with capacity for its stream.
fn host(sources: &[usize], stage: &EngineStage<'_>, load: &NetworkLoad<'_>) -> Option<HostId> {
    let network = load.network;
    let need = stage.process.need();
    let senders = || sources.iter().map(|source| &stage.sources[*source]);
    let fits_all = |host: HostId| {
        let remote: f64 = senders()
            .filter(|sender| sender.host != host)
            .map(|sender| sender.mbps)
            .sum();
        load.takes_in(host) >= remote
            && senders().all(|sender| stage.could_open(host, sender, load))
    };
    let cost = |host: HostId| -> f64 {
        let way = |sender: &StreamSource| {
            LinkTraffic::over(network.distance(sender.host, host), sender.mbps)
        };
        senders()
            .map(|sender| way(sender).weighed(LinkWeights::PAPER))
            .sum()
    };
    let mut hosts: Vec<HostId> = senders().map(|sender| sender.host).collect();
    let racks: BTreeSet<RackId> = hosts.iter().map(|host| network.rack_of(*host)).collect();
    hosts.retain(|host| fits_all(*host));
    hosts.extend(
        racks
            .into_iter()
            .filter_map(|rack| load.roomiest(network.hosts_of(rack), &need, fits_all)),
    );
    let best = hosts
        .into_iter()
        .min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
    let first = &stage.sources[sources[0]];
    let rack = network.rack_of(first.host);
    let fits = |host: HostId| stage.could_open(host, first, load);
    best.or_else(|| load.roomiest(network.hosts_of(rack), &need, fits))
        .or_else(|| load.roomiest(network.hosts_of_pod(network.pod_of(rack)), &need, fits))
        .or_else(|| load.roomiest(network.all_hosts(), &need, fits))
}
