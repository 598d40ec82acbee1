//! Clients of Kafka in a build without the feature `kafka`: [`Kafka::new`] fails, and since no other function can be
//! called without its result, none has a body.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use avro::AvroRecords;

use crate::{
    BusError, NewTopic, NextRecord, PartitionRange, ProducerConfig, ProducerCounters,
    ProducerTarget, SendResult,
};

/// Has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Never {}

/// Brokers and client settings; has no values in this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kafka(Never);

impl Kafka {
    /// Fails.
    ///
    /// # Errors
    /// `BusError::NotBuilt`, always.
    pub fn new<'a>(_: &str, _: impl IntoIterator<Item = &'a str>) -> Result<Kafka, BusError> {
        Err(BusError::NotBuilt)
    }

    /// Broker addresses.
    #[must_use]
    pub fn servers(&self) -> &str {
        match self.0 {}
    }

    /// All properties, passwords included; not for display.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        match self.0 {}
        #[allow(unreachable_code)]
        std::iter::empty()
    }
}

/// A connection for requests about topics.
pub struct TopicAdmin(Never);

#[allow(missing_docs)]
impl TopicAdmin {
    pub fn connect(kafka: &Kafka, _: Duration) -> Result<TopicAdmin, BusError> {
        match kafka.0 {}
    }

    pub fn list(&self) -> Result<BTreeMap<String, i32>, BusError> {
        match self.0 {}
    }

    pub fn partitions(&self, _: &str) -> Result<Option<i32>, BusError> {
        match self.0 {}
    }

    pub fn create(&self, _: &str, _: &NewTopic) -> Result<bool, BusError> {
        match self.0 {}
    }

    pub fn grow(&self, _: &str, _: i32) -> Result<(), BusError> {
        match self.0 {}
    }

    pub fn delete(&self, _: &str) -> Result<bool, BusError> {
        match self.0 {}
    }

    pub fn offsets(&self, _: &str) -> Result<Vec<Range<i64>>, BusError> {
        match self.0 {}
    }

    pub fn offsets_at(&self, _: &str, _: i64) -> Result<Vec<i64>, BusError> {
        match self.0 {}
    }
}

/// A consumer group.
pub struct ConsumerGroup(Never);

#[allow(missing_docs)]
impl ConsumerGroup {
    pub fn new(kafka: &Kafka, _: &str, _: Duration) -> Result<ConsumerGroup, BusError> {
        match kafka.0 {}
    }

    pub fn committed(&self, _: &str, _: i32) -> Result<Vec<Option<i64>>, BusError> {
        match self.0 {}
    }
}

/// Sends records.
pub struct Producer(Never);

#[allow(missing_docs)]
impl Producer {
    pub fn new(kafka: &Kafka, _: ProducerConfig, _: Arc<AtomicBool>) -> Result<Producer, BusError> {
        match kafka.0 {}
    }

    pub fn target(&mut self, _: &str, _: i32) -> ProducerTarget {
        match self.0 {}
    }

    pub fn send_all(&self, _: ProducerTarget, _: &AvroRecords) -> Result<SendResult, BusError> {
        match self.0 {}
    }

    pub fn send(
        &self,
        _: ProducerTarget,
        _: Option<&[u8]>,
        _: &[u8],
    ) -> Result<SendResult, BusError> {
        match self.0 {}
    }

    pub fn send_with(
        &self,
        _: ProducerTarget,
        _: Option<&[u8]>,
        _: &[(&str, &str)],
        _: &[u8],
    ) -> Result<SendResult, BusError> {
        match self.0 {}
    }

    pub fn flush(&self, _: Duration) -> Result<(), BusError> {
        match self.0 {}
    }

    #[must_use]
    pub fn counters(&self) -> ProducerCounters {
        match self.0 {}
    }

    #[must_use]
    pub fn end(&self, _: ProducerTarget) -> Option<i64> {
        match self.0 {}
    }

    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        match self.0 {}
    }

    #[must_use]
    pub fn trouble(&self) -> String {
        match self.0 {}
    }
}

/// A record.
#[derive(Debug)]
pub struct KafkaRecord<'a>(Never, PhantomData<&'a [u8]>);

#[allow(missing_docs)]
impl KafkaRecord<'_> {
    #[must_use]
    pub fn offset(&self) -> i64 {
        match self.0 {}
    }

    #[must_use]
    pub fn payload(&self) -> &[u8] {
        match self.0 {}
    }

    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        match self.0 {}
    }

    #[must_use]
    pub fn timestamp_ms(&self) -> Option<i64> {
        match self.0 {}
    }
}

/// Reads partitions.
#[derive(Debug)]
pub struct PartitionReader(Never);

#[allow(missing_docs)]
impl PartitionReader {
    pub fn new(kafka: &Kafka, _: usize) -> Result<PartitionReader, BusError> {
        match kafka.0 {}
    }

    pub fn add(&mut self, _: PartitionRange) -> Result<usize, BusError> {
        match self.0 {}
    }

    pub fn of_the_rest(&self) -> Result<PartitionReader, BusError> {
        match self.0 {}
    }

    pub fn parts(&self) -> impl Iterator<Item = &PartitionRange> {
        match self.0 {}
        #[allow(unreachable_code)]
        std::iter::empty()
    }

    #[must_use]
    pub fn position(&self, _: usize) -> i64 {
        match self.0 {}
    }

    #[must_use]
    pub fn trouble(&self) -> String {
        match self.0 {}
    }

    pub fn is_answered(&self, _: Duration) -> Result<(), BusError> {
        match self.0 {}
    }

    pub fn next(&mut self, _: usize, _: Duration) -> Result<NextRecord<KafkaRecord<'_>>, BusError> {
        match self.0 {}
    }

    pub fn wait(&mut self, _: Duration) {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_without_kafka_name_the_missing_feature() {
        let error = Kafka::new("h:1", []).expect_err("not built");
        assert!(error.to_string().starts_with("Kafka is not in this build"));
    }
}
