//! Generated Flink SQL has the same meaning in Flink as in this engine. The tests use a real Flink through its SQL
//! Gateway, whose address is in the environment: `NETALYTICS_FLINK_GATEWAY=http://127.0.0.1:8083`.

mod expressions;
mod flows;
mod gateway;
mod jobs;
mod printed;
mod random;
mod topic;
#[path = "../tuples/mod.rs"]
mod tuples;

/// A session with Flink.
fn flink() -> gateway::Gateway {
    gateway::Gateway::new(
        &std::env::var("NETALYTICS_FLINK_GATEWAY").expect("NETALYTICS_FLINK_GATEWAY is set"),
    )
}
