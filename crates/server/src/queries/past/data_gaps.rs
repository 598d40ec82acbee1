//! Periods without data, per agent, computed from its lanes. Data lost with an incarnation of an agent is missing until
//! the next one starts; data of a disconnected agent is missing until it reconnects.

use std::collections::BTreeMap;

use tuple::Batch;

use super::Period;
use super::past_queries::PastQueries;
use crate::gateway::{LaneEnd, LaneFacts, lane_facts};
use crate::job::Job;
use crate::store::service_error::ServiceError;

/// Maximum delay of a working agent.
const BEHIND_NS: i64 = 10_000_000_000;

/// A period without data of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataGap {
    /// The agent.
    pub agent: String,
    /// Start and end, exclusive.
    pub period: Period,
}

/// Lanes, each with its agent.
pub type OfAgents = Vec<(String, LaneFacts)>;

/// Absences of a job's agents; `until`: end of the requested period; `is_at_work`: agents that may send more soon.
pub fn absences(
    lanes: &[(String, LaneFacts)],
    until: i64,
    is_at_work: &dyn Fn(&str) -> bool,
) -> Vec<DataGap> {
    let mut by_agent: BTreeMap<&str, Vec<&LaneFacts>> = BTreeMap::new();
    for (agent, facts) in lanes
        .iter()
        .filter(|(_, facts)| facts.watermark_ns > i64::MIN)
    {
        by_agent.entry(agent).or_default().push(facts);
    }
    let mut found = Vec::new();
    for (agent, mut lanes) in by_agent {
        lanes.sort_by_key(|facts| facts.begin());
        let mut gone: Option<i64> = None;
        let mut add = |from: i64, to: i64| {
            if from < to {
                found.push(DataGap {
                    agent: agent.to_owned(),
                    period: (from, to),
                });
            }
        };
        for facts in &lanes {
            if let Some(from) = gone {
                add(from, facts.begin());
            }
            let come_to = gone.unwrap_or(i64::MIN).max(facts.watermark_ns);
            gone = (facts.end != LaneEnd::Finished).then_some(come_to);
        }
        let goes_on =
            lanes.last().is_some_and(|facts| facts.end == LaneEnd::Open) && is_at_work(agent);
        let allowed = if goes_on { BEHIND_NS } else { 0 };
        if let Some(from) = gone.filter(|from| *from < until.saturating_sub(allowed)) {
            add(from, until);
        }
    }
    found
}

impl PastQueries {
    /// Lanes and absences of a job with tuples as rows, up to a time.
    pub(super) fn lanes_of(
        &self,
        job: &Job,
        until: i64,
    ) -> Result<(OfAgents, Vec<DataGap>), ServiceError> {
        let lanes = lane_facts(&self.store.frames, job.id)?;
        let agents = self.jobs.fleet.agents();
        let is_at_work = |name: &str| {
            job.ended_ns.is_none()
                && agents
                    .iter()
                    .any(|agent| agent.name == name && agent.connected)
        };
        let absences = absences(&lanes, until, &is_at_work);
        Ok((lanes, absences))
    }
}

/// Agents missing within a period, sorted and distinct.
pub fn missing(absences: &[DataGap], (since, until): Period) -> Vec<String> {
    let is_in = |absence: &&DataGap| absence.period.0 < until && since < absence.period.1;
    let mut names: Vec<String> = absences
        .iter()
        .filter(is_in)
        .map(|absence| absence.agent.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Splits rows by the agents that they lack: for the period of each row's window, or for the whole period without
/// windows.
pub fn cut(batch: &Batch, absences: &[DataGap], period: Period) -> Vec<(Batch, Vec<String>)> {
    let column = |name| batch.schema().find(name).map(|id| batch.i64(id).clone());
    let (Some(starts), Some(ends)) = (column("window_start"), column("window_end")) else {
        return vec![(batch.clone(), missing(absences, period))];
    };
    let of = |row: usize| missing(absences, (starts.value(row), ends.value(row)));
    let mut cut: Vec<(Batch, Vec<String>)> = Vec::new();
    let mut from = 0;
    for row in 1..=batch.rows() {
        let is_end = row == batch.rows()
            || (starts.value(row), ends.value(row)) != (starts.value(from), ends.value(from));
        if is_end {
            cut.push((batch.slice(from, row - from), of(from)));
            from = row;
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(agent: &str, begin: i64, watermark: i64, end: LaneEnd) -> (String, LaneFacts) {
        let facts = LaneFacts {
            begin_ns: Some(begin),
            watermark_ns: watermark,
            end,
            ..LaneFacts::default()
        };
        (agent.to_owned(), facts)
    }

    #[test]
    fn periods_without_data_are_gaps() {
        const FAR: i64 = BEHIND_NS * 10;
        for (lanes, expected) in [
            // Working or finished.
            (vec![lane("a", 0, FAR - 1, LaneEnd::Open)], vec![]),
            (vec![lane("a", 0, 5, LaneEnd::Finished)], vec![]),
            // The next incarnation starts at the end of the previous one, or later.
            (
                vec![
                    lane("a", 0, 5, LaneEnd::Lost),
                    lane("a", 5, FAR, LaneEnd::Open),
                ],
                vec![],
            ),
            (
                vec![
                    lane("a", 0, 5, LaneEnd::Lost),
                    lane("a", 9, FAR, LaneEnd::Open),
                ],
                vec![("a", 5, 9)],
            ),
            (
                vec![
                    lane("a", 0, 5, LaneEnd::Finished),
                    lane("a", 9, FAR, LaneEnd::Open),
                ],
                vec![],
            ),
            // Lost for good, and disconnected for now.
            (vec![lane("a", 0, 5, LaneEnd::Lost)], vec![("a", 5, FAR)]),
            (
                vec![lane("gone", 0, FAR - 1, LaneEnd::Open)],
                vec![("gone", FAR - 1, FAR)],
            ),
            (
                vec![
                    lane("b", 0, FAR, LaneEnd::Open),
                    lane("a", 0, 5, LaneEnd::Open),
                ],
                vec![("a", 5, FAR)],
            ),
        ] {
            let found = absences(&lanes, FAR, &|agent| agent != "gone");
            let found: Vec<_> = found
                .iter()
                .map(|a| (a.agent.as_str(), a.period.0, a.period.1))
                .collect();
            assert_eq!(found, expected, "{lanes:?}");
        }
    }

    #[test]
    fn agents_missing_depends_on_the_period() {
        let absence = |agent: &str, period| DataGap {
            agent: agent.into(),
            period,
        };
        let all = [
            absence("b", (10, 20)),
            absence("a", (15, 30)),
            absence("b", (40, 50)),
        ];
        for (period, expected) in [
            ((0, 10), &[][..]),
            ((0, 11), &["b"]),
            ((15, 16), &["a", "b"]),
            ((29, 41), &["a", "b"]),
            ((30, 40), &[]),
        ] {
            assert_eq!(missing(&all, period), expected, "{period:?}");
        }
    }
}
