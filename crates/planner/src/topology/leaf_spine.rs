//! Two levels: every leaf has a link to every spine. The racks of one pod, as nothing has to go higher.

use super::network::{Host, Network, Pod, Rack, Unfit};

/// The shape of a leaf-spine network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafSpine {
    /// Leaves, each with a rack of hosts.
    pub leaves: usize,
    /// Spines.
    pub spines: usize,
    /// Hosts under each leaf.
    pub hosts: usize,
    /// What each link between a leaf and a spine bears each way, in Mb/s.
    pub link_mbps: f64,
}

impl LeafSpine {
    /// The network, each host as `host` makes it.
    ///
    /// # Errors
    /// When it has no host, or too many leaves.
    pub fn network(self, mut host: impl FnMut() -> Host) -> Result<Network, Unfit> {
        let up_mbps = self.spines as f64 * self.link_mbps;
        let mut rack = || Rack { hosts: (0..self.hosts).map(|_| host()).collect(), up_mbps };
        Network::new(&[Pod { racks: (0..self.leaves).map(|_| rack()).collect(), up_mbps: 0.0 }])
    }
}
