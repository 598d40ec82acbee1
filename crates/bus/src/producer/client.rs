//! Configuration and callbacks of librdkafka's producer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{ProducerContext, ThreadedProducer};

use super::in_flight::{AcknowledgedCounts, InFlightMemory, TargetQueue};
use crate::kafka::ConnectionTrouble;
use crate::producer_config::{
    BatchCompression, ProducerConfig, ProducerCounters, RECORD_BYTES_MAX,
};
use crate::{BusError, Kafka};

/// Starts a client, and its thread that handles acknowledgments.
pub fn start(
    kafka: &Kafka,
    config: &ProducerConfig,
) -> Result<ThreadedProducer<DeliveryCallbacks>, BusError> {
    let mut all = kafka.config();
    let default = |name: &str| kafka.properties().all(|(given, _)| given != name);
    for (name, value) in [
        ("linger.ms", config.linger.as_millis().to_string()),
        ("batch.num.messages", "100000".to_owned()),
        // The overhead of a record is less than the rest.
        (
            "message.max.bytes",
            (RECORD_BYTES_MAX - RECORD_BYTES_MAX / 64).to_string(),
        ),
        ("retry.backoff.ms", "100".to_owned()),
        ("statistics.interval.ms", "1000".to_owned()),
    ] {
        if default(name) {
            all.set(name, value);
        }
    }
    all.set(
        "compression.type",
        match config.compression {
            BatchCompression::Lz4 => "lz4",
            BatchCompression::Zstd => "zstd",
        },
    );
    all.set("enable.idempotence", "true")
        // A producer that gives up on a record has a gap in its sequence numbers and becomes unusable. The queue is
        // limited by this crate.
        .set("message.timeout.ms", "0")
        .set("queue.buffering.max.messages", "0")
        .set("queue.buffering.max.kbytes", "2147483647");
    all.create_with_context(DeliveryCallbacks::default())
        .map_err(|e| kafka.explain(&e))
}

/// State reported by the client's callbacks.
#[derive(Debug, Default)]
pub struct DeliveryCallbacks {
    pub trouble: ConnectionTrouble,
    pub memory: InFlightMemory,
    /// One per target.
    queues: RwLock<Vec<Arc<TargetQueue>>>,
    pub dropped_full: AtomicU64,
    pub dropped_too_large: AtomicU64,
    dropped_refused: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    acknowledged: AcknowledgedCounts,
    wire_bytes: AtomicU64,
    /// Name of a deleted topic.
    gone: OnceLock<String>,
    /// Reason of the first rejected record.
    refusal: OnceLock<String>,
}

/// Fields used of librdkafka's statistics.
#[derive(serde::Deserialize)]
struct ClientStatistics {
    tx_bytes: u64,
}

impl DeliveryCallbacks {
    /// Adds a queue; returns its number.
    pub fn add(&self, queue: Arc<TargetQueue>) -> usize {
        let mut queues = self.queues.write().unwrap_or_else(|e| e.into_inner());
        queues.push(queue);
        queues.len() - 1
    }

    /// Records were accepted, with this total size.
    pub fn taken(&self, records: usize, bytes: usize) {
        self.records.fetch_add(records as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Checks for permanent errors.
    pub fn check(&self, kafka: &Kafka) -> Result<(), BusError> {
        if let Some(topic) = self.gone.get() {
            return Err(BusError::NoTopic(topic.clone()));
        }
        match self.trouble.fatal() {
            Some(reason) => {
                let doing = format!("the producer to {} has failed permanently", kafka.servers());
                Err(BusError::Refused { doing, reason })
            }
            None => Ok(()),
        }
    }

    pub fn counters(&self) -> ProducerCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProducerCounters {
            records: read(&self.records),
            bytes: read(&self.bytes),
            acknowledged: self.acknowledged.records.read(),
            acknowledged_bytes: self.acknowledged.bytes.read(),
            wire_bytes: read(&self.wire_bytes),
            dropped_full: read(&self.dropped_full),
            dropped_too_large: read(&self.dropped_too_large),
            dropped_refused: read(&self.dropped_refused),
            refusal: self.refusal.get().cloned(),
            in_flight_bytes: self.memory.bytes(),
            ..ProducerCounters::default()
        }
    }

    fn refuse(&self, error: &KafkaError, topic: &str) {
        use RDKafkaErrorCode as Code;
        self.dropped_refused.fetch_add(1, Ordering::Relaxed);
        match error.rdkafka_error_code() {
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
                self.gone.get_or_init(|| topic.to_owned());
            }
            // The client is closed with records in its queue.
            Some(Code::PurgeQueue | Code::PurgeInflight) => {}
            Some(code) => {
                self.refusal.get_or_init(|| code.to_string());
                self.trouble
                    .note(error, &format!("topic `{topic}`: {code}"));
            }
            None => {}
        }
    }
}

impl ClientContext for DeliveryCallbacks {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.note(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if let Ok(told) = serde_json::from_slice::<ClientStatistics>(statistics) {
            self.wire_bytes.store(told.tx_bytes, Ordering::Relaxed);
        }
    }
}

impl ProducerContext for DeliveryCallbacks {
    /// Number of a queue.
    type DeliveryOpaque = usize;

    /// Called by the client's single thread for each record, in order.
    fn delivery(&self, result: &DeliveryResult<'_>, queue: usize) {
        let queues = self.queues.read().unwrap_or_else(|e| e.into_inner());
        let queue = &queues[queue];
        let message = match result {
            Ok(message) | Err((_, message)) => message,
        };
        let bytes = message.payload_len() + message.key_len();
        match result {
            Ok(message) => {
                // Brokers with automatic topic creation recreate a deleted one.
                if !queue.written(message.offset()) {
                    self.gone.get_or_init(|| message.topic().to_owned());
                }
                self.acknowledged.add(bytes as u64);
            }
            Err((error, message)) => self.refuse(error, message.topic()),
        }
        self.memory.settle(bytes);
        queue.settle();
    }
}
