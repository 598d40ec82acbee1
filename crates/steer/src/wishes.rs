//! Converts jobs to the state requested of each switch, with port numbers as last read: copies, tunnel ends, mirrors,
//! peers of ports, and the statements to prove.

use std::collections::BTreeMap;

use mirror::diff::others;
use mirror::model::{Host, Leads, Link};
use mirror::openflow::{Owner, Rule};
use mirror::ovsdb::{self, PortMirror};
use mirror::{Copy, Field, Landing, Others, Packet, Part, Wanted};

use crate::backend::Observed;
use crate::install::{NotInstalled, NotStarted};
use crate::order::{How, Job, Jobs, Map, Place, Site, Tap, To};
use crate::ports::{Ports, Way, failed, find};

/// Finds a port by name: index of its switch, and number.
type Finder<'a> = &'a dyn Fn(&Place) -> Result<(usize, u32), NotStarted>;

/// Requested state of one switch.
#[derive(Default)]
pub struct Share {
    pub copies: Vec<Copy>,
    pub landings: Vec<Landing>,
    pub mirrors: Vec<PortMirror>,
    /// Peers of ports other than hosts.
    pub leads: BTreeMap<u32, Leads>,
    /// For each tunnel end, packets that arrive from it.
    pub arriving: Vec<Packet>,
}

/// Requested state of all switches.
#[derive(Default)]
pub struct Wishes {
    pub shares: Vec<Share>,
    pub links: Vec<Link>,
    pub hosts: Vec<Host>,
    pub wanted: Vec<Wanted>,
}

/// Input of the conversion.
pub struct Known<'a> {
    /// Server number of the mirrors.
    pub server: u16,
    /// Switches.
    pub sites: &'a [Site],
    /// Links and hosts.
    pub map: &'a Map,
    /// Ports created for copies.
    pub ports: &'a Ports,
}

