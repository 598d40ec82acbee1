//! Limits of publishers: while a query runs, it reads from the log of lanes when they took effect, and marks rows of that time as
//! `approximate`.
//!
//! The log is another topic than tuples and cells, so an entry may arrive once its windows have been emitted: then the windows that are open
//! when it arrives are marked, as with late tuples.

use std::collections::BTreeMap;
use std::time::Duration;

use ::bus::lanes::LaneLogReader;
use ::bus::lanes::log::{LaneLog, LimitPeriod};
use plan::TimeBounds;
use stream::{Engine, LimitedStretch};

use super::late_marks::LateMarks;

/// Longest wait for the last entries.
const LAST: Duration = Duration::from_millis(500);

/// See the module documentation.
pub struct LimitMarks {
    lanes: LaneLogReader,
    topics: Vec<String>,
    bounds: TimeBounds,
    /// Limits already marked, by lane.
    marked: BTreeMap<String, LimitPeriod>,
}

impl LimitMarks {
    /// Limits of the publishers to `topics` within `bounds`, from an open log.
    #[must_use]
    pub fn new(lanes: LaneLogReader, topics: Vec<String>, bounds: TimeBounds) -> LimitMarks {
        LimitMarks {
            lanes,
            topics,
            bounds,
            marked: BTreeMap::new(),
        }
    }

    /// Ignores limits reported so far: they concern tuples and cells published before.
    #[must_use]
    pub fn from_now(mut self) -> LimitMarks {
        if let Ok(log) = self.lanes.read(Duration::ZERO) {
            self.marked = new(log, &self.topics, &self.marked).into_iter().collect();
        }
        self
    }

    /// Marks the limits reported since the last call; before the `last` windows are emitted, waits for entries that the brokers have.
    pub fn mark(&mut self, engine: &mut Engine, late: &LateMarks, last: bool) {
        let read = if last {
            self.lanes.read_all(LAST)
        } else {
            self.lanes.read(Duration::ZERO)
        };
        // Publishers end if the log is unreadable, and report it.
        let Ok(log) = read else { return };
        for (lane, limits) in new(log, &self.topics, &self.marked) {
            let times = limits.times - self.marked.get(&lane).map_or(0, |marked| marked.times);
            let is_within = self
                .bounds
                .since_ns
                .is_none_or(|since| limits.to_ns >= since)
                && self
                    .bounds
                    .until_ns
                    .is_none_or(|until| limits.from_ns < until);
            if is_within {
                late.limit(
                    engine,
                    LimitedStretch {
                        from_ns: limits.from_ns,
                        to_ns: limits.to_ns,
                        times,
                    },
                );
            }
            self.marked.insert(lane, limits);
        }
    }
}

/// Lanes of the topics with limits that took effect more often than marked.
fn new(
    log: &LaneLog,
    topics: &[String],
    marked: &BTreeMap<String, LimitPeriod>,
) -> Vec<(String, LimitPeriod)> {
    let lanes = topics
        .iter()
        .flat_map(|topic| log.of_topic(topic, log.last_ms()));
    let limits = lanes.filter_map(|(known, _)| Some((&known.entry.lane, known.entry.limited?)));
    let is_new = |(lane, limits): &(&String, LimitPeriod)| {
        marked.get(*lane).is_none_or(|of| of.times < limits.times)
    };
    limits
        .filter(is_new)
        .map(|(lane, limits)| (lane.clone(), limits))
        .collect()
}

#[cfg(test)]
mod tests {
    use ::bus::lanes::log::{LaneEntry, LaneStatement};

    use super::*;

    fn entry(lane: &str, topic: &str, times: Option<u64>) -> LaneEntry {
        LaneEntry {
            lane: lane.into(),
            number: 1,
            says: LaneStatement::Holds,
            partition: 0,
            topics: vec![topic.into()],
            about: BTreeMap::new(),
            capture: None,
            limited: times.map(|times| LimitPeriod {
                from_ns: 5,
                to_ns: 9,
                times,
            }),
        }
    }

    fn names(found: &[(String, LimitPeriod)]) -> Vec<(&str, u64)> {
        found
            .iter()
            .map(|(lane, limits)| (lane.as_str(), limits.times))
            .collect()
    }

    /// A lane repeats its entry every few seconds, with all limits so far.
    #[test]
    fn only_limits_that_were_not_marked_are_new() {
        let topics = ["t".to_owned()];
        let mut log = LaneLog::default();
        let mut marked = BTreeMap::new();
        for (number, (times, expected)) in [
            (None, vec![]),
            (Some(2), vec![("a", 2)]),
            (Some(2), vec![]),
            (Some(7), vec![("a", 7)]),
            // An older state, as from a replica that became leader.
            (Some(3), vec![]),
            (None, vec![]),
        ]
        .into_iter()
        .enumerate()
        {
            log.apply(number as i64, entry("a", "t", times));
            let found = new(&log, &topics, &marked);
            assert_eq!(names(&found), expected, "entry {number}");
            marked.extend(found);
        }
    }

    #[test]
    fn limits_of_other_topics_are_not_marked() {
        let mut log = LaneLog::default();
        for (lane, topic) in [("a", "t"), ("b", "other"), ("c", "u")] {
            log.apply(1, entry(lane, topic, Some(1)));
        }
        let found = new(&log, &["t".to_owned(), "u".to_owned()], &BTreeMap::new());
        let mut lanes = names(&found);
        lanes.sort_unstable();
        assert_eq!(lanes, [("a", 1), ("c", 1)]);
        assert!(new(&log, &[], &BTreeMap::new()).is_empty());
    }
}
