//! The network as its owner's file says it (TOML): switches, hosts and links by name. [`Site::parse`] reads the text and
//! tells everything that is wrong with it, each with its line; [`Site::network`] is what placement needs of it.
//!
//! Racks are the edge switches, pods what hangs together below the core. Spines of a leaf-spine network may be called
//! aggregation or core.

mod expected;
mod model;
mod read;

pub use expected::{Expected, end};
pub use model::{
    FirstTable, Forwarding, Reached, Site, SiteHost, SiteLink, SitePort, SiteSwitch, Sniffer, Starts, Tier,
};
pub use read::SiteError;
