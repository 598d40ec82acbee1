//! Sends records to Kafka: each once and in order, in batches, compressed, and with bounded memory. While brokers are
//! unreachable it buffers records up to the limit; then its caller waits, or records are dropped and counted. Records
//! never time out: once brokers are back, all buffered ones arrive.

mod client;
mod in_flight;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};

use crate::producer_config::{OverflowPolicy, ProducerConfig, ProducerCounters};
use crate::{BY_KEY, BusError, Kafka, ProducerTarget, SendResult, sys};
use avro::AvroRecords;

use client::DeliveryCallbacks;
use in_flight::TargetQueue;

/// Sends records.
pub struct Producer {
    kafka: Kafka,
    config: ProducerConfig,
    stop: Arc<AtomicBool>,
    begun: Instant,
    client: ThreadedProducer<DeliveryCallbacks>,
    told: Arc<DeliveryCallbacks>,
    targets: Vec<TargetState>,
}

struct TargetState {
    topic: String,
    partition: i32,
    queue: Arc<TargetQueue>,
    /// Number of the queue.
    number: usize,
}

type Record<'a> = BaseRecord<'a, [u8], [u8], usize>;

/// Maximum records counted at once.
const AT_ONCE: usize = 256;

/// Interval at which a waiting sender checks for a stop.
const LOOK: Duration = Duration::from_millis(10);

impl Producer {
    /// A producer; the brokers need not be reachable yet. Waiting senders return when `stop` is set.
    ///
    /// # Errors
    /// If no client can be created.
    pub fn new(
        kafka: &Kafka,
        config: ProducerConfig,
        stop: Arc<AtomicBool>,
    ) -> Result<Producer, BusError> {
        let client = client::start(kafka, &config)?;
        let told = client.client().context().clone();
        let kafka = kafka.clone();
        let begun = Instant::now();
        Ok(Producer {
            kafka,
            config,
            stop,
            begun,
            client,
            told,
            targets: Vec::new(),
        })
    }

    /// Registers a partition to write to, or [`BY_KEY`]; it should exist.
    pub fn target(&mut self, topic: &str, partition: i32) -> ProducerTarget {
        let queue = Arc::new(TargetQueue::new(partition == BY_KEY));
        let number = self.told.add(queue.clone());
        self.targets.push(TargetState {
            topic: topic.to_owned(),
            partition,
            queue,
            number,
        });
        ProducerTarget(number)
    }

    /// Sends records without keys, in order.
    ///
    /// # Errors
    /// If the topic was deleted, the client is unusable, or it was stopped while waiting; records before the failed one
    /// are accepted and counted.
    ///
    /// # Panics
    /// If the target belongs to another producer, which is a bug of the caller.
    pub fn send_all(
        &self,
        target: ProducerTarget,
        records: &AvroRecords,
    ) -> Result<SendResult, BusError> {
        let mut all = SendResult::default();
        let mut rest = records.iter();
        while rest.len() > 0 {
            let some = rest.clone().take(AT_ONCE);
            let count = some.len();
            let bytes = some.clone().map(<[u8]>::len).sum();
            if self.room(count, bytes)? {
                self.hand_over(&self.targets[target.0], some, &mut all)?;
            } else {
                for record in some {
                    let one = self.send(target, None, record)?;
                    all.taken += one.taken;
                    all.dropped += one.dropped;
                }
            }
            rest.nth(count - 1);
        }
        Ok(all)
    }

