//! Free capacity of a network during placement: cores and memory of hosts, and each direction of the links of hosts,
//! racks, and pods.

use std::ops::Range;

use super::network::{HostId, HostResources, PodId, RackId, TreeNetwork};
use crate::random::SeededRandom;

/// Resources of a process on its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessNeed {
    /// Cores.
    pub cores: f64,
    /// Memory in GB.
    pub memory_gb: f64,
    /// Reserved rate of packets copied directly from the switch, in Mb/s; 0 for processes with input counted per
    /// stream ([`NetworkLoad::carry`]).
    pub mirrored_mbps: f64,
}

/// Number of random hosts tried before a full scan.
const TRIES_MAX: usize = 32;
/// Sums of rates have rounding errors that depend on the order of addition.
const ROUNDING_MBPS: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
struct FreeCapacity {
    cores: f64,
    memory_gb: f64,
    link: LinkCapacity,
}

#[derive(Clone, Copy, Debug)]
struct LinkCapacity {
    up: f64,
    down: f64,
}

/// Free capacity of a network.
#[derive(Clone, Debug)]
pub struct NetworkLoad<'n> {
    /// The network.
    pub network: &'n TreeNetwork,
    hosts: Vec<FreeCapacity>,
    racks: Vec<LinkCapacity>,
    pods: Vec<LinkCapacity>,
}

impl<'n> NetworkLoad<'n> {
    /// Creates the state without placed processes.
    #[must_use]
    pub fn new(network: &'n TreeNetwork) -> NetworkLoad<'n> {
        let free = |host: &HostResources| FreeCapacity {
            cores: host.cores * (1.0 - host.cores_used),
            memory_gb: host.memory_gb * (1.0 - host.memory_used),
            link: LinkCapacity {
                up: host.mbps,
                down: host.mbps,
            },
        };
        let both = |mbps: f64| LinkCapacity {
            up: mbps,
            down: mbps,
        };
        NetworkLoad {
            network,
            hosts: network.hosts().iter().map(free).collect(),
            racks: (0..network.racks())
                .map(|rack| both(network.rack_up(rack as RackId)))
                .collect(),
            pods: (0..network.pods())
                .map(|pod| both(network.pod_up(pod as PodId)))
                .collect(),
        }
    }

    /// Whether a host has capacity for a process.
    #[must_use]
    pub fn bears(&self, host: HostId, need: &ProcessNeed) -> bool {
        let free = &self.hosts[host as usize];
        free.cores >= need.cores
            && free.memory_gb >= need.memory_gb
            && free.link.down >= need.mirrored_mbps
    }

    /// Places a process.
    pub fn place(&mut self, host: HostId, need: &ProcessNeed) {
        let free = &mut self.hosts[host as usize];
        free.cores -= need.cores;
        free.memory_gb -= need.memory_gb;
        free.link.down -= need.mirrored_mbps;
    }

    /// Removes a process.
    pub fn remove(&mut self, host: HostId, need: &ProcessNeed) {
        let free = &mut self.hosts[host as usize];
        free.cores += need.cores;
        free.memory_gb += need.memory_gb;
        free.link.down += need.mirrored_mbps;
    }

    /// Releases the unused part of a process's reserved rate.
    pub fn give_back(&mut self, host: HostId, mbps: f64) {
        self.hosts[host as usize].link.down += mbps;
    }

    /// Remaining rate toward a host, in Mb/s.
    #[must_use]
    pub fn takes_in(&self, host: HostId) -> f64 {
        self.hosts[host as usize].link.down
    }

    /// Usage of a host: the share of its cores or memory in use, whichever is larger.
    #[must_use]
    pub fn used(&self, host: HostId) -> f64 {
        let has = &self.network.hosts()[host as usize];
        let free = &self.hosts[host as usize];
        (1.0 - free.cores / has.cores).max(1.0 - free.memory_gb / has.memory_gb)
    }

    /// The least used host with capacity for a process; the first of several.
    #[must_use]
    pub fn least_used(
        &self,
        hosts: Range<HostId>,
        fits: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        hosts
            .filter(|host| fits(*host))
            .min_by(|a, b| self.used(*a).total_cmp(&self.used(*b)))
    }

    /// The fitting host with capacity for the most processes of this kind; the first of several.
    #[must_use]
    pub fn roomiest(
        &self,
        hosts: Range<HostId>,
        need: &ProcessNeed,
        fits: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        let room = |host: HostId| {
            let free = &self.hosts[host as usize];
            (free.cores / need.cores).min(free.memory_gb / need.memory_gb)
        };
        hosts
            .filter(|host| fits(*host))
            .min_by(|a, b| room(*b).total_cmp(&room(*a)))
    }

    /// A uniformly random fitting host.
    pub fn random(
        &self,
        random: &mut SeededRandom,
        fits: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        let hosts = self.network.all_hosts();
        let drawn = (0..TRIES_MAX)
            .map(|_| random.below(hosts.len()) as HostId)
            .find(|host| fits(*host));
        drawn.or_else(|| {
            let fit: Vec<HostId> = hosts.filter(|host| fits(*host)).collect();
            (!fit.is_empty()).then(|| fit[random.below(fit.len())])
        })
    }

    /// Whether every link of the path has capacity for a stream.
    #[must_use]
    pub fn carries(&self, from: HostId, to: HostId, mbps: f64) -> bool {
        from == to
            || self.hosts[from as usize].link.up >= mbps - ROUNDING_MBPS
                && self.carries_from_rack(self.network.rack_of(from), to, mbps)
    }

    /// The same for a stream that starts at a rack's switch.
    #[must_use]
    pub fn carries_from_rack(&self, rack: RackId, to: HostId, mbps: f64) -> bool {
        let ([rack_a, rack_b], [pod_a, pod_b]) = self.ends(rack, to);
        let needed = mbps - ROUNDING_MBPS;
        self.hosts[to as usize].link.down >= needed
            && (rack_a == rack_b
                || self.racks[rack_a].up >= needed && self.racks[rack_b].down >= needed)
            && (pod_a == pod_b || self.pods[pod_a].up >= needed && self.pods[pod_b].down >= needed)
    }

    /// Subtracts a stream from every link of the path.
    pub fn carry(&mut self, from: HostId, to: HostId, mbps: f64) {
        if from != to {
            self.hosts[from as usize].link.up -= mbps;
            self.carry_from_rack(self.network.rack_of(from), to, mbps);
        }
    }

    /// The same for a stream that starts at a rack's switch.
    pub fn carry_from_rack(&mut self, rack: RackId, to: HostId, mbps: f64) {
        let ([rack_a, rack_b], [pod_a, pod_b]) = self.ends(rack, to);
        self.hosts[to as usize].link.down -= mbps;
        if rack_a != rack_b {
            self.racks[rack_a].up -= mbps;
            self.racks[rack_b].down -= mbps;
        }
        if pod_a != pod_b {
            self.pods[pod_a].up -= mbps;
            self.pods[pod_b].down -= mbps;
        }
    }

    /// Racks and pods at both ends of a path.
    fn ends(&self, rack: RackId, to: HostId) -> ([usize; 2], [usize; 2]) {
        let racks = [rack, self.network.rack_of(to)];
        (
            racks.map(usize::from),
            racks.map(|rack| usize::from(self.network.pod_of(rack))),
        )
    }
}
