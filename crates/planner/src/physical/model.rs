//! A model of the network as described by its file, used to generate the rules and prove them.

use std::collections::{BTreeMap, BTreeSet};

use mirror::model::{
    FloodSetting, KnownHost, PortNeighbor, SwitchLink, SwitchMirror, SwitchModel, SwitchNetwork,
    SwitchPort,
};
use mirror::openflow::{FlowAction, FlowMatch, FlowRule};
use mirror::{MatchField, PacketCube};

use super::physical_plan::{PacketPath, SwitchPart};
use crate::topology::{FirstTable, ForwardingMode, HostId, NetworkSite, SitePort};

/// The forwarding table of a switch with a free first table.
const NEXT: u8 = 10;

/// The forwarding rules of a switch according to its file; a controller is assumed to use shortest paths.
pub(super) fn forwarding(site: &NetworkSite, switch: usize) -> Vec<FlowRule> {
    let of = &site.switches[switch];
    let table = match of.first_table {
        FirstTable::Free => NEXT,
        FirstTable::Shared => 0,
    };
    let mut rules = match of.forwarding {
        ForwardingMode::Normal => {
            vec![FlowRule {
                table,
                actions: vec![FlowAction::Normal],
                ..FlowRule::default()
            }]
        }
        ForwardingMode::Controller => shortest(site, switch, table),
    };
    if of.first_table == FirstTable::Free {
        let actions = vec![FlowAction::Resubmit {
            port: None,
            table: Some(NEXT),
        }];
        rules.push(FlowRule {
            actions,
            ..FlowRule::default()
        });
    }
    rules
}

/// Shortest paths to each host except those reserved for monitors.
fn shortest(site: &NetworkSite, switch: usize, table: u8) -> Vec<FlowRule> {
    let mut rules = Vec::new();
    for host in site.hosts.iter().filter(|host| !host.spare) {
        let Some(port) = toward(site, switch, host.at) else {
            continue;
        };
        for address in &host.addresses {
            let (number, version) = mirror::model::network::numbers(*address);
            let cube = PacketCube::ALL
                .with(MatchField::EthType, version)
                .with(MatchField::Destination, number);
            let actions = vec![FlowAction::output(port)];
            rules.push(FlowRule {
                table,
                priority: 100,
                matched: FlowMatch::from(cube),
                actions,
                ..FlowRule::default()
            });
        }
    }
    rules
}

/// The port of a switch on a shortest path to a host; the first of several.
fn toward(site: &NetworkSite, from: usize, to: SitePort) -> Option<u32> {
    if from == to.switch {
        return Some(to.port);
    }
    let mut reached = vec![to.switch];
    let mut next = 0;
    while let Some(at) = reached.get(next).copied() {
        next += 1;
        for link in &site.links {
            let [a, b] = link.ends;
            for (here, there) in [(a, b), (b, a)] {
                if here.switch != at || reached.contains(&there.switch) {
                    continue;
                }
                if there.switch == from {
                    return Some(there.port);
                }
                reached.push(there.switch);
            }
        }
    }
    None
}

/// Port number of an interface for copies in the model; the actual number is assigned by the switch.
pub(super) const INTERFACE: u32 = 0xfeff;

/// Port number of a tunnel in the model, at the switch that copies.
pub(super) const TUNNEL: u32 = 0xfefe;

/// Port number at the end of the tunnel from this switch.
pub(super) fn landing(from: usize) -> u32 {
    0xe000 + from as u32 % 0x1000
}

/// Number of representative hosts per switch in the model, for hosts not named in rules.
const OTHERS_MAX: usize = 2;

/// The site reduced to all covered hosts and a few others at each switch.
pub(super) fn small(site: &NetworkSite, covered: &BTreeSet<HostId>) -> NetworkSite {
    let mut others: BTreeMap<usize, usize> = BTreeMap::new();
    let mut small = site.clone();
    let mut index = 0;
    small.hosts.retain(|host| {
        let is_covered = covered.contains(&index);
        index += 1;
        let count = others.entry(host.at.switch).or_default();
        *count += usize::from(!is_covered && !host.spare);
        is_covered || host.spare || *count <= OTHERS_MAX
    });
    small
}

