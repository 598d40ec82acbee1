//! Shows the states and counters of jobs to users.

use std::collections::BTreeMap;

use collect::ExporterCounts;
use control::{AgentPresence, Degradation};
use link::{ClockOffset, ObservedState};

use super::control_driver::ControlDriver;
use super::fleet::JobHealth;
use super::job_runtime::JobRuntime;
use super::lanes::{KnownLane, LaneEnd};
use super::mirror_worker::MirrorWorker;
use super::user_messages;
use crate::job::JobState;
use crate::results::hub::{AgentAccount, ResultHub};

/// Counters that are a current value: of an agent's running monitor.
const CURRENT: [&str; 4] = ["monitor_jobs", "sample_ppm", "slice_level", "waiting"];

/// Minimum clock offset of an agent that is reported, in nanoseconds.
const CLOCK_OFFSET_MIN_NS: i64 = 100_000_000;

/// State of jobs by the decisions of [`control`] and their own results.
pub struct JobStatus<'a> {
    pub driver: &'a ControlDriver,
    pub hub: &'a ResultHub,
}

impl JobStatus<'_> {
    /// Publishes the state of a job and its problems, if changed.
    pub fn show(&self, runtime: &mut JobRuntime) {
        let id = runtime.id;
        let Some(known) = self.driver.job(id) else {
            return;
        };
        let state = JobState::from(&known.state);
        if state.has_ended() {
            // Reported with its last rows.
            return;
        }
        let mut problems: Vec<String> =
            user_messages::degraded(&self.driver.control().degraded(known)).collect();
        problems.extend(runtime.agent_troubles());
        let state = runtime
            .mirror
            .as_ref()
            .map_or(state.clone(), |mirror| mirror.shown(state));
        problems.extend(runtime.mirror.iter().flat_map(MirrorWorker::lacking));
        problems.extend(user_messages::lacks(runtime));
        problems.extend(
            runtime
                .input
                .reader()
                .and_then(|reading| reading.trouble.clone()),
        );
        let lateness = |pipeline: &plan::Pipeline| pipeline.window.map(|window| window.lateness_ns);
        let lateness = runtime
            .plan
            .dataflow
            .pipelines
            .iter()
            .filter_map(lateness)
            .min()
            .unwrap_or(0);
        let allowed = (lateness / 2).max(CLOCK_OFFSET_MIN_NS).unsigned_abs();
        for (agent, _, ahead) in self
            .driver
            .control()
            .agents()
            .filter(|(agent, ..)| known.agents.contains_key(*agent))
        {
            let off = ahead
                .map(|ahead| ahead.ns)
                .filter(|ns| ns.unsigned_abs() > allowed);
            problems.extend(off.map(|ns| user_messages::clock(agent, ns)));
        }
        problems.sort();
        problems.dedup();
        // A job that waits for agents has no agents to report about.
        let reason =
            (state != JobState::Planned && !problems.is_empty()).then(|| problems.join("; "));
        let shown = Some((state.clone(), reason.clone()));
        if runtime.told != shown {
            match self.hub.turn(id, state, reason.as_deref()) {
                Ok(()) => runtime.told = shown,
                Err(error) => tracing::warn!("cannot store the state of job {id}: {error}"),
            }
        }
    }

    /// Publishes the counters of a job, if changed.
    pub fn account(&self, runtime: &mut JobRuntime) {
        let mut account = runtime.account();
        account.agents = self.agents_of(runtime);
        if runtime.accounted.as_ref() == Some(&account) {
            return;
        }
        if let Err(error) = self.hub.account(runtime.id, &account) {
            tracing::debug!("{error}");
        }
        runtime.accounted = Some(account);
    }

    fn agents_of(&self, runtime: &JobRuntime) -> Vec<AgentAccount> {
        let mut all: BTreeMap<&str, AgentAccount> = BTreeMap::new();
        let saved = self.driver.job(runtime.id);
        let assigned = saved
            .into_iter()
            .flat_map(|job| job.agents.keys())
            .map(String::as_str);
        for agent in assigned.chain(runtime.lanes.known.keys().map(|key| key.agent.as_str())) {
            all.entry(agent).or_insert_with(|| AgentAccount {
                agent: agent.to_owned(),
                state: self.state_on(runtime, agent).into(),
                reason: runtime.troubles.get(agent).cloned(),
                ..AgentAccount::default()
            });
        }
        for (key, KnownLane { facts, .. }) in &runtime.lanes.known {
            let Some(account) = all.get_mut(key.agent.as_str()) else {
                continue;
            };
            account.records_lost += facts.records_lost;
            account.tuples_lost += facts.tuples_lost;
            for (name, n) in &facts.counters {
                if !CURRENT.contains(&name.as_str()) && !ExporterCounts::is_current(name) {
                    *account.counters.entry(name.clone()).or_default() += n;
                } else if facts.end == LaneEnd::Open {
                    account.counters.insert(name.clone(), *n);
                }
            }
        }
        let with_exporters = |mut account: AgentAccount| {
            let exporters = ExporterCounts::take(&mut account.counters);
            account.exporters = exporters.into_iter().map(Into::into).collect();
            account
        };
        all.into_values().map(with_exporters).collect()
    }

    /// State of a job on an agent.
    fn state_on(&self, runtime: &JobRuntime, agent: &str) -> &'static str {
        let is_here = |(name, presence, _): &(&str, AgentPresence, Option<ClockOffset>)| {
            *name == agent && matches!(presence, AgentPresence::Here { .. })
        };
        let mut lanes = runtime
            .lanes
            .known
            .iter()
            .filter(|(key, _)| key.agent == agent)
            .map(|(_, lane)| lane);
        match self.driver.state_on(runtime.id, agent) {
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

    /// State of a job, for metrics.
    pub fn health(&self, runtime: &JobRuntime) -> JobHealth {
        let account = runtime.account();
        let degraded = self
            .driver
            .job(runtime.id)
            .map(|job| self.driver.control().degraded(job));
        let is_absent = |degraded: &&Degradation| matches!(degraded, Degradation::Absent { .. });
        JobHealth {
            id: runtime.id,
            agents_missing: degraded.iter().flatten().filter(is_absent).count(),
            late_tuples: runtime.progress.late,
            lost_records: runtime
                .lanes
                .known
                .values()
                .map(|known| known.facts.records_lost)
                .sum(),
            watermark_ns: account.watermark_ns,
            packets: account.received,
            lost_packets: account.lost_before_us,
            frames_bytes: runtime.frames_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::lanes::LaneKey;
    use crate::job::JobId;

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
        facts.records_lost = 3;
        facts.tuples_lost = 7;
        facts.counters = [("packets".to_owned(), 100), ("tuples".to_owned(), 9)].into();
        let account = work.account();
        assert_eq!((account.records_lost, account.tuples_lost), (3, 7));
        assert_eq!(
            (account.received, account.tuples, account.dropped),
            (100, 9, 0)
        );
    }
}
