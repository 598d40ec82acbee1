//! Rows as records of a Kafka topic, one each: lines of `--format jsonl`, with the name of the query or job as key and
//! header, and an identifier that stays the same when a row is sent again. Rows count as sent when brokers have
//! acknowledged them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bus::{
    BY_KEY, BusError, Kafka, NewTopic, Producer, ProducerConfig, ProducerTarget, TopicAdmin,
};

use crate::address::OutletAddress;
use crate::worker::{DeliveryFault, OutletMessage, OutletTransport, RowIdentity};

/// Default topic.
pub const TOPIC: &str = "netalytics.results";

/// Maximum length of a topic name in Kafka.
const NAME_MAX: usize = 249;

/// See the module documentation.
pub struct KafkaOutlet {
    kafka: Kafka,
    topic: String,
    wanted: NewTopic,
    /// Name of the query or job.
    of: String,
    run: u64,
    client: Option<KafkaClient>,
}

/// A producer, and the last message passed to it.
struct KafkaClient {
    producer: Producer,
    target: ProducerTarget,
    sent: Option<KafkaDelivery>,
}

/// A message passed to the producer.
struct KafkaDelivery {
    number: u64,
    /// Number of records rejected before the message.
    refused_before: u64,
}

impl KafkaOutlet {
    /// An outlet to this address, without a connection.
    ///
    /// # Errors
    /// A message.
    pub fn new(address: &OutletAddress, rows: &RowIdentity) -> Result<KafkaOutlet, String> {
        let path = address.text("properties-file", "");
        let text = match path {
            "" => String::new(),
            path => std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {path}: {error}"))?,
        };
        let kafka = Kafka::new(&address.authority(), bus::properties_in(&text));
        let seconds = address.options.iter().any(|(name, _)| name == "keep");
        let seconds = seconds.then(|| address.number("keep", 1)).transpose()?;
        let partitions = address.number("partitions", 1)?;
        let wanted = NewTopic {
            partitions: i32::try_from(partitions)
                .map_err(|_| format!("partitions={partitions} is too many"))?,
            replication: None,
            retention: seconds.map(Duration::from_secs),
            settings: Vec::new(),
        };
        Ok(KafkaOutlet {
            kafka: kafka.map_err(|why| why.to_string())?,
            topic: topic(address.path.reveal())?,
            wanted,
            of: address.text("name", &rows.of).to_owned(),
            run: rows.run,
            client: None,
        })
    }

    /// Creates the topic if missing, and a producer for it.
    fn open(&self, patience: Duration) -> Result<KafkaClient, BusError> {
        let there = TopicAdmin::connect(&self.kafka, patience)?;
        if there.partitions(&self.topic)?.is_none() {
            there.create(&self.topic, &self.wanted)?;
        }
        // Only one message is in transit at a time, which limits the queue.
        let config = ProducerConfig {
            bytes_max: u64::MAX,
            ..ProducerConfig::default()
        };
        let mut producer = Producer::new(&self.kafka, config, Arc::new(AtomicBool::new(false)))?;
        let target = producer.target(&self.topic, BY_KEY);
        Ok(KafkaClient {
            producer,
            target,
            sent: None,
        })
    }

    /// Passes a message to the producer unless done before, and waits for all acknowledgments; returns the number of
    /// rejected rows.
    fn try_send(&mut self, message: &OutletMessage, patience: Duration) -> Result<u64, BusError> {
        // An abandoned message must not arrive later.
        let is_another = |client: &KafkaClient| {
            client
                .sent
                .as_ref()
                .is_some_and(|sent| sent.number != message.number)
                && client.producer.counters().in_flight > 0
        };
        if self.client.as_ref().is_some_and(is_another) {
            self.client = None;
        }
        let mut client = match self.client.take() {
            Some(client) => client,
            // Half of the time, so that an unreachable broker is reported in time.
            None => self.open(patience / 2)?,
        };
        let before = match client.sent {
            Some(KafkaDelivery {
                number,
                refused_before,
            }) if number == message.number => refused_before,
            _ => {
                let refused_before = client.producer.counters().dropped();
                self.hand_over(&client, message)?;
                client.sent = Some(KafkaDelivery {
                    number: message.number,
                    refused_before,
                });
                refused_before
            }
        };
        let flushed = client.producer.flush(patience);
        // Unacknowledged records may be acknowledged later; other failures are final.
        if matches!(flushed, Err(BusError::NotFlushed { .. })) {
            self.client = Some(client);
            return flushed.map(|()| 0);
        }
        flushed?;
        let refused = client.producer.counters().dropped() - before;
        client.sent = None;
        self.client = Some(client);
        Ok(refused)
    }

    fn hand_over(&self, client: &KafkaClient, message: &OutletMessage) -> Result<(), BusError> {
        let rows = message
            .body
            .bytes()
            .split(|byte| *byte == b'\n')
            .filter(|row| !row.is_empty());
        for (place, row) in rows.enumerate() {
            let id = format!("{:016x}-{}-{place}", self.run, message.number);
            let headers = [("job", self.of.as_str()), ("id", &id)];
            client
                .producer
                .send_with(client.target, Some(self.of.as_bytes()), &headers, row)?;
        }
        Ok(())
    }
}

impl OutletTransport for KafkaOutlet {
    fn send(&mut self, message: &OutletMessage, patience: Duration) -> Result<(), DeliveryFault> {
        match self.try_send(message, patience) {
            Ok(0) => Ok(()),
            Ok(refused) => {
                let trouble = self.client.as_ref().map(|client| client.producer.trouble());
                let why = trouble.unwrap_or_default();
                Err(DeliveryFault::Partly(
                    refused,
                    format!("the brokers refused records: {why}"),
                ))
            }
            Err(error) => Err(DeliveryFault::Passing(error.to_string())),
        }
    }
}

/// Topic named by a path.
fn topic(path: &str) -> Result<String, String> {
    let name = path.strip_prefix('/').unwrap_or(path);
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name {
        "" => Ok(TOPIC.to_owned()),
        "." | ".." => Err(format!("{name} is not a topic name")),
        name if name.len() <= NAME_MAX && name.chars().all(is_legal) => Ok(name.to_owned()),
        name => Err(format!(
            "{name:?} is not a topic name, which consists of letters, digits, ., _, and -"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_have_names() {
        for (path, expected) in [
            ("", Some(TOPIC)),
            ("/", Some(TOPIC)),
            ("/shop.results-1_a", Some("shop.results-1_a")),
            ("/..", None),
            ("/a/b", None),
            ("/ä", None),
        ] {
            assert_eq!(topic(path).ok().as_deref(), expected, "{path}");
        }
    }
}
