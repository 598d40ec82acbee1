//! The lanes of one job: by their names on the wire and in the store, by their numbers in the collector, and how far each is
//! committed.

use std::collections::BTreeMap;

use collect::{LaneId, State};
use link::{Lane, Record};
use serde::{Deserialize, Serialize};
use stream::Loss;

use crate::store::LaneMark;

/// Names a lane of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Whose.
    pub agent: String,
    /// Which life of it.
    pub boot: u64,
    /// Which start of the job's monitor.
    pub attempt: u32,
}

impl Key {
    /// A lane of an agent.
    pub fn of(agent: &str, lane: Lane) -> Key {
        Key { agent: agent.to_owned(), boot: lane.boot, attempt: lane.attempt }
    }

    /// As it is stored: the agent's name, which may hold anything, at the end.
    pub fn text(&self) -> String {
        format!("{:x}/{}/{}", self.boot, self.attempt, self.agent)
    }

    /// What [`Key::text`] wrote.
    pub fn read(text: &str) -> Option<Key> {
        let mut parts = text.splitn(3, '/');
        let boot = u64::from_str_radix(parts.next()?, 16).ok()?;
        let attempt = parts.next()?.parse().ok()?;
        Some(Key { agent: parts.next()?.to_owned(), boot, attempt })
    }
}

/// How a lane ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Not yet.
    #[default]
    Open,
    /// It said all it had to say.
    Finished,
    /// What it had more to say is lost.
    Lost,
}

/// What is known of a lane by its committed records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Event time of its first report.
    #[serde(default)]
    pub begin_ns: Option<i64>,
    /// Event time of its last report.
    pub watermark_ns: i64,
    /// Bytes of streams that its packets have.
    pub seen: u64,
    /// And seem to lack.
    pub lost: u64,
    /// How it ended.
    pub end: End,
    /// What its monitor had counted.
    pub counters: BTreeMap<String, u64>,
    /// Records that never came.
    pub records_lost: u64,
    /// Tuples in these, as far as is known.
    pub tuples_lost: u64,
    /// An unknown number of tuples was lost.
    #[serde(default)]
    pub is_loss_unknown: bool,
    /// Records that could not be read.
    pub malformed: u64,
    /// How far its clock was ahead of the server's by its last report, of a job over both taps of flows.
    #[serde(default)]
    pub ahead_ns: i64,
    /// It may be as much more, or less.
    #[serde(default)]
    pub uncertain_ns: i64,
}

impl Facts {
    /// Nothing was heard yet.
    pub fn new() -> Facts {
        Facts { watermark_ns: i64::MIN, ..Facts::default() }
    }

    /// From when on it has brought what its agent found, as far as is known.
    pub fn begin(&self) -> i64 {
        self.begin_ns.unwrap_or(i64::MIN)
    }

    /// What its streams seem to lack.
    pub fn loss(&self) -> Loss {
        Loss { seen: self.seen, lost: self.lost }
    }

    /// Takes in a record; `report` is what it says, if that could be read: how far, and what its streams lack.
    pub fn take(&mut self, record: &Record, report: Option<(i64, Loss)>) {
        let end = if record.is_last() { End::Finished } else { End::Open };
        match record {
            Record::Data(data) => {
                self.counters.clone_from(&data.counters);
                match report {
                    Some((watermark_ns, loss)) => {
                        self.begin_ns = self.begin_ns.or(Some(watermark_ns));
                        self.watermark_ns = self.watermark_ns.max(watermark_ns);
                        (self.seen, self.lost) = (loss.seen, loss.lost);
                    }
                    None => self.malformed += 1,
                }
                self.end = end;
            }
            // Its agent ended it in order, and what goes by until the next one begins is not in it.
            Record::Lost(lost) if lost.is_last && lost.tuples == Some(0) && lost.first == lost.last => {
                self.end = End::Lost;
            }
            Record::Lost(lost) => {
                self.is_loss_unknown |= lost.tuples.is_none();
                self.records_lost += lost.last.saturating_sub(lost.first).saturating_add(1);
                self.tuples_lost += lost.tuples.unwrap_or_default();
                // A lane closed on behalf of a dead process may lack data.
                self.end = if record.is_last() { End::Lost } else { End::Open };
            }
        }
    }

    /// What is to be expected of it.
    pub fn state(&self) -> State {
        match self.end {
            End::Open => State::Active,
            End::Finished => State::Finished,
            End::Lost => State::Lost,
        }
    }
}

/// A lane.
#[derive(Clone, Debug)]
pub struct Known {
    /// In the collector.
    pub id: LaneId,
    /// The last committed record.
    pub seq: u64,
    /// What is known by that.
    pub facts: Facts,
    /// It was lost, and a later lane of its agent exists: it is missing only until this event time.
    pub missed_until_ns: Option<i64>,
}

/// An agent with the order for the job but without a lane yet.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// In the collector.
    pub id: LaneId,
    /// Until then windows wait for it, by the monotonic clock; `None`: no longer.
    pub until_ns: Option<u64>,
}

/// See the module's text.
#[derive(Default)]
pub struct Lanes {
    /// By their names.
    pub known: BTreeMap<Key, Known>,
    /// By agent.
    pub awaited: BTreeMap<String, Awaited>,
    agents: BTreeMap<LaneId, String>,
    next: u64,
}

impl Lanes {
    /// A number for a lane of that agent.
    pub fn number(&mut self, agent: &str) -> LaneId {
        let id = LaneId(self.next);
        self.next += 1;
        self.agents.insert(id, agent.to_owned());
        id
    }

    /// The lane of that name; the second is whether it is new.
    pub fn join(&mut self, key: &Key) -> (LaneId, bool) {
        if let Some(known) = self.known.get(key) {
            return (known.id, false);
        }
        let id = self.number(&key.agent);
        let known = Known { id, seq: 0, facts: Facts::new(), missed_until_ns: None };
        self.known.insert(key.clone(), known);
        (id, true)
    }

    /// How far a lane is committed.
    pub fn mark(&self, key: &Key) -> (u64, Facts) {
        self.known.get(key).map_or((0, Facts::new()), |known| (known.seq, known.facts.clone()))
    }

    /// Lanes of an agent that are not over.
    pub fn open_of<'l>(&'l self, agent: &'l str) -> impl Iterator<Item = (&'l Key, &'l Known)> {
        self.known.iter().filter(move |(key, known)| key.agent == agent && known.facts.end == End::Open)
    }

    /// The agents of lanes, each once, in order.
    pub fn names(&self, lanes: &[LaneId]) -> Vec<String> {
        let mut names: Vec<String> = lanes.iter().filter_map(|id| self.agents.get(id).cloned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// As it is stored.
pub fn mark(job: crate::JobId, key: &Key, (seq, facts): &(u64, Facts)) -> LaneMark {
    let facts = serde_json::to_string(facts).unwrap_or_default();
    LaneMark { job, lane: key.text(), seq: *seq, facts }
}

/// What [`mark`] made.
pub fn read_mark(mark: &LaneMark) -> Option<(Key, u64, Facts)> {
    Some((Key::read(&mark.lane)?, mark.seq, serde_json::from_str(&mark.facts).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        for agent in ["a", "", "rack/7/a", "ü"] {
            let key = Key { agent: agent.into(), boot: u64::MAX, attempt: 3 };
            assert_eq!(Key::read(&key.text()), Some(key));
        }
        for text in ["", "1", "1/2", "x/1/a", "1/-1/a"] {
            assert_eq!(Key::read(text), None, "{text}");
        }
    }
}
