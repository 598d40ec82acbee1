//! Converts jobs to the state requested of each switch, with port numbers as last read: copies, tunnel ends, mirrors,
//! peers of ports, and the statements to prove.

use std::collections::BTreeMap;

use mirror::diff::others;
use mirror::model::{KnownHost, PortNeighbor, SwitchLink};
use mirror::openflow::{CookieOwner, FlowRule};
use mirror::ovsdb::{self, PortMirror};
use mirror::{
    CopyExpectation, MatchField, ModelPacket, PacketPart, StrayPolicy, SwitchCopy, TunnelExit,
};

use crate::backend::ObservedSwitch;
use crate::copy_job::{
    CopyJob, CopyRoute, CopyTap, Jobs, NetworkMap, PortPlace, SelectionMethod, SwitchSite,
};
use crate::install::{InstallError, JobStartError};
use crate::ports::{CopyPath, CopyPorts, failed, find};

/// Finds a port by name: index of its switch, and number.
type Finder<'a> = &'a dyn Fn(&PortPlace) -> Result<(usize, u32), JobStartError>;

/// Requested state of one switch.
#[derive(Default)]
pub struct DesiredSwitch {
    pub copies: Vec<SwitchCopy>,
    pub landings: Vec<TunnelExit>,
    pub mirrors: Vec<PortMirror>,
    /// Peers of ports other than hosts.
    pub leads: BTreeMap<u32, PortNeighbor>,
    /// For each tunnel end, packets that arrive from it.
    pub arriving: Vec<ModelPacket>,
}

/// Requested state of all switches.
#[derive(Default)]
pub struct DesiredRules {
    pub shares: Vec<DesiredSwitch>,
    pub links: Vec<SwitchLink>,
    pub hosts: Vec<KnownHost>,
    pub wanted: Vec<CopyExpectation>,
}

/// Input of the conversion.
pub struct DesiredInputs<'a> {
    /// Server number of the mirrors.
    pub server: u16,
    /// Switches.
    pub sites: &'a [SwitchSite],
    /// Links and hosts.
    pub map: &'a NetworkMap,
    /// Ports created for copies.
    pub ports: &'a CopyPorts,
}

