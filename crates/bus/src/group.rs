//! Progress of others: how far a consumer group has come, as it tells the brokers.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::kafka::Context;
use crate::topics::{explain, offsets};
use crate::{Error, Kafka};

/// A consumer group; Flink tells the brokers of its progress with each checkpoint.
pub struct Group {
    kafka: Kafka,
    timeout: Duration,
    consumer: BaseConsumer<Context>,
}

impl Group {
    /// The group of that name; it is not joined.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn new(kafka: &Kafka, group: &str, timeout: Duration) -> Result<Group, Error> {
        let mut config = kafka.config();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("allow.auto.create.topics", "false");
        let consumer = config.create_with_context(Context::default()).map_err(|e| kafka.explain(&e))?;
        Ok(Group { kafka: kafka.clone(), timeout, consumer })
    }

    /// Per partition of the topic, the committed offset of the group; `None`: none.
    ///
    /// # Errors
    /// If the brokers do not answer.
    pub fn committed(&self, topic: &str, partitions: i32) -> Result<Vec<Option<i64>>, Error> {
        let doing = || format!("progress in topic `{topic}`");
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition(topic, partition);
        }
        let answer = self.consumer.committed_offsets(list, self.timeout);
        answer.and_then(|list| offsets(&list)).map_err(|e| explain(&self.kafka, &self.consumer, &e, doing))
    }
}
