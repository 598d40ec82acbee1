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

use crate::kafka::Context;
use crate::{Error, Kafka};

/// Range of a partition to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Offset of the first record; an error if it is no longer stored.
    pub from: i64,
    /// End.
    pub until: Until,
}

/// End of reading a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At the current end when the reader reaches it.
    End,
    /// Before this offset; waits for it.
    Offset(i64),
    /// Never: later records are read, too.
    Forever,
}

/// Next item of a partition.
#[derive(Debug)]
pub enum Next<'a> {
    /// A record.
    Record(Record<'a>),
    /// No record yet.
    Nothing,
    /// No record yet, and all existing ones were read; returned each time the reader reaches the end.
    CaughtUp,
    /// The end of the range.
    Over,
}

/// A record, valid until the next call of the reader.
#[derive(Debug)]
pub struct Record<'a>(BorrowedMessage<'a>);

impl Record<'_> {
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
pub struct Reader {
    // Queues are dropped before their consumer.
    lanes: Vec<Lane>,
    kafka: Kafka,
    prefetch_bytes: usize,
    consumer: Arc<BaseConsumer<Context>>,
    woken: Arc<Woken>,
    polls: u32,
}

struct Lane {
    part: Part,
    queue: PartitionQueue<Context>,
    /// Offset after the last record read.
    position: i64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The log is long enough, and is read to its end once more: new records come after the range.
    Confirming,
    Over,
}

/// Whether an event occurred since the last check.
#[derive(Default)]
struct Woken {
    is_woken: Mutex<bool>,
    bell: Condvar,
}

impl Reader {
    /// A reader without partitions. Up to `prefetch_bytes` of each partition are prefetched, plus one response of a
    /// broker.
    ///
    /// # Errors
    /// If no client can be created.
    pub fn new(kafka: &Kafka, prefetch_bytes: usize) -> Result<Reader, Error> {
        let mut config = kafka.config();
        config
            // Partitions are assigned explicitly; the library requires a group name, although no member joins it.
            .set("group.id", config.get("group.id").unwrap_or("netalytics").to_owned())
            .set("allow.auto.create.topics", "false")
            .set("auto.offset.reset", "error")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_committed")
            .set("fetch.queue.backoff.ms", "5")
            .set("queued.max.messages.kbytes", (prefetch_bytes / 1024).clamp(1, 2_097_151).to_string());
        let consumer = config.create_with_context(Context::default()).map_err(|e| kafka.explain(&e))?;
        let woken = Arc::new(Woken::default());
        let (lanes, kafka, consumer) = (Vec::new(), kafka.clone(), Arc::new(consumer));
        Ok(Reader { lanes, kafka, prefetch_bytes, consumer, woken, polls: 0 })
    }

    /// Starts reading a partition. Returns its number, the count of parts added before.
    ///
    /// # Errors
    /// If the partition cannot be read.
    pub fn add(&mut self, part: Part) -> Result<usize, Error> {
        // Split first, so that no record goes to the consumer's queue.
        let queue = self.consumer.split_partition_queue(&part.topic, part.partition);
        let mut queue = queue.ok_or_else(|| Error::NoTopic(part.topic.clone()))?;
        let woken = self.woken.clone();
        queue.set_nonempty_callback(move || woken.ring());
        let mut assigned = TopicPartitionList::new();
        let offset = Offset::Offset(part.from);
        let added = assigned.add_partition_offset(&part.topic, part.partition, offset);
        added.and_then(|()| self.consumer.incremental_assign(&assigned)).map_err(|e| Error::Refused {
            doing: format!("topic `{}`, partition {}", part.topic, part.partition),
            reason: e.to_string(),
        })?;
        let is_over = matches!(part.until, Until::Offset(end) if part.from >= end);
        let state = if is_over { State::Over } else { State::Reading };
        self.lanes.push(Lane { position: part.from, part, queue, state });
        Ok(self.lanes.len() - 1)
    }

    /// A reader of the same parts from the current positions.
    ///
    /// # Errors
    /// As [`Reader::new`] and [`Reader::add`].
    pub fn of_the_rest(&self) -> Result<Reader, Error> {
        let mut rest = Reader::new(&self.kafka, self.prefetch_bytes)?;
        for Lane { part, position, .. } in &self.lanes {
            rest.add(Part { from: *position, until: Until::End, ..part.clone() })?;
        }
        Ok(rest)
    }

