//! The physical network for placement: hosts in racks, racks in pods, pods joined by a core, and the free capacity of
//! each. Numbers are stored in arrays, and paths between hosts are computed arithmetically without a graph.

mod fat_tree;
#[cfg(test)]
pub(crate) mod graph;
mod leaf_spine;
mod load;
mod network;
mod site;
#[cfg(test)]
mod tests;
mod way;

pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use load::{NetworkLoad, ProcessNeed};
pub use network::{
    HostId, HostResources, K_MAX, PodId, PodSpec, RACKS_MAX, RackId, RackSpec, TopologyError,
    TreeNetwork,
};
pub use site::{
    ExpectedTraffic, FirstTable, ForwardingMode, HostLauncher, NetworkSite, SiteError, SiteHost,
    SiteLink, SitePort, SiteSwitch, SwitchAccess, SwitchSniffer, SwitchTier, end,
};
pub use way::{HostDistance, LINK_CLASSES, LinkClass, LinkTraffic, LinkWeights};