    /// Sends records for which there is space.
    fn hand_over<'a>(
        &self,
        to: &TargetState,
        records: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
        all: &mut SendResult,
    ) -> Result<(), BusError> {
        to.queue.hand_over(records.len(), self.begun.elapsed());
        let refused = sys::produce(
            &self.client,
            &to.topic,
            to.partition,
            to.number,
            records.clone(),
        );
        let mut taken = (0, 0);
        let mut outcome = Ok(());
        for (payload, refused) in records.zip(refused) {
            let is_taken = match refused {
                None => Ok(true),
                // The rest is full, too: the order is kept.
                Some(RDKafkaErrorCode::QueueFull) if outcome.is_ok() => {
                    self.give(to, payload, |record| record)
                }
                Some(code) => self.refused(to, payload.len(), &KafkaError::MessageProduction(code)),
            };
            match is_taken {
                Ok(true) => taken = (taken.0 + 1, taken.1 + payload.len()),
                Ok(false) => all.dropped += 1,
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        self.told.taken(taken.0, taken.1);
        all.taken += taken.0 as u64;
        outcome
    }

    /// Sends a record.
    ///
    /// # Errors
    /// If the topic was deleted, the client is unusable, or it was stopped while waiting.
    ///
    /// # Panics
    /// If the target belongs to another producer, which is a bug of the caller.
    pub fn send(
        &self,
        target: ProducerTarget,
        key: Option<&[u8]>,
        payload: &[u8],
    ) -> Result<SendResult, BusError> {
        self.send_with(target, key, &[], payload)
    }

    /// Sends a record with headers.
    ///
    /// # Errors
    /// If the topic was deleted, the client is unusable, or it was stopped while waiting.
    ///
    /// # Panics
    /// If the target belongs to another producer, which is a bug of the caller.
    pub fn send_with(
        &self,
        target: ProducerTarget,
        key: Option<&[u8]>,
        headers: &[(&str, &str)],
        payload: &[u8],
    ) -> Result<SendResult, BusError> {
        let to = &self.targets[target.0];
        let bytes = payload.len() + key.map_or(0, <[u8]>::len);
        if !self.room(1, bytes)? {
            self.told.dropped_full.fetch_add(1, Ordering::Relaxed);
            return Ok(SendResult {
                taken: 0,
                dropped: 1,
            });
        }
        to.queue.hand_over(1, self.begun.elapsed());
        let is_taken = self.give(to, payload, |mut record| {
            record.key = key;
            record.headers = (!headers.is_empty()).then(|| {
                let add = |all: OwnedHeaders, (key, value): &(&str, &str)| {
                    all.insert(Header {
                        key,
                        value: Some(*value),
                    })
                };
                headers
                    .iter()
                    .fold(OwnedHeaders::new_with_capacity(headers.len()), add)
            });
            record
        })?;
        if !is_taken {
            return Ok(SendResult {
                taken: 0,
                dropped: 1,
            });
        }
        self.told.taken(1, bytes);
        Ok(SendResult {
            taken: 1,
            dropped: 0,
        })
    }

    /// Passes a record to the client; returns false if it was dropped and counted. A rejected record releases its
    /// space.
    fn give<'a>(
        &self,
        to: &'a TargetState,
        payload: &'a [u8],
        with: impl FnOnce(Record<'a>) -> Record<'a>,
    ) -> Result<bool, BusError> {
        let record = Record::with_opaque_to(&to.topic, to.number);
        let mut record = with(record.partition(to.partition).payload(payload));
        let bytes = payload.len() + record.key.map_or(0, <[u8]>::len);
        loop {
            let Err((error, again)) = self.client.send(record) else {
                return Ok(true);
            };
            // The client has its own, larger limits.
            if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
                && !self.stop.load(Ordering::Relaxed)
            {
                record = again;
                std::thread::sleep(LOOK);
                continue;
            }
            return self.refused(to, bytes, &error);
        }
    }

    /// Releases the space of a record rejected by the client; returns false if it was dropped and counted.
    fn refused(
        &self,
        to: &TargetState,
        bytes: usize,
        error: &KafkaError,
    ) -> Result<bool, BusError> {
        to.queue.take_back(1);
        self.told.memory.take_back(1, bytes);
        self.not_taken(to, error).map(|()| false)
    }

    /// Waits up to `limit` until every record is acknowledged or rejected.
    ///
    /// # Errors
    /// If a record is not acknowledged in time; the producer continues. Also if the topic was deleted.
    pub fn flush(&self, limit: Duration) -> Result<(), BusError> {
        let deadline = Instant::now() + limit;
        // Not by the client's own flush, which also handles acknowledgments: with two threads their order is undefined.
        let mut in_flight = self.counters().in_flight;
        while in_flight > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            in_flight = self.counters().in_flight;
        }
        self.told.check(&self.kafka)?;
        if in_flight == 0 {
            return Ok(());
        }
        let servers = self.kafka.servers().to_owned();
        Err(BusError::NotFlushed {
            records: in_flight,
            servers,
            reason: self.told.trouble.reason(),
        })
    }

    /// Current counters.
    #[must_use]
    pub fn counters(&self) -> ProducerCounters {
        let mut counters = self.told.counters();
        let now = self.begun.elapsed();
        for to in &self.targets {
            let (count, since) = to.queue.waiting();
            counters.in_flight += count;
            counters.oldest = counters
                .oldest
                .max(since.map(|since| now.saturating_sub(since)));
        }
        counters
    }

    /// Offset after the last acknowledged record of a target; `None`: none.
    ///
    /// # Panics
    /// If the target belongs to another producer, which is a bug of the caller.
    #[must_use]
    pub fn end(&self, target: ProducerTarget) -> Option<i64> {
        self.targets[target.0].queue.end()
    }

    /// Limit of unacknowledged records, in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.config.bytes_max
    }

    /// Last connection error of the client, or reason of rejected records.
    #[must_use]
    pub fn trouble(&self) -> String {
        self.told.trouble.reason()
    }

    /// Reserves space for records; returns false if there is none and the producer does not wait, or never for several
    /// at once.
    fn room(&self, records: usize, bytes: usize) -> Result<bool, BusError> {
        self.told.check(&self.kafka)?;
        loop {
            if self
                .told
                .memory
                .reserve(records, bytes, self.config.bytes_max)
            {
                return Ok(true);
            }
            match self.config.away {
                OverflowPolicy::Drop => return Ok(false),
                OverflowPolicy::Block
                    if records > 1 && in_flight::taken(records, bytes) > self.config.bytes_max =>
                {
                    return Ok(false);
                }
                OverflowPolicy::Block if self.stop.load(Ordering::Relaxed) => {
                    return Err(BusError::Stopped(self.kafka.servers().to_owned()));
                }
                OverflowPolicy::Block => {
                    std::thread::sleep(LOOK);
                    self.told.check(&self.kafka)?;
                }
            }
        }
    }

    fn not_taken(&self, to: &TargetState, error: &KafkaError) -> Result<(), BusError> {
        use RDKafkaErrorCode as Code;
        match error.rdkafka_error_code() {
            Some(Code::MessageSizeTooLarge) => {
                self.told.dropped_too_large.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Some(Code::QueueFull) => Err(BusError::Stopped(self.kafka.servers().to_owned())),
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
                Err(BusError::NoTopic(to.topic.clone()))
            }
            _ => {
                self.told.check(&self.kafka)?;
                let doing = format!("topic `{}`, partition {}", to.topic, to.partition);
                Err(BusError::Refused {
                    doing,
                    reason: error.to_string(),
                })
            }
        }
    }
}
