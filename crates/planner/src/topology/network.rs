//! Hosts in racks, racks in pods, pods joined by a core: how they lie, and what they have.
//!
//! Hosts are numbered rack by rack, racks pod by pod. A leaf-spine network is one pod; a fat tree has k of them.

use std::fmt;
use std::ops::Range;

use super::way::Distance;

/// A host by its number.
pub type HostId = u32;
/// A rack (an edge switch with its hosts) by its number.
pub type RackId = u16;
/// A pod (the racks that meet below the core) by its number.
pub type PodId = u16;

/// Most racks: their numbers have 16 bits, as each of millions of flows names two.
pub const RACKS_MAX: usize = RackId::MAX as usize;

/// Largest k of a fat tree: half a million hosts.
pub const K_MAX: usize = 128;

/// What a host has, and how much of it others use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Processor cores.
    pub cores: f64,
    /// The share of them in use, 0 to 1.
    pub cores_used: f64,
    /// Memory in GB.
    pub memory_gb: f64,
    /// The share of it in use, 0 to 1.
    pub memory_used: f64,
    /// What its link bears each way for us, in Mb/s.
    pub mbps: f64,
}

/// A rack, for building a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Rack {
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// What all its links to the aggregation switches bear each way together, in Mb/s.
    pub up_mbps: f64,
}

/// A pod, for building a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its racks.
    pub racks: Vec<Rack>,
    /// What all its links to the core bear each way together, in Mb/s.
    pub up_mbps: f64,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    hosts: Vec<Host>,
    /// The rack of each host.
    rack_of: Vec<RackId>,
    /// The pod of each rack.
    pod_of: Vec<PodId>,
    /// The first host of each rack, and the end of the last.
    first_host: Vec<HostId>,
    /// The first rack of each pod, and the end of the last.
    first_rack: Vec<RackId>,
    rack_up: Vec<f64>,
    pod_up: Vec<f64>,
}

/// Why a network is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// There is no host in it.
    NoHost,
    /// So many racks, of at most [`RACKS_MAX`].
    Racks(usize),
    /// A fat tree's k has to be even, from 2 to [`K_MAX`].
    K(usize),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::NoHost => f.write_str("the network has no host"),
            Unfit::Racks(n) => write!(f, "the network has {n} racks, of at most {RACKS_MAX}"),
            Unfit::K(k) => write!(f, "a fat tree has an even k from 2 to {K_MAX}, not {k}"),
        }
    }
}

impl std::error::Error for Unfit {}

impl Network {
    /// From pods with their racks.
    ///
    /// # Errors
    /// When it has no host, or too many racks.
    pub fn new(pods: &[Pod]) -> Result<Network, Unfit> {
        let racks = pods.iter().map(|pod| pod.racks.len()).sum();
        if racks > RACKS_MAX {
            return Err(Unfit::Racks(racks));
        }
        let mut network = Network {
            hosts: Vec::new(),
            rack_of: Vec::new(),
            pod_of: Vec::with_capacity(racks),
            first_host: vec![0],
            first_rack: vec![0],
            rack_up: Vec::with_capacity(racks),
            pod_up: pods.iter().map(|pod| pod.up_mbps).collect(),
        };
        for (pod_id, pod) in pods.iter().enumerate() {
            for rack in &pod.racks {
                network
                    .rack_of
                    .resize(network.hosts.len() + rack.hosts.len(), network.pod_of.len() as RackId);
                network.hosts.extend_from_slice(&rack.hosts);
                network.first_host.push(network.hosts.len() as HostId);
                network.pod_of.push(pod_id as PodId);
                network.rack_up.push(rack.up_mbps);
            }
            network.first_rack.push(network.pod_of.len() as RackId);
        }
        if network.hosts.is_empty() { Err(Unfit::NoHost) } else { Ok(network) }
    }

    /// All hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// How many racks there are.
    #[must_use]
    pub fn racks(&self) -> usize {
        self.pod_of.len()
    }

    /// How many pods there are.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pod_up.len()
    }

    /// The hosts of a rack.
    #[must_use]
    pub fn hosts_of(&self, rack: RackId) -> Range<HostId> {
        self.first_host[usize::from(rack)]..self.first_host[usize::from(rack) + 1]
    }

    /// The racks of a pod.
    #[must_use]
    pub fn racks_of(&self, pod: PodId) -> Range<RackId> {
        self.first_rack[usize::from(pod)]..self.first_rack[usize::from(pod) + 1]
    }

    /// The hosts of a pod.
    #[must_use]
    pub fn hosts_of_pod(&self, pod: PodId) -> Range<HostId> {
        let racks = self.racks_of(pod);
        self.first_host[usize::from(racks.start)]..self.first_host[usize::from(racks.end)]
    }

    /// All hosts' numbers.
    #[must_use]
    pub fn all_hosts(&self) -> Range<HostId> {
        0..self.hosts.len() as HostId
    }

    /// The rack that a host is in.
    #[must_use]
    pub fn rack_of(&self, host: HostId) -> RackId {
        self.rack_of[host as usize]
    }

    /// The pod that a rack is in.
    #[must_use]
    pub fn pod_of(&self, rack: RackId) -> PodId {
        self.pod_of[usize::from(rack)]
    }

    /// How far two hosts are from each other.
    #[must_use]
    pub fn distance(&self, from: HostId, to: HostId) -> Distance {
        let racks = (self.rack_of(from), self.rack_of(to));
        if from == to {
            Distance::SameHost
        } else if racks.0 == racks.1 {
            Distance::SameRack
        } else if self.pod_of(racks.0) == self.pod_of(racks.1) {
            Distance::SamePod
        } else {
            Distance::OtherPod
        }
    }

    /// What a rack's links to the aggregation switches bear each way, in Mb/s.
    #[must_use]
    pub fn rack_up(&self, rack: RackId) -> f64 {
        self.rack_up[usize::from(rack)]
    }

    /// What a pod's links to the core bear each way, in Mb/s.
    #[must_use]
    pub fn pod_up(&self, pod: PodId) -> f64 {
        self.pod_up[usize::from(pod)]
    }
}
