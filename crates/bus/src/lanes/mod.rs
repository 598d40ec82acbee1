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

use crate::{
    BusError, Kafka, NewTopic, NextRecord, PartitionEnd, PartitionRange, PartitionReader, Producer,
    ProducerConfig, ProducerTarget, TopicAdmin,
};
use claim::{ClaimAction, LaneClaim};
use log::{CaptureBytes, LaneEntry, LaneLog, LimitPeriod};

/// Topic of the log.
pub const TOPIC: &str = "netalytics.lanes";
/// Maximum lanes per topic.
pub const LANES_MAX: i32 = 1024;

/// Retention of entries: a week; superseded ones are compacted earlier.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Interval at which a lane reads the log.
const READ: Duration = Duration::from_millis(500);
/// Maximum memory of the log's records, per direction.
const BYTES_MAX: usize = 4 << 20;

/// Reader of the log.
pub struct LaneLogReader {
    kafka: Kafka,
    topics: TopicAdmin,
    reader: PartitionReader,
    log: LaneLog,
    unfit: Option<Box<FindUnfit>>,
}

/// Finds the partitions that a lane cannot continue: among all, or only the given one.
pub type FindUnfit = dyn Fn(&TopicAdmin, Option<i32>) -> Result<BTreeSet<i32>, BusError> + Send;

impl LaneLogReader {
    /// Opens the log; creates its topic if missing.
    ///
    /// # Errors
    /// `BusError::Unreachable` if the brokers do not answer in time, `BusError::Refused` if they reject a request.
    pub fn open(kafka: &Kafka, timeout: Duration) -> Result<LaneLogReader, BusError> {
        let topics = TopicAdmin::connect(kafka, timeout)?;
        let settings = [
            ("cleanup.policy", "compact,delete"),
            // Times are those of the brokers, so that all readers agree on expired lanes.
            ("message.timestamp.type", "LogAppendTime"),
            ("min.compaction.lag.ms", "120000"),
            ("segment.bytes", "16777216"),
            ("segment.ms", "3600000"),
        ];
        let settings = settings
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec();
        let new = NewTopic {
            partitions: 1,
            replication: None,
            retention: Some(KEPT),
            settings,
        };
        topics.create(TOPIC, &new)?;
        let from = topics
            .offsets(TOPIC)?
            .first()
            .map_or(0, |range| range.start);
        let mut reader = PartitionReader::new(kafka, BYTES_MAX)?;
        reader.add(PartitionRange {
            topic: TOPIC.to_owned(),
            partition: 0,
            from,
            until: PartitionEnd::Forever,
        })?;
        Ok(LaneLogReader {
            kafka: kafka.clone(),
            topics,
            reader,
            log: LaneLog::default(),
            unfit: None,
        })
    }

    /// Reads the log written so far; after `limit`, returns what has been read.
    ///
    /// # Errors
    /// `BusError::NoTopic` if the log's topic was deleted.
    pub fn read(&mut self, limit: Duration) -> Result<&LaneLog, BusError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.reader.next(0, left)? {
                NextRecord::Record(record) => {
                    let at_ms = record.timestamp_ms().unwrap_or_default();
                    // A record without a payload removes a lane.
                    if !record.payload().is_empty() {
                        self.log.read(at_ms, record.payload());
                    }
                }
                NextRecord::Nothing | NextRecord::CaughtUp | NextRecord::Over => {
                    return Ok(&self.log);
                }
            }
        }
    }

    /// Like [`LaneLogReader::read`], but waits for entries that have not arrived from the brokers.
    ///
    /// # Errors
    /// `BusError::NoTopic` if the log's topic was deleted, `BusError::Unreachable` if no broker answers.
    pub fn read_all(&mut self, limit: Duration) -> Result<&LaneLog, BusError> {
        let deadline = Instant::now() + limit;
        let end = self
            .topics
            .offsets(TOPIC)?
            .first()
            .map_or(0, |range| range.end);
        while self.reader.position(0) < end && Instant::now() < deadline {
            self.read(deadline.saturating_duration_since(Instant::now()))?;
        }
        Ok(&self.log)
    }

    /// Time for the state of lanes: this machine's, or the brokers' if later.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.log.last_ms().max(now.as_millis() as i64)
    }

    /// Restricts [`LaneLogReader::claim`] to partitions that are not unfit. A partition is checked again once held, since
    /// another lane may have written to it in the meantime.
    #[must_use]
    pub fn without(self, unfit: Box<FindUnfit>) -> LaneLogReader {
        LaneLogReader {
            unfit: Some(unfit),
            ..self
        }
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
    ) -> Result<ClaimedLane, BusError> {
        let stop = Arc::new(AtomicBool::new(false));
        let config = ProducerConfig {
            bytes_max: BYTES_MAX as u64,
            linger: Duration::ZERO,
            ..ProducerConfig::default()
        };
        let mut producer = Producer::new(&self.kafka, config, stop)?;
        let target = producer.target(TOPIC, 0);
        self.read(limit)?;
        let mut keeper = LaneKeeper {
            claim: LaneClaim::new(lane.to_owned(), topics.to_vec(), about),
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
                let reason = format!("no partition became available within {} s", limit.as_secs());
                return Err(BusError::Refused {
                    doing: format!("lane `{lane}`"),
                    reason,
                });
            }
            keeper.step(Duration::from_millis(50))?;
        };
        let lost = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(Mutex::new(None));
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().name("lane".into());
        let its_lost = lost.clone();
        let its_failed = failed.clone();
        let keeping = thread
            .spawn(move || keeper.keep(&told, &its_lost, &its_failed))
            .map_err(|e| BusError::Refused {
                doing: format!("lane `{lane}`"),
                reason: e.to_string(),
            })?;
        let name = lane.to_owned();
        let keeping = Some(keeping);
        Ok(ClaimedLane {
            name,
            partition,
            lost,
            failed,
            tell,
            keeping,
        })
    }
}

