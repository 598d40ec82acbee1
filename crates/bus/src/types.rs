//! Values that callers pass to clients of Kafka and receive from them. They exist in builds without Kafka, too.

use std::time::Duration;

/// Properties in the text of a file: `NAME=VALUE`, one per line; empty lines and lines that start with # are ignored.
pub fn properties_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A topic to create.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Number of partitions.
    pub partitions: i32,
    /// Replicas of each partition; `None`: the brokers' default.
    pub replication: Option<i32>,
    /// Retention of records; `None`: the brokers' default.
    pub retention: Option<Duration>,
    /// Other settings of the topic, such as `cleanup.policy`.
    pub settings: Vec<(&'static str, String)>,
}

/// A partition to which a producer writes, by the number returned by [`Producer::target`](crate::Producer::target).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerTarget(pub(crate) usize);

/// Immediate result of sending records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Accepted.
    pub taken: u64,
    /// Dropped and counted.
    pub dropped: u64,
}

/// Instead of a partition number: selected by the record's key.
pub const BY_KEY: i32 = -1;

/// Range of a partition to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRange {
    /// The topic.
    pub topic: String,
    /// Partition of the topic.
    pub partition: i32,
    /// Offset of the first record; an error if it is no longer stored.
    pub from: i64,
    /// End.
    pub until: PartitionEnd,
}

/// End of reading a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionEnd {
    /// At the current end when the reader reaches it.
    End,
    /// Before this offset; waits until it exists.
    Offset(i64),
    /// Never: later records are read, too.
    Forever,
}

/// Next item of a partition, whose records have type `R`.
#[derive(Debug)]
pub enum NextRecord<R> {
    /// A record.
    Record(R),
    /// No record yet.
    Nothing,
    /// No record yet, and all existing ones were read; returned each time the reader reaches the end.
    CaughtUp,
    /// The end of the range.
    Over,
}
