//! The bus: tuples and partial results through Kafka, in records that Flink reads directly.
//!
//! [`Kafka`] has the addresses of the brokers. A [`Producer`] sends records with bounded memory; a [`PartitionReader`] reads
//! partitions in the order selected by its caller; [`TopicAdmin`] creates topics and reads their offsets. [`avro`] is the
//! encoding of records, [`tuples`] that of a parser's tuples; [`lanes`] assigns partitions to publishers, [`progress`]
//! reports the positions of readers to them, and [`lane_promises`] reads the last promises of partitions. Queries are not
//! known here.

#[cfg(not(feature = "kafka"))]
mod absent;
#[cfg(feature = "kafka")]
mod consumer_group;
mod error;
#[cfg(feature = "kafka")]
mod kafka;
pub mod lane_promises;
pub mod lanes;
#[cfg(feature = "kafka")]
mod producer;
mod producer_config;
pub mod progress;
#[cfg(feature = "kafka")]
mod reader;
#[cfg(feature = "kafka")]
mod sys;
#[cfg(feature = "kafka")]
mod topics;
pub mod tuples;
mod types;

#[cfg(not(feature = "kafka"))]
pub use absent::{ConsumerGroup, Kafka, KafkaRecord, PartitionReader, Producer, TopicAdmin};
#[cfg(feature = "kafka")]
pub use consumer_group::ConsumerGroup;
pub use error::BusError;
#[cfg(feature = "kafka")]
pub use kafka::Kafka;
#[cfg(feature = "kafka")]
pub use producer::Producer;
pub use producer_config::{
    BatchCompression, OverflowPolicy, ProducerConfig, ProducerCounters, RECORD_BYTES_MAX,
};
#[cfg(feature = "kafka")]
pub use reader::{KafkaRecord, PartitionReader};
#[cfg(feature = "kafka")]
pub use topics::TopicAdmin;
pub use types::{
    BY_KEY, NewTopic, NextRecord, PartitionEnd, PartitionRange, ProducerTarget, SendResult,
    properties_in,
};
