//! Parses a network file to a [`NetworkSite`]: first TOML and types, then names, ports, and tiers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use mirror::ovsdb::TunnelKind;
use serde::Deserialize;
use toml::Spanned;

use super::super::network::HostResources;
use super::expected::{ExpectedTraffic, end};
use super::model::{
    FirstTable, ForwardingMode, HostLauncher, NetworkSite, SiteHost, SiteLink, SitePort,
    SiteSwitch, SwitchAccess, SwitchSniffer, SwitchTier, pods,
};

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteError {
    /// The line, from 1.
    pub line: usize,
    /// Description of the error.
    pub what: String,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for SiteError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    #[serde(default)]
    switch: Vec<SwitchEntry>,
    #[serde(default)]
    host: Vec<HostEntry>,
    #[serde(default)]
    link: Vec<LinkEntry>,
    #[serde(default)]
    traffic: Vec<TrafficEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: Spanned<String>,
    tier: SwitchTier,
    bridge: Option<String>,
    ovsdb: Option<String>,
    controller: Option<String>,
    datapath: Option<String>,
    controller_token: Option<String>,
    #[serde(default)]
    forwarding: ForwardingMode,
    #[serde(default)]
    first_table: FirstTable,
    tunnel: Option<Spanned<String>>,
    agent: Option<String>,
    via: Option<Vec<String>>,
    cores: Option<Spanned<f64>>,
    memory: Option<Spanned<String>>,
    #[serde(default = "nothing")]
    used: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: Spanned<String>,
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    at: Spanned<String>,
    cores: Spanned<f64>,
    memory: Spanned<String>,
    #[serde(default = "nothing")]
    used: Spanned<f64>,
    agent: Option<String>,
    via: Option<Vec<String>>,
    interface: Option<String>,
    #[serde(default)]
    spare: bool,
    #[serde(default)]
    quiet: bool,
    mbps: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrafficEntry {
    #[serde(default = "anything")]
    from: Spanned<String>,
    to: Spanned<String>,
    mbps: Spanned<f64>,
    connections: Option<Spanned<f64>>,
}

fn anything() -> Spanned<String> {
    Spanned::new(0..0, "*".to_owned())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    ends: [Spanned<String>; 2],
    mbps: Spanned<f64>,
}

fn nothing() -> Spanned<f64> {
    Spanned::new(0..0, 0.0)
}

/// State of the parser.
struct NetworkFileReader<'t> {
    text: &'t str,
    errors: Vec<SiteError>,
    switches: Vec<SiteSwitch>,
    /// The owner of each port.
    taken: BTreeMap<SitePort, String>,
}

