//! Standard input of a process started for a job: length-prefixed blocks with orders.

use std::io::Read;

use anyhow::anyhow;
use collect::BlockError;
use plan::message::{self, JobOrder};

use crate::process::failure::wrong_flags;

/// Reads a block.
pub fn block(from: &mut dyn Read) -> anyhow::Result<Vec<u8>> {
    collect::read_block(from, message::ORDER_BYTES_MAX).map_err(|why| match why {
        BlockError::Missing(why) => anyhow!(why).context("standard input has no order"),
        BlockError::CutOff(why) => anyhow!(why).context("the order on standard input is cut off"),
        BlockError::TooLong => wrong_flags("the order on standard input is too large"),
    })
}

/// Decodes an order.
pub fn order(bytes: &[u8]) -> anyhow::Result<JobOrder> {
    JobOrder::decode(bytes, &parsers::registry::schema)
        .map_err(|why| wrong_flags(format!("the order is refused: {why}")))
}
