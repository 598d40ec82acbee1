//! The network as described by a TOML file: switches, hosts, and links by name. [`Site::parse`] reads the text and
//! reports all errors with their lines; [`Site::network`] returns the input of placement.
//!
//! Racks are the edge switches, pods the components connected below the core. Spines of a leaf-spine network may be
//! declared as aggregation or core.

mod expected;
mod model;
mod read;

pub use expected::{Expected, end};
pub use model::{
    FirstTable, Forwarding, Reached, Site, SiteHost, SiteLink, SitePort, SiteSwitch, Sniffer, Starts, Tier,
};
pub use read::SiteError;
