//! Creates a network file from the discovered switches and hosts, with notes on missing information. Unknown values are
//! omitted, not guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use mirror::RuleLayout;
use mirror::openflow::{FlowAction, FlowRule};
use serde_json::Value;
use steer::{At, DiscoveredLinks, SwitchDescription};

use super::file_draft::{NetworkFileDraft, NetworkFileEntry};

/// Assumed speed of a link that does not report one.
const SUPPOSED_MBPS: f64 = 1000.0;
/// Comment of a host with unknown capacity, which is not used.
const UNKNOWN: &str = "its resources are unknown, so no monitor can run there";

/// A discovered switch.
pub struct DiscoveredSwitch {
    /// Name.
    pub name: String,
    /// Control channel.
    pub told: SwitchControl,
    /// Name of its bridge.
    pub bridge: String,
    /// Reported ports and neighbors.
    pub described: SwitchDescription,
    /// Rules of the switch, without those of netalytics.
    pub rules: Vec<FlowRule>,
    /// Command prefix to run programs on its machine.
    pub via: Option<Vec<String>>,
}

/// Control channel of a switch.
pub enum SwitchControl {
    /// Database socket of the switch.
    Database(String),
    /// A controller, and the file with its token.
    Controller(String, Option<String>),
}

/// An agent of a server.
pub struct DiscoveredAgent {
    /// Name.
    pub name: String,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Interfaces from which the agent may capture.
    pub interfaces: Vec<String>,
    /// Number of cores.
    pub cores: u64,
    /// Memory in bytes.
    pub memory: u64,
}

/// Result of the discovery.
pub struct DiscoveredNetwork {
    /// Switches.
    pub switches: Vec<DiscoveredSwitch>,
    /// Links and hosts.
    pub found: DiscoveredLinks,
    /// Agents.
    pub agents: Vec<DiscoveredAgent>,
    /// Names of addresses.
    pub names: HashMap<IpAddr, String>,
    /// Capacity of each link, if given.
    pub link_mbps: Option<f64>,
    /// Command prefixes by host name.
    pub via: BTreeMap<String, Vec<String>>,
    /// The existing file.
    pub before: NetworkFileDraft,
}

/// The file, and notes for the user.
pub fn draw(world: &DiscoveredNetwork) -> (NetworkFileDraft, Vec<String>) {
    let mut drawing = NetworkFileBuilder::of(world);
    let mut hosts = drawing.hosts();
    drawing.kept_hosts(&mut hosts);
    let mut switches = drawing.switches();
    drawing.tiers(&mut switches, &hosts);
    let links = drawing.links(&switches);
    let tier = |at: &str| {
        let name = at.rsplit_once(':').map_or(at, |(name, _)| name);
        switches
            .iter()
            .find(|entry| entry.text("name") == name)
            .map(|entry| entry.text("tier").to_owned())
    };
    hosts.retain(|host| {
        let is_edge = tier(host.text("at")).as_deref() == Some("edge");
        if !is_edge {
            let name = host.text("name");
            let at = host.text("at");
            drawing.notes.push(format!(
                "{name} is at {at}, which is not an edge switch in the file: omitted"
            ));
        }
        is_edge
    });
    drawing.silent();
    let traffic = world.before.traffic.clone();
    (
        NetworkFileDraft {
            switches,
            hosts,
            links,
            traffic,
        },
        drawing.notes,
    )
}

struct NetworkFileBuilder<'a> {
    world: &'a DiscoveredNetwork,
    /// Ports with a link to another switch.
    ends: BTreeSet<At>,
    /// Ports with hosts, sorted by switch and port.
    peopled: Vec<At>,
    notes: Vec<String>,
    /// Used host names.
    taken: BTreeSet<String>,
}

