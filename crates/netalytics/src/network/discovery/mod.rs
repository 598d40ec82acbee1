//! Creates a network file from the answers of switches and agents, without I/O; `commands/discover.rs` queries them.

mod file_builder;
mod file_draft;

pub use file_builder::{DiscoveredAgent, DiscoveredNetwork, DiscoveredSwitch, SwitchControl, draw};
pub use file_draft::NetworkFileDraft;
