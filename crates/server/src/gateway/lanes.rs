//! Lanes of one job: their names on the wire and in the store, their numbers in the collector, and the committed
//! position of each.

use std::collections::BTreeMap;

use collect::{LaneActivity, LaneId};
use link::{LaneRecord, RecordLane};
use serde::{Deserialize, Serialize};
use stream::LossCount;

use crate::store::sqlite::LaneMark;

/// Name of a lane of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneKey {
    /// Name of the agent.
    pub agent: String,
    /// Incarnation of the agent.
    pub boot: u64,
    /// Start attempt of the job's monitor.
    pub attempt: u32,
}

impl LaneKey {
    /// A lane of an agent.
    pub fn of(agent: &str, lane: RecordLane) -> LaneKey {
        LaneKey {
            agent: agent.to_owned(),
            boot: lane.boot,
            attempt: lane.attempt,
        }
    }

    /// Text form for the store; the agent's name, which is arbitrary, is last.
    pub fn text(&self) -> String {
        format!("{:x}/{}/{}", self.boot, self.attempt, self.agent)
    }

    /// Parses the output of [`LaneKey::text`].
    pub fn read(text: &str) -> Option<LaneKey> {
        let mut parts = text.splitn(3, '/');
        let boot = u64::from_str_radix(parts.next()?, 16).ok()?;
        let attempt = parts.next()?.parse().ok()?;
        Some(LaneKey {
            agent: parts.next()?.to_owned(),
            boot,
            attempt,
        })
    }
}

/// End of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneEnd {
    /// The lane has not ended.
    #[default]
    Open,
    /// Complete.
    Finished,
    /// The rest is lost.
    Lost,
}

/// State of a lane by its committed records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneFacts {
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
    pub end: LaneEnd,
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

impl LaneFacts {
    /// State without records.
    pub fn new() -> LaneFacts {
        LaneFacts {
            watermark_ns: i64::MIN,
            ..LaneFacts::default()
        }
    }

    /// Event time from which it has reported, if known.
    pub fn begin(&self) -> i64 {
        self.begin_ns.unwrap_or(i64::MIN)
    }

    /// Loss in its byte streams.
    pub fn loss(&self) -> LossCount {
        LossCount {
            seen: self.seen,
            lost: self.lost,
        }
    }

    /// Adds a record; `report`: event time and loss of its report, if readable.
    pub fn take(&mut self, record: &LaneRecord, report: Option<(i64, LossCount)>) {
        let end = if record.is_last() {
            LaneEnd::Finished
        } else {
            LaneEnd::Open
        };
        match record {
            LaneRecord::Data(data) => {
                self.counters.clone_from(&data.counters);
                match report {
                    Some((watermark_ns, loss)) => {
                        self.begin_ns = self.begin_ns.or(Some(watermark_ns));
                        self.watermark_ns = self.watermark_ns.max(watermark_ns);
                        self.seen = loss.seen;
                        self.lost = loss.lost;
                    }
                    None => self.malformed += 1,
                }
                self.end = end;
            }
            // The agent ended the lane in order; the lane lacks traffic until the next lane starts.
            LaneRecord::Lost(lost)
                if lost.is_last && lost.tuples == Some(0) && lost.first == lost.last =>
            {
                self.end = LaneEnd::Lost;
            }
            LaneRecord::Lost(lost) => {
                self.is_loss_unknown |= lost.tuples.is_none();
                self.records_lost += lost.last.saturating_sub(lost.first).saturating_add(1);
                self.tuples_lost += lost.tuples.unwrap_or_default();
                // A lane closed on behalf of a dead process may lack data.
                self.end = if record.is_last() {
                    LaneEnd::Lost
                } else {
                    LaneEnd::Open
                };
            }
        }
    }

    /// State of the lane for the collector.
    pub fn state(&self) -> LaneActivity {
        match self.end {
            LaneEnd::Open => LaneActivity::Active,
            LaneEnd::Finished => LaneActivity::Finished,
            LaneEnd::Lost => LaneActivity::Lost,
        }
    }
}

/// A lane.
#[derive(Clone, Debug)]
pub struct KnownLane {
    /// Number in the collector.
    pub id: LaneId,
    /// The last committed record.
    pub seq: u64,
    /// State by its committed records.
    pub facts: LaneFacts,
    /// Set if the lane was lost and its agent has a later one: the lane is missing only until this event time.
    pub missed_until_ns: Option<i64>,
}

