//! The bus: tuples and partial results through Kafka, in records that Flink reads directly.
//!
//! [`Kafka`] has the addresses of the brokers. A [`Producer`] sends records with bounded memory; a [`PartitionReader`] reads
//! partitions in the order selected by its caller; [`TopicAdmin`] creates topics and reads their offsets. [`avro`] is the
//! encoding of records, [`tuples`] that of a parser's tuples; [`lanes`] assigns partitions to publishers, [`progress`]
//! reports the positions of readers to them, and [`lane_promises`] reads the last promises of partitions. Queries are not
//! known here.

mod consumer_group;
mod error;
mod kafka;
pub mod lane_promises;
pub mod lanes;
mod producer;
pub mod progress;
mod reader;
mod sys;
mod topics;
pub mod tuples;

pub use consumer_group::ConsumerGroup;
pub use error::BusError;
pub use kafka::Kafka;
pub use producer::{
    BY_KEY, BatchCompression, OverflowPolicy, Producer, ProducerConfig, ProducerCounters,
    ProducerTarget, RECORD_BYTES_MAX, SendResult,
};
pub use reader::{KafkaRecord, NextRecord, PartitionEnd, PartitionRange, PartitionReader};
pub use topics::{NewTopic, TopicAdmin};
