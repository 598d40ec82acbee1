//! Processes that an agent or a query in a network starts: monitors and aggregators, which read orders from standard
//! input and live as long as their lease.

pub mod aggregator;
pub mod lease;
pub mod monitor;