/// An agent with the order for the job but without a lane yet.
#[derive(Clone, Copy, Debug)]
pub struct AwaitedLane {
    /// Number in the collector.
    pub id: LaneId,
    /// Monotonic time until which windows wait for it; `None`: no longer.
    pub until_ns: Option<u64>,
}

/// See the module documentation.
#[derive(Default)]
pub struct JobLanes {
    /// Lanes by name.
    pub known: BTreeMap<LaneKey, KnownLane>,
    /// Agents without a lane, by name.
    pub awaited: BTreeMap<String, AwaitedLane>,
    agents: BTreeMap<LaneId, String>,
    next: u64,
}

impl JobLanes {
    /// Allocates a number for a lane of that agent.
    pub fn number(&mut self, agent: &str) -> LaneId {
        let id = LaneId(self.next);
        self.next += 1;
        self.agents.insert(id, agent.to_owned());
        id
    }

    /// The lane of that name, and whether it is new.
    pub fn join(&mut self, key: &LaneKey) -> (LaneId, bool) {
        if let Some(known) = self.known.get(key) {
            return (known.id, false);
        }
        let id = self.number(&key.agent);
        let known = KnownLane {
            id,
            seq: 0,
            facts: LaneFacts::new(),
            missed_until_ns: None,
        };
        self.known.insert(key.clone(), known);
        (id, true)
    }

    /// Committed position of a lane.
    pub fn mark(&self, key: &LaneKey) -> (u64, LaneFacts) {
        self.known.get(key).map_or((0, LaneFacts::new()), |known| {
            (known.seq, known.facts.clone())
        })
    }

