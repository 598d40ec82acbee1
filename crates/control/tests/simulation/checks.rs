//! Invariants at the end of a run.

use std::collections::{BTreeMap, BTreeSet};

use control::{ControlledJob, Degradation, JobLifetime, JobSpec, JobState, TapAssignment};
use link::{LostRecords, RecordLane, TapTableMessage};

use crate::agent::addresses;
use crate::server::LaneRow;
use crate::world::{Tuple, World};

impl World {
    /// Without faults, exactly the wanted jobs run.
    pub fn check_alive(&self) {
        let jobs = &self.server.jobs;
        let keys: BTreeSet<_> = jobs.values().map(|job| &job.request.key).collect();
        self.check(keys.len() == jobs.len(), || "two jobs have one key".into());
        for job in &self.promised {
            self.check(jobs.contains_key(job), || format!("job {job} is lost"));
        }
        for (agent, host) in self
            .hosts
            .iter()
            .enumerate()
            .filter(|(agent, _)| self.is_honest(*agent))
        {
            let process = host.process.as_ref();
            self.check(process.is_some(), || format!("agent {agent} is not there"));
            for (lane, monitor) in process.into_iter().flat_map(|process| &process.monitors) {
                let own = self.agent_name(agent);
                let is_asked =
                    |job: &ControlledJob| job.request.order_of(&own) == Some(&monitor.order.body);
                self.check(jobs.get(&lane.job).is_some_and(is_asked), || {
                    format!(
                        "agent {agent} runs another's job {}, or part of it",
                        lane.job
                    )
                });
            }
            let running: BTreeSet<u64> = process
                .into_iter()
                .flat_map(|process| process.monitors.keys())
                .map(|lane| lane.job)
                .collect();
            for job in jobs.values() {
                let runs = running.contains(&job.id);
                let is_poisoned = self.may_be_poisoned() && self.is_poisoned(agent, job);
                self.check(runs || is_poisoned || !self.wants(agent, job), || {
                    format!("agent {agent} does not run {job:#?}")
                });
                self.check(!runs || !self.is_long_stopped(job.id), || {
                    format!("agent {agent} runs {job:#?}")
                });
            }
        }
        for job in jobs.values() {
            let is_stuck =
                matches!(job.state, JobState::Draining(_)) && self.is_long_stopped(job.id);
            self.check(!is_stuck, || format!("does not end: {job:#?}"));
        }
        self.check_limits();
        if (0..self.hosts.len()).all(|agent| self.is_honest(agent)) {
            // A hostile agent may claim flows.
            self.check_taps();
        }
        self.check_nobody_is_left_behind();
    }

    /// A job has ended when none of its parts runs or is under way, except on agents that it reports as missing.
    pub fn check_ended(&self, job: u64) {
        let Some(saved) = self.server.jobs.get(&job) else {
            return;
        };
        for (agent, host) in self
            .hosts
            .iter()
            .enumerate()
            .filter(|(agent, _)| self.is_honest(*agent))
        {
            let Some(process) = &host.process else {
                continue;
            };
            let agent = self.agent_name(agent);
            let boot = process.boot;
            let without = Degradation::EndedWithout {
                agent: agent.clone(),
                boot,
            };
            if saved.agents.get(&agent) != Some(&boot) || saved.degraded.contains(&without) {
                continue;
            }
            let runs = process.monitors.keys().any(|lane| lane.job == job);
            let holds = process
                .spool
                .lanes()
                .iter()
                .any(|held| held.lane.job == job && held.lane.boot == boot);
            self.check(!runs && !holds, || {
                format!("job {job} is said to be over, and {agent} has of it")
            });
        }
    }

    fn is_poisoned(&self, agent: usize, job: &ControlledJob) -> bool {
        let poisoned = Degradation::Poisoned {
            agent: self.agent_name(agent),
        };
        self.server
            .process
            .as_ref()
            .is_some_and(|process| process.control.degraded(job).contains(&poisoned))
    }

    /// For a flow between two hosts, or between a host and another address, exactly one monitor of a job reports it.
    fn check_taps(&self) {
        let mut watching: BTreeMap<u64, BTreeMap<usize, &TapTableMessage>> = BTreeMap::new();
        for (agent, host) in self.hosts.iter().enumerate() {
            for (lane, monitor) in host.process.iter().flat_map(|process| &process.monitors) {
                watching
                    .entry(lane.job)
                    .or_default()
                    .insert(agent, &monitor.taps);
            }
        }
        let stands = |job: &u64| {
            let job = self.server.jobs.get(job);
            // A job that crashes repeatedly runs on different hosts at different times.
            let asks = |request: &JobSpec| {
                request.kind == JobLifetime::Standing
                    && request.taps == TapAssignment::One
                    && request.body[1] == 0
            };
            job.is_some_and(|job| asks(&job.request) && job.state.is_active())
        };
        for (job, tables) in watching.iter().filter(|(job, _)| stands(job)) {
            for (agent, table) in tables {
                let all: BTreeSet<_> = tables
                    .keys()
                    .map(|agent| addresses(*agent)[0].clone())
                    .collect();
                let others: BTreeSet<_> = table.others.iter().cloned().collect();
                let mut expected = all;
                expected.remove(&addresses(*agent)[0]);
                let is_so = others == expected
                    && (others.is_empty() || table.own == [addresses(*agent)[0].clone()]);
                self.check(is_so, || {
                    format!("agent {agent} of {tables:?} has another table for job {job}")
                });
            }
        }
    }

