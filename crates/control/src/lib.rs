//! Decides which job runs where, from events: `(state, event, now) → actions`, for both ends of a link. [`ServerControl`]
//! compares jobs with the reports of agents; [`AgentControl`] compares its monitors with its orders, under leases: a monitor
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

pub use agent::{AgentAction, AgentControl, AgentEvent, AgentSettings, MonitorEnd, StartNote};
pub use job::{ControlledJob, Degradation, EndReason, JobLifetime, JobLimit, JobSpec, JobState};
pub use pace::{JobPace, PaceSettings, PaceState};
pub use server::{
    AdmissionError, AgentPresence, RestoredControl, ServerAction, ServerControl, ServerEvent,
    ServerSettings, SubmittedJob,
};
pub use taps::TapAssignment;
