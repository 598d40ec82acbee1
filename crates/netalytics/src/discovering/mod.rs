//! A network's file by what its switches and agents say: what they are asked is in `commands/discover.rs`; here is what is made of the answers,
//! without asking anybody.

mod draft;
mod draw;

pub use draft::Draft;
pub use draw::{AgentSeen, SwitchSeen, Told, World, draw};
