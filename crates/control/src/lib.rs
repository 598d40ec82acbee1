//! Decides which job runs where, from events: `(state, event, now) → actions`, for both ends of a link. [`Server`]
//! compares jobs with the reports of agents; [`Agent`] compares its monitors with its orders, under leases: a monitor
//! ends unless its lease is renewed. Both may be killed at any step and continue from the saved state.
//!
//! No clock, disk, or socket is used here, and a job's plan is opaque. The caller of each side executes the actions in
//! order and stops at the first failure.

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
