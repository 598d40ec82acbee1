//! Lanes of one job: their names on the wire and in the store, their numbers in the collector, and the committed
//! position of each.

use std::collections::BTreeMap;

use collect::{LaneId, State};
use link::{Lane, Record};
use serde::{Deserialize, Serialize};
use stream::Loss;

use crate::store::LaneMark;

/// Name of a lane of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Name of the agent.
    pub agent: String,
    /// Incarnation of the agent.
    pub boot: u64,
    /// Start attempt of the job's monitor.
    pub attempt: u32,
}

impl Key {
    /// A lane of an agent.
    pub fn of(agent: &str, lane: Lane) -> Key {
        Key { agent: agent.to_owned(), boot: lane.boot, attempt: lane.attempt }
    }

    /// Text form for the store; the agent's name, which is arbitrary, is last.
    pub fn text(&self) -> String {
        format!("{:x}/{}/{}", self.boot, self.attempt, self.agent)
    }

    /// Parses the output of [`Key::text`].
    pub fn read(text: &str) -> Option<Key> {
        let mut parts = text.splitn(3, '/');
        let boot = u64::from_str_radix(parts.next()?, 16).ok()?;
        let attempt = parts.next()?.parse().ok()?;
        Some(Key { agent: parts.next()?.to_owned(), boot, attempt })
    }
}

/// End of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Not yet.
    #[default]
    Open,
    /// Complete.
    Finished,
    /// The rest is lost.
    Lost,
}

/// State of a lane by its committed records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Event time of its first report.
    #[serde(default)]
    pub begin_ns: Option<i64>,
    /// Event time of its last report.
    pub watermark_ns: i64,
    /// Bytes of its byte streams that were captured.
    pub seen: u64,
    /// Bytes that seem to be missing from its byte streams.
    pub lost: u64,
    /// End.
    pub end: End,
    /// Last counters of its monitor.
    pub counters: BTreeMap<String, u64>,
    /// Records lost before they arrived.
    pub records_lost: u64,
    /// Known number of tuples in lost records.
    pub tuples_lost: u64,
    /// An unknown number of tuples was lost.
    #[serde(default)]
    pub is_loss_unknown: bool,
    /// Unreadable records.
    pub malformed: u64,
    /// Offset of its clock from the server's at its last report, for a job over both taps.
    #[serde(default)]
    pub ahead_ns: i64,
    /// Uncertainty of `ahead_ns`, in both directions.
    #[serde(default)]
    pub uncertain_ns: i64,
}

impl Facts {
    /// State without records.
    pub fn new() -> Facts {
        Facts { watermark_ns: i64::MIN, ..Facts::default() }
    }

    /// Event time from which it has reported, if known.
    pub fn begin(&self) -> i64 {
        self.begin_ns.unwrap_or(i64::MIN)
    }

    /// Loss in its byte streams.
    pub fn loss(&self) -> Loss {
        Loss { seen: self.seen, lost: self.lost }
    }

    /// Adds a record; `report`: event time and loss of its report, if readable.
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
            // Its agent ended it in order; traffic until the next lane starts is not in it.
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

    /// State of the lane for the collector.
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
    /// Number in the collector.
    pub id: LaneId,
    /// The last committed record.
    pub seq: u64,
    /// State by its committed records.
    pub facts: Facts,
    /// It was lost, and a later lane of its agent exists: it is missing only until this event time.
    pub missed_until_ns: Option<i64>,
}

/// An agent with the order for the job but without a lane yet.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// Number in the collector.
    pub id: LaneId,
    /// Monotonic time until which windows wait for it; `None`: no longer.
    pub until_ns: Option<u64>,
}

/// See the module documentation.
#[derive(Default)]
pub struct Lanes {
    /// Lanes by name.
    pub known: BTreeMap<Key, Known>,
    /// Agents without a lane, by name.
    pub awaited: BTreeMap<String, Awaited>,
    agents: BTreeMap<LaneId, String>,
    next: u64,
}

impl Lanes {
    /// Allocates a number for a lane of that agent.
    pub fn number(&mut self, agent: &str) -> LaneId {
        let id = LaneId(self.next);
        self.next += 1;
        self.agents.insert(id, agent.to_owned());
        id
    }

    /// The lane of that name, and whether it is new.
    pub fn join(&mut self, key: &Key) -> (LaneId, bool) {
        if let Some(known) = self.known.get(key) {
            return (known.id, false);
        }
        let id = self.number(&key.agent);
        let known = Known { id, seq: 0, facts: Facts::new(), missed_until_ns: None };
        self.known.insert(key.clone(), known);
        (id, true)
    }

    /// Committed position of a lane.
    pub fn mark(&self, key: &Key) -> (u64, Facts) {
        self.known.get(key).map_or((0, Facts::new()), |known| (known.seq, known.facts.clone()))
    }

    /// Lanes of an agent that have not ended.
    pub fn open_of<'l>(&'l self, agent: &'l str) -> impl Iterator<Item = (&'l Key, &'l Known)> {
        self.known.iter().filter(move |(key, known)| key.agent == agent && known.facts.end == End::Open)
    }

    /// Agents of lanes, distinct, in order.
    pub fn names(&self, lanes: &[LaneId]) -> Vec<String> {
        let mut names: Vec<String> = lanes.iter().filter_map(|id| self.agents.get(id).cloned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Encodes a lane for the store.
pub fn mark(job: crate::JobId, key: &Key, (seq, facts): &(u64, Facts)) -> LaneMark {
    let facts = serde_json::to_string(facts).unwrap_or_default();
    LaneMark { job, lane: key.text(), seq: *seq, facts }
}

/// Decodes the output of [`mark`].
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
