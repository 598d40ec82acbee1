//! State of lanes according to their log: which lane holds which partition, and which have ended. Pure; times are those
//! of the brokers, so that all readers of the log agree.
//!
//! A lane claims the same partition of all its topics. Of two that claim one, the first in the log gets it. The holder
//! repeats its entry; after [`EXPIRY_MS`] without an entry it no longer holds the partition, and gets it back only if
//! no other lane has claimed it. Compaction may remove all entries of a lane except the last, so each contains the
//! complete state. The last minutes must stay uncompacted.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Silence after which a lane is considered dead.
pub const EXPIRY_MS: i64 = 30_000;

/// An entry with the complete state of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneEntry {
    /// Name of the lane, unique per run.
    pub lane: String,
    /// Number of the entry.
    pub number: u64,
    /// Kind of entry.
    pub says: LaneStatement,
    /// Partition.
    pub partition: i32,
    /// Topics.
    pub topics: Vec<String>,
    /// Other properties: job, agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub about: BTreeMap<String, String>,
    /// In the last entry: bytes captured and lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureBytes>,
    /// Period of all limits that took effect so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitPeriod>,
}

/// Kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneStatement {
    /// Claims the partition.
    Claims,
    /// Holds the partition.
    Holds,
    /// Last entry.
    Ended,
}

/// Bytes of a lane's capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureBytes {
    /// Bytes captured.
    pub seen_bytes: u64,
    /// Bytes known to be lost.
    pub unseen_bytes: u64,
}

/// Event time in which limits of a lane's monitor took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitPeriod {
    /// First nanosecond.
    pub from_ns: i64,
    /// Last nanosecond.
    pub to_ns: i64,
    /// Number of times that a limit took effect.
    pub times: u64,
}

/// State of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneStanding {
    /// The lane holds its partition.
    Live,
    /// Another lane was faster.
    Refused,
    /// Ended.
    Ended,
    /// Silent for too long.
    Dead,
}

/// A lane in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedLane {
    /// Last entry of the lane.
    pub entry: LaneEntry,
    /// Time at which the entry was written.
    pub at_ms: i64,
    is_refused: bool,
}

impl LoggedLane {
    /// State at a time.
    #[must_use]
    pub fn standing(&self, now_ms: i64) -> LaneStanding {
        match self.entry.says {
            LaneStatement::Ended => LaneStanding::Ended,
            _ if self.is_refused => LaneStanding::Refused,
            _ if now_ms - self.at_ms > EXPIRY_MS => LaneStanding::Dead,
            _ => LaneStanding::Live,
        }
    }
}

/// The log so far.
#[derive(Clone, Debug, Default)]
pub struct LaneLog {
    lanes: BTreeMap<String, LoggedLane>,
    last_ms: i64,
    malformed: u64,
}

impl LaneLog {
    /// Reads the next entry, with its write time.
    pub fn read(&mut self, at_ms: i64, text: &[u8]) {
        match serde_json::from_slice(text) {
            Ok(entry) => self.apply(at_ms, entry),
            Err(_) => self.malformed += 1,
        }
    }

    /// Applies the next entry.
    pub fn apply(&mut self, at_ms: i64, entry: LaneEntry) {
        // Brokers' clocks may be set back; the time of the log does not decrease.
        let at_ms = at_ms.max(self.last_ms);
        self.last_ms = at_ms;
        let is_refused = match entry.says {
            // The lane no longer holds the partition.
            LaneStatement::Ended => false,
            LaneStatement::Holds if self.goes_on(&entry, at_ms) => false,
            _ => self.rivals(&entry, at_ms).next().is_some(),
        };
        self.lanes.insert(
            entry.lane.clone(),
            LoggedLane {
                entry,
                at_ms,
                is_refused,
            },
        );
    }

    /// Whether the lane has held the partition until now.
    fn goes_on(&self, entry: &LaneEntry, now_ms: i64) -> bool {
        let is_live = |known: &&LoggedLane| known.standing(now_ms) == LaneStanding::Live;
        let before = self
            .lanes
            .get(&entry.lane)
            .filter(is_live)
            .map(|known| &known.entry);
        before.is_some_and(|before| {
            before.partition == entry.partition && before.topics == entry.topics
        })
    }

    /// Other live lanes with one of the entry's partitions.
    fn rivals(&self, entry: &LaneEntry, now_ms: i64) -> impl Iterator<Item = &LoggedLane> {
        let shares = |known: &LoggedLane| {
            known.entry.partition == entry.partition
                && known
                    .entry
                    .topics
                    .iter()
                    .any(|topic| entry.topics.contains(topic))
        };
        let is_rival = move |known: &&LoggedLane| {
            known.entry.lane != entry.lane && known.standing(now_ms) == LaneStanding::Live
        };
        self.lanes
            .values()
            .filter(is_rival)
            .filter(move |known| shares(known))
    }

    /// First partition that no lane holds in any of the topics, except the `unfit` ones.
    #[must_use]
    pub fn free(&self, topics: &[String], unfit: &BTreeSet<i32>, now_ms: i64) -> i32 {
        let is_taken = |partition: i32| {
            let place = LaneEntry {
                lane: String::new(),
                number: 0,
                says: LaneStatement::Claims,
                partition,
                topics: topics.to_vec(),
                about: BTreeMap::new(),
                capture: None,
                limited: None,
            };
            self.rivals(&place, now_ms).next().is_some()
        };
        let most = (self.lanes.len() + unfit.len()) as i32;
        let is_free = |partition: &i32| !unfit.contains(partition) && !is_taken(*partition);
        (0..=most).find(is_free).unwrap_or(most)
    }

    /// A lane by name.
    #[must_use]
    pub fn find(&self, lane: &str) -> Option<&LoggedLane> {
        self.lanes.get(lane)
    }

    /// All known lanes of a topic with their states.
    pub fn of_topic(
        &self,
        topic: &str,
        now_ms: i64,
    ) -> impl Iterator<Item = (&LoggedLane, LaneStanding)> {
        let writes =
            move |known: &&LoggedLane| known.entry.topics.iter().any(|written| written == topic);
        self.lanes
            .values()
            .filter(writes)
            .map(move |known| (known, known.standing(now_ms)))
    }

    /// Time of its last entry.
    #[must_use]
    pub fn last_ms(&self) -> i64 {
        self.last_ms
    }

    /// Number of unreadable entries.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }
}
