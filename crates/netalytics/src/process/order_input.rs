//! Standard input of a process started for a job: length-prefixed blocks with orders.

use std::io::Read;

use anyhow::Context;
use plan::message::{self, JobOrder};

use crate::process::failure::wrong_flags;

/// Reads a length of four bytes, little endian, and that number of bytes.
pub fn block(from: &mut dyn Read) -> anyhow::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).context("there is no order on standard input")?;
    let length = u32::from_le_bytes(length) as usize;
    if length > message::ORDER_BYTES_MAX {
        return Err(wrong_flags("the order on standard input is too large"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).context("the order on standard input is cut off")?;
    Ok(bytes)
}

/// Decodes an order.
pub fn order(bytes: &[u8]) -> anyhow::Result<JobOrder> {
    JobOrder::decode(bytes, &parsers::registry::schema)
        .map_err(|why| wrong_flags(format!("the order is refused: {why}")))
}
