//! Lanes: every publisher has its own partition of each of its topics, because Flink's watermarks are per partition.
//! The assignment is stored in [`TOPIC`], a compacted topic of one partition: [`log`] interprets it, [`claim`] claims a
//! partition, and this module reads and writes it.

pub mod claim;
pub mod log;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::{Error, Kafka, NewTopic, Next, Part, Producer, ProducerConfig, Reader, Target, Topics, Until};
use claim::{Action, Claim};
use log::{Capture, Entry, Limits, Log};

/// The log's topic.
pub const TOPIC: &str = "netalytics.lanes";
/// More lanes of a topic there are not.
pub const LANES_MAX: i32 = 1024;

/// Entries are kept for a week, those that were followed by others for less.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// So often a lane reads what others say.
const READ: Duration = Duration::from_millis(500);
/// What the log's records take of memory at most, each way.
const BYTES_MAX: usize = 4 << 20;

/// Reads the log.
pub struct Lanes {
    kafka: Kafka,
    topics: Topics,
    reader: Reader,
    log: Log,
    unfit: Option<Box<FindUnfit>>,
}

/// Finds the partitions that a lane cannot continue: among all, or whether the given one is.
pub type FindUnfit = dyn Fn(&Topics, Option<i32>) -> Result<BTreeSet<i32>, Error> + Send;

impl Lanes {
    /// Opens the log, which is made if it is missing.
    ///
    /// # Errors
    /// When the brokers do not answer in time, or refuse.
    pub fn open(kafka: &Kafka, timeout: Duration) -> Result<Lanes, Error> {
        let topics = Topics::connect(kafka, timeout)?;
        let settings = [
            ("cleanup.policy", "compact,delete"),
            // Times are the brokers', so that all readers agree who was silent for too long.
            ("message.timestamp.type", "LogAppendTime"),
            ("min.compaction.lag.ms", "120000"),
            ("segment.bytes", "16777216"),
            ("segment.ms", "3600000"),
        ];
        let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
        let new = NewTopic { partitions: 1, replication: None, retention: Some(KEPT), settings };
        topics.create(TOPIC, &new)?;
        let from = topics.offsets(TOPIC)?.first().map_or(0, |range| range.start);
        let mut reader = Reader::new(kafka, BYTES_MAX)?;
        reader.add(Part { topic: TOPIC.to_owned(), partition: 0, from, until: Until::Forever })?;
        Ok(Lanes { kafka: kafka.clone(), topics, reader, log: Log::default(), unfit: None })
    }

    /// Reads the log written so far; after `limit`, returns what has been read.
    ///
    /// # Errors
    /// If the log's topic was deleted.
    pub fn read(&mut self, limit: Duration) -> Result<&Log, Error> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.reader.next(0, left)? {
                Next::Record(record) => {
                    let at_ms = record.timestamp_ms().unwrap_or_default();
                    // A record without a payload says that a lane is forgotten.
                    if !record.payload().is_empty() {
                        self.log.read(at_ms, record.payload());
                    }
                }
                Next::Nothing | Next::CaughtUp | Next::Over => return Ok(&self.log),
            }
        }
    }

    /// As [`Lanes::read`], and waits for entries that the brokers have and that have not arrived.
    ///
    /// # Errors
    /// When the log's topic was deleted, or no broker answers.
    pub fn read_all(&mut self, limit: Duration) -> Result<&Log, Error> {
        let deadline = Instant::now() + limit;
        let end = self.topics.offsets(TOPIC)?.first().map_or(0, |range| range.end);
        while self.reader.position(0) < end && Instant::now() < deadline {
            self.read(deadline.saturating_duration_since(Instant::now()))?;
        }
        Ok(&self.log)
    }

    /// The time by which lanes are alive or not: this machine's, unless the brokers' is later.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.log.last_ms().max(now.as_millis() as i64)
    }

    /// Restricts [`Lanes::claim`] to partitions that are not found to be unfit. A partition is looked at again once it is held, since
    /// another lane may have written to it meanwhile.
    #[must_use]
    pub fn without(self, unfit: Box<FindUnfit>) -> Lanes {
        Lanes { unfit: Some(unfit), ..self }
    }

    /// Claims a partition of all these existing topics, which get more partitions if all are taken. `lane` identifies
    /// this run of a publisher; `about` is information for other programs.
    ///
    /// # Errors
    /// If the brokers do not answer in time, or reject it.
    pub fn claim(
        mut self,
        lane: &str,
        topics: &[String],
        about: BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Lane, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let config = ProducerConfig {
            bytes_max: BYTES_MAX as u64,
            linger: Duration::ZERO,
            ..ProducerConfig::default()
        };
        let mut producer = Producer::new(&self.kafka, config, stop)?;
        let target = producer.target(TOPIC, 0);
        self.read(limit)?;
        let mut keeper = Keeper {
            claim: Claim::new(lane.to_owned(), topics.to_vec(), about),
            lanes: self,
            producer,
            target,
            begun: Instant::now(),
            limited: None,
        };
        keeper.pass_over(None)?;
        let partition = loop {
            if let Some(partition) = keeper.claim.partition(keeper.now_ms())
                && keeper.pass_over(Some(partition))?
            {
                break partition;
            }
            if keeper.begun.elapsed() > limit {
                let reason = format!("no partition was to be had within {} s", limit.as_secs());
                return Err(Error::Refused { doing: format!("lane `{lane}`"), reason });
            }
            keeper.step(Duration::from_millis(50))?;
        };
        let lost = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(Mutex::new(None));
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().name("lane".into());
        let (its_lost, its_failed) = (lost.clone(), failed.clone());
        let keeping = thread
            .spawn(move || keeper.keep(&told, &its_lost, &its_failed))
            .map_err(|e| Error::Refused { doing: format!("lane `{lane}`"), reason: e.to_string() })?;
        let (name, keeping) = (lane.to_owned(), Some(keeping));
        Ok(Lane { name, partition, lost, failed, tell, keeping })
    }
}