impl Known<'_> {
    /// Requested state for these jobs, given the switches' current state.
    pub fn wishes(&self, jobs: &Jobs, seen: &[Observed]) -> Result<Wishes, NotStarted> {
        let mut wishes = Wishes {
            shares: self.sites.iter().map(|_| Share::default()).collect(),
            links: Vec::new(),
            hosts: Vec::new(),
            wanted: Vec::new(),
        };
        let place = |place: &Place| -> Result<(usize, u32), NotStarted> {
            let site = find(self.sites, &place.switch)?;
            Ok((site, number(&self.sites[site], &seen[site], &place.port)?))
        };
        for (one, other) in &self.map.cables {
            let ends = (place(one)?, place(other)?);
            for (site, port) in [ends.0, ends.1] {
                wishes.shares[site].leads.insert(port, Leads::Switch);
            }
            wishes.links.push(Link(ends.0, ends.1));
        }
        let island = islands(self.sites.len(), &wishes.links);
        for (address, at) in &self.map.hosts {
            wishes.hosts.push(Host { address: *address, at: place(at)? });
        }
        for job in jobs.values() {
            for (i, tap) in job.taps.iter().enumerate() {
                let site = find(self.sites, &tap.switch)?;
                let target = self.target(&mut wishes, job, site, tap, &place)?;
                let ports = |names: &[String]| -> Result<Vec<u32>, NotStarted> {
                    names.iter().map(|name| number(&self.sites[site], &seen[site], name)).collect()
                };
                let (monitor, part) = (tap.monitor.clone(), tap.part);
                let share = &mut wishes.shares[site];
                let wanted = match &tap.how {
                    How::Rules(names) => {
                        let (asked, ports) = (tap.asked.clone(), ports(names)?);
                        let enters = (!ports.is_empty()).then_some(site);
                        let (job, generation) = (job.id, job.generation);
                        let copy = Copy { job, generation, asked, ports, part, target };
                        let asked = copy.asked_at();
                        share.copies.push(copy);
                        Wanted { monitor, enters, asked, part, others: Others::Never }
                    }
                    How::Mirror(names) => {
                        ports(names)?;
                        let output = seen[site].ports.iter().find(|port| port.0 == target);
                        let (server, actions) = (self.server, u8::try_from(i).unwrap_or(u8::MAX));
                        let owner = Owner { server, job: job.id, generation: job.generation, actions };
                        share.mirrors.push(PortMirror {
                            owner,
                            ports: names.clone(),
                            output: output.map(|port| port.1.clone()).unwrap_or_default(),
                            snaplen: if let Part::First(bytes) = part { bytes } else { 0 },
                        });
                        // Packets from a monitor's port are dropped there, too.
                        share.copies.push(Copy {
                            job: job.id,
                            generation: job.generation,
                            asked: Vec::new(),
                            ports: Vec::new(),
                            part,
                            target,
                        });
                        let asked = tap.asked.clone();
                        Wanted { monitor, enters: None, asked, part, others: Others::Tolerated }
                    }
                };
                // Packets that enter at a switch without a known link to this one enter here, too, on an unknown path.
                match wanted.enters {
                    Some(_) => wishes.wanted.push(wanted),
                    None => wishes.wanted.extend(
                        (0..self.sites.len())
                            .filter(|other| island[*other] == island[site])
                            .map(|other| Wanted { enters: Some(other), ..wanted.clone() }),
                    ),
                }
            }
        }
        Ok(wishes)
    }

    /// Output port for a tap's copies; also notes its peer and the rules at a tunnel's far end.
    fn target(
        &self,
        wishes: &mut Wishes,
        job: &Job,
        site: usize,
        tap: &Tap,
        place: Finder<'_>,
    ) -> Result<u32, NotStarted> {
        let monitor = || Leads::Monitor(tap.monitor.clone());
        if let To::Port(name) = &tap.to {
            let (_, number) = place(&Place { switch: tap.switch.clone(), port: name.clone() })?;
            wishes.shares[site].leads.insert(number, monitor());
            return Ok(number);
        }
        let way = Way { site, monitor: tap.monitor.clone(), to: tap.to.clone() };
        let gone = || NotInstalled::Unknown(format!("the port to monitor {} is gone", tap.monitor));
        let ends = self.ports.made.get(&way).ok_or_else(|| failed(&self.sites[site], gone()))?;
        let near = ends.near.number;
        let (To::Switch(_, end), Some(far)) = (&tap.to, &ends.far) else {
            wishes.shares[site].leads.insert(near, monitor());
            return Ok(near);
        };
        let (_, target) = place(end)?;
        let link = Link((site, near), (far.site, far.number));
        wishes.shares[site].leads.insert(near, Leads::Copies);
        let share = &mut wishes.shares[far.site];
        share.leads.insert(far.number, Leads::Copies);
        share.leads.insert(target, monitor());
        let arriving = tap.asked.first().map(|cube| Packet::of(cube).with(Field::InPort, far.number.into()));
        share.arriving.extend(arriving);
        share.landings.push(Landing { job: job.id, generation: job.generation, tunnel: far.number, target });
        if !wishes.links.contains(&link) {
            wishes.links.push(link);
        }
        Ok(near)
    }
}

/// Connected components of switches: for each the first of its component.
fn islands(switches: usize, cables: &[Link]) -> Vec<usize> {
    let mut island: Vec<usize> = (0..switches).collect();
    for Link(one, other) in cables {
        let (a, b) = (island[one.0], island[other.0]);
        island.iter_mut().filter(|of| **of == a.max(b)).for_each(|of| *of = a.min(b));
    }
    island
}

/// Number of a port.
fn number(site: &Site, seen: &Observed, name: &str) -> Result<u32, NotStarted> {
    let found = seen.ports.iter().find(|port| port.1 == name).map(|port| port.0);
    found.ok_or_else(|| failed(site, NotInstalled::Unknown(format!("it has no port {name}"))))
}

/// A switch with its requested objects and those of others.
pub fn planned(seen: &Observed, share: &Share, rules: &[Rule], server: u16) -> Observed {
    let mut planned = seen.clone();
    planned.rules = others(&seen.rules, server);
    planned.rules.extend(rules.iter().cloned());
    planned.mirrors.retain(|mirror| !mirror.name.starts_with(&ovsdb::prefix(server)));
    planned.mirrors.extend(share.mirrors.iter().map(|mirror| crate::Mirrored {
        name: mirror.name(),
        entering: mirror.ports.clone(),
        leaving: mirror.ports.clone(),
        selects_all: false,
        output: Some(mirror.output.clone()),
        snaplen: mirror.snaplen.into(),
    }));
    planned
}
