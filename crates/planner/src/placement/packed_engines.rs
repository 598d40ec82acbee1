//! Ours: streams are merged into as few engines as hold them, near ones first: those of a host, of a rack, of a pod, and,
//! where fewer engines are worth the way, of the network. Each time the largest goes first, to where it leaves least room
//! (best fit decreasing). A group's engine stands on the host of one of its senders, where most of its traffic is.

use super::stage::Stage;
use crate::topology::{HostId, Load, Network, Weights};

/// How far streams go to be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Never over the core.
    Pod,
    /// Wherever there is room in an engine.
    Network,
}

/// The areas within which groups are merged, the nearest first.
#[derive(Clone, Copy)]
enum Area {
    Host,
    Rack,
    Pod,
    Network,
}

/// Streams for one engine.
#[derive(Clone)]
struct Group {
    /// The largest first.
    sources: Vec<usize>,
    mbps: f64,
}

/// Places engines.
pub(super) fn engage(stage: &mut Stage<'_>, reach: Reach, load: &mut Load<'_>) {
    let each = stage.sources.iter().enumerate();
    let mut groups: Vec<Group> =
        each.map(|(index, source)| Group { sources: vec![index], mbps: source.mbps }).collect();
    let areas: &[Area] = match reach {
        Reach::Pod => &[Area::Host, Area::Rack, Area::Pod],
        Reach::Network => &[Area::Host, Area::Rack, Area::Pod, Area::Network],
    };
    for area in areas {
        groups = merge(groups, stage, load.network, *area);
    }
    groups.sort_by(|a, b| b.mbps.total_cmp(&a.mbps));
    for group in groups {
        settle(&group, stage, load);
    }
}

/// Merges the groups of each area.
fn merge(groups: Vec<Group>, stage: &Stage<'_>, network: &Network, area: Area) -> Vec<Group> {
    let of = |group: &Group| number(network, area, stage.sources[group.sources[0]].host);
    let mut groups: Vec<(u32, Group)> = groups.into_iter().map(|group| (of(&group), group)).collect();
    groups.sort_by(|(a, x), (b, y)| a.cmp(b).then(y.mbps.total_cmp(&x.mbps)));
    let mut merged: Vec<(u32, Group)> = Vec::new();
    let mut begin = 0;
    for (number, group) in groups {
        if merged.get(begin).is_some_and(|(other, _)| *other != number) {
            begin = merged.len();
        }
        let fits = |other: &&mut (u32, Group)| other.1.mbps + group.mbps <= stage.process.mbps;
        let fullest = merged[begin..].iter_mut().filter(fits).max_by(|a, b| a.1.mbps.total_cmp(&b.1.mbps));
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

fn number(network: &Network, area: Area, host: HostId) -> u32 {
    let rack = network.rack_of(host);
    match area {
        Area::Host => host,
        Area::Rack => u32::from(rack),
        Area::Pod => u32::from(network.pod_of(rack)),
        Area::Network => 0,
    }
}

/// Opens the engine of a group; what the links do not bear gets another.
fn settle(group: &Group, stage: &mut Stage<'_>, load: &mut Load<'_>) {
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

/// Where an engine for some streams is best: at one of their senders; else as near to the first as there is room.
fn host(sources: &[usize], stage: &Stage<'_>, load: &Load<'_>) -> Option<HostId> {
    let (network, first) = (load.network, &stage.sources[sources[0]]);
    let fits = |host: HostId| stage.could_open(host, first, load);
    let cost = |host: HostId| -> f64 {
        let to = |source: &usize| {
            let source = &stage.sources[*source];
            crate::topology::Traffic::over(network.distance(source.host, host), source.mbps)
                .weighed(Weights::PAPER)
        };
        sources.iter().map(to).sum()
    };
    let mut senders: Vec<HostId> = sources.iter().map(|source| stage.sources[*source].host).collect();
    senders.sort_unstable();
    senders.dedup();
    let best = senders.into_iter().filter(|host| fits(*host)).min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
    let need = stage.process.need();
    let rack = network.rack_of(first.host);
    best.or_else(|| load.roomiest(network.hosts_of(rack), &need, fits))
        .or_else(|| load.roomiest(network.hosts_of_pod(network.pod_of(rack)), &need, fits))
        .or_else(|| load.roomiest(network.all_hosts(), &need, fits))
}