/// A partition that is ours for as long as this lives.
pub struct Lane {
    name: String,
    partition: i32,
    lost: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<Error>>>,
    tell: Sender<Told>,
    keeping: Option<JoinHandle<()>>,
}

/// Messages to the keeper of a lane.
enum Told {
    /// The time of all limits that took effect so far.
    Limited(Limits),
    /// The lane ends.
    Ending { capture: Option<Capture>, limit: Duration },
}

impl Lane {
    /// The partition, the same of all topics.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// Whether it is still ours. Who was silent for too long may have lost it to another.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(error) = &*self.failed.lock().unwrap_or_else(|e| e.into_inner()) {
            return Err(error.clone());
        }
        if self.lost.load(Ordering::Relaxed) {
            let doing = format!("lane `{}`", self.name);
            let reason = format!("partition {} went to another after a long silence", self.partition);
            return Err(Error::Refused { doing, reason });
        }
        Ok(())
    }

    /// Tells others the time of all limits that took effect so far, at once.
    pub fn limit(&self, limited: Limits) {
        let _ = self.tell.send(Told::Limited(limited));
    }

    /// Announces the end with the packets captured and lost; waits up to `limit` for the acknowledgment.
    pub fn end(mut self, capture: Option<Capture>, limit: Duration) {
        let _ = self.tell.send(Told::Ending { capture, limit });
        self.keeping.take().map(JoinHandle::join);
    }
}

impl Drop for Lane {
    /// Without its end it is alive to others until it expires.
    fn drop(&mut self) {
        let (nobody, _) = channel();
        drop(std::mem::replace(&mut self.tell, nobody));
        self.keeping.take().map(JoinHandle::join);
    }
}

/// Who claims a partition, and then says again and again that it is held.
struct Keeper {
    claim: Claim,
    lanes: Lanes,
    producer: Producer,
    target: Target,
    begun: Instant,
    limited: Option<Limits>,
}

impl Keeper {
    /// Monotonic time.
    fn now_ms(&self) -> i64 {
        self.begun.elapsed().as_millis() as i64
    }

    /// Reads the log and acts on it. Returns whether the partition was lost.
    fn step(&mut self, wait: Duration) -> Result<bool, Error> {
        self.lanes.read(wait)?;
        let now_ms = self.now_ms();
        let log_ms = self.lanes.now_ms();
        match self.claim.step(&self.lanes.log, log_ms, now_ms) {
            Action::Claim(entry, partitions) => self.make_room(&entry, partitions)?,
            Action::Hold(entry) => self.write(&entry)?,
            Action::Wait(_) => {}
            Action::Lost => return Ok(true),
        }
        Ok(false)
    }

    /// Gives up the partitions that the lane cannot continue; whether there are none.
    fn pass_over(&mut self, held: Option<i32>) -> Result<bool, Error> {
        let Some(find) = &self.lanes.unfit else { return Ok(true) };
        let unfit = find(&self.lanes.topics, held)?;
        let is_fit = unfit.is_empty();
        self.claim.pass_over(unfit);
        Ok(is_fit)
    }

    fn make_room(&mut self, entry: &Entry, partitions: i32) -> Result<(), Error> {
        for topic in &entry.topics {
            let there = self.lanes.topics.partitions(topic)?.ok_or_else(|| Error::NoTopic(topic.clone()))?;
            if partitions > LANES_MAX {
                let reason = format!("all {LANES_MAX} partitions are taken");
                return Err(Error::Refused { doing: format!("topic `{topic}`"), reason });
            }
            if there < partitions {
                self.lanes.topics.grow(topic, partitions)?;
            }
        }
        self.write(entry)
    }

    fn write(&self, entry: &Entry) -> Result<(), Error> {
        let entry = &Entry { limited: self.limited, ..entry.clone() };
        let text = serde_json::to_vec(entry).expect("an entry is JSON");
        // Without room, brokers are unreachable and the entry would not be read.
        self.producer.send(self.target, Some(entry.lane.as_bytes()), &text).map(|_| ())
    }

    /// Until the lane ends, or its owner is gone.
    fn keep(mut self, told: &Receiver<Told>, lost: &AtomicBool, failed: &Mutex<Option<Error>>) {
        loop {
            match told.recv_timeout(READ) {
                Ok(Told::Limited(limited)) => {
                    self.limited = Some(limited);
                    self.claim.hold_now();
                }
                Ok(Told::Ending { capture, limit }) => {
                    let ended = self.claim.end(capture);
                    let _ = self.write(&ended).and_then(|()| self.producer.flush(limit));
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            match self.step(Duration::ZERO) {
                Ok(is_lost) if is_lost => return lost.store(true, Ordering::Relaxed),
                Ok(_) => {}
                // Brokers that do not answer may come back.
                Err(Error::Unreachable { .. }) => {}
                Err(error) => {
                    *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                    return;
                }
            }
        }
    }
}
