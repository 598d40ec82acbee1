//! Both ends of a session. Each is a state machine: bytes go in by `handle_bytes` and out by `poll_transmit`;
//! `poll_timeout` returns when to call `handle_timeout`; `poll_event` returns events. A session is one connection: a
//! new one resumes from the state of the spool and the store.

mod agent;
mod outbox;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;

pub use agent::{AgentEvent, AgentSession};
pub use server::{Record, ServerCounters, ServerEvent, ServerLimits, ServerSession};

/// Reason for the end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// Ended by the other end, with the reason.
    Bye(String),
    /// No data for too long.
    Silence,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Bye(why) => f.write_str(why),
            Closed::Silence => f.write_str("nothing was heard of it for too long"),
        }
    }
}
