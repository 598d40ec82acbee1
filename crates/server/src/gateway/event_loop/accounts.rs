//! Counters and states of a job's agents, for users.

use std::collections::BTreeMap;

use control::AgentPresence;
use link::{ClockOffset, ObservedState};

use super::EventLoop;
use crate::gateway::job_runtime::JobRuntime;
use crate::gateway::lanes::{KnownLane, LaneEnd};
use crate::job::JobId;
use crate::results::hub::AgentAccount;

/// Counters that are a current value: of an agent's running monitor.
const CURRENT: [&str; 4] = ["monitor_jobs", "sample_ppm", "slice_level", "waiting"];

impl EventLoop {
    /// Publishes the counters of a job, if changed.
    pub fn account(&mut self, job: JobId) {
        let Some(work) = self.works.get(&job) else {
            return;
        };
        let mut account = work.account();
        account.agents = self.agents_of(work);
        if work.accounted.as_ref() == Some(&account) {
            return;
        }
        if let Err(error) = self.hub.account(job, &account) {
            tracing::debug!("{error}");
        }
        if let Some(work) = self.works.get_mut(&job) {
            work.accounted = Some(account);
        }
    }

    fn agents_of(&self, work: &JobRuntime) -> Vec<AgentAccount> {
        let mut all: BTreeMap<&str, AgentAccount> = BTreeMap::new();
        let saved = self.driver.job(work.id);
        let told = saved
            .into_iter()
            .flat_map(|job| job.agents.keys())
            .map(String::as_str);
        for agent in told.chain(work.lanes.known.keys().map(|key| key.agent.as_str())) {
            all.entry(agent).or_insert_with(|| AgentAccount {
                agent: agent.to_owned(),
                state: self.state_on(work, agent).into(),
                reason: work.troubles.get(agent).cloned(),
                ..AgentAccount::default()
            });
        }
        for (key, KnownLane { facts, .. }) in &work.lanes.known {
            let Some(account) = all.get_mut(key.agent.as_str()) else {
                continue;
            };
            account.records_lost += facts.records_lost;
            account.tuples_lost += facts.tuples_lost;
            for (name, n) in &facts.counters {
                if !CURRENT.contains(&name.as_str()) {
                    *account.counters.entry(name.clone()).or_default() += n;
                } else if facts.end == LaneEnd::Open {
                    account.counters.insert(name.clone(), *n);
                }
            }
        }
        all.into_values().collect()
    }

    /// State of a job on an agent.
    fn state_on(&self, work: &JobRuntime, agent: &str) -> &'static str {
        let is_here = |(name, presence, _): &(&str, AgentPresence, Option<ClockOffset>)| {
            *name == agent && matches!(presence, AgentPresence::Here { .. })
        };
        let mut lanes = work
            .lanes
            .known
            .iter()
            .filter(|(key, _)| key.agent == agent)
            .map(|(_, lane)| lane);
        match self.driver.state_on(work.id, agent) {
            _ if lanes.clone().next().is_some()
                && lanes.all(|lane| lane.facts.end == LaneEnd::Finished) =>
            {
                "finished"
            }
            _ if !self.driver.control().agents().any(|agent| is_here(&agent)) => "absent",
            Some(ObservedState::Waiting) => "waiting",
            Some(ObservedState::Starting) => "starting",
            Some(ObservedState::Running) => "running",
            Some(ObservedState::Stopping) => "stopping",
            Some(ObservedState::Flushing) => "flushing",
            Some(ObservedState::Finished) => "finished",
            Some(ObservedState::Poisoned) => "poisoned",
            Some(ObservedState::Refused) => "refused",
            Some(ObservedState::Gone) | None => "gone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::lanes::LaneKey;

    #[test]
    fn lost_records_are_no_dropped_packets() {
        let schemas = parsers::registry::schemas();
        let query =
            query::check("PARSE http PROCESS (count: w=1s)", &schemas, &()).expect("a query");
        let mut work = JobRuntime::new(
            JobId(1),
            &std::sync::Arc::new(planner::lower(&query)),
            0,
            (1 << 20, 1 << 20),
        );
        let key = LaneKey {
            agent: "web-1".into(),
            boot: 1,
            attempt: 1,
        };
        work.lanes.join(&key);
        let facts = &mut work.lanes.known.get_mut(&key).expect("it has joined").facts;
        (facts.records_lost, facts.tuples_lost) = (3, 7);
        facts.counters = [("packets".to_owned(), 100), ("tuples".to_owned(), 9)].into();
        let account = work.account();
        assert_eq!((account.records_lost, account.tuples_lost), (3, 7));
        assert_eq!(
            (account.received, account.tuples, account.dropped),
            (100, 9, 0)
        );
    }
}
