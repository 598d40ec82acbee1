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
pub use load::{Load, Need};
pub use network::{Host, HostId, K_MAX, Network, Pod, PodId, RACKS_MAX, Rack, RackId, Unfit};
pub use site::{
    Expected, FirstTable, Forwarding, Reached, Site, SiteError, SiteHost, SiteLink, SitePort, SiteSwitch,
    Sniffer, Starts, Tier, end,
};
pub use way::{Distance, LINK_CLASSES, LinkClass, Traffic, Weights};
