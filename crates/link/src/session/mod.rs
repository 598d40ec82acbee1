//! Both ends of a session. Each is a state machine: bytes go in by `handle_bytes` and out by `poll_transmit`;
//! `poll_timeout` returns when to call `handle_timeout`; `poll_event` returns events. A session is one connection: a
//! new one resumes from the state of the spool and the store.

mod agent;
mod outbox;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;

pub use agent::{AgentSession, AgentSessionEvent};
pub use server::{LaneRecord, ServerSession, ServerSessionEvent, SessionCounters, SessionLimits};

/// Reason for the end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// Ended by the other end, with the reason.
    Bye(String),
    /// No data for too long.
    Silence,
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionEnd::Bye(why) => f.write_str(why),
            SessionEnd::Silence => f.write_str("it was silent for too long"),
        }
    }
}