/// A partition held exclusively for the lifetime of this value.
pub struct ClaimedLane {
    name: String,
    partition: i32,
    lost: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<BusError>>>,
    tell: Sender<KeeperMessage>,
    keeping: Option<JoinHandle<()>>,
}

/// Messages to the keeper of a lane.
enum KeeperMessage {
    /// The time of all limits that took effect so far.
    Limited(LimitPeriod),
    /// The lane ends.
    Ending {
        capture: Option<CaptureBytes>,
        limit: Duration,
    },
}

impl ClaimedLane {
    /// The partition, the same in all topics.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// Checks whether the partition is still held; after a long silence another lane may have it.
    ///
    /// # Errors
    /// `BusError` if it is not.
    pub fn check(&self) -> Result<(), BusError> {
        if let Some(error) = &*self.failed.lock().unwrap_or_else(|e| e.into_inner()) {
            return Err(error.clone());
        }
        if self.lost.load(Ordering::Relaxed) {
            let doing = format!("lane `{}`", self.name);
            let reason = format!(
                "partition {} was assigned to another publisher after a long silence",
                self.partition
            );
            return Err(BusError::Refused { doing, reason });
        }
        Ok(())
    }

    /// Announces the period of all limits that took effect so far, immediately.
    pub fn limit(&self, limited: LimitPeriod) {
        let _ = self.tell.send(KeeperMessage::Limited(limited));
    }

    /// Announces the end with the packets captured and lost; waits up to `limit` for the acknowledgment.
    pub fn end(mut self, capture: Option<CaptureBytes>, limit: Duration) {
        let _ = self.tell.send(KeeperMessage::Ending { capture, limit });
        self.keeping.take().map(JoinHandle::join);
    }
}

impl Drop for ClaimedLane {
    /// Ends the lane; without this call the lane counts as live until it expires.
    fn drop(&mut self) {
        let (nobody, _) = channel();
        drop(std::mem::replace(&mut self.tell, nobody));
        self.keeping.take().map(JoinHandle::join);
    }
}

/// Claims a partition and renews the claim.
struct LaneKeeper {
    claim: LaneClaim,
    lanes: LaneLogReader,
    producer: Producer,
    target: ProducerTarget,
    begun: Instant,
    limited: Option<LimitPeriod>,
}

impl LaneKeeper {
    /// Monotonic time.
    fn now_ms(&self) -> i64 {
        self.begun.elapsed().as_millis() as i64
    }

    /// Reads the log and acts on it. Returns whether the partition was lost.
    fn step(&mut self, wait: Duration) -> Result<bool, BusError> {
        self.lanes.read(wait)?;
        let now_ms = self.now_ms();
        let log_ms = self.lanes.now_ms();
        match self.claim.step(&self.lanes.log, log_ms, now_ms) {
            ClaimAction::Claim(entry, partitions) => self.make_room(&entry, partitions)?,
            ClaimAction::Hold(entry) => self.write(&entry)?,
            ClaimAction::Wait(_) => {}
            ClaimAction::Lost => return Ok(true),
        }
        Ok(false)
    }

    /// Releases partitions that the lane cannot continue; returns whether there were none.
    fn pass_over(&mut self, held: Option<i32>) -> Result<bool, BusError> {
        let Some(find) = &self.lanes.unfit else {
            return Ok(true);
        };
        let unfit = find(&self.lanes.topics, held)?;
        let is_fit = unfit.is_empty();
        self.claim.pass_over(unfit);
        Ok(is_fit)
    }

    fn make_room(&mut self, entry: &LaneEntry, partitions: i32) -> Result<(), BusError> {
        for topic in &entry.topics {
            let there = self
                .lanes
                .topics
                .partitions(topic)?
                .ok_or_else(|| BusError::NoTopic(topic.clone()))?;
            if partitions > LANES_MAX {
                let reason = format!("all {LANES_MAX} partitions are taken");
                return Err(BusError::Refused {
                    doing: format!("topic `{topic}`"),
                    reason,
                });
            }
            if there < partitions {
                self.lanes.topics.grow(topic, partitions)?;
            }
        }
        self.write(entry)
    }

    fn write(&self, entry: &LaneEntry) -> Result<(), BusError> {
        let entry = &LaneEntry {
            limited: self.limited,
            ..entry.clone()
        };
        let text = serde_json::to_vec(entry).expect("an entry is JSON");
        // Without space, brokers are unreachable and the entry would not be read.
        self.producer
            .send(self.target, Some(entry.lane.as_bytes()), &text)
            .map(|_| ())
    }

    /// Runs until the lane ends, or its owner is dropped.
    fn keep(
        mut self,
        told: &Receiver<KeeperMessage>,
        lost: &AtomicBool,
        failed: &Mutex<Option<BusError>>,
    ) {
        loop {
            match told.recv_timeout(READ) {
                Ok(KeeperMessage::Limited(limited)) => {
                    self.limited = Some(limited);
                    self.claim.hold_now();
                }
                Ok(KeeperMessage::Ending { capture, limit }) => {
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
                // Unreachable brokers may return.
                Err(BusError::Unreachable { .. }) => {}
                Err(error) => {
                    *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                    return;
                }
            }
        }
    }
}