/// The model of the network with the rules of some parts installed, or without them. Ports of monitors are those of
/// all parts.
pub(super) fn network(site: &NetworkSite, parts: &[SwitchPart], done: bool) -> SwitchNetwork {
    let targets: BTreeMap<SitePort, String> = parts
        .iter()
        .filter_map(|part| Some((lands(part)?, monitor(&part.name))))
        .collect();
    let tunnels: Vec<(usize, SitePort)> = parts
        .iter()
        .filter_map(|part| Some((part.switch, tunnel(part)?)))
        .collect();
    let switches = site.switches.iter().enumerate().map(|(index, switch)| {
        let mut ports: Vec<SwitchPort> = Vec::new();
        for host in site.hosts.iter().filter(|host| host.at.switch == index) {
            let (leads, flooded) = match targets.get(&host.at) {
                Some(monitor) => (PortNeighbor::Monitor(monitor.clone()), FloodSetting::No),
                None => (PortNeighbor::Hosts, FloodSetting::Yes),
            };
            ports.push(SwitchPort {
                flooded,
                ..SwitchPort::new(host.at.port, &host.name, leads)
            });
        }
        if let Some(monitor) = targets.get(&SitePort {
            switch: index,
            port: INTERFACE,
        }) {
            let leads = PortNeighbor::Monitor(monitor.clone());
            ports.push(SwitchPort {
                flooded: FloodSetting::No,
                ..SwitchPort::new(INTERFACE, "interface", leads)
            });
        }
        let begins = tunnels
            .iter()
            .filter(|(from, _)| *from == index)
            .map(|_| TUNNEL);
        let ends = tunnels
            .iter()
            .filter(|(_, end)| end.switch == index)
            .map(|(from, _)| landing(*from));
        for number in begins.chain(ends) {
            let of = SwitchPort::new(number, &format!("tunnel{number}"), PortNeighbor::Copies);
            ports.push(SwitchPort {
                flooded: FloodSetting::No,
                ..of
            });
        }
        for end in site
            .links
            .iter()
            .flat_map(|link| link.ends)
            .filter(|end| end.switch == index)
        {
            ports.push(SwitchPort::new(
                end.port,
                &format!("link{}", end.port),
                PortNeighbor::Switch,
            ));
        }
        let mut rules = forwarding(site, index);
        let part = parts
            .iter()
            .find(|part| part.switch == index)
            .filter(|_| done);
        rules.extend(part.into_iter().flat_map(|part| part.rules.iter().cloned()));
        let landed = parts
            .iter()
            .filter(|part| done && tunnel(part).is_some_and(|end| end.switch == index));
        rules.extend(
            landed
                .filter_map(|part| part.landing.as_ref())
                .flat_map(|landing| landing.rules.iter().cloned()),
        );
        let mut model = SwitchModel::new(&switch.name, ports, rules);
        if let Some(SwitchPart {
            way: PacketPath::Mirror { port },
            ports,
            ..
        }) = part
        {
            let entering = ports.clone();
            let leaving = ports.clone();
            model.mirrors.push(SwitchMirror {
                name: "netalytics".to_owned(),
                entering,
                leaving,
                output: *port,
                max_len: None,
            });
        }
        model
    });
    let at = |port: SitePort| (port.switch, port.port);
    let links = site
        .links
        .iter()
        .map(|link| SwitchLink(at(link.ends[0]), at(link.ends[1])));
    let links = links.chain(
        tunnels
            .iter()
            .map(|(from, end)| SwitchLink((*from, TUNNEL), (end.switch, landing(*from)))),
    );
    let hosts = site
        .hosts
        .iter()
        .filter(|host| !targets.contains_key(&host.at));
    let hosts = hosts
        .flat_map(|host| {
            host.addresses.iter().map(|address| KnownHost {
                address: *address,
                at: at(host.at),
            })
        })
        .collect();
    SwitchNetwork::new(switches.collect(), links.collect(), hosts)
}

/// The port through which copies leave their switch.
pub(super) fn target(way: PacketPath) -> Option<u32> {
    match way {
        PacketPath::Sniffer => None,
        PacketPath::Interface => Some(INTERFACE),
        PacketPath::Tunnel { .. } => Some(TUNNEL),
        PacketPath::Rules { port } | PacketPath::Mirror { port } => Some(port),
    }
}

/// The port at which copies of a switch reach their monitor.
pub(super) fn lands(part: &SwitchPart) -> Option<SitePort> {
    tunnel(part).or_else(|| {
        target(part.way).map(|port| SitePort {
            switch: part.switch,
            port,
        })
    })
}

/// The end of a switch's tunnel.
fn tunnel(part: &SwitchPart) -> Option<SitePort> {
    match part.way {
        PacketPath::Tunnel { end } => Some(end),
        _ => None,
    }
}

/// The name of a switch's monitor.
pub(super) fn monitor(switch: &str) -> String {
    format!("monitor of {switch}")
}
