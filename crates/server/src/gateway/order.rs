//! What agents are told of a job.

use bytes::Bytes;

use crate::fleet::Order;

/// The order's bytes, which nobody but the monitor reads.
pub fn body(order: &Order) -> Bytes {
    plan::message::encode(&order.plan).into()
}
