//! Creation and deletion of topics, and their offsets.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaRespErr;

use crate::kafka::{ReaderContext, listen};
use crate::{BusError, Kafka, NewTopic};

/// A connection for requests about topics; every request is answered within its timeout or fails.
pub struct TopicAdmin {
    kafka: Kafka,
    timeout: Duration,
    consumer: BaseConsumer<ReaderContext>,
}

impl TopicAdmin {
    /// Connects and checks whether a broker answers.
    ///
    /// # Errors
    /// `BusError::Unreachable` if none answers in time.
    pub fn connect(kafka: &Kafka, timeout: Duration) -> Result<TopicAdmin, BusError> {
        let mut config = kafka.config();
        config
            .set("isolation.level", "read_committed")
            .set("allow.auto.create.topics", "false");
        let consumer = config
            .create_with_context(ReaderContext::default())
            .map_err(|e| kafka.explain(&e))?;
        let topics = TopicAdmin {
            kafka: kafka.clone(),
            timeout,
            consumer,
        };
        topics.metadata(None)?;
        Ok(topics)
    }

    /// All topics with their numbers of partitions.
    ///
    /// # Errors
    /// `BusError::Unreachable` if the brokers do not answer.
    pub fn list(&self) -> Result<BTreeMap<String, i32>, BusError> {
        let all = self.metadata(None)?;
        Ok(all
            .topics()
            .iter()
            .map(|topic| (topic.name().to_owned(), topic.partitions().len() as i32))
            .collect())
    }

