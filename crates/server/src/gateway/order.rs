//! What agents are told of a job.

use bytes::Bytes;
use plan::message::{JobOrder, Key, Packets};

use crate::fleet::{Order, Redaction};

/// The order's bytes, which nobody but the agent and its monitor reads; `key`: by which texts are folded.
pub fn body(order: &Order, key: [u8; 16]) -> Bytes {
    let order = JobOrder {
        job: order.id.0.unsigned_abs(),
        generation: 1,
        // The agent counts its own starts.
        attempt: 0,
        plan: (*order.plan).clone(),
        redaction: (order.redaction == Redaction::Folded).then_some(Key(key)),
        packets: Packets::Interfaces { names: Vec::new(), filter: None },
        packets_max: None,
        memory_max: 0,
        cpu_millis: 0,
        workers: 0,
    };
    order.encode().into()
}
