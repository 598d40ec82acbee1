//! Ports created for copies: tunnels and interfaces, one per path from a switch to a monitor, shared by all jobs with
//! that path.

use std::collections::{BTreeMap, BTreeSet};

use mirror::ovsdb::{NewPort, PortKind, port_prefix};

use crate::install::{NotInstalled, NotStarted};
use crate::order::{Job, Site, To};

/// Maximum number of ports at a time.
const PORTS_MAX: u32 = 1 << 12;

/// A path for copies: from a switch, by its index, to a monitor. A path to an existing port needs no device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    pub site: usize,
    pub monitor: String,
    pub to: To,
}

/// A created port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub site: usize,
    pub name: String,
    pub number: u32,
}

/// Ports of a path: the output for copies, and for a tunnel between two switches the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    pub near: Made,
    pub far: Option<Made>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Ports {
    pub made: BTreeMap<Way, Ends>,
    next: u32,
}

impl Ports {
    /// Creates missing ports for jobs, and returns them; after an error none was created.
    pub fn make(
        &mut self,
        server: u16,
        sites: &mut [Site],
        jobs: &BTreeMap<u32, Job>,
    ) -> Result<Vec<Way>, NotStarted> {
        let mut new = Vec::new();
        for way in ways(sites, jobs)? {
            if matches!(way.to, To::Port(_)) || self.made.contains_key(&way) {
                continue;
            }
            match self.make_one(server, sites, &way) {
                Ok(ends) => {
                    self.made.insert(way.clone(), ends);
                    new.push(way);
                }
                Err(why) => {
                    for way in new {
                        // The first error is the one reported.
                        let _ = self.remove(sites, &way);
                    }
                    return Err(why);
                }
            }
        }
        Ok(new)
    }

    fn make_one(&mut self, server: u16, sites: &mut [Site], way: &Way) -> Result<Ends, NotStarted> {
        let number = self.free();
        let key = u32::from(server) << 12 | number;
        let port =
            |end: char, kind| NewPort { name: format!("{}{number:03x}{end}", port_prefix(server)), kind };
        let (near, far) = match &way.to {
            To::Port(_) | To::Interface => (PortKind::Interface, None),
            To::Host(kind, remote) => {
                (PortKind::Tunnel { kind: *kind, remote: *remote, key, is_ours: false }, None)
            }
            To::Switch(kind, place) => {
                let far = find(sites, &place.switch)?;
                let tunnel = |remote| PortKind::Tunnel { kind: *kind, remote, key, is_ours: true };
                (tunnel(end(sites, far)?), Some((far, tunnel(end(sites, way.site)?))))
            }
        };
        let add = |sites: &mut [Site], site: usize, port: &NewPort| {
            let added = sites[site].backend.add_port(port);
            let number = added.map_err(|why| failed(&sites[site], why.into()))?;
            Ok(Made { site, name: port.name.clone(), number })
        };
        let near = add(sites, way.site, &port('a', near))?;
        let Some((site, kind)) = far else { return Ok(Ends { near, far: None }) };
        match add(sites, site, &port('b', kind)) {
            Ok(far) => Ok(Ends { near, far: Some(far) }),
            Err(why) => {
                let _ = sites[near.site].backend.remove_port(&near.name);
                Err(why)
            }
        }
    }

    /// A number not used by a port of this process.
    fn free(&mut self) -> u32 {
        let taken: BTreeSet<&str> = self.made.values().map(|ends| ends.near.name.as_str()).collect();
        loop {
            let number = self.next % PORTS_MAX;
            self.next = self.next.wrapping_add(1);
            let is_taken = taken.iter().any(|name| name.contains(&format!("-{number:03x}")));
            // There are always free numbers: a switch has fewer ports.
            if !is_taken || taken.len() >= PORTS_MAX as usize {
                return number;
            }
        }
    }

    /// Removes ports that no job uses.
    pub fn sweep(&mut self, sites: &mut [Site], jobs: &BTreeMap<u32, Job>) -> Result<(), NotStarted> {
        let needed: BTreeSet<Way> = ways(sites, jobs)?.into_iter().collect();
        let unneeded: Vec<Way> = self.made.keys().filter(|way| !needed.contains(way)).cloned().collect();
        let removed: Vec<_> = unneeded.iter().map(|way| self.remove(sites, way)).collect();
        removed.into_iter().collect()
    }

    /// Removes the ports of a path, both even if the first fails.
    pub fn remove(&mut self, sites: &mut [Site], way: &Way) -> Result<(), NotStarted> {
        let Some(ends) = self.made.remove(way) else { return Ok(()) };
        let both = [Some(ends.near), ends.far];
        let removed: Vec<_> = both
            .into_iter()
            .flatten()
            .map(|made| {
                let removed = sites[made.site].backend.remove_port(&made.name);
                removed.map_err(|why| failed(&sites[made.site], why.into()))
            })
            .collect();
        removed.into_iter().collect()
    }
}

/// Paths used by jobs.
fn ways(sites: &[Site], jobs: &BTreeMap<u32, Job>) -> Result<Vec<Way>, NotStarted> {
    let way = |tap: &crate::order::Tap| {
        let site = find(sites, &tap.switch)?;
        Ok(Way { site, monitor: tap.monitor.clone(), to: tap.to.clone() })
    };
    jobs.values().flat_map(|job| &job.taps).map(way).collect()
}

/// Index of a switch.
pub fn find(sites: &[Site], name: &str) -> Result<usize, NotStarted> {
    sites.iter().position(|site| site.name == name).ok_or_else(|| NotStarted {
        switch: name.to_owned(),
        why: NotInstalled::Unknown("the network has no switch of that name".to_owned()),
    })
}

fn end(sites: &[Site], site: usize) -> Result<std::net::IpAddr, NotStarted> {
    sites[site].tunnel_address.ok_or_else(|| {
        failed(&sites[site], NotInstalled::Unknown("it has no address at which tunnels could end".to_owned()))
    })
}

/// Error of a switch.
pub fn failed(site: &Site, why: NotInstalled) -> NotStarted {
    NotStarted { switch: site.name.clone(), why }
}