    /// Number of partitions; `None`: the topic does not exist.
    ///
    /// # Errors
    /// If the brokers do not answer, or return an error.
    pub fn partitions(&self, topic: &str) -> Result<Option<i32>, BusError> {
        let metadata = self.metadata(Some(topic))?;
        let told = found(&metadata, topic);
        match told.and_then(MetadataTopic::error) {
            Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => Ok(None),
            // Being created.
            None | Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) => Ok(told
                .map(|topic| topic.partitions().len() as i32)
                .filter(|count| *count > 0)),
            Some(error) => {
                Err(self.refused(format!("topic `{topic}`"), &RDKafkaErrorCode::from(error)))
            }
        }
    }

    /// Creates the topic if it is missing, and waits until it is usable. Returns whether it was missing.
    ///
    /// # Errors
    /// `BusError::Unreachable` if the brokers do not answer, `BusError::Refused` if they reject the request.
    pub fn create(&self, topic: &str, wanted: &NewTopic) -> Result<bool, BusError> {
        let retention = wanted.retention.map(|kept| kept.as_millis().to_string());
        let copies = TopicReplication::Fixed(wanted.replication.unwrap_or(-1));
        let mut new = rdkafka::admin::NewTopic::new(topic, wanted.partitions, copies);
        if let Some(milliseconds) = &retention {
            new = new.set("retention.ms", milliseconds);
        }
        for (name, value) in &wanted.settings {
            new = new.set(name, value);
        }
        let doing = || format!("topic `{topic}` cannot be created");
        let begun = Instant::now();
        let is_new = loop {
            let results = block_on(self.admin()?.create_topics([&new], &self.options()));
            match self.outcome(results, doing)? {
                None => break true,
                Some(RDKafkaErrorCode::TopicAlreadyExists) => break false,
                // Until enough brokers that have just started are registered.
                Some(RDKafkaErrorCode::InvalidReplicationFactor)
                    if begun.elapsed() < self.timeout =>
                {
                    std::thread::sleep(Duration::from_millis(200));
                }
                Some(code) => return Err(self.refused(doing(), &code)),
            }
        };
        self.wait_for_leaders(topic, if is_new { wanted.partitions } else { 1 })?;
        Ok(is_new)
    }

    /// Adds partitions to the topic until there are `partitions`. No error if there are enough.
    ///
    /// # Errors
    /// If the brokers do not answer, or reject it.
    pub fn grow(&self, topic: &str, partitions: i32) -> Result<(), BusError> {
        let new = NewPartitions::new(topic, partitions.max(1) as usize);
        let results = block_on(self.admin()?.create_partitions([&new], &self.options()));
        let doing = || format!("topic `{topic}` cannot get more partitions");
        match self.outcome(results, doing)? {
            None => {}
            Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {
                return Err(BusError::NoTopic(topic.to_owned()));
            }
            // Another process may have been faster.
            Some(_)
                if self
                    .partitions(topic)?
                    .is_some_and(|count| count >= partitions) => {}
            Some(code) => return Err(self.refused(doing(), &code)),
        }
        self.wait_for_leaders(topic, partitions)
    }

    /// Deletes the topic. Returns whether it existed.
    ///
    /// # Errors
    /// `BusError::Unreachable` if the brokers do not answer, `BusError::Refused` if they reject the request.
    pub fn delete(&self, topic: &str) -> Result<bool, BusError> {
        let results = block_on(self.admin()?.delete_topics(&[topic], &self.options()));
        let doing = || format!("topic `{topic}` cannot be deleted");
        match self.outcome(results, doing)? {
            None => Ok(true),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                Ok(false)
            }
            Some(code) => Err(self.refused(doing(), &code)),
        }
    }

    /// Per partition, the offset of its first record and the offset after its last (without open transactions).
    ///
    /// # Errors
    /// If the topic is missing, or the brokers do not answer.
    pub fn offsets(&self, topic: &str) -> Result<Vec<Range<i64>>, BusError> {
        let firsts = self.look_up(topic, Offset::Beginning)?;
        let ends = self.look_up(topic, Offset::End)?;
        let range = |(first, end): (Option<i64>, Option<i64>)| {
            let first = first.unwrap_or_default();
            first..end.unwrap_or_default().max(first)
        };
        Ok(firsts.into_iter().zip(ends).map(range).collect())
    }

    /// Per partition, the offset of the first record written at or after that time, by the brokers' or producers'
    /// clocks in milliseconds since 1970; without one, the offset after the last record.
    ///
    /// # Errors
    /// If the topic is missing, or the brokers do not answer.
    pub fn offsets_at(&self, topic: &str, milliseconds: i64) -> Result<Vec<i64>, BusError> {
        let found = self.look_up(topic, Offset::Offset(milliseconds.max(0)))?;
        let ends = self.look_up(topic, Offset::End)?;
        Ok(found
            .into_iter()
            .zip(ends)
            .map(|(found, end)| found.or(end).unwrap_or_default())
            .collect())
    }

    /// Kafka's request has the time in the field of the offset.
    fn look_up(&self, topic: &str, time: Offset) -> Result<Vec<Option<i64>>, BusError> {
        let partitions = self
            .partitions(topic)?
            .ok_or_else(|| BusError::NoTopic(topic.to_owned()))?;
        let doing = || format!("offsets of topic `{topic}`");
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, time)
                .map_err(|e| self.explain(&e, doing))?;
        }
        let begun = Instant::now();
        loop {
            let answer = self.consumer.offsets_for_times(list.clone(), self.timeout);
            match answer.and_then(|answer| offsets(&answer)) {
                // Another broker will become the leader.
                Err(error) if is_passing(&error) && begun.elapsed() < self.timeout => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                // A new topic is not known to all brokers yet; a deleted one will be known to none.
                Err(error) if is_unknown(&error) && begun.elapsed() < self.timeout => {
                    std::thread::sleep(Duration::from_millis(100));
                    self.partitions(topic)?
                        .ok_or_else(|| BusError::NoTopic(topic.to_owned()))?;
                }
                answer => return answer.map_err(|e| self.explain(&e, doing)),
            }
        }
    }

    fn metadata(&self, topic: Option<&str>) -> Result<Metadata, BusError> {
        let answer = self.consumer.fetch_metadata(topic, self.timeout);
        answer.map_err(|e| self.explain(&e, || "the brokers' topics".to_owned()))
    }

    /// A new topic is reported before its partitions can be used.
    fn wait_for_leaders(&self, topic: &str, partitions: i32) -> Result<(), BusError> {
        let begun = Instant::now();
        loop {
            let metadata = self.metadata(Some(topic))?;
            let told = found(&metadata, topic).map_or(&[][..], MetadataTopic::partitions);
            let ready = told
                .iter()
                .filter(|partition| partition.leader() >= 0)
                .count();
            if ready as i32 >= partitions {
                return Ok(());
            }
            if begun.elapsed() > self.timeout {
                let reason = format!("{ready} of {partitions} partitions have a leader");
                return Err(BusError::Refused {
                    doing: format!("topic `{topic}`"),
                    reason,
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Created for each change: changes are rare, and a client has a thread.
    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, BusError> {
        self.kafka
            .config()
            .create()
            .map_err(|e| self.kafka.explain(&e))
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(self.timeout))
            .operation_timeout(Some(self.timeout))
    }

    /// Result of a change to one topic; `None`: done.
    fn outcome(
        &self,
        results: KafkaResult<Vec<TopicResult>>,
        doing: impl Fn() -> String,
    ) -> Result<Option<RDKafkaErrorCode>, BusError> {
        let results = results.map_err(|e| self.explain(&e, doing))?;
        Ok(results
            .into_iter()
            .find_map(|result| result.err().map(|(_, code)| code)))
    }

    fn explain(&self, error: &KafkaError, doing: impl Fn() -> String) -> BusError {
        explain(&self.kafka, &self.consumer, error, doing)
    }

    fn refused(&self, doing: String, code: &RDKafkaErrorCode) -> BusError {
        BusError::Refused {
            doing,
            reason: code.to_string(),
        }
    }
}

/// Transient errors after the failure of a broker, until others have taken over.
fn is_passing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::BrokerDestroy
                | Code::DestroyBroker
                | Code::BrokerTransportFailure
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition
                | Code::ReplicaNotAvailable
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
                | Code::OffsetNotAvailable
        )
    )
}

