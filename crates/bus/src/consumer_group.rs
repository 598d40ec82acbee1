//! Progress of a consumer group, from its committed offsets.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::kafka::ReaderContext;
use crate::topics::{explain, offsets};
use crate::{BusError, Kafka};

/// A consumer group; Flink commits its offsets with each checkpoint.
pub struct ConsumerGroup {
    kafka: Kafka,
    timeout: Duration,
    consumer: BaseConsumer<ReaderContext>,
}

impl ConsumerGroup {
    /// Opens the group of that name without joining it.
    ///
    /// # Errors
    /// `BusError` if the client cannot be created.
    pub fn new(kafka: &Kafka, group: &str, timeout: Duration) -> Result<ConsumerGroup, BusError> {
        let mut config = kafka.config();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("allow.auto.create.topics", "false");
        let consumer = config
            .create_with_context(ReaderContext::default())
            .map_err(|e| kafka.explain(&e))?;
        Ok(ConsumerGroup {
            kafka: kafka.clone(),
            timeout,
            consumer,
        })
    }

    /// Per partition of the topic, the committed offset of the group; `None`: none.
    ///
    /// # Errors
    /// If the brokers do not answer.
    pub fn committed(&self, topic: &str, partitions: i32) -> Result<Vec<Option<i64>>, BusError> {
        let doing = || format!("progress in topic `{topic}`");
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition(topic, partition);
        }
        let answer = self.consumer.committed_offsets(list, self.timeout);
        answer
            .and_then(|list| offsets(&list))
            .map_err(|e| explain(&self.kafka, &self.consumer, &e, doing))
    }
}
