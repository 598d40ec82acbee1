//! The bus: tuples and partial results through Kafka, in records that Flink reads as they are.
//!
//! [`Kafka`] says where the brokers are. A [`Producer`] hands records over, bounded in memory; a [`Reader`] takes them from
//! partitions in the order that its caller wants; [`Topics`] makes topics and knows their offsets. [`avro`] is the form of
//! the records, [`tuples`] what a parser's tuples are in it; by [`lanes`] publishers agree who writes where, and by
//! [`progress`] they learn how far readers have come, and [`promises`] reads what a partition's last records promise. What queries are, and what is read for them, stands elsewhere.

mod error;
mod group;
mod kafka;
pub mod lanes;
mod producer;
pub mod progress;
pub mod promises;
mod reader;
mod sys;
mod topics;
pub mod tuples;

pub use error::Error;
pub use group::Group;
pub use kafka::Kafka;
pub use producer::{
    Away, BY_KEY, Compression, Counters, Handed, Producer, ProducerConfig, RECORD_BYTES_MAX, Target,
};
pub use reader::{Next, Part, Reader, Record, Until};
pub use topics::{NewTopic, Topics};
