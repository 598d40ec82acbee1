//! Admission of jobs and selection of their agents: idempotency keys, quotas, labels, and the capacity of hosts.

use std::collections::{BTreeMap, BTreeSet};

use link::SessionTime;
use plan::{JobCost, ResourceUsage};

use super::{ServerAction, ServerControl};
use crate::job::{ControlledJob, Degradation, JobLifetime, JobSpec, JobState};

/// An accepted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmittedJob {
    /// Number.
    pub job: u64,
    /// Whether the job is new; otherwise an earlier job has the same key.
    pub is_new: bool,
}

/// Agents with their incarnations, and problems.
type Chosen = (BTreeMap<String, u64>, BTreeSet<Degradation>);

/// Reason for the rejection of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionError {
    /// The disk is full.
    StoreIsFull,
    /// The owner's limit is reached.
    OwnerHasTooMany {
        /// The limit.
        max: usize,
    },
    /// The total limit is reached.
    TooMany {
        /// The limit.
        max: usize,
    },
    /// No connected agent has the labels and the capability.
    NoAgent {
        /// Required labels.
        on: BTreeMap<String, String>,
        /// Required capability.
        capability: Option<String>,
    },
    /// An agent with its own part is not connected.
    Missing {
        /// Name of the agent.
        agent: String,
    },
    /// No connected host has the capacity for the job in addition to its other jobs.
    TooCostly {
        /// Name of the first agent without capacity.
        agent: String,
        /// Required and available capacity.
        why: String,
    },
    /// The job would end before its start.
    EndsInThePast,
}

impl ServerControl {
    pub(super) fn submit(
        &mut self,
        request: JobSpec,
        now: SessionTime,
    ) -> Result<SubmittedJob, AdmissionError> {
        let key = (request.owner.clone(), request.key.clone());
        if let Some(&job) = self.keys.get(&key).filter(|_| !request.key.is_empty()) {
            return Ok(SubmittedJob { job, is_new: false });
        }
        self.check_quotas(&request, now)?;
        let (agents, degraded) = self.choose(&request)?;
        let job = self.last_job.saturating_add(1);
        self.last_job = job;
        if !request.key.is_empty() {
            self.remember(key, job);
        }
        for agent in agents.keys() {
            if let Some(peer) = self.peers.get_mut(agent) {
                peer.is_outdated = true;
            }
        }
        let job_state = JobState::Planned;
        let job_of = ControlledJob {
            id: job,
            request,
            state: job_state,
            agents,
            granted: 0,
            shares: BTreeMap::new(),
            degraded,
        };
        self.jobs.insert(job, job_of);
        self.unsaved.insert(job);
        Ok(SubmittedJob { job, is_new: true })
    }

    fn check_quotas(&self, request: &JobSpec, now: SessionTime) -> Result<(), AdmissionError> {
        let of_owner = self
            .jobs
            .values()
            .filter(|job| job.request.owner == request.owner)
            .count();
        if self.store_is_full {
            Err(AdmissionError::StoreIsFull)
        } else if of_owner >= self.settings.jobs_per_owner_max {
            Err(AdmissionError::OwnerHasTooMany {
                max: self.settings.jobs_per_owner_max,
            })
        } else if self.jobs.len() >= self.settings.jobs_max {
            Err(AdmissionError::TooMany {
                max: self.settings.jobs_max,
            })
        } else if request.limit.ends_at_ns.is_some_and(|at| at <= now.wall_ns) {
            Err(AdmissionError::EndsInThePast)
        } else {
            Ok(())
        }
    }

    /// Connected agents for a job with their incarnations, and those whose hosts lack the capacity.
    fn choose(&self, request: &JobSpec) -> Result<Chosen, AdmissionError> {
        if !request.is_open() {
            return self.choose_named(request);
        }
        let mut agents = BTreeMap::new();
        let mut without = BTreeSet::new();
        for (agent, peer) in &self.peers {
            if peer.session().is_some() && peer.suits(request) {
                match self.excess(agent, &request.cost) {
                    Some(why) => drop(without.insert(Degradation::NoRoom {
                        agent: agent.clone(),
                        why,
                    })),
                    None => drop(agents.insert(agent.clone(), peer.boot)),
                }
            }
        }
        match without.first() {
            Some(Degradation::NoRoom { agent, why }) if agents.is_empty() => {
                Err(AdmissionError::TooCostly {
                    agent: agent.clone(),
                    why: why.clone(),
                })
            }
            None if agents.is_empty() && request.kind == JobLifetime::OneOff => {
                Err(AdmissionError::NoAgent {
                    on: request.on.clone(),
                    capability: request.capability.clone(),
                })
            }
            _ => Ok((agents, without)),
        }
    }