impl NetworkSite {
    /// Parses a file.
    ///
    /// # Errors
    /// All errors, ordered by line.
    pub fn parse(text: &str) -> Result<NetworkSite, Vec<SiteError>> {
        let file: NetworkFile = toml::from_str(text).map_err(|e| {
            let start = e.span().map_or(0, |span| span.start);
            vec![SiteError {
                line: line_of(text, start),
                what: e.message().to_owned(),
            }]
        })?;
        let mut reading = NetworkFileReader {
            text,
            errors: Vec::new(),
            switches: Vec::new(),
            taken: BTreeMap::new(),
        };
        file.switch
            .into_iter()
            .for_each(|entry| reading.switch(entry));
        let mut hosts = reading.hosts(file.host);
        let links: Vec<SiteLink> = file
            .link
            .into_iter()
            .filter_map(|entry| reading.link(&entry))
            .collect();
        let expected: Vec<ExpectedTraffic> = file
            .traffic
            .into_iter()
            .filter_map(|entry| reading.traffic(&entry))
            .collect();
        if !reading.errors.is_empty() {
            reading.errors.sort_by_key(|error| error.line);
            return Err(reading.errors);
        }
        let pods = pods(&reading.switches, &links);
        let racks: Vec<usize> = pods.concat();
        hosts.sort_by_key(|host| racks.iter().position(|switch| *switch == host.at.switch));
        let pods = pods.iter().map(Vec::len).collect();
        Ok(NetworkSite {
            switches: reading.switches,
            hosts,
            links,
            racks,
            pods,
            expected,
        })
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

impl NetworkFileReader<'_> {
    fn complain<T>(&mut self, at: &Spanned<T>, what: String) {
        self.errors.push(SiteError {
            line: line_of(self.text, at.span().start),
            what,
        });
    }

    fn switch(&mut self, entry: SwitchEntry) {
        let name = entry.name.get_ref().clone();
        if self.switches.iter().any(|switch| switch.name == name) {
            self.complain(&entry.name, format!("switch {name:?} is defined twice"));
        }
        if entry.controller_token.is_some() && entry.controller.is_none() {
            self.complain(
                &entry.name,
                format!("switch {name:?} has controller_token but no controller"),
            );
        }
        let token_file = entry.controller_token;
        let reached = match (entry.ovsdb, entry.controller, entry.datapath) {
            (None, None, None) => SwitchAccess::Not,
            (Some(address), None, None) => SwitchAccess::Ovsdb(address),
            (None, Some(url), Some(datapath)) => SwitchAccess::Controller {
                url,
                datapath,
                token_file,
            },
            (Some(_), _, _) => {
                self.complain(
                    &entry.name,
                    format!("switch {name:?} has ovsdb and must not have controller or datapath"),
                );
                SwitchAccess::Not
            }
            (None, _, _) => {
                self.complain(
                    &entry.name,
                    format!("switch {name:?} needs both controller and datapath"),
                );
                SwitchAccess::Not
            }
        };
        let sniffer = self.sniffer(
            &entry.name,
            entry.agent,
            entry.via,
            (entry.cores, entry.memory, entry.used),
        );
        let tunnel = entry.tunnel.and_then(|text| self.tunnel(&text));
        let (tunnel, tunnel_kind) =
            tunnel.map_or((None, TunnelKind::Vxlan), |(at, kind)| (Some(at), kind));
        let SwitchEntry {
            tier,
            bridge,
            forwarding,
            first_table,
            ..
        } = entry;
        let of = SiteSwitch {
            name,
            tier,
            bridge,
            reached,
            forwarding,
            first_table,
            tunnel,
            tunnel_kind,
            sniffer,
        };
        self.switches.push(of);
    }

    /// The end of tunnels to a switch and their encapsulation; addresses must be unique.
    fn tunnel(&mut self, text: &Spanned<String>) -> Option<(IpAddr, TunnelKind)> {
        let written = text.get_ref().as_str();
        let (address, kind) = match written.split_once("://") {
            Some(("gre", address)) => (address, TunnelKind::Gre),
            Some(("vxlan", address)) => (address, TunnelKind::Vxlan),
            _ => (written, TunnelKind::Vxlan),
        };
        let Ok(address) = address.parse() else {
            self.complain(
                text,
                format!("{written:?} is not an address, vxlan://ADDRESS or gre://ADDRESS"),
            );
            return None;
        };
        if let Some(other) = self
            .switches
            .iter()
            .find(|switch| switch.tunnel == Some(address))
        {
            let what = format!(
                "tunnel address {address} is already used by switch {:?}",
                other.name
            );
            self.complain(text, what);
        }
        Some((address, kind))
    }

    /// The host of a switch, if programs may run there; default: one core and 1 GiB.
    fn sniffer(
        &mut self,
        name: &Spanned<String>,
        agent: Option<String>,
        via: Option<Vec<String>>,
        (cores, memory, used): (Option<Spanned<f64>>, Option<Spanned<String>>, Spanned<f64>),
    ) -> Option<SwitchSniffer> {
        let starts = HostLauncher { agent, via };
        let says_what_it_has = cores.is_some() || memory.is_some() || *used.get_ref() > 0.0;
        if !starts.can() {
            if says_what_it_has {
                let what =
                    "cores, memory and used describe a switch's own host and need via or agent";
                self.complain(name, what.to_owned());
            }
            return None;
        }
        let cores = cores.map_or(1.0, |cores| self.positive(&cores, "cores"));
        let memory_gb = memory.map_or(1_073_741_824e-9, |memory| self.memory(&memory));
        let used = self.share(&used);
        let has = HostResources {
            cores,
            cores_used: used,
            memory_gb,
            memory_used: used,
            mbps: f64::INFINITY,
        };
        Some(SwitchSniffer { has, starts })
    }

    fn traffic(&mut self, entry: &TrafficEntry) -> Option<ExpectedTraffic> {
        let mbps = self.positive(&entry.mbps, "mbps");
        let connections = entry
            .connections
            .as_ref()
            .map(|rate| self.positive(rate, "connections"));
        let mut of = |text: &Spanned<String>| {
            let found = end(text.get_ref());
            if found.is_none() {
                let what = format!(
                    "{:?} is not an end such as 10.0.1.2:80, 10.0.1.0/24, *:80 or *",
                    text.get_ref()
                );
                self.complain(text, what);
            }
            found
        };
        let clients = of(&entry.from);
        let servers = of(&entry.to);
        Some(ExpectedTraffic {
            clients: clients?,
            servers: servers?,
            mbps,
            connections,
        })
    }

    fn hosts(&mut self, entries: Vec<HostEntry>) -> Vec<SiteHost> {
        let mut hosts: Vec<SiteHost> = Vec::new();
        let mut names = BTreeSet::new();
        let mut owners = BTreeMap::new();
        for entry in entries {
            let name = entry.name.get_ref().clone();
            if !names.insert(name.clone()) {
                self.complain(&entry.name, format!("host {name:?} is defined twice"));
            }
            let mut addresses = Vec::new();
            for text in &entry.addresses {
                addresses.extend(self.address(text, &name, &mut owners));
            }
            let at = self.port(&entry.at, &format!("host {name:?}"));
            if let Some(at) = at
                && self.switches[at.switch].tier != SwitchTier::Edge
            {
                let switch = &self.switches[at.switch].name;
                let what = format!("hosts must be on edge switches, which {switch:?} is not");
                self.complain(&entry.at, what);
            }
            let has = self.has(&entry);
            if let Some(at) = at {
                let starts = HostLauncher {
                    agent: entry.agent,
                    via: entry.via,
                };
                let HostEntry {
                    interface,
                    spare,
                    quiet,
                    ..
                } = entry;
                hosts.push(SiteHost {
                    name,
                    addresses,
                    at,
                    has,
                    starts,
                    interface,
                    spare,
                    quiet,
                });
            }
        }
        hosts
    }

    /// Parses an address; it must be unique.
    fn address(
        &mut self,
        text: &Spanned<String>,
        host: &str,
        owners: &mut BTreeMap<IpAddr, String>,
    ) -> Option<IpAddr> {
        let Ok(address) = text.get_ref().parse() else {
            self.complain(text, format!("{:?} is not an address", text.get_ref()));
            return None;
        };
        if let Some(other) = owners.insert(address, host.to_owned()) {
            self.complain(
                text,
                format!("address {address} is already used by host {other:?}"),
            );
        }
        Some(address)
    }

    fn has(&mut self, entry: &HostEntry) -> HostResources {
        let memory_gb = self.memory(&entry.memory);
        let used = self.share(&entry.used);
        let cores = self.positive(&entry.cores, "cores");
        let mbps = self.positive(&entry.mbps, "mbps");
        HostResources {
            cores,
            cores_used: used,
            memory_gb,
            memory_used: used,
            mbps,
        }
    }

    fn memory(&mut self, text: &Spanned<String>) -> f64 {
        gigabytes(text.get_ref()).unwrap_or_else(|| {
            self.complain(
                text,
                format!(
                    "{:?} is not a memory size such as 16GiB or 64GB",
                    text.get_ref()
                ),
            );
            1.0
        })
    }

    fn share(&mut self, number: &Spanned<f64>) -> f64 {
        let used = *number.get_ref();
        if !(0.0..=1.0).contains(&used) {
            self.complain(
                number,
                format!("used must be a share from 0 to 1, not {used}"),
            );
        }
        used
    }

    fn link(&mut self, entry: &LinkEntry) -> Option<SiteLink> {
        let mbps = self.positive(&entry.mbps, "mbps");
        let [a, b] = &entry.ends;
        let of = |other: &Spanned<String>| format!("the link to {:?}", other.get_ref());
        let mut ends = [self.port(a, &of(b)), self.port(b, &of(a))]
            .into_iter()
            .collect::<Option<Vec<_>>>()?;
        ends.sort_by_key(|end| self.switches[end.switch].tier);
        let tiers = [&ends[0], &ends[1]].map(|end| self.switches[end.switch].tier);
        if tiers[0] == tiers[1] {
            let what = "a link must connect two tiers: edge, aggregation, core";
            self.complain(a, what.to_owned());
        }
        Some(SiteLink {
            ends: [ends[0], ends[1]],
            mbps,
        })
    }

    /// Parses a port such as `leaf1:3`; it must be unused.
    fn port(&mut self, text: &Spanned<String>, whose: &str) -> Option<SitePort> {
        let said = text.get_ref();
        let parts = said
            .rsplit_once(':')
            .and_then(|(name, port)| Some((name, port.parse().ok()?)));
        let Some((name, port)) = parts else {
            self.complain(
                text,
                format!(
                    "{said:?} is not a port such as leaf1:3: a switch and an OpenFlow port number"
                ),
            );
            return None;
        };
        let Some(switch) = self.switches.iter().position(|switch| switch.name == name) else {
            let known: Vec<&str> = self
                .switches
                .iter()
                .map(|switch| switch.name.as_str())
                .collect();
            self.complain(
                text,
                format!(
                    "unknown switch {name:?}; known switches: {}",
                    known.join(", ")
                ),
            );
            return None;
        };
        let at = SitePort { switch, port };
        if let Some(other) = self.taken.insert(at, whose.to_owned()) {
            self.complain(text, format!("port {said} is already used by {other}"));
        }
        Some(at)
    }

    fn positive(&mut self, number: &Spanned<f64>, what: &str) -> f64 {
        let value = *number.get_ref();
        if !(value.is_finite() && value > 0.0) {
            self.complain(
                number,
                format!("{what} must be a number above 0, not {value}"),
            );
        }
        value
    }
}

/// Parses `16GiB`, `64GB`, or `512MiB` to GB.
fn gigabytes(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] = [
        ("MiB", 1_048_576e-9),
        ("GiB", 1_073_741_824e-9),
        ("TiB", 1_099_511_627_776e-9),
        ("MB", 1e-3),
        ("GB", 1.0),
        ("TB", 1e3),
    ];
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), unit)))?;
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * unit)
}
