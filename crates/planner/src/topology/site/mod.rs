//! The network as described by a TOML file: switches, hosts, and links by name. [`NetworkSite::parse`] reads the text and
//! reports all errors with their lines; [`NetworkSite::network`] returns the input of placement.
//!
//! Racks are the edge switches, pods the components connected below the core. Spines of a leaf-spine network may be
//! declared as aggregation or core.

mod expected;
mod model;
mod read;

pub use expected::{ExpectedTraffic, end};
pub use model::{
    FirstTable, ForwardingMode, HostLauncher, NetworkSite, SiteHost, SiteLink, SitePort,
    SiteSwitch, SwitchAccess, SwitchSniffer, SwitchTier,
};
pub use read::SiteError;
