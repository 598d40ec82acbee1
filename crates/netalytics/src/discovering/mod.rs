//! Creates a network file from the answers of switches and agents, without I/O; `commands/discover.rs` queries them.

mod draft;
mod draw;

pub use draft::Draft;
pub use draw::{AgentSeen, SwitchSeen, Told, World, draw};
