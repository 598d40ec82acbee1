//! The three-level fat tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, k/2 hosts per edge
//! switch, (k/2)² core switches. (Al-Fares, Loukissas, Vahdat: A scalable, commodity data center network
//! architecture.)

use super::network::{Host, K_MAX, Network, Pod, Rack, Unfit};

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
    pub fn network(self, mut host: impl FnMut() -> Host) -> Result<Network, Unfit> {
        let k = self.k;
        if !(2..=K_MAX).contains(&k) || !k.is_multiple_of(2) {
            return Err(Unfit::K(k));
        }
        let half = k / 2;
        // Flows are distributed over equal-cost paths, so the links of a rack or pod are treated as one.
        let mut rack =
            || Rack { hosts: (0..half).map(|_| host()).collect(), up_mbps: half as f64 * self.link_mbps };
        let mut pod = || Pod {
            racks: (0..half).map(|_| rack()).collect(),
            up_mbps: (half * half) as f64 * self.link_mbps,
        };
        Network::new(&(0..k).map(|_| pod()).collect::<Vec<_>>())
    }
}
