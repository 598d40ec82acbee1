//! Requests with boundary values, of later versions, repeated, and at the same time.

mod access;
mod jobs;
mod rows;

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// A query of jobs that the test reports on.
const RATE: &str = "PARSE http PROCESS (rate)";

fn noted() -> Server {
    Server::start(TestFleet::new(Way::Note))
}
