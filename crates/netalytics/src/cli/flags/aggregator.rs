//! Flags of `aggregator`, which queries in a network start. Its order comes on standard input.

use clap::Args;

use super::LimitFlags;

/// Flags of `aggregator`.
#[derive(Args, Debug)]
pub struct AggregatorFlags {
    #[command(flatten)]
    pub limits: LimitFlags,
}
