//! Reads partitions, each from its own offset, in the order selected by the caller: every partition has a queue limited
//! in bytes, so that others wait at the broker. Only committed records are read. Unreachable brokers are waited for; a
//! deleted topic is an error.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::kafka::ReaderContext;
use crate::{BusError, Kafka, NextRecord, PartitionEnd, PartitionRange};

/// A record, valid until the next call of the reader.
#[derive(Debug)]
pub struct KafkaRecord<'a>(BorrowedMessage<'a>);

impl KafkaRecord<'_> {
    /// Offset in the partition.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.0.offset()
    }

    /// Payload; empty for a deleted key.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.0.payload().unwrap_or_default()
    }

    /// Key, if any.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    /// Time of the write, in milliseconds since 1970.
    #[must_use]
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.0.timestamp().to_millis()
    }
}

/// Reads partitions.
pub struct PartitionReader {
    // Queues are dropped before their consumer.
    lanes: Vec<AssignedPartition>,
    kafka: Kafka,
    prefetch_bytes: usize,
    consumer: Arc<BaseConsumer<ReaderContext>>,
    woken: Arc<ReaderWakeup>,
    polls: u32,
}

struct AssignedPartition {
    part: PartitionRange,
    queue: PartitionQueue<ReaderContext>,
    /// Offset after the last record read.
    position: i64,
    state: PartitionState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartitionState {
    Reading,
    /// The log is long enough, and is read to its end once more: new records come after the range.
    Confirming,
    Over,
}

/// Whether an event occurred since the last check.
#[derive(Default)]
struct ReaderWakeup {
    is_woken: Mutex<bool>,
    bell: Condvar,
}

impl PartitionReader {
    /// A reader without partitions. Up to `prefetch_bytes` of each partition are prefetched, plus one response of a
    /// broker.
    ///
    /// # Errors
    /// If no client can be created.
    pub fn new(kafka: &Kafka, prefetch_bytes: usize) -> Result<PartitionReader, BusError> {
        let mut config = kafka.config();
        config
            // Partitions are assigned explicitly; the library requires a group name, although no member joins it.
            .set(
                "group.id",
                config.get("group.id").unwrap_or("netalytics").to_owned(),
            )
            .set("allow.auto.create.topics", "false")
            .set("auto.offset.reset", "error")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_committed")
            .set("fetch.queue.backoff.ms", "5")
            .set(
                "queued.max.messages.kbytes",
                (prefetch_bytes / 1024).clamp(1, 2_097_151).to_string(),
            );
        let consumer = config
            .create_with_context(ReaderContext::default())
            .map_err(|e| kafka.explain(&e))?;
        let woken = Arc::new(ReaderWakeup::default());
        let lanes = Vec::new();
        let kafka = kafka.clone();
        let consumer = Arc::new(consumer);
        Ok(PartitionReader {
            lanes,
            kafka,
            prefetch_bytes,
            consumer,
            woken,
            polls: 0,
        })
    }

    /// Starts reading a partition. Returns its number, the count of parts added before.
    ///
    /// # Errors
    /// If the partition cannot be read.
    pub fn add(&mut self, part: PartitionRange) -> Result<usize, BusError> {
        // Split first, so that no record goes to the consumer's queue.
        let queue = self
            .consumer
            .split_partition_queue(&part.topic, part.partition);
        let mut queue = queue.ok_or_else(|| BusError::NoTopic(part.topic.clone()))?;
        let woken = self.woken.clone();
        queue.set_nonempty_callback(move || woken.ring());
        let mut assigned = TopicPartitionList::new();
        let offset = Offset::Offset(part.from);
        let added = assigned.add_partition_offset(&part.topic, part.partition, offset);
        added
            .and_then(|()| self.consumer.incremental_assign(&assigned))
            .map_err(|e| BusError::Refused {
                doing: format!("topic `{}`, partition {}", part.topic, part.partition),
                reason: e.to_string(),
            })?;
        let is_over = matches!(part.until, PartitionEnd::Offset(end) if part.from >= end);
        let state = if is_over {
            PartitionState::Over
        } else {
            PartitionState::Reading
        };
        self.lanes.push(AssignedPartition {
            position: part.from,
            part,
            queue,
            state,
        });
        Ok(self.lanes.len() - 1)
    }

    /// A reader of the same parts from the current positions.
    ///
    /// # Errors
    /// As [`PartitionReader::new`] and [`PartitionReader::add`].
    pub fn of_the_rest(&self) -> Result<PartitionReader, BusError> {
        let mut rest = PartitionReader::new(&self.kafka, self.prefetch_bytes)?;
        for AssignedPartition { part, position, .. } in &self.lanes {
            rest.add(PartitionRange {
                from: *position,
                until: PartitionEnd::End,
                ..part.clone()
            })?;
        }
        Ok(rest)
    }

    /// Parts in the order they were added.
    pub fn parts(&self) -> impl Iterator<Item = &PartitionRange> {
        self.lanes.iter().map(|lane| &lane.part)
    }

    /// Offset after the last record read of a part.
    ///
    /// # Panics
    /// If there is no such part, which is a bug of the caller.
    #[must_use]
    pub fn position(&self, part: usize) -> i64 {
        self.lanes[part].position
    }

    /// Last connection error reported by the client, for messages.
    #[must_use]
    pub fn trouble(&self) -> String {
        self.consumer.context().trouble.reason()
    }