impl DesiredInputs<'_> {
    /// Requested state for these jobs, given the switches' current state.
    pub fn wishes(
        &self,
        jobs: &Jobs,
        seen: &[ObservedSwitch],
    ) -> Result<DesiredRules, JobStartError> {
        let mut wishes = DesiredRules {
            shares: self
                .sites
                .iter()
                .map(|_| DesiredSwitch::default())
                .collect(),
            links: Vec::new(),
            hosts: Vec::new(),
            wanted: Vec::new(),
        };
        let place = |place: &PortPlace| -> Result<(usize, u32), JobStartError> {
            let site = find(self.sites, &place.switch)?;
            Ok((site, number(&self.sites[site], &seen[site], &place.port)?))
        };
        for (one, other) in &self.map.cables {
            let ends = (place(one)?, place(other)?);
            for (site, port) in [ends.0, ends.1] {
                wishes.shares[site].leads.insert(port, PortNeighbor::Switch);
            }
            wishes.links.push(SwitchLink(ends.0, ends.1));
        }
        let island = islands(self.sites.len(), &wishes.links);
        for (address, at) in &self.map.hosts {
            wishes.hosts.push(KnownHost {
                address: *address,
                at: place(at)?,
            });
        }
        for job in jobs.values() {
            for (i, tap) in job.taps.iter().enumerate() {
                let site = find(self.sites, &tap.switch)?;
                let target = self.target(&mut wishes, job, site, tap, &place)?;
                let ports = |names: &[String]| -> Result<Vec<u32>, JobStartError> {
                    names
                        .iter()
                        .map(|name| number(&self.sites[site], &seen[site], name))
                        .collect()
                };
                let monitor = tap.monitor.clone();
                let part = tap.part;
                let share = &mut wishes.shares[site];
                let wanted = match &tap.how {
                    SelectionMethod::Rules(names) => {
                        let asked = tap.asked.clone();
                        let ports = ports(names)?;
                        let enters = (!ports.is_empty()).then_some(site);
                        let copy = SwitchCopy {
                            job: job.id,
                            generation: job.generation,
                            asked,
                            ports,
                            part,
                            target,
                        };
                        let asked = copy.asked_at();
                        share.copies.push(copy);
                        CopyExpectation {
                            monitor,
                            enters,
                            asked,
                            part,
                            others: StrayPolicy::Never,
                        }
                    }
                    SelectionMethod::Mirror(names) => {
                        ports(names)?;
                        let output = seen[site].ports.iter().find(|port| port.0 == target);
                        let server = self.server;
                        let actions = u8::try_from(i).unwrap_or(u8::MAX);
                        let owner = CookieOwner {
                            server,
                            job: job.id,
                            generation: job.generation,
                            actions,
                        };
                        share.mirrors.push(PortMirror {
                            owner,
                            ports: names.clone(),
                            output: output.map(|port| port.1.clone()).unwrap_or_default(),
                            snaplen: if let PacketPart::First(bytes) = part {
                                bytes
                            } else {
                                0
                            },
                        });
                        // Packets from a monitor's port are dropped there, too.
                        share.copies.push(SwitchCopy {
                            job: job.id,
                            generation: job.generation,
                            asked: Vec::new(),
                            ports: Vec::new(),
                            part,
                            target,
                        });
                        let asked = tap.asked.clone();
                        CopyExpectation {
                            monitor,
                            enters: None,
                            asked,
                            part,
                            others: StrayPolicy::Tolerated,
                        }
                    }
                };
                // Packets that enter at a switch without a known link to this one enter here, too, on an unknown path.
                match wanted.enters {
                    Some(_) => wishes.wanted.push(wanted),
                    None => wishes.wanted.extend(
                        (0..self.sites.len())
                            .filter(|other| island[*other] == island[site])
                            .map(|other| CopyExpectation {
                                enters: Some(other),
                                ..wanted.clone()
                            }),
                    ),
                }
            }
        }
        Ok(wishes)
    }

    /// Output port for a tap's copies; also notes its peer and the rules at a tunnel's far end.
    fn target(
        &self,
        wishes: &mut DesiredRules,
        job: &CopyJob,
        site: usize,
        tap: &CopyTap,
        place: Finder<'_>,
    ) -> Result<u32, JobStartError> {
        let monitor = || PortNeighbor::Monitor(tap.monitor.clone());
        if let CopyRoute::Port(name) = &tap.to {
            let (_, number) = place(&PortPlace {
                switch: tap.switch.clone(),
                port: name.clone(),
            })?;
            wishes.shares[site].leads.insert(number, monitor());
            return Ok(number);
        }
        let way = CopyPath {
            site,
            monitor: tap.monitor.clone(),
            to: tap.to.clone(),
        };
        let gone = || {
            InstallError::Unknown(format!(
                "the port to monitor {} no longer exists",
                tap.monitor
            ))
        };
        let ends = self
            .ports
            .made
            .get(&way)
            .ok_or_else(|| failed(&self.sites[site], gone()))?;
        let near = ends.near.number;
        let (CopyRoute::Switch(_, end), Some(far)) = (&tap.to, &ends.far) else {
            wishes.shares[site].leads.insert(near, monitor());
            return Ok(near);
        };
        let (_, target) = place(end)?;
        let link = SwitchLink((site, near), (far.site, far.number));
        wishes.shares[site].leads.insert(near, PortNeighbor::Copies);
        let share = &mut wishes.shares[far.site];
        share.leads.insert(far.number, PortNeighbor::Copies);
        share.leads.insert(target, monitor());
        let arriving = tap
            .asked
            .first()
            .map(|cube| ModelPacket::of(cube).with(MatchField::InPort, far.number.into()));
        share.arriving.extend(arriving);
        share.landings.push(TunnelExit {
            job: job.id,
            generation: job.generation,
            tunnel: far.number,
            target,
        });
        if !wishes.links.contains(&link) {
            wishes.links.push(link);
        }
        Ok(near)
    }
}

/// Connected components of switches: for each the first of its component.
fn islands(switches: usize, cables: &[SwitchLink]) -> Vec<usize> {
    let mut island: Vec<usize> = (0..switches).collect();
    for SwitchLink(one, other) in cables {
        let a = island[one.0];
        let b = island[other.0];
        island
            .iter_mut()
            .filter(|of| **of == a.max(b))
            .for_each(|of| *of = a.min(b));
    }
    island
}

/// Number of a port.
fn number(site: &SwitchSite, seen: &ObservedSwitch, name: &str) -> Result<u32, JobStartError> {
    let found = seen
        .ports
        .iter()
        .find(|port| port.1 == name)
        .map(|port| port.0);
    found.ok_or_else(|| {
        failed(
            site,
            InstallError::Unknown(format!("port {name} does not exist")),
        )
    })
}

/// A switch with its requested objects and those of others.
pub fn planned(
    seen: &ObservedSwitch,
    share: &DesiredSwitch,
    rules: &[FlowRule],
    server: u16,
) -> ObservedSwitch {
    let mut planned = seen.clone();
    planned.rules = others(&seen.rules, server);
    planned.rules.extend(rules.iter().cloned());
    planned
        .mirrors
        .retain(|mirror| !mirror.name.starts_with(&ovsdb::prefix(server)));
    planned
        .mirrors
        .extend(share.mirrors.iter().map(|mirror| crate::ObservedMirror {
            name: mirror.name(),
            entering: mirror.ports.clone(),
            leaving: mirror.ports.clone(),
            selects_all: false,
            output: Some(mirror.output.clone()),
            snaplen: mirror.snaplen.into(),
        }));
    planned
}
