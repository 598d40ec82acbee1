//! Kafka between monitors and queries: connection, publishing, reading, and merging in this process or in Flink.

pub mod broker_notice;
pub mod connection;
pub mod flink_merge;
pub mod job_bus;
pub mod publish;
pub mod read;
