//! Two levels: every leaf has a link to every spine. All racks form one pod, since there is no higher level.

use super::network::{HostResources, PodSpec, RackSpec, TopologyError, TreeNetwork};

/// The shape of a leaf-spine network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafSpine {
    /// Number of leaves, each with a rack of hosts.
    pub leaves: usize,
    /// Number of spines.
    pub spines: usize,
    /// Hosts per leaf.
    pub hosts: usize,
    /// Capacity per direction of each link between a leaf and a spine, in Mb/s.
    pub link_mbps: f64,
}

impl LeafSpine {
    /// Creates the network; `host` creates each host.
    ///
    /// # Errors
    /// If there are no hosts, or too many leaves.
    pub fn network(
        self,
        mut host: impl FnMut() -> HostResources,
    ) -> Result<TreeNetwork, TopologyError> {
        let up_mbps = self.spines as f64 * self.link_mbps;
        let mut rack = || RackSpec {
            hosts: (0..self.hosts).map(|_| host()).collect(),
            up_mbps,
        };
        TreeNetwork::new(&[PodSpec {
            racks: (0..self.leaves).map(|_| rack()).collect(),
            up_mbps: 0.0,
        }])
    }
}