fn is_unknown(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition)
    )
}

/// Offsets in the order of partitions.
pub(crate) fn offsets(list: &TopicPartitionList) -> KafkaResult<Vec<Option<i64>>> {
    let offset = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
        element.error()?;
        Ok(match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        })
    };
    let mut elements = list.elements();
    elements.sort_by_key(|element| element.partition());
    elements.iter().map(offset).collect()
}

fn found<'a>(metadata: &'a Metadata, topic: &str) -> Option<&'a MetadataTopic> {
    metadata.topics().iter().find(|told| told.name() == topic)
}

/// The error of a request: no answer, or the answer's error.
pub(crate) fn explain(
    kafka: &Kafka,
    consumer: &BaseConsumer<ReaderContext>,
    error: &KafkaError,
    doing: impl Fn() -> String,
) -> BusError {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        None
        | Some(
            Code::BrokerTransportFailure
            | Code::OperationTimedOut
            | Code::AllBrokersDown
            | Code::Resolve,
        ) => kafka.unreachable(listen(consumer)),
        Some(code) => BusError::Refused {
            doing: doing(),
            reason: code.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_starts_again_is_waited_for() {
        use RDKafkaErrorCode as Code;
        // Retriable errors of ListOffsets in Kafka's protocol guide: 5, 6, 9, 74, 75, 78.
        let retriable = [
            Code::LeaderNotAvailable,
            Code::NotLeaderForPartition,
            Code::ReplicaNotAvailable,
            Code::FencedLeaderEpoch,
            Code::UnknownLeaderEpoch,
            Code::OffsetNotAvailable,
        ];
        assert!(
            retriable
                .iter()
                .all(|code| is_passing(&KafkaError::OffsetFetch(*code)))
        );
        assert!(!is_passing(&KafkaError::OffsetFetch(
            Code::TopicAuthorizationFailed
        )));
    }
}
