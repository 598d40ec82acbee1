//! Structure and resources of a network: hosts in racks, racks in pods, pods joined by a core.
//!
//! Hosts are numbered by rack, racks by pod. A leaf-spine network has one pod, a fat tree k pods.

use std::fmt;
use std::ops::Range;

use super::way::HostDistance;

/// Host number.
pub type HostId = u32;
/// Number of a rack (an edge switch with its hosts).
pub type RackId = u16;
/// Number of a pod (the racks connected below the core).
pub type PodId = u16;

/// Maximum number of racks: 16-bit numbers, because each of millions of flows stores two.
pub const RACKS_MAX: usize = RackId::MAX as usize;

/// Maximum k of a fat tree: half a million hosts.
pub const K_MAX: usize = 128;

/// Resources of a host, and their usage by others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostResources {
    /// Processor cores.
    pub cores: f64,
    /// Share of cores in use, 0 to 1.
    pub cores_used: f64,
    /// Memory in GB.
    pub memory_gb: f64,
    /// Share of memory in use, 0 to 1.
    pub memory_used: f64,
    /// Available link capacity per direction, in Mb/s.
    pub mbps: f64,
}

/// A rack, for building a network.
#[derive(Clone, Debug, PartialEq)]
pub struct RackSpec {
    /// Hosts of the rack.
    pub hosts: Vec<HostResources>,
    /// Total capacity per direction of its links to the aggregation switches, in Mb/s.
    pub up_mbps: f64,
}

/// A pod, for building a network.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSpec {
    /// Racks of the pod.
    pub racks: Vec<RackSpec>,
    /// Total capacity per direction of its links to the core, in Mb/s.
    pub up_mbps: f64,
}

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeNetwork {
    hosts: Vec<HostResources>,
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

/// The reason that a network is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// The network has no hosts.
    NoHost,
    /// Number of racks, above [`RACKS_MAX`].
    Racks(usize),
    /// A fat tree's k must be even, from 2 to [`K_MAX`].
    K(usize),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyError::NoHost => f.write_str("the network has no host"),
            TopologyError::Racks(n) => {
                write!(f, "the network has {n} racks; the maximum is {RACKS_MAX}")
            }
            TopologyError::K(k) => write!(f, "a fat tree has an even k from 2 to {K_MAX}, not {k}"),
        }
    }
}

impl std::error::Error for TopologyError {}

impl TreeNetwork {
    /// Creates a network of pods and racks.
    ///
    /// # Errors
    /// If there are no hosts, or too many racks.
    pub fn new(pods: &[PodSpec]) -> Result<TreeNetwork, TopologyError> {
        let racks = pods.iter().map(|pod| pod.racks.len()).sum();
        if racks > RACKS_MAX {
            return Err(TopologyError::Racks(racks));
        }
        let mut network = TreeNetwork {
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
                network.rack_of.resize(
                    network.hosts.len() + rack.hosts.len(),
                    network.pod_of.len() as RackId,
                );
                network.hosts.extend_from_slice(&rack.hosts);
                network.first_host.push(network.hosts.len() as HostId);
                network.pod_of.push(pod_id as PodId);
                network.rack_up.push(rack.up_mbps);
            }
            network.first_rack.push(network.pod_of.len() as RackId);
        }
        if network.hosts.is_empty() {
            Err(TopologyError::NoHost)
        } else {
            Ok(network)
        }
    }

    /// All hosts.
    #[must_use]
    pub fn hosts(&self) -> &[HostResources] {
        &self.hosts
    }

    /// Number of racks.
    #[must_use]
    pub fn racks(&self) -> usize {
        self.pod_of.len()
    }

    /// Number of pods.
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

    /// The numbers of all hosts.
    #[must_use]
    pub fn all_hosts(&self) -> Range<HostId> {
        0..self.hosts.len() as HostId
    }

    /// The rack of a host.
    #[must_use]
    pub fn rack_of(&self, host: HostId) -> RackId {
        self.rack_of[host as usize]
    }

    /// The pod of a rack.
    #[must_use]
    pub fn pod_of(&self, rack: RackId) -> PodId {
        self.pod_of[usize::from(rack)]
    }

    /// The distance between two hosts.
    #[must_use]
    pub fn distance(&self, from: HostId, to: HostId) -> HostDistance {
        let racks = (self.rack_of(from), self.rack_of(to));
        if from == to {
            HostDistance::SameHost
        } else if racks.0 == racks.1 {
            HostDistance::SameRack
        } else if self.pod_of(racks.0) == self.pod_of(racks.1) {
            HostDistance::SamePod
        } else {
            HostDistance::OtherPod
        }
    }

    /// Capacity per direction of a rack's links to the aggregation switches, in Mb/s.
    #[must_use]
    pub fn rack_up(&self, rack: RackId) -> f64 {
        self.rack_up[usize::from(rack)]
    }

    /// Capacity per direction of a pod's links to the core, in Mb/s.
    #[must_use]
    pub fn pod_up(&self, pod: PodId) -> f64 {
        self.pod_up[usize::from(pod)]
    }
}
