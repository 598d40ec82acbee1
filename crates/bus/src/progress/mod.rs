//! Progress of readers, reported to publishers: brokers acknowledge records regardless of the readers' lag. Each reader
//! reports its processed offsets of each partition periodically in [`TOPIC`]; [`ProgressReporter`] writes reports, a
//! [`GroupProgressReporter`] does so for a consumer group such as Flink's, and [`ProgressWatch`] reads them.

mod group;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{
    BusError, Kafka, NewTopic, NextRecord, PartitionEnd, PartitionRange, PartitionReader, Producer,
    ProducerConfig, ProducerTarget, TopicAdmin,
};
pub use group::GroupProgressReporter;

/// The topic: one partition of JSON records with a short retention.
pub const TOPIC: &str = "netalytics.progress";
/// Interval of reports, also without changes.
pub const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Retention and segment time of the topic.
const KEPT: Duration = Duration::from_secs(600);
/// Maximum memory of records, per direction.
const BYTES_MAX: usize = 4 << 20;

/// Report of a reader on a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressNote {
    /// Name of the reader, unique per run.
    pub reader: String,
    /// Topic.
    pub topic: String,
    /// Whether the query continues.
    pub says: ReaderStatement,
    /// Per partition, the offset after the last processed record, if known.
    #[serde(default)]
    pub at: Vec<Option<i64>>,
    /// Interval at which the offsets change, in milliseconds.
    #[serde(default)]
    pub every_ms: u64,
}

/// State of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReaderStatement {
    /// Reading.
    Reads,
    /// Ended.
    Ended,
}

/// Reports the progress of a reader.
pub struct ProgressReporter {
    producer: Producer,
    target: ProducerTarget,
    reader: String,
    every: Duration,
    topics: Vec<String>,
    told: Option<Instant>,
}

impl ProgressReporter {
    /// Opens reports of the reader with that name, whose offsets change at the interval `every`.
    ///
    /// # Errors
    /// `BusError::Unreachable` if the brokers do not answer in time, `BusError::Refused` if they reject a request.
    pub fn open(
        kafka: &Kafka,
        reader: &str,
        every: Duration,
        timeout: Duration,
    ) -> Result<ProgressReporter, BusError> {
        make(&TopicAdmin::connect(kafka, timeout)?)?;
        let config = ProducerConfig {
            bytes_max: BYTES_MAX as u64,
            away: crate::OverflowPolicy::Drop,
            linger: Duration::ZERO,
            ..ProducerConfig::default()
        };
        let mut producer = Producer::new(kafka, config, Arc::new(AtomicBool::new(false)))?;
        let target = producer.target(TOPIC, 0);
        Ok(ProgressReporter {
            producer,
            target,
            reader: reader.to_owned(),
            every,
            topics: Vec::new(),
            told: None,
        })
    }

    /// Whether a report is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.told.is_none_or(|at| at.elapsed() >= TOLD_EVERY)
    }

    /// Reports the progress in a topic; lost without brokers.
    pub fn tell(&mut self, topic: &str, at: Vec<Option<i64>>) {
        self.told = Some(Instant::now());
        if !self.topics.iter().any(|known| known == topic) {
            self.topics.push(topic.to_owned());
        }
        self.write(topic, ReaderStatement::Reads, at);
    }

    fn write(&self, topic: &str, says: ReaderStatement, at: Vec<Option<i64>>) {
        let reader = self.reader.clone();
        let topic = topic.to_owned();
        let note = ProgressNote {
            reader,
            topic,
            says,
            at,
            every_ms: self.every.as_millis() as u64,
        };
        let text = serde_json::to_vec(&note).expect("a note is JSON");
        // A failed report is replaced by the next, a second later.
        let _ = self
            .producer
            .send(self.target, Some(self.reader.as_bytes()), &text);
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.topics
            .iter()
            .for_each(|topic| self.write(topic, ReaderStatement::Ended, Vec::new()));
        let _ = self.producer.flush(Duration::from_secs(2));
    }
}

/// Reads the reports of readers.
pub struct ProgressWatch {
    reader: PartitionReader,
}

impl ProgressWatch {
    /// Watches reports from now on.
    ///
    /// # Errors
    /// If the brokers do not answer in time, or reject it.
    pub fn open(kafka: &Kafka, timeout: Duration) -> Result<ProgressWatch, BusError> {
        let topics = TopicAdmin::connect(kafka, timeout)?;
        make(&topics)?;
        let from = topics.offsets(TOPIC)?.first().map_or(0, |range| range.end);
        let mut reader = PartitionReader::new(kafka, BYTES_MAX)?;
        reader.add(PartitionRange {
            topic: TOPIC.to_owned(),
            partition: 0,
            from,
            until: PartitionEnd::Forever,
        })?;
        Ok(ProgressWatch { reader })
    }

    /// Takes the next report, if any; other records are ignored.
    ///
    /// # Errors
    /// If the topic was deleted.
    pub fn take(&mut self) -> Result<Option<ProgressNote>, BusError> {
        loop {
            match self.reader.next(0, Duration::ZERO)? {
                NextRecord::Record(record) => {
                    if let Ok(note) = serde_json::from_slice(record.payload()) {
                        return Ok(Some(note));
                    }
                }
                NextRecord::Nothing | NextRecord::CaughtUp | NextRecord::Over => return Ok(None),
            }
        }
    }
}

fn make(topics: &TopicAdmin) -> Result<bool, BusError> {
    let settings = vec![("segment.ms", KEPT.as_millis().to_string())];
    topics.create(
        TOPIC,
        &NewTopic {
            partitions: 1,
            replication: None,
            retention: Some(KEPT),
            settings,
        },
    )
}
