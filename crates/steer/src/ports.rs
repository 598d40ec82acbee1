//! Ports created for copies: tunnels and interfaces, one per path from a switch to a monitor, shared by all jobs with
//! that path.

use std::collections::{BTreeMap, BTreeSet};

use mirror::ovsdb::{NewPort, PortKind, port_prefix};

use crate::copy_job::{CopyJob, CopyRoute, SwitchSite};
use crate::install::{InstallError, JobStartError};

/// Maximum number of ports at a time.
const PORTS_MAX: u32 = 1 << 12;

/// A path for copies: from a switch, by its index, to a monitor. A path to an existing port needs no device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyPath {
    pub site: usize,
    pub monitor: String,
    pub to: CopyRoute,
}

/// A created port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedPort {
    pub site: usize,
    pub name: String,
    pub number: u32,
}

/// Ports of a path: the output for copies, and for a tunnel between two switches the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEnds {
    pub near: CreatedPort,
    pub far: Option<CreatedPort>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct CopyPorts {
    pub made: BTreeMap<CopyPath, PathEnds>,
    next: u32,
}

impl CopyPorts {
    /// Creates missing ports for jobs, and returns them; after an error none was created.
    pub fn make(
        &mut self,
        server: u16,
        sites: &mut [SwitchSite],
        jobs: &BTreeMap<u32, CopyJob>,
    ) -> Result<Vec<CopyPath>, JobStartError> {
        let mut new = Vec::new();
        for way in ways(sites, jobs)? {
            if matches!(way.to, CopyRoute::Port(_)) || self.made.contains_key(&way) {
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

    fn make_one(
        &mut self,
        server: u16,
        sites: &mut [SwitchSite],
        way: &CopyPath,
    ) -> Result<PathEnds, JobStartError> {
        let number = self.free();
        let key = u32::from(server) << 12 | number;
        let port = |end: char, kind| NewPort {
            name: format!("{}{number:03x}{end}", port_prefix(server)),
            kind,
        };
        let (near, far) = match &way.to {
            CopyRoute::Port(_) | CopyRoute::Interface => (PortKind::Interface, None),
            CopyRoute::Host(kind, remote) => (
                PortKind::Tunnel {
                    kind: *kind,
                    remote: *remote,
                    key,
                    is_ours: false,
                },
                None,
            ),
            CopyRoute::Switch(kind, place) => {
                let far = find(sites, &place.switch)?;
                let tunnel = |remote| PortKind::Tunnel {
                    kind: *kind,
                    remote,
                    key,
                    is_ours: true,
                };
                (
                    tunnel(end(sites, far)?),
                    Some((far, tunnel(end(sites, way.site)?))),
                )
            }
        };
        let add = |sites: &mut [SwitchSite], site: usize, port: &NewPort| {
            let added = sites[site].backend.add_port(port);
            let number = added.map_err(|why| failed(&sites[site], why.into()))?;
            Ok(CreatedPort {
                site,
                name: port.name.clone(),
                number,
            })
        };
        let near = add(sites, way.site, &port('a', near))?;
        let Some((site, kind)) = far else {
            return Ok(PathEnds { near, far: None });
        };
        match add(sites, site, &port('b', kind)) {
            Ok(far) => Ok(PathEnds {
                near,
                far: Some(far),
            }),
            Err(why) => {
                let _ = sites[near.site].backend.remove_port(&near.name);
                Err(why)
            }
        }
    }

    /// A number not used by a port of this process.
    fn free(&mut self) -> u32 {
        let taken: BTreeSet<&str> = self
            .made
            .values()
            .map(|ends| ends.near.name.as_str())
            .collect();
        loop {
            let number = self.next % PORTS_MAX;
            self.next = self.next.wrapping_add(1);
            let is_taken = taken
                .iter()
                .any(|name| name.contains(&format!("-{number:03x}")));
            // A free number always exists: a switch has fewer ports.
            if !is_taken || taken.len() >= PORTS_MAX as usize {
                return number;
            }
        }
    }

    /// Removes ports that no job uses.
    pub fn sweep(
        &mut self,
        sites: &mut [SwitchSite],
        jobs: &BTreeMap<u32, CopyJob>,
    ) -> Result<(), JobStartError> {
        let needed: BTreeSet<CopyPath> = ways(sites, jobs)?.into_iter().collect();
        let unneeded: Vec<CopyPath> = self
            .made
            .keys()
            .filter(|way| !needed.contains(way))
            .cloned()
            .collect();
        let removed: Vec<_> = unneeded.iter().map(|way| self.remove(sites, way)).collect();
        removed.into_iter().collect()
    }

    /// Removes the ports of a path, both even if the first fails.
    pub fn remove(
        &mut self,
        sites: &mut [SwitchSite],
        way: &CopyPath,
    ) -> Result<(), JobStartError> {
        let Some(ends) = self.made.remove(way) else {
            return Ok(());
        };
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
fn ways(
    sites: &[SwitchSite],
    jobs: &BTreeMap<u32, CopyJob>,
) -> Result<Vec<CopyPath>, JobStartError> {
    let way = |tap: &crate::copy_job::CopyTap| {
        let site = find(sites, &tap.switch)?;
        Ok(CopyPath {
            site,
            monitor: tap.monitor.clone(),
            to: tap.to.clone(),
        })
    };
    jobs.values().flat_map(|job| &job.taps).map(way).collect()
}

/// Index of a switch.
pub fn find(sites: &[SwitchSite], name: &str) -> Result<usize, JobStartError> {
    sites
        .iter()
        .position(|site| site.name == name)
        .ok_or_else(|| JobStartError {
            switch: name.to_owned(),
            why: InstallError::Unknown("the network has no switch of that name".to_owned()),
        })
}

fn end(sites: &[SwitchSite], site: usize) -> Result<std::net::IpAddr, JobStartError> {
    sites[site].tunnel_address.ok_or_else(|| {
        failed(
            &sites[site],
            InstallError::Unknown("no address for tunnels".to_owned()),
        )
    })
}

/// Error of a switch.
pub fn failed(site: &SwitchSite, why: InstallError) -> JobStartError {
    JobStartError {
        switch: site.name.clone(),
        why,
    }
}
