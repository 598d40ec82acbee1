//! Conversations in simulated time, regular and irregular, and the expected events. In the logs `<` is the sender of
//! the flow's first packet, `>` the other; a number is delivered bytes, `h` marks bytes that had waited.

mod connections;
mod copies;
mod handshakes;
mod intruders;
mod lifetimes;
mod order;

use crate::observe::Observer;
use flow::FlowTableConfig;
use testkit::TcpDialogue;

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const SECOND: i64 = 1_000 * MS;

pub(crate) fn talk() -> TcpDialogue {
    TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80")
}

/// Plays the conversation and compares the log, without expiry.
pub(crate) fn check(talk: &TcpDialogue, expected: &str) -> Observer {
    check_with(FlowTableConfig::default(), talk, expected)
}

pub(crate) fn check_with(config: FlowTableConfig, talk: &TcpDialogue, expected: &str) -> Observer {
    let mut seen = Observer::new(config);
    seen.run(talk.sent());
    assert_eq!(seen.take_log(), expected);
    seen
}