    /// Lanes of an agent that have not ended.
    pub fn open_of<'l>(
        &'l self,
        agent: &'l str,
    ) -> impl Iterator<Item = (&'l LaneKey, &'l KnownLane)> {
        self.known
            .iter()
            .filter(move |(key, known)| key.agent == agent && known.facts.end == LaneEnd::Open)
    }

    /// Agents of lanes, distinct, in order.
    pub fn names(&self, lanes: &[LaneId]) -> Vec<String> {
        let mut names: Vec<String> = lanes
            .iter()
            .filter_map(|id| self.agents.get(id).cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Encodes a lane for the store.
pub fn mark(job: crate::job::JobId, key: &LaneKey, (seq, facts): &(u64, LaneFacts)) -> LaneMark {
    let facts = serde_json::to_string(facts).unwrap_or_default();
    LaneMark {
        job,
        lane: key.text(),
        seq: *seq,
        facts,
    }
}

/// Decodes the output of [`mark`].
pub fn read_mark(mark: &LaneMark) -> Option<(LaneKey, u64, LaneFacts)> {
    Some((
        LaneKey::read(&mark.lane)?,
        mark.seq,
        serde_json::from_str(&mark.facts).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_names_round_trip() {
        for agent in ["a", "", "rack/7/a", "ü"] {
            let key = LaneKey {
                agent: agent.into(),
                boot: u64::MAX,
                attempt: 3,
            };
            assert_eq!(LaneKey::read(&key.text()), Some(key));
        }
        for text in ["", "1", "1/2", "x/1/a", "1/-1/a"] {
            assert_eq!(LaneKey::read(text), None, "{text}");
        }
    }

    const LANE: RecordLane = RecordLane {
        boot: 1,
        job: 7,
        attempt: 2,
    };

    fn data(is_last: bool) -> LaneRecord {
        let counters = [("packets".to_owned(), 5)].into();
        LaneRecord::Data(link::DataRecord {
            lane: LANE,
            is_last,
            counters,
            ..link::DataRecord::default()
        })
    }

    /// Lost records `first` to `last`, the last of the lane or not.
    fn lost((first, last): (u64, u64), tuples: Option<u64>, is_last: bool) -> LaneRecord {
        let lost = link::LostRecords {
            lane: LANE,
            first,
            last,
            tuples,
            is_last,
            ..Default::default()
        };
        LaneRecord::Lost(lost)
    }

    fn taken(records: &[(LaneRecord, Option<(i64, LossCount)>)]) -> LaneFacts {
        let mut facts = LaneFacts::new();
        records
            .iter()
            .for_each(|(record, report)| facts.take(record, *report));
        facts
    }

    #[test]
    fn event_time_never_decreases() {
        let report = |ns, seen, lost| Some((ns, LossCount { seen, lost }));
        let facts = taken(&[
            (data(false), report(10, 5, 1)),
            (data(false), report(8, 9, 2)),
        ]);
        assert_eq!(
            (facts.begin(), facts.watermark_ns, facts.loss()),
            (10, 10, LossCount { seen: 9, lost: 2 })
        );
        assert_eq!(
            (facts.end, facts.state()),
            (LaneEnd::Open, LaneActivity::Active)
        );
        assert_eq!(facts.counters["packets"], 5);
        assert_eq!(LaneFacts::new().begin(), i64::MIN, "unknown");
    }

    #[test]
    fn an_unreadable_report_is_counted_and_ends_its_lane() {
        let facts = taken(&[(data(false), None), (data(true), None)]);
        assert_eq!((facts.malformed, facts.watermark_ns), (2, i64::MIN));
        assert_eq!(
            (facts.end, facts.state()),
            (LaneEnd::Finished, LaneActivity::Finished)
        );
    }

    #[test]
    fn lost_records_are_added_up() {
        let facts = taken(&[
            (lost((3, 5), Some(7), false), None),
            (lost((6, 6), None, false), None),
        ]);
        assert_eq!(
            (facts.records_lost, facts.tuples_lost, facts.is_loss_unknown),
            (4, 7, true)
        );
        assert_eq!(facts.end, LaneEnd::Open);
        let all = taken(&[(lost((0, u64::MAX), Some(1), false), None)]);
        assert_eq!(all.records_lost, u64::MAX, "no overflow");
    }

    /// An end without loss is in order; one with loss may lack data. Both end the lane as lost.
    #[test]
    fn a_lane_closed_for_another_process_is_lost() {
        let in_order = taken(&[(lost((4, 4), Some(0), true), None)]);
        assert_eq!((in_order.end, in_order.records_lost), (LaneEnd::Lost, 0));
        let with_loss = taken(&[(lost((4, 5), Some(0), true), None)]);
        assert_eq!((with_loss.end, with_loss.records_lost), (LaneEnd::Lost, 2));
        assert_eq!(with_loss.state(), LaneActivity::Lost);
    }

    #[test]
    fn lanes_are_numbered_once() {
        let mut lanes = JobLanes::default();
        let keys = ["a", "b"].map(|agent| LaneKey::of(agent, LANE));
        let (first, is_new) = lanes.join(&keys[0]);
        let (second, _) = lanes.join(&keys[1]);
        assert!(is_new && first != second);
        assert_eq!(lanes.join(&keys[0]), (first, false));
        let awaited = lanes.number("b");
        assert_eq!(lanes.names(&[awaited, second, first]), ["a", "b"]);
        assert_eq!(lanes.names(&[]), Vec::<String>::new());
    }

    #[test]
    fn only_open_lanes_of_an_agent_are_found() {
        let mut lanes = JobLanes::default();
        for attempt in 1..=3 {
            lanes.join(&LaneKey {
                agent: "a".into(),
                boot: 1,
                attempt,
            });
            lanes.join(&LaneKey {
                agent: "ab".into(),
                boot: 1,
                attempt,
            });
        }
        let ended = LaneKey {
            agent: "a".into(),
            boot: 1,
            attempt: 2,
        };
        lanes.known.get_mut(&ended).expect("joined").facts.end = LaneEnd::Lost;
        let open: Vec<u32> = lanes.open_of("a").map(|(key, _)| key.attempt).collect();
        assert_eq!(open, [1, 3]);
        assert_eq!(
            lanes.mark(&LaneKey {
                agent: "c".into(),
                boot: 1,
                attempt: 1
            }),
            (0, LaneFacts::new())
        );
    }

    #[test]
    fn stored_lanes_are_read_again() {
        let facts = taken(&[(data(true), Some((9, LossCount { seen: 4, lost: 2 })))]);
        let key = LaneKey {
            agent: "rack/7".into(),
            boot: 0xabc,
            attempt: 1,
        };
        let mut stored = mark(crate::job::JobId(3), &key, &(17, facts.clone()));
        assert_eq!(read_mark(&stored), Some((key, 17, facts)));
        stored.facts = "{".into();
        assert_eq!(read_mark(&stored), None);
    }
}
