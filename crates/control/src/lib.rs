//! What runs where, decided from events: `(state, event, now) → actions`, for both ends of a link. [`Server`] holds jobs
//! against what agents tell of themselves; [`Agent`] holds its monitors against what it is told, under leases: whatever it
//! runs ends when nobody renews. Both can be killed at any step and begin again from what was saved.
//!
//! It reads no clock, disk or socket, and does not know what is in a job's plan. A shell around each half carries out the
//! actions *in their order*, and stops at one that fails.

mod agent;
mod job;
mod pace;
pub mod pattern;
mod server;
pub mod shares;
pub mod taps;

pub use agent::{Agent, AgentAction, AgentEvent, AgentSettings, End, Note};
pub use job::{Degraded, Job, JobState, Kind, Limit, Request, Why};
pub use pace::{Pace, PaceSettings, Wait};
pub use server::{Loaded, Presence, Refusal, Server, ServerAction, ServerEvent, ServerSettings, Submitted};
pub use taps::Taps;