    /// Parts in the order they were added.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
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
    /// `Error::Unreachable` if none answers in time.
    pub fn is_answered(&self, limit: Duration) -> Result<(), Error> {
        let topic = self.lanes.first().map(|lane| lane.part.topic.as_str());
        let answer = self.consumer.fetch_metadata(topic, limit);
        answer.map(drop).map_err(|_| self.kafka.unreachable(&self.consumer.context().trouble))
    }

    /// The next record of a part; waits up to `wait`.
    ///
    /// # Errors
    /// If its topic, or its first record, was deleted.
    ///
    /// # Panics
    /// If there is no such part: a bug of the caller.
    pub fn next(&mut self, part: usize, wait: Duration) -> Result<Next<'_>, Error> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(64) {
            tend(&self.consumer);
        }
        let Reader { lanes, consumer, kafka, .. } = self;
        let lane = &mut lanes[part];
        if lane.state == State::Over {
            return Ok(Next::Over);
        }
        let polled = match lane.queue.poll(Duration::ZERO) {
            None if !wait.is_zero() => {
                tend(consumer);
                lane.queue.poll(wait)
            }
            polled => polled,
        };
        match polled {
            None => Ok(Next::Nothing),
            Some(Ok(message)) => {
                lane.position = message.offset() + 1;
                if let Until::Offset(end) = lane.part.until {
                    if lane.position >= end {
                        lane.state = State::Over;
                    }
                    if message.offset() >= end {
                        return Ok(Next::Over);
                    }
                }
                Ok(Next::Record(Record(message)))
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {
                lane.state = match (lane.part.until, lane.state) {
                    (Until::End, _) | (Until::Offset(_), State::Confirming) => State::Over,
                    (Until::Offset(end), _) => lane.look_behind(consumer, end),
                    (Until::Forever, state) => state,
                };
                Ok(match lane.state {
                    State::Over => Next::Over,
                    State::Reading => Next::CaughtUp,
                    State::Confirming => Next::Nothing,
                })
            }
            Some(Err(error)) => failure(kafka, &lane.part, &error).map_or(Ok(Next::Nothing), Err),
        }
    }

    /// Waits up to `wait` until a part has records. No wakeup is missed if all parts were queried before.
    pub fn wait(&mut self, wait: Duration) {
        tend(&self.consumer);
        self.woken.wait(wait);
    }
}

/// Processes the client's own events, besides those of partitions.
fn tend(consumer: &BaseConsumer<Context>) {
    while consumer.poll(Duration::ZERO).is_some() {}
}

impl Woken {
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

impl Lane {
    /// Called at the log's end before the part's end: either records are still to be written, or invisible transaction
    /// markers follow. If the log is long enough, its end is searched again from the last record on: the rest consists
    /// of markers.
    fn look_behind(&self, consumer: &BaseConsumer<Context>, end: i64) -> State {
        let Part { topic, partition, .. } = &self.part;
        let (at, now) = (Offset::Offset(self.position), Duration::ZERO);
        match consumer.fetch_watermarks(topic, *partition, ASK) {
            Ok((_, there)) if there >= end && consumer.seek(topic, *partition, at, now).is_ok() => {
                State::Confirming
            }
            _ => State::Reading,
        }
    }
}

/// Converts permanent errors.
fn failure(kafka: &Kafka, part: &Part, error: &KafkaError) -> Option<Error> {
    use RDKafkaErrorCode as Code;
    let place = || format!("topic `{}`, partition {}", part.topic, part.partition);
    match error.rdkafka_error_code()? {
        Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition
        | Code::UnknownTopicId => Some(Error::NoTopic(part.topic.clone())),
        code @ (Code::AutoOffsetReset | Code::OffsetOutOfRange) => Some(Error::Gone {
            topic: part.topic.clone(),
            partition: part.partition,
            reason: code.to_string(),
        }),
        code @ (Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::Fatal) => {
            Some(Error::Refused { doing: place(), reason: format!("{code} ({})", kafka.servers()) })
        }
        _ => None,
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at: BTreeMap<_, _> =
            self.lanes.iter().map(|lane| ((&lane.part.topic, lane.part.partition), lane.position)).collect();
        f.debug_struct("Reader").field("kafka", &self.kafka).field("at", &at).finish()
    }
}
