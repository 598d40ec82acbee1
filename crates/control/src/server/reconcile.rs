//! Progress of jobs from the reports of agents. Reports older than the last set sent are ignored.

use link::{ObservedState, SessionTime};

use super::{AgentPeer, AgentPresence, ServerAction, ServerControl};
use crate::job::{ControlledJob, Degradation, EndReason, JobLifetime, JobState};

impl ServerControl {
    /// Recomputes the state of all jobs. Fast enough for hundreds of jobs and agents.
    pub(super) fn reconcile(&mut self, now: SessionTime) {
        self.miss(now.monotonic_ns);
        let jobs: Vec<u64> = self.jobs.keys().copied().collect();
        for id in jobs {
            let Some(job) = self.jobs.get(&id) else {
                continue;
            };
            match job.state {
                JobState::Planned if !job.agents.is_empty() => self.set(id, JobState::Arming),
                JobState::Planned | JobState::Arming | JobState::Running => {}
                JobState::Draining(_) | JobState::Ended(_) => continue,
            }
            if let Some(why) = self.jobs.get(&id).and_then(|job| self.is_through(job, now)) {
                self.drain(id, why);
            }
        }
        self.note_drains(now.monotonic_ns);
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let Some(job) = self.jobs.get(&id) else {
                continue;
            };
            if let JobState::Draining(why) = &job.state
                && job
                    .agents
                    .keys()
                    .all(|agent| self.is_drained(agent, id, now.monotonic_ns))
            {
                let why = why.clone();
                self.note_missing(id, now.monotonic_ns);
                self.set(id, JobState::Ended(why.clone()));
                self.actions.push(ServerAction::Ended { job: id, why });
            }
        }
    }

    /// Starts the timers of ending jobs, and removes those of ended jobs.
    fn note_drains(&mut self, now_ns: u64) {
        let is_draining = |job: &&ControlledJob| matches!(job.state, JobState::Draining(_));
        self.drains
            .retain(|(job, _), _| self.jobs.get(job).is_some_and(|job| is_draining(&job)));
        for job in self.jobs.values().filter(is_draining) {
            for agent in job.agents.keys() {
                self.drains.entry((job.id, agent.clone())).or_insert(now_ns);
            }
        }
    }

    /// Whether an agent has sent nothing of an ending job within the drain timeout; the job then ends without it.
    fn is_stuck(&self, agent: &str, job: u64, now_ns: u64) -> bool {
        let since_ns = self.drains.get(&(job, agent.to_owned()));
        since_ns.is_some_and(|since_ns| {
            now_ns.saturating_sub(*since_ns) >= self.settings.drain_patience_ns
        })
    }

    fn set(&mut self, job: u64, state: JobState) {
        if let Some(known) = self.jobs.get_mut(&job) {
            known.state = state;
            self.unsaved.insert(job);
        }
    }

    /// Sets the end of an active job without one.
    pub(super) fn begin_limit(&mut self, job: u64, ends_at_ns: i64) {
        if let Some(known) = self.jobs.get_mut(&job)
            && known.state.is_active()
            && known.request.limit.ends_at_ns.is_none()
        {
            known.request.limit.ends_at_ns = Some(ends_at_ns);
            self.unsaved.insert(job);
        }
    }

    /// Notes the agents without which a job ends.
    fn note_missing(&mut self, job: u64, now_ns: u64) {
        let agents = self
            .jobs
            .get(&job)
            .map(|job| job.agents.clone())
            .unwrap_or_default();
        let is_missing = |agent: &str| {
            self.peers
                .get(agent)
                .is_some_and(|peer| self.is_written_off(peer, now_ns))
                || !self.has_nothing_of(agent, job)
        };
        let missing: Vec<_> = agents
            .into_iter()
            .filter(|(agent, _)| is_missing(agent))
            .collect();
        let Some(job) = self.jobs.get_mut(&job) else {
            return;
        };
        for (agent, boot) in missing {
            job.note(Degradation::EndedWithout { agent, boot });
        }
    }

    /// Stops waiting for agents after a long absence.
    fn miss(&mut self, now_ns: u64) {
        for (agent, peer) in &mut self.peers {
            if let AgentPresence::Away { since_ns } = peer.presence
                && now_ns.saturating_sub(since_ns) >= self.settings.absent_after_ns
            {
                peer.presence = AgentPresence::Absent { since_ns };
                self.actions.push(ServerAction::Idle {
                    agent: agent.clone(),
                });
            }
        }
    }

    /// Reason to end a job, if any.
    fn is_through(&self, job: &ControlledJob, now: SessionTime) -> Option<EndReason> {
        if job
            .request
            .limit
            .ends_at_ns
            .is_some_and(|at| at <= now.wall_ns)
        {
            return Some(EndReason::TimeLimit);
        }
        if self.has_taken_all(job, now.monotonic_ns) {
            return Some(EndReason::PacketLimit);
        }
        if !job.request.is_open()
            && job
                .agents
                .keys()
                .any(|agent| self.is_hopeless(agent, job.id))
        {
            return Some(EndReason::Poisoned);
        }
        if job.request.kind == JobLifetime::Standing || job.agents.is_empty() {
            return None;
        }
        let states: Option<Vec<_>> = job
            .agents
            .keys()
            .map(|agent| self.final_state(agent, job.id, now.monotonic_ns))
            .collect();
        let states = states?;
        let is_hopeless = states.iter().all(|state| state.is_hopeless());
        Some(if is_hopeless {
            EndReason::Poisoned
        } else {
            EndReason::Finished
        })
    }

    /// Whether a connected agent will never run a job.
    fn is_hopeless(&self, agent: &str, job: u64) -> bool {
        let state = self.peers.get(agent).and_then(|peer| peer.state_of(job));
        state.is_some_and(ObservedState::is_hopeless)
    }

    /// Final state of a job on an agent; `None`: it has not ended, or unknown.
    fn final_state(&self, agent: &str, job: u64, now_ns: u64) -> Option<ObservedState> {
        let peer = self.peers.get(agent)?;
        if self.is_written_off(peer, now_ns) {
            return Some(ObservedState::Gone);
        }
        peer.state_of(job).filter(|state| has_ended(*state))
    }

    /// Whether the agent's leases have expired, so that none of its monitors run.
    pub(super) fn is_written_off(&self, peer: &AgentPeer, now_ns: u64) -> bool {
        peer.away_ns(now_ns)
            .is_some_and(|away| away >= self.written_off_after_ns())
    }

    /// Whether an agent has no more data of a stopped job.
    fn is_drained(&self, agent: &str, job: u64, now_ns: u64) -> bool {
        let is_written_off = self
            .peers
            .get(agent)
            .is_some_and(|peer| self.is_written_off(peer, now_ns));
        is_written_off || self.has_nothing_of(agent, job) || self.is_stuck(agent, job, now_ns)
    }

    /// Whether an agent reports that nothing of a job is left.
    fn has_nothing_of(&self, agent: &str, job: u64) -> bool {
        self.peers
            .get(agent)
            .is_none_or(|peer| peer.state_of(job) == Some(ObservedState::Gone))
    }

    /// Whether a job's packets are all granted, and used by the connected agents.
    fn has_taken_all(&self, job: &ControlledJob, now_ns: u64) -> bool {
        if job.request.limit.packets.is_none() || job.packets_left() > 0 {
            return false;
        }
        job.agents
            .keys()
            .filter_map(|agent| self.peers.get(agent))
            .all(|peer| {
                let share = peer.shares.get(&job.id);
                self.is_written_off(peer, now_ns)
                    || peer.session().is_some()
                        && share.is_none_or(|share| share.used >= share.allowed)
            })
    }
}

/// Whether a job in this state has ended on the agent.
pub(super) fn has_ended(state: ObservedState) -> bool {
    state == ObservedState::Finished || state.is_hopeless()
}
