//! Flags of `aggregator`, which queries in a network start: what it may take. What is asked comes on standard input.

use clap::Args;

use super::Limits;

/// How much to take.
#[derive(Args, Debug)]
pub struct AggregatorFlags {
    #[command(flatten)]
    pub limits: Limits,
}
