//! Both ends of a session. Each is a state machine: bytes go in by `handle_bytes`, out by `poll_transmit`; `poll_timeout`
//! says when `handle_timeout` wants to be called; `poll_event` says what happened. A session is one connection: after
//! its end a new one begins with what the spool and the store remember.

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
    /// The other end said so, with its reason.
    Bye(String),
    /// Nothing was heard for too long.
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
