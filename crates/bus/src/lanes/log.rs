//! State of lanes according to their log: which lane holds which partition, and which have ended. Pure; times are those
//! of the brokers, so that all readers of the log agree.
//!
//! A lane claims the same partition of all its topics. Of two that claim one, the first in the log gets it. The holder
//! repeats its entry; after [`EXPIRY_MS`] without an entry it no longer holds the partition, and gets it back only if
//! no other lane has claimed it. Compaction may remove all entries of a lane except the last, so each contains the
//! complete state. The last minutes must stay uncompacted.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Silence after which a lane counts as dead.
pub const EXPIRY_MS: i64 = 30_000;

/// One entry: all that a lane says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The lane's name, of its own for each run.
    pub lane: String,
    /// Which of the lane's entries it is.
    pub number: u64,
    /// What it says.
    pub says: Says,
    /// The partition.
    pub partition: i32,
    /// The topics.
    pub topics: Vec<String>,
    /// What else is worth knowing of it: job, agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub about: BTreeMap<String, String>,
    /// At its end: what it saw of its capture and what it missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
    /// The time of all limits that took effect so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limits>,
}

/// What a lane may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// It wants the partition.
    Claims,
    /// It has it, and is alive.
    Holds,
    /// It will write nothing more.
    Ended,
}

/// Bytes of a lane's capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Seen.
    pub seen_bytes: u64,
    /// Known to have been lost.
    pub unseen_bytes: u64,
}

/// Event time in which limits of a lane's monitor took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// First nanosecond.
    pub from_ns: i64,
    /// Last nanosecond.
    pub to_ns: i64,
    /// Number of times that a limit took effect.
    pub times: u64,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has its partition.
    Live,
    /// Another was faster.
    Refused,
    /// It has said that it ends.
    Ended,
    /// It has said nothing for too long.
    Dead,
}

/// A lane as the log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its last entry.
    pub entry: Entry,
    /// When that was written.
    pub at_ms: i64,
    is_refused: bool,
}

impl Known {
    /// Where it stands at a time.
    #[must_use]
    pub fn standing(&self, now_ms: i64) -> Standing {
        match self.entry.says {
            Says::Ended => Standing::Ended,
            _ if self.is_refused => Standing::Refused,
            _ if now_ms - self.at_ms > EXPIRY_MS => Standing::Dead,
            _ => Standing::Live,
        }
    }
}

/// The log so far.
#[derive(Clone, Debug, Default)]
pub struct Log {
    lanes: BTreeMap<String, Known>,
    last_ms: i64,
    malformed: u64,
}

impl Log {
    /// Reads the next entry, written at that time.
    pub fn read(&mut self, at_ms: i64, text: &[u8]) {
        match serde_json::from_slice(text) {
            Ok(entry) => self.apply(at_ms, entry),
            Err(_) => self.malformed += 1,
        }
    }

    /// Takes the next entry.
    pub fn apply(&mut self, at_ms: i64, entry: Entry) {
        // Brokers' clocks may be set back; the log's time is not.
        let at_ms = at_ms.max(self.last_ms);
        self.last_ms = at_ms;
        let is_refused = match entry.says {
            // With its place it has nothing to do any more.
            Says::Ended => false,
            Says::Holds if self.goes_on(&entry, at_ms) => false,
            _ => self.rivals(&entry, at_ms).next().is_some(),
        };
        self.lanes.insert(entry.lane.clone(), Known { entry, at_ms, is_refused });
    }

    /// Whether the lane has had the place until now.
    fn goes_on(&self, entry: &Entry, now_ms: i64) -> bool {
        let is_live = |known: &&Known| known.standing(now_ms) == Standing::Live;
        let before = self.lanes.get(&entry.lane).filter(is_live).map(|known| &known.entry);
        before.is_some_and(|before| before.partition == entry.partition && before.topics == entry.topics)
    }

    /// Other lanes that live and have one of the places that the entry names.
    fn rivals(&self, entry: &Entry, now_ms: i64) -> impl Iterator<Item = &Known> {
        let shares = |known: &Known| {
            known.entry.partition == entry.partition
                && known.entry.topics.iter().any(|topic| entry.topics.contains(topic))
        };
        let is_rival =
            move |known: &&Known| known.entry.lane != entry.lane && known.standing(now_ms) == Standing::Live;
        self.lanes.values().filter(is_rival).filter(move |known| shares(known))
    }

    /// The first partition that no lane holds of any of the topics, and that is not among the `unfit`.
    #[must_use]
    pub fn free(&self, topics: &[String], unfit: &BTreeSet<i32>, now_ms: i64) -> i32 {
        let is_taken = |partition: i32| {
            let place = Entry {
                lane: String::new(),
                number: 0,
                says: Says::Claims,
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

    /// A lane by its name.
    #[must_use]
    pub fn find(&self, lane: &str) -> Option<&Known> {
        self.lanes.get(lane)
    }

    /// All lanes of a topic that the log still knows, and where they stand.
    pub fn of_topic(&self, topic: &str, now_ms: i64) -> impl Iterator<Item = (&Known, Standing)> {
        let writes = move |known: &&Known| known.entry.topics.iter().any(|written| written == topic);
        self.lanes.values().filter(writes).map(move |known| (known, known.standing(now_ms)))
    }

    /// The time of its last entry.
    #[must_use]
    pub fn last_ms(&self) -> i64 {
        self.last_ms
    }

    /// Entries that could not be read.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }
}
