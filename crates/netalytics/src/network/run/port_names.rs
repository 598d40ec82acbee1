//! Names of ports as reported by switches, and the mirrors of a plan with these names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use planner::physical::{PacketPath, SwitchPart};
use planner::topology::{HostId, NetworkSite as Network, SiteHost, SitePort};
use steer::{CopyRoute, CopyTap, NetworkMap, PortPlace, SelectionMethod};

use crate::network::plan::NetworkPlan;
use crate::process::failure::wrong_flags;

/// Names of ports, by the switches' indexes.
#[derive(Default)]
pub struct SwitchPortNames(BTreeMap<SitePort, String>);

impl SwitchPortNames {
    /// Notes the name of a port.
    pub fn note(&mut self, port: SitePort, name: String) {
        self.0.insert(port, name);
    }

    /// Name of a port, if its switch has it.
    pub fn name(&self, port: SitePort) -> Option<&str> {
        self.0.get(&port).map(String::as_str)
    }

    fn place(&self, site: &Network, at: SitePort) -> anyhow::Result<PortPlace> {
        let switch = &site.switches[at.switch].name;
        let port = self.name(at).ok_or_else(|| {
            wrong_flags(format!(
                "{switch} has no port {}, which the network file names",
                at.port
            ))
        })?;
        Ok(PortPlace::new(switch, port))
    }

    /// Ports that a switch mirrors, or at which its monitor captures.
    pub fn of(&self, site: &Network, part: &SwitchPart) -> anyhow::Result<Vec<String>> {
        let name = |port: &u32| {
            self.place(
                site,
                SitePort {
                    switch: part.switch,
                    port: *port,
                },
            )
        };
        part.ports
            .iter()
            .map(|port| name(port).map(|place| place.port))
            .collect()
    }

    /// Mirrors of all switches.
    pub fn taps(&self, planned: &NetworkPlan) -> anyhow::Result<Vec<CopyTap>> {
        let NetworkPlan { site, plan } = planned;
        let Some(mode) = plan.choice.mode else {
            return Ok(Vec::new());
        };
        let mut taps = Vec::new();
        for part in &plan.switches {
            let to = |port| {
                let place = self.place(
                    site,
                    SitePort {
                        switch: part.switch,
                        port,
                    },
                )?;
                anyhow::Ok(CopyRoute::Port(place.port))
            };
            let (how, to) = match part.way {
                PacketPath::Sniffer => continue,
                PacketPath::Interface => (SelectionMethod::Rules(Vec::new()), CopyRoute::Interface),
                PacketPath::Rules { port } => (SelectionMethod::Rules(Vec::new()), to(port)?),
                PacketPath::Mirror { port } => {
                    (SelectionMethod::Mirror(self.of(site, part)?), to(port)?)
                }
                PacketPath::Tunnel { end } => {
                    let kind = site.switches[end.switch].tunnel_kind;
                    (
                        SelectionMethod::Rules(Vec::new()),
                        CopyRoute::Switch(kind, self.place(site, end)?),
                    )
                }
            };
            taps.push(CopyTap {
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
    ) -> anyhow::Result<NetworkMap> {
        let cable = |ends: [SitePort; 2]| {
            anyhow::Ok((self.place(site, ends[0])?, self.place(site, ends[1])?))
        };
        let mut hosts: Vec<(IpAddr, PortPlace)> = Vec::new();
        for host in which {
            let place = self.place(site, host.at)?;
            hosts.extend(
                host.addresses
                    .iter()
                    .map(|address| (*address, place.clone())),
            );
        }
        Ok(NetworkMap {
            cables: site
                .links
                .iter()
                .map(|link| cable(link.ends))
                .collect::<Result<_, _>>()?,
            hosts,
        })
    }

    /// The map of the hosts whose flows are mirrored.
    pub fn map(&self, planned: &NetworkPlan) -> anyhow::Result<NetworkMap> {
        let NetworkPlan { site, plan } = planned;
        let covered: BTreeSet<HostId> = plan
            .covered
            .iter()
            .flat_map(|covering| covering.hosts.iter().copied())
            .collect();
        let is_monitors = |at: SitePort| {
            plan.switches.iter().any(|part| match part.way {
                PacketPath::Rules { port } | PacketPath::Mirror { port } => {
                    at == SitePort {
                        switch: part.switch,
                        port,
                    }
                }
                PacketPath::Tunnel { end } => at == end,
                PacketPath::Sniffer | PacketPath::Interface => false,
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