    fn honest_lanes(&self) -> impl Iterator<Item = (&(String, RecordLane), &LaneRow)> {
        self.server
            .lanes
            .iter()
            .filter(|((agent, _), _)| self.is_honest_name(agent))
    }

    /// The packets used by all monitors never exceed the job's limit.
    fn check_limits(&self) {
        if (0..self.hosts.len()).any(|agent| !self.is_honest(agent)) {
            // After a restart of the server, a hostile agent may claim others' packets and return them.
            return;
        }
        let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
        for tuple in self.tuples_of_now() {
            *taken.entry(tuple.lane.job).or_default() += 1;
        }
        for job in self.server.jobs.values() {
            let taken = taken.get(&job.id).copied().unwrap_or_default();
            let is_held = job.request.limit.packets.is_none_or(|max| taken <= max);
            self.check(is_held, || {
                format!("{taken} packets were taken of {job:#?}")
            });
        }
    }

    /// After all jobs were stopped, nothing remains, and everything is accounted for.
    pub fn check_over(&self) {
        for &job in self.server.jobs.keys() {
            self.check(self.is_ended(job), || {
                format!("does not end: {:#?}", self.server.jobs[&job])
            });
        }
        for (agent, host) in self
            .hosts
            .iter()
            .enumerate()
            .filter(|(agent, _)| self.is_honest(*agent))
        {
            let Some(process) = &host.process else {
                continue;
            };
            self.check(process.monitors.is_empty(), || {
                format!("agent {agent} has an orphan")
            });
            let left = process.spool.lanes();
            self.check(left.is_empty(), || {
                format!("agent {agent} still has {left:?}")
            });
        }
        for (lane, row) in self.honest_lanes() {
            self.check(row.is_closed, || format!("{lane:?} is open"));
        }
        self.check_limits();
        self.check_tuples();
        self.check_counts();
    }

    /// Every tuple is in the results or in a loss.
    fn check_tuples(&self) {
        for tuple in self.tuples_of_now().filter(|tuple| !tuple.is_committed) {
            let is_told = self.is_told_lost(tuple);
            self.check(is_told, || {
                let agent = self.agent_name(tuple.agent);
                let row = self
                    .server
                    .lanes
                    .get(&(agent, tuple.lane))
                    .map(|row| (row.durable, &row.lost));
                format!(
                    "a tuple is nowhere: {tuple:?}, {row:?}, {:#?}",
                    self.server.jobs.get(&tuple.lane.job)
                )
            });
        }
    }

    fn is_told_lost(&self, tuple: &Tuple) -> bool {
        let agent = self.agent_name(tuple.agent);
        if let Some(row) = self.server.lanes.get(&(agent.clone(), tuple.lane)) {
            let tells = |lost: &LostRecords| match tuple.seq {
                Some(seq) => {
                    (lost.first..=lost.last).contains(&seq) || lost.is_last && seq > lost.last
                }
                // The packet was in a monitor that died.
                None => lost.is_last && lost.tuples.is_none(),
            };
            return row.lost.iter().any(tells);
        }
        // No record of the lane arrived: the job reports that this incarnation ended, or that the job ended without it.
        let tells = |degraded: &Degradation| match degraded {
            Degradation::Restarted {
                agent: of, boot, ..
            }
            | Degradation::EndedWithout { agent: of, boot } => {
                *of == agent && *boot == tuple.lane.boot
            }
            _ => false,
        };
        self.server
            .jobs
            .get(&tuple.lane.job)
            .is_some_and(|job| job.degraded.iter().any(tells))
    }

    /// If a loss has a number of tuples, it is correct, and none of them is in the results.
    fn check_counts(&self) {
        let mut by_lane: BTreeMap<_, Vec<&Tuple>> = BTreeMap::new();
        for tuple in self.tuples_of_now() {
            by_lane
                .entry((self.agent_name(tuple.agent), tuple.lane))
                .or_default()
                .push(tuple);
        }
        for (lane, row) in self.honest_lanes() {
            for lost in row.lost.iter().filter(|lost| lost.tuples.is_some()) {
                let is_in = |tuple: &&&Tuple| {
                    tuple
                        .seq
                        .is_some_and(|seq| (lost.first..=lost.last).contains(&seq))
                };
                let inside: Vec<_> = by_lane
                    .get(lane)
                    .into_iter()
                    .flatten()
                    .filter(is_in)
                    .collect();
                let is_right = lost.tuples == Some(inside.len() as u64)
                    && inside.iter().all(|tuple| !tuple.is_committed);
                self.check(is_right, || {
                    format!("{lost:?} of {lane:?} is {} tuples", inside.len())
                });
            }
        }
    }
}