    /// Checks whether a broker answers.
    ///
    /// # Errors
    /// `BusError::Unreachable` if none answers in time.
    pub fn is_answered(&self, limit: Duration) -> Result<(), BusError> {
        let topic = self.lanes.first().map(|lane| lane.part.topic.as_str());
        let answer = self.consumer.fetch_metadata(topic, limit);
        answer
            .map(drop)
            .map_err(|_| self.kafka.unreachable(&self.consumer.context().trouble))
    }

    /// The next record of a part; waits up to `wait`.
    ///
    /// # Errors
    /// If its topic, or its first record, was deleted.
    ///
    /// # Panics
    /// If there is no such part: a bug of the caller.
    pub fn next(
        &mut self,
        part: usize,
        wait: Duration,
    ) -> Result<NextRecord<KafkaRecord<'_>>, BusError> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(64) {
            tend(&self.consumer);
        }
        let PartitionReader {
            lanes,
            consumer,
            kafka,
            ..
        } = self;
        let lane = &mut lanes[part];
        if lane.state == PartitionState::Over {
            return Ok(NextRecord::Over);
        }
        let polled = match lane.queue.poll(Duration::ZERO) {
            None if !wait.is_zero() => {
                tend(consumer);
                lane.queue.poll(wait)
            }
            polled => polled,
        };
        match polled {
            None => Ok(NextRecord::Nothing),
            Some(Ok(message)) => {
                lane.position = message.offset() + 1;
                if let PartitionEnd::Offset(end) = lane.part.until {
                    if lane.position >= end {
                        lane.state = PartitionState::Over;
                    }
                    if message.offset() >= end {
                        return Ok(NextRecord::Over);
                    }
                }
                Ok(NextRecord::Record(KafkaRecord(message)))
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {
                lane.state = match (lane.part.until, lane.state) {
                    (PartitionEnd::End, _)
                    | (PartitionEnd::Offset(_), PartitionState::Confirming) => PartitionState::Over,
                    (PartitionEnd::Offset(end), _) => lane.look_behind(consumer, end),
                    (PartitionEnd::Forever, state) => state,
                };
                Ok(match lane.state {
                    PartitionState::Over => NextRecord::Over,
                    PartitionState::Reading => NextRecord::CaughtUp,
                    PartitionState::Confirming => NextRecord::Nothing,
                })
            }
            Some(Err(error)) => {
                failure(kafka, &lane.part, &error).map_or(Ok(NextRecord::Nothing), Err)
            }
        }
    }

    /// Waits up to `wait` until a part has records. No wakeup is missed if all parts were queried before.
    pub fn wait(&mut self, wait: Duration) {
        tend(&self.consumer);
        self.woken.wait(wait);
    }
}

/// Processes the client's own events, besides those of partitions.
fn tend(consumer: &BaseConsumer<ReaderContext>) {
    while consumer.poll(Duration::ZERO).is_some() {}
}

impl ReaderWakeup {
    fn ring(&self) {
        *self.is_woken.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.bell.notify_all();
    }

    fn wait(&self, wait: Duration) {
        let woken = self.is_woken.lock().unwrap_or_else(|e| e.into_inner());
        let waited = self.bell.wait_timeout_while(woken, wait, |woken| !*woken);
        *waited.unwrap_or_else(|e| e.into_inner()).0 = false;
    }
}

/// Timeout of the query for a partition's end.
const ASK: Duration = Duration::from_secs(5);

impl AssignedPartition {
    /// Called at the log's end before the part's end: either records are still to be written, or invisible transaction
    /// markers follow. If the log is long enough, its end is searched again from the last record on: the rest consists
    /// of markers.
    fn look_behind(&self, consumer: &BaseConsumer<ReaderContext>, end: i64) -> PartitionState {
        let PartitionRange {
            topic, partition, ..
        } = &self.part;
        let at = Offset::Offset(self.position);
        let now = Duration::ZERO;
        match consumer.fetch_watermarks(topic, *partition, ASK) {
            Ok((_, there)) if there >= end && consumer.seek(topic, *partition, at, now).is_ok() => {
                PartitionState::Confirming
            }
            _ => PartitionState::Reading,
        }
    }
}

/// Converts permanent errors.
fn failure(kafka: &Kafka, part: &PartitionRange, error: &KafkaError) -> Option<BusError> {
    use RDKafkaErrorCode as Code;
    let place = || format!("topic `{}`, partition {}", part.topic, part.partition);
    match error.rdkafka_error_code()? {
        Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition
        | Code::UnknownTopicId => Some(BusError::NoTopic(part.topic.clone())),
        code @ (Code::AutoOffsetReset | Code::OffsetOutOfRange) => Some(BusError::Gone {
            topic: part.topic.clone(),
            partition: part.partition,
            reason: code.to_string(),
        }),
        code @ (Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::Fatal) => Some(BusError::Refused {
            doing: place(),
            reason: format!("{code} ({})", kafka.servers()),
        }),
        _ => None,
    }
}

impl std::fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at: BTreeMap<_, _> = self
            .lanes
            .iter()
            .map(|lane| ((&lane.part.topic, lane.part.partition), lane.position))
            .collect();
        f.debug_struct("Reader")
            .field("kafka", &self.kafka)
            .field("at", &at)
            .finish()
    }
}
