//! The bus: tuples and partial results through Kafka, in records that Flink reads directly.
//!
//! [`Kafka`] has the addresses of the brokers. A [`Producer`] sends records with bounded memory; a [`Reader`] reads
//! partitions in the order selected by its caller; [`Topics`] creates topics and reads their offsets. [`avro`] is the
//! encoding of records, [`tuples`] that of a parser's tuples; [`lanes`] assigns partitions to publishers, [`progress`]
//! reports the positions of readers to them, and [`promises`] reads the last promises of partitions. Queries are not
//! known here.

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
