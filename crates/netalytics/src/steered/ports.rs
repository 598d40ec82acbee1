//! Names of ports as reported by switches, and the mirrors of a plan with these names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use planner::physical::{SwitchPart, Way};
use planner::topology::{HostId, Site as Network, SiteHost, SitePort};
use steer::{How, Map, Place, Tap, To};

use crate::failure::wrong_flags;
use crate::networked::Planned;

/// Names of ports, by the switches' indexes.
#[derive(Default)]
pub struct Ports(BTreeMap<SitePort, String>);

impl Ports {
    /// Notes the name of a port.
    pub fn note(&mut self, port: SitePort, name: String) {
        self.0.insert(port, name);
    }

    /// Name of a port, if its switch has it.
    pub fn name(&self, port: SitePort) -> Option<&str> {
        self.0.get(&port).map(String::as_str)
    }

    fn place(&self, site: &Network, at: SitePort) -> anyhow::Result<Place> {
        let switch = &site.switches[at.switch].name;
        let port = self.name(at).ok_or_else(|| {
            wrong_flags(format!("{switch} has no port {}, which the network file names", at.port))
        })?;
        Ok(Place::new(switch, port))
    }

    /// Ports that a switch mirrors, or at which its monitor captures.
    pub fn of(&self, site: &Network, part: &SwitchPart) -> anyhow::Result<Vec<String>> {
        let name = |port: &u32| self.place(site, SitePort { switch: part.switch, port: *port });
        part.ports.iter().map(|port| name(port).map(|place| place.port)).collect()
    }

    /// Mirrors of all switches.
    pub fn taps(&self, planned: &Planned) -> anyhow::Result<Vec<Tap>> {
        let Planned { site, plan } = planned;
        let Some(mode) = plan.choice.mode else { return Ok(Vec::new()) };
        let mut taps = Vec::new();
        for part in &plan.switches {
            let to = |port| {
                let place = self.place(site, SitePort { switch: part.switch, port })?;
                anyhow::Ok(To::Port(place.port))
            };
            let (how, to) = match part.way {
                Way::Sniffer => continue,
                Way::Interface => (How::Rules(Vec::new()), To::Interface),
                Way::Rules { port } => (How::Rules(Vec::new()), to(port)?),
                Way::Mirror { port } => (How::Mirror(self.of(site, part)?), to(port)?),
                Way::Tunnel { end } => {
                    let kind = site.switches[end.switch].tunnel_kind;
                    (How::Rules(Vec::new()), To::Switch(kind, self.place(site, end)?))
                }
            };
            taps.push(Tap {
                switch: part.name.clone(),
                asked: part.asked.clone(),
                how,
                part: mode.part,
                monitor: monitor(part),
                to,
            });
        }
        Ok(taps)
    }

    /// Links between ports, and ports of these hosts.
    pub fn map_of<'h>(
        &self,
        site: &Network,
        which: impl Iterator<Item = &'h SiteHost>,
    ) -> anyhow::Result<Map> {
        let cable =
            |ends: [SitePort; 2]| anyhow::Ok((self.place(site, ends[0])?, self.place(site, ends[1])?));
        let mut hosts: Vec<(IpAddr, Place)> = Vec::new();
        for host in which {
            let place = self.place(site, host.at)?;
            hosts.extend(host.addresses.iter().map(|address| (*address, place.clone())));
        }
        Ok(Map { cables: site.links.iter().map(|link| cable(link.ends)).collect::<Result<_, _>>()?, hosts })
    }

    /// The map of the hosts whose flows are mirrored.
    pub fn map(&self, planned: &Planned) -> anyhow::Result<Map> {
        let Planned { site, plan } = planned;
        let covered: BTreeSet<HostId> =
            plan.covered.iter().flat_map(|covering| covering.hosts.iter().copied()).collect();
        let is_monitors = |at: SitePort| {
            plan.switches.iter().any(|part| match part.way {
                Way::Rules { port } | Way::Mirror { port } => at == SitePort { switch: part.switch, port },
                Way::Tunnel { end } => at == end,
                Way::Sniffer | Way::Interface => false,
            })
        };
        let covered = covered.into_iter().map(|host| &site.hosts[host as usize]);
        self.map_of(site, covered.filter(|host| !is_monitors(host.at)))
    }
}

/// Capture interface of a monitor on a host.
pub fn interface_of(host: &SiteHost) -> anyhow::Result<Vec<String>> {
    let lacks = || {
        let name = &host.name;
        wrong_flags(format!("the network file has no interface name for {name}"))
    };
    Ok(vec![host.interface.clone().ok_or_else(lacks)?])
}

/// Name of the monitor of a switch.
pub fn monitor(part: &SwitchPart) -> String {
    format!("monitor of {}", part.name)
}
