//! The network on paper, as its file says it is: for the rules that would be installed, and for their proof.

use std::collections::{BTreeMap, BTreeSet};

use mirror::model::{Flooded, Host, Leads, Link, Mirror, Network, Port, Switch};
use mirror::openflow::{Action, Match, Rule};
use mirror::{Cube, Field};

use super::value::{SwitchPart, Way};
use crate::topology::{FirstTable, Forwarding, HostId, Site, SitePort};

/// The table in which a switch forwards whose first one is free.
const NEXT: u8 = 10;

/// What a switch does with packets by itself: what its file says, and supposed is that a controller takes the shortest way.
pub(super) fn forwarding(site: &Site, switch: usize) -> Vec<Rule> {
    let of = &site.switches[switch];
    let table = match of.first_table {
        FirstTable::Free => NEXT,
        FirstTable::Shared => 0,
    };
    let mut rules = match of.forwarding {
        Forwarding::Normal => vec![Rule { table, actions: vec![Action::Normal], ..Rule::default() }],
        Forwarding::Controller => shortest(site, switch, table),
    };
    if of.first_table == FirstTable::Free {
        let actions = vec![Action::Resubmit { port: None, table: Some(NEXT) }];
        rules.push(Rule { actions, ..Rule::default() });
    }
    rules
}

/// To each host by a shortest way; to hosts that are there for monitors nothing is sent.
fn shortest(site: &Site, switch: usize, table: u8) -> Vec<Rule> {
    let mut rules = Vec::new();
    for host in site.hosts.iter().filter(|host| !host.spare) {
        let Some(port) = toward(site, switch, host.at) else { continue };
        for address in &host.addresses {
            let (number, version) = mirror::model::network::numbers(*address);
            let cube = Cube::ALL.with(Field::EthType, version).with(Field::Destination, number);
            let actions = vec![Action::output(port)];
            rules.push(Rule { table, priority: 100, matched: Match::from(cube), actions, ..Rule::default() });
        }
    }
    rules
}

/// The port of a switch on a shortest way to where a host is; the first of several.
fn toward(site: &Site, from: usize, to: SitePort) -> Option<u32> {
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

/// The number that an interface for copies has on paper: the switch says which it really is.
pub(super) const INTERFACE: u32 = 0xfeff;

/// The number that a tunnel's port has on paper, where copies leave.
pub(super) const TUNNEL: u32 = 0xfefe;

/// And where they arrive, from this switch.
pub(super) fn landing(from: usize) -> u32 {
    0xe000 + from as u32 % 0x1000
}

/// Hosts of a switch that no rule names, on paper: they are alike, so a few stand for all.
const OTHERS_MAX: usize = 2;

/// The site with all hosts that are covered, and a few others at each switch.
pub(super) fn small(site: &Site, covered: &BTreeSet<HostId>) -> Site {
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

/// The network with some parts done; or as it is by itself. Ports of monitors are those of all parts that will be.
pub(super) fn network(site: &Site, parts: &[SwitchPart], done: bool) -> Network {
    let targets: BTreeMap<SitePort, String> =
        parts.iter().filter_map(|part| Some((lands(part)?, monitor(&part.name)))).collect();
    let tunnels: Vec<(usize, SitePort)> =
        parts.iter().filter_map(|part| Some((part.switch, tunnel(part)?))).collect();
    let switches = site.switches.iter().enumerate().map(|(index, switch)| {
        let mut ports: Vec<Port> = Vec::new();
        for host in site.hosts.iter().filter(|host| host.at.switch == index) {
            let (leads, flooded) = match targets.get(&host.at) {
                Some(monitor) => (Leads::Monitor(monitor.clone()), Flooded::No),
                None => (Leads::Hosts, Flooded::Yes),
            };
            ports.push(Port { flooded, ..Port::new(host.at.port, &host.name, leads) });
        }
        if let Some(monitor) = targets.get(&SitePort { switch: index, port: INTERFACE }) {
            let leads = Leads::Monitor(monitor.clone());
            ports.push(Port { flooded: Flooded::No, ..Port::new(INTERFACE, "interface", leads) });
        }
        let begins = tunnels.iter().filter(|(from, _)| *from == index).map(|_| TUNNEL);
        let ends = tunnels.iter().filter(|(_, end)| end.switch == index).map(|(from, _)| landing(*from));
        for number in begins.chain(ends) {
            let of = Port::new(number, &format!("tunnel{number}"), Leads::Copies);
            ports.push(Port { flooded: Flooded::No, ..of });
        }
        for end in site.links.iter().flat_map(|link| link.ends).filter(|end| end.switch == index) {
            ports.push(Port::new(end.port, &format!("link{}", end.port), Leads::Switch));
        }
        let mut rules = forwarding(site, index);
        let part = parts.iter().find(|part| part.switch == index).filter(|_| done);
        rules.extend(part.into_iter().flat_map(|part| part.rules.iter().cloned()));
        let landed = parts.iter().filter(|part| done && tunnel(part).is_some_and(|end| end.switch == index));
        rules.extend(
            landed.filter_map(|part| part.landing.as_ref()).flat_map(|landing| landing.rules.iter().cloned()),
        );
        let mut model = Switch::new(&switch.name, ports, rules);
        if let Some(SwitchPart { way: Way::Mirror { port }, ports, .. }) = part {
            let (entering, leaving) = (ports.clone(), ports.clone());
            model.mirrors.push(Mirror {
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
    let links = site.links.iter().map(|link| Link(at(link.ends[0]), at(link.ends[1])));
    let links =
        links.chain(tunnels.iter().map(|(from, end)| Link((*from, TUNNEL), (end.switch, landing(*from)))));
    let hosts = site.hosts.iter().filter(|host| !targets.contains_key(&host.at));
    let hosts = hosts
        .flat_map(|host| host.addresses.iter().map(|address| Host { address: *address, at: at(host.at) }))
        .collect();
    Network::new(switches.collect(), links.collect(), hosts)
}

/// The port by which copies leave their switch.
pub(super) fn target(way: Way) -> Option<u32> {
    match way {
        Way::Sniffer => None,
        Way::Interface => Some(INTERFACE),
        Way::Tunnel { .. } => Some(TUNNEL),
        Way::Rules { port } | Way::Mirror { port } => Some(port),
    }
}

/// Where copies of a switch are at their monitor.
pub(super) fn lands(part: &SwitchPart) -> Option<SitePort> {
    tunnel(part).or_else(|| target(part.way).map(|port| SitePort { switch: part.switch, port }))
}

/// Where copies of a switch come out of a tunnel.
fn tunnel(part: &SwitchPart) -> Option<SitePort> {
    match part.way {
        Way::Tunnel { end } => Some(end),
        _ => None,
    }
}

/// The name of the monitor of a switch.
pub(super) fn monitor(switch: &str) -> String {
    format!("monitor of {switch}")
}
