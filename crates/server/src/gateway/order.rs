//! What agents are told of a job. Of texts that may say something of a person each job has its own hashes: the key is drawn
//! here, stands in the order, which the store keeps, and is shown to nobody.

use bytes::Bytes;
use plan::Plan;
use plan::message::{Capture, JobOrder, Key};
use tuple::Origin;

use crate::fleet::Order;
use crate::job::Redaction;

/// The order's bytes, which nobody but the monitor reads. `plan`: what agents do; `topics`: where they publish
/// what they find, if not here; `now_ns`: a limit of time counts from then on, on
/// all agents.
pub fn body(order: &Order, plan: &Plan, topics: &[String], now_ns: i64) -> Bytes {
    let mut plan = plan.clone();
    if let Some(nanos) = plan.monitor.limit.nanos {
        let span = &mut plan.monitor.span;
        span.start_ns = span.start_ns.or(Some(now_ns));
        span.end_ns = span.end_ns.or(Some(now_ns.saturating_add(nanos)));
    }
    let order = JobOrder {
        job: order.id.0.unsigned_abs(),
        // Agents know their own starts.
        generation: 0,
        attempt: 0,
        plan,
        redaction: (order.redaction == Redaction::Folded).then(key),
        // Which interfaces there are the agent knows, and which of them it may use its owner has said.
        capture: Capture {
            interfaces: order.capture.interfaces.clone(),
            filter: order.capture.filter.clone(),
        },
        // Agents know what they were allowed.
        packets_max: None,
        memory_max: 0,
        cpu_millis: 0,
        workers: 0,
        // They change: agents are told beside the order.
        taps: plan::TapTable::default(),
        // Who it is, and of which labels, the agent knows.
        origin: Origin::default(),
        topics: topics.to_vec(),
    };
    order.encode().into()
}

fn key() -> Key {
    let mut key = [0; 16];
    getrandom::fill(&mut key).expect("the system has random numbers");
    Key(key)
}