    /// The agents named by parts; all must be connected.
    fn choose_named(&self, request: &JobSpec) -> Result<Chosen, AdmissionError> {
        let mut agents = BTreeMap::new();
        for agent in request.parts.keys() {
            let here = self
                .peers
                .get(agent)
                .filter(|peer| peer.session().is_some());
            let peer = here.ok_or_else(|| AdmissionError::Missing {
                agent: agent.clone(),
            })?;
            if let Some(why) = self.excess(agent, &request.cost) {
                return Err(AdmissionError::TooCostly {
                    agent: agent.clone(),
                    why,
                });
            }
            agents.insert(agent.clone(), peer.boot);
        }
        Ok((agents, BTreeSet::new()))
    }

    /// Explains why a host has no capacity for a job at its packet rate; hosts without a limit accept everything.
    fn excess(&self, agent: &str, cost: &JobCost) -> Option<String> {
        let capacity = &self.peers.get(agent)?.capacity;
        let max = ResourceUsage {
            cpu_millis: capacity.jobs_cpu_millis_max,
            memory_bytes: capacity.jobs_memory_bytes_max,
        };
        let takes = |cost: &JobCost| cost.at(capacity.packets_per_second);
        let is_there = |job: &&ControlledJob| {
            job.agents.contains_key(agent) && !matches!(job.state, JobState::Ended(_))
        };
        let on = self.jobs.values().filter(is_there);
        let borne = on
            .map(|job| takes(&job.request.cost))
            .fold(ResourceUsage::default(), ResourceUsage::and);
        takes(cost)
            .excess(borne, max)
            .filter(|_| max != ResourceUsage::default())
    }

    /// Adds a connected agent to the standing jobs that it suits; returns whether there was one.
    pub(super) fn take_in(&mut self, agent: &str) -> bool {
        let Some(peer) = self.peers.get(agent) else {
            return false;
        };
        let boot = peer.boot;
        let is_for = |job: &ControlledJob| {
            job.request.kind == JobLifetime::Standing
                && job.state.is_active()
                && job.request.is_open()
        };
        let wanted = self
            .jobs
            .values()
            .filter(|job| is_for(job) && !job.agents.contains_key(agent));
        let wanted: Vec<u64> = wanted
            .filter(|job| peer.suits(&job.request))
            .map(|job| job.id)
            .collect();
        let mut takes = false;
        for id in wanted {
            let excess = self
                .jobs
                .get(&id)
                .and_then(|job| self.excess(agent, &job.request.cost));
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            let before = job.degraded.clone();
            // The free capacity changes; only the current reason is kept.
            job.degraded.retain(
                |d| !matches!(d, Degradation::NoRoom { agent: known, .. } if known == agent),
            );
            match excess {
                Some(why) => drop(job.note(Degradation::NoRoom {
                    agent: agent.into(),
                    why,
                })),
                None => {
                    takes = true;
                    job.agents.insert(agent.into(), boot);
                }
            }
            if job.agents.contains_key(agent) || job.degraded != before {
                self.unsaved.insert(id);
            }
        }
        takes
    }

    /// Connected agents without the capacity for standing jobs.
    pub(super) fn crowded(&self) -> BTreeSet<String> {
        let stands = |job: &&ControlledJob| {
            job.request.kind == JobLifetime::Standing && job.state.is_active()
        };
        let agents = self
            .jobs
            .values()
            .filter(stands)
            .flat_map(|job| &job.degraded);
        let without = agents.filter_map(|degraded| match degraded {
            Degradation::NoRoom { agent, .. } => Some(agent),
            _ => None,
        });
        let is_here = |agent: &&String| {
            self.peers
                .get(*agent)
                .is_some_and(|peer| peer.session().is_some())
        };
        without.filter(is_here).cloned().collect()
    }

    /// Checks again for capacity after the end of a job, and periodically because packet rates change.
    pub(super) fn look_for_room(&mut self, now_ns: u64) {
        let has_ended = self
            .actions
            .iter()
            .any(|action| matches!(action, ServerAction::Ended { .. }));
        if !has_ended && now_ns < self.room_at_ns {
            return;
        }
        self.room_at_ns = now_ns.saturating_add(self.settings.room_every_ns);
        for agent in self.crowded() {
            if self.take_in(&agent)
                && let Some(peer) = self.peers.get_mut(&agent)
            {
                peer.is_outdated = true;
            }
        }
    }

    fn remember(&mut self, key: (String, String), job: u64) {
        while self.keys.len() >= self.settings.keys_max.max(1) {
            let oldest = self
                .keys
                .iter()
                .min_by_key(|(_, job)| **job)
                .map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.keys.remove(&oldest);
        }
        self.keys.insert(key, job);
    }
}