impl<'a> NetworkFileBuilder<'a> {
    /// Creates an empty drawing.
    fn of(world: &'a DiscoveredNetwork) -> NetworkFileBuilder<'a> {
        let ends: BTreeSet<At> = world.found.cables.iter().flatten().copied().collect();
        let mut peopled = Vec::new();
        for (index, switch) in world.switches.iter().enumerate() {
            for (number, port) in &switch.described.ports {
                let at = (index, *number);
                let is_peopled = !port.learned.is_empty() || world.found.answers.contains_key(&at);
                let is_cables = ends.contains(&at) || world.found.unclear.contains(&at);
                peopled.extend((is_peopled && !is_cables).then_some(at));
            }
        }
        NetworkFileBuilder {
            world,
            ends,
            peopled,
            notes: Vec::new(),
            taken: BTreeSet::new(),
        }
    }

    fn at(&self, at: At) -> String {
        format!("{}:{}", self.world.switches[at.0].name, at.1)
    }

    fn is_looked_at(&self, name: &str) -> bool {
        self.world.switches.iter().any(|switch| switch.name == name)
    }

    /// The port at which each address replies, if it is unique.
    fn places(&mut self, ports: &[At]) -> BTreeMap<IpAddr, At> {
        let mut all: BTreeMap<IpAddr, Vec<At>> = BTreeMap::new();
        for at in ports {
            for address in self
                .world
                .found
                .answers
                .get(at)
                .into_iter()
                .flatten()
                .map(|(address, _)| *address)
            {
                all.entry(address.into()).or_default().push(*at);
            }
        }
        let mut places = BTreeMap::new();
        for (address, at) in all {
            match at.as_slice() {
                [one] => {
                    places.insert(address, *one);
                }
                several => {
                    let several: Vec<String> = several.iter().map(|at| self.at(*at)).collect();
                    self.notes.push(format!(
                        "{address} answers at {}: omitted",
                        several.join(" and ")
                    ));
                }
            }
        }
        places
    }

    fn hosts(&mut self) -> Vec<NetworkFileEntry> {
        let ports = self.peopled.clone();
        let places = self.places(&ports);
        let mut agents: BTreeMap<At, &DiscoveredAgent> = BTreeMap::new();
        for agent in &self.world.agents {
            let at: BTreeSet<At> = agent
                .addresses
                .iter()
                .filter_map(|ip| places.get(ip).copied())
                .collect();
            let name = &agent.name;
            let Some(first) = at.first() else {
                let own = |switch: &DiscoveredSwitch| {
                    agent
                        .addresses
                        .iter()
                        .any(|ip| switch.described.addresses.contains(ip))
                };
                if !self.world.switches.iter().any(own) {
                    self.notes.push(format!(
                        "agent {name} is not behind a port of these switches: omitted"
                    ));
                }
                continue;
            };
            if at.len() > 1 {
                let said = self.at(*first);
                self.notes.push(format!(
                    "agent {name} is at several ports; the file has its host at one of them: {said}"
                ));
            }
            if let Some(other) = agents.insert(*first, agent) {
                let at = self.at(*first);
                let other = &other.name;
                self.notes.push(format!(
                    "agents {other} and {name} are both at {at}: {other} is omitted"
                ));
            }
        }
        ports
            .into_iter()
            .map(|at| self.host(at, &places, agents.get(&at).copied()))
            .collect()
    }

    fn host(
        &mut self,
        at: At,
        places: &BTreeMap<IpAddr, At>,
        agent: Option<&DiscoveredAgent>,
    ) -> NetworkFileEntry {
        let place = self.at(at);
        let mut addresses: BTreeSet<IpAddr> = places
            .iter()
            .filter(|(_, on)| **on == at)
            .map(|(ip, _)| *ip)
            .collect();
        let answered = self.world.found.answers.get(&at);
        let macs: BTreeSet<&String> = answered.into_iter().flatten().map(|(_, mac)| mac).collect();
        // Includes an agent's addresses that cannot be probed.
        let elsewhere = |ip: &&IpAddr| ip.is_ipv6() && !addresses.contains(*ip);
        let more: Vec<IpAddr> = agent
            .iter()
            .flat_map(|agent| &agent.addresses)
            .filter(elsewhere)
            .copied()
            .collect();
        addresses.extend(more);
        let before = self.before(&addresses, &place);
        let mut entry = before.unwrap_or_default();
        let kept: Vec<IpAddr> = entry
            .texts("addresses")
            .iter()
            .filter_map(|ip| ip.parse().ok())
            .collect();
        addresses.extend(kept.iter().filter(|ip| ip.is_ipv6()));
        let name = self.name(&entry, agent, &addresses, at);
        if macs.len() > 1 {
            let count = macs.len();
            self.notes.push(format!(
                "{count} machines are behind {place}; they are one host of the file, {name}"
            ));
        }
        if addresses.is_empty() {
            self.notes.push(format!(
                "{name} at {place} has no known address: add its network with --addresses"
            ));
        }
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        entry.set("name", name.as_str());
        entry.set("addresses", addresses);
        entry.set("at", place);
        match agent {
            Some(agent) => {
                // A known capacity replaces the defaults.
                if nothing_free()
                    .iter()
                    .all(|(key, value)| entry.keys.get(*key) == Some(value))
                {
                    entry.keys.remove("used");
                }
                entry.set("agent", agent.name.as_str());
                entry.set("cores", agent.cores.max(1));
                entry.set("memory", format!("{}MiB", (agent.memory >> 20).max(1)));
                let cables: Vec<&String> = agent
                    .interfaces
                    .iter()
                    .filter(|name| *name != "lo")
                    .collect();
                if let [only] = cables.as_slice() {
                    entry.set_if_missing("interface", only.as_str());
                }
            }
            None if !entry.keys.contains_key("cores") => {
                nothing_free()
                    .into_iter()
                    .for_each(|(key, value)| entry.set(key, value));
                entry.remark = Some(UNKNOWN);
            }
            None => {}
        }
        if let Some(via) = self.world.via.get(&name) {
            entry.set("via", via.clone());
        }
        let mbps = self.world.switches[at.0]
            .described
            .ports
            .get(&at.1)
            .and_then(|port| port.mbps);
        self.bears(&mut entry, mbps, &name);
        entry
    }

    /// Capacity of a link: as given now, as in the existing file, or as reported by the switch.
    fn bears(&mut self, entry: &mut NetworkFileEntry, mbps: Option<f64>, whose: &str) {
        if let Some(said) = self.world.link_mbps {
            entry.set("mbps", said);
        } else if !entry.keys.contains_key("mbps") {
            if mbps.is_none() {
                self.notes.push(format!(
                    "the capacity of the link of {whose} is unknown: {SUPPOSED_MBPS} Mb/s are assumed"
                ));
            }
            entry.set("mbps", mbps.unwrap_or(SUPPOSED_MBPS));
        }
    }

    /// Existing entry of the host with one of these addresses, or at this port.
    fn before(&self, addresses: &BTreeSet<IpAddr>, place: &str) -> Option<NetworkFileEntry> {
        let has = |entry: &&NetworkFileEntry| {
            entry
                .texts("addresses")
                .iter()
                .any(|ip| ip.parse().is_ok_and(|ip| addresses.contains(&ip)))
        };
        let hosts = &self.world.before.hosts;
        let at = |entry: &&NetworkFileEntry| {
            entry.text("at") == place
                && (addresses.is_empty() || entry.texts("addresses").is_empty())
        };
        hosts
            .iter()
            .find(has)
            .or_else(|| hosts.iter().find(at))
            .cloned()
    }

    /// Unique name of a host: from the existing file, its agent, the hosts file, or its port.
    fn name(
        &mut self,
        entry: &NetworkFileEntry,
        agent: Option<&DiscoveredAgent>,
        addresses: &BTreeSet<IpAddr>,
        at: At,
    ) -> String {
        let said = Some(entry.text("name"))
            .filter(|name| !name.is_empty())
            .map(str::to_owned);
        let listed = || {
            addresses
                .iter()
                .find_map(|ip| self.world.names.get(ip).cloned())
        };
        let port = || {
            self.world.switches[at.0]
                .described
                .ports
                .get(&at.1)
                .map(|port| port.name.clone())
        };
        let name = said
            .or_else(|| agent.map(|agent| agent.name.clone()))
            .or_else(listed)
            .or_else(port);
        let mut name = name.unwrap_or_default();
        let is_other = self
            .world
            .before
            .hosts
            .iter()
            .any(|old| old.text("name") == name)
            && entry.text("name") != name;
        if is_other || self.taken.contains(&name) {
            name = format!("{name} at {}", self.at(at));
        }
        self.taken.insert(name.clone());
        name
    }

    /// Hosts of the existing file that did not respond, if their ports are still free.
    fn kept_hosts(&mut self, hosts: &mut Vec<NetworkFileEntry>) {
        for old in &self.world.before.hosts {
            let name = old.text("name");
            let at = old.text("at");
            if hosts.iter().any(|host| host.text("name") == name) {
                continue;
            }
            let switch = at.rsplit_once(':').map_or(at, |(switch, _)| switch);
            let mut places = hosts
                .iter()
                .map(|host| host.text("at").to_owned())
                .collect::<Vec<_>>();
            places.extend(
                self.world
                    .found
                    .cables
                    .iter()
                    .flatten()
                    .map(|end| self.at(*end)),
            );
            if places.iter().any(|place| place == at) {
                self.notes.push(format!(
                    "{name} was not found, and {at} belongs to another host: omitted"
                ));
                continue;
            }
            if self.is_looked_at(switch) {
                self.notes.push(format!(
                    "{name} was not found; it stays at {at}, where the file has it"
                ));
            }
            hosts.push(old.clone());
        }
    }

    fn switches(&mut self) -> Vec<NetworkFileEntry> {
        let mut entries: Vec<NetworkFileEntry> = Vec::new();
        for switch in &self.world.switches {
            let old = self
                .world
                .before
                .switches
                .iter()
                .find(|old| old.text("name") == switch.name);
            let mut entry = old.cloned().unwrap_or_default();
            for key in ["ovsdb", "controller", "datapath", "first_table"] {
                entry.keys.remove(key);
            }
            entry.set("name", switch.name.as_str());
            entry.set("bridge", switch.bridge.as_str());
            match &switch.told {
                SwitchControl::Database(address) => entry.set("ovsdb", address.as_str()),
                SwitchControl::Controller(url, token_file) => {
                    entry.set("controller", url.as_str());
                    if let Some(file) = token_file {
                        entry.set("controller_token", file.as_str());
                    }
                    entry.set("datapath", switch.described.datapath.as_str());
                }
            }
            entry.set(
                "forwarding",
                if learns(&switch.rules) {
                    "normal"
                } else {
                    "controller"
                },
            );
            if matches!(RuleLayout::of(&switch.rules), RuleLayout::FirstTable { .. }) {
                entry.set("first_table", "free");
            }
            match switch.described.addresses.as_slice() {
                [only] => entry.set_if_missing("tunnel", only.to_string()),
                [] => {}
                several if !entry.keys.contains_key("tunnel") => {
                    let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                    let name = &switch.name;
                    let several = several.join(", ");
                    self.notes.push(format!("{name} has the addresses {several}: the tunnel endpoint is unknown, so no tunnel ends there; set tunnel = …"));
                }
                _ => {}
            }
            let own = |agent: &&DiscoveredAgent| {
                agent
                    .addresses
                    .iter()
                    .any(|ip| switch.described.addresses.contains(ip))
            };
            if let Some(agent) = self.world.agents.iter().find(own) {
                entry.set("agent", agent.name.as_str());
                entry.set("cores", agent.cores.max(1));
                entry.set("memory", format!("{}MiB", (agent.memory >> 20).max(1)));
            }
            match (self.world.via.get(&switch.name), &switch.via) {
                (Some(said), _) => entry.set("via", said.clone()),
                (None, Some(found)) => entry.set_if_missing("via", found.clone()),
                (None, None) => {}
            }
            entries.push(entry);
        }
        let others = self
            .world
            .before
            .switches
            .iter()
            .filter(|old| !self.is_looked_at(old.text("name")));
        entries.extend(others.cloned());
        entries
    }

    /// Switches with hosts, or with possible host ports while no hosts are known, are edge; of the tiers above, a
    /// single one is core, and of several the lowest is aggregation.
    fn tiers(&self, switches: &mut [NetworkFileEntry], hosts: &[NetworkFileEntry]) {
        let mut depth: BTreeMap<usize, usize> = BTreeMap::new();
        for (index, switch) in self.world.switches.iter().enumerate() {
            let own = format!("{}:", switch.name);
            let has_hosts = match hosts {
                [] => switch
                    .described
                    .ports
                    .iter()
                    .any(|(number, port)| port.is_up && !self.ends.contains(&(index, *number))),
                hosts => hosts.iter().any(|host| host.text("at").starts_with(&own)),
            };
            if has_hosts
                || !self
                    .world
                    .found
                    .cables
                    .iter()
                    .flatten()
                    .any(|end| end.0 == index)
            {
                depth.insert(index, 0);
            }
        }
        for level in 0..self.world.switches.len() {
            for [a, b] in &self.world.found.cables {
                for (from, to) in [(a.0, b.0), (b.0, a.0)] {
                    if depth.get(&from) == Some(&level) {
                        depth.entry(to).or_insert(level + 1);
                    }
                }
            }
        }
        let highest = depth.values().max().copied().unwrap_or(0);
        for (index, entry) in switches
            .iter_mut()
            .enumerate()
            .take(self.world.switches.len())
        {
            let tier = match depth.get(&index).copied().unwrap_or(0) {
                0 => "edge",
                1 if highest > 1 => "aggregation",
                _ => "core",
            };
            entry.set_if_missing("tier", tier);
        }
    }

    fn links(&mut self, switches: &[NetworkFileEntry]) -> Vec<NetworkFileEntry> {
        let mut links = Vec::new();
        let same = |a: &NetworkFileEntry, b: &[String]| {
            let ends = a.texts("ends");
            ends.iter().all(|end| b.contains(end)) && ends.len() == b.len()
        };
        let mut cables = self.world.found.cables.clone();
        cables.sort_unstable();
        for [a, b] in cables {
            let one = self.at(a);
            let other = self.at(b);
            let tier = |at: At| {
                switches
                    .get(at.0)
                    .map(|entry| entry.text("tier").to_owned())
            };
            if tier(a) == tier(b) {
                self.notes.push(format!("{one} and {other} are linked, and both switches are of one tier, which the file cannot express: omitted"));
                continue;
            }
            let ends = vec![one.clone(), other.clone()];
            let old = self.world.before.links.iter().find(|old| same(old, &ends));
            let mut entry = old.cloned().unwrap_or_default();
            let speed = |at: At| {
                self.world.switches[at.0]
                    .described
                    .ports
                    .get(&at.1)
                    .and_then(|port| port.mbps)
            };
            let mbps = [speed(a), speed(b)].into_iter().flatten().reduce(f64::min);
            entry.set("ends", ends);
            self.bears(&mut entry, mbps, &format!("{one} and {other}"));
            links.push(entry);
        }
        for old in &self.world.before.links {
            let ends = old.texts("ends");
            if links
                .iter()
                .any(|link: &NetworkFileEntry| same(link, &ends))
            {
                continue;
            }
            let is_known = |end: &String| {
                end.rsplit_once(':')
                    .is_some_and(|(name, _)| self.is_looked_at(name))
            };
            let is_taken = |end: &String| {
                links
                    .iter()
                    .any(|link: &NetworkFileEntry| link.texts("ends").contains(end))
            };
            if ends.iter().all(is_known) || ends.iter().any(is_taken) {
                self.notes.push(format!(
                    "the link {} no longer exists: omitted",
                    ends.join(" – ")
                ));
            } else {
                links.push(old.clone());
            }
        }
        links
    }

    /// Notes on ports without information.
    fn silent(&mut self) {
        for (index, switch) in self.world.switches.iter().enumerate() {
            let of = |number: &u32| (index, *number);
            let named = |(number, port): (&u32, &steer::PortDescription)| {
                format!("{number} ({})", port.name)
            };
            let ports = || switch.described.ports.iter().filter(|(_, port)| port.is_up);
            let unclear = |number: &u32| self.world.found.unclear.contains(&of(number));
            let several: Vec<String> = ports()
                .filter(|(number, _)| unclear(number))
                .map(named)
                .collect();
            let quiet = |number: &u32| {
                !self.peopled.contains(&of(number))
                    && !self.ends.contains(&of(number))
                    && !unclear(number)
            };
            let nobody: Vec<String> = ports()
                .filter(|(number, _)| quiet(number))
                .map(named)
                .collect();
            let name = &switch.name;
            if !several.is_empty() {
                self.notes.push(format!(
                    "the other ends of ports {} of {name} are ambiguous: not a single port of these switches",
                    several.join(", ")
                ));
            }
            if !nobody.is_empty() {
                self.notes.push(format!(
                    "no known host at ports {} of {name}",
                    nobody.join(", ")
                ));
            }
        }
    }
}

/// Capacity of a host with unknown resources.
fn nothing_free() -> [(&'static str, Value); 3] {
    [
        ("cores", 1.into()),
        ("memory", "1GiB".into()),
        ("used", 1.0.into()),
    ]
}

/// Whether a switch only forwards by learning.
fn learns(rules: &[FlowRule]) -> bool {
    let mut actions = rules.iter().flat_map(|rule| &rule.actions);
    let passes = |action: &FlowAction| {
        matches!(
            action,
            FlowAction::Normal | FlowAction::Resubmit { port: None, .. } | FlowAction::Goto(_)
        )
    };
    rules
        .iter()
        .any(|rule| rule.actions.contains(&FlowAction::Normal))
        && actions.all(passes)
        && rules.iter().all(|rule| !rule.actions.is_empty())
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
