//! The three-level fat tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, k/2 hosts per edge
//! switch, (k/2)² core switches. (Al-Fares, Loukissas, Vahdat: A scalable, commodity data center network
//! architecture.)

use super::network::{HostResources, K_MAX, PodSpec, RackSpec, TopologyError, TreeNetwork};

/// The shape of a fat tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FatTree {
    /// Ports per switch.
    pub k: usize,
    /// Capacity per direction of each link between switches, in Mb/s.
    pub link_mbps: f64,
}

impl FatTree {
    /// Creates the network; `host` creates each host.
    ///
    /// # Errors
    /// If k is odd or out of range.
    pub fn network(
        self,
        mut host: impl FnMut() -> HostResources,
    ) -> Result<TreeNetwork, TopologyError> {
        let k = self.k;
        if !(2..=K_MAX).contains(&k) || !k.is_multiple_of(2) {
            return Err(TopologyError::K(k));
        }
        let half = k / 2;
        // Flows are distributed over equal-cost paths, so the links of a rack or pod are treated as one.
        let mut rack = || RackSpec {
            hosts: (0..half).map(|_| host()).collect(),
            up_mbps: half as f64 * self.link_mbps,
        };
        let mut pod = || PodSpec {
            racks: (0..half).map(|_| rack()).collect(),
            up_mbps: (half * half) as f64 * self.link_mbps,
        };
        TreeNetwork::new(&(0..k).map(|_| pod()).collect::<Vec<_>>())
    }
}
