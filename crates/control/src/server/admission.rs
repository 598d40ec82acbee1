//! Admission of jobs and selection of their agents: idempotency keys, quotas, labels, and the capacity of hosts.

use std::collections::{BTreeMap, BTreeSet};

use link::Now;
use plan::{Burden, Cost};

use super::{Server, ServerAction};
use crate::job::{Degraded, Job, JobState, Kind, Request};

/// An accepted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// Number.
    pub job: u64,
    /// Whether it is new; otherwise its key is that of an earlier job.
    pub is_new: bool,
}

/// Agents with their incarnations, and problems.
type Chosen = (BTreeMap<String, u64>, BTreeSet<Degraded>);

/// Reason for the rejection of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
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
    /// No connected agent has the labels.
    NoAgent {
        /// Required labels.
        on: BTreeMap<String, String>,
    },
    /// An agent with its own part is not connected.
    Missing {
        /// Name of the agent.
        agent: String,
    },
    /// No connected host has the capacity for it in addition to its other jobs.
    TooCostly {
        /// Name of the first such agent.
        agent: String,
        /// Required and available capacity.
        why: String,
    },
    /// It would end before its start.
    EndsInThePast,
}

impl Server {
    pub(super) fn submit(&mut self, request: Request, now: Now) -> Result<Submitted, Refusal> {
        let key = (request.owner.clone(), request.key.clone());
        if let Some(&job) = self.keys.get(&key).filter(|_| !request.key.is_empty()) {
            return Ok(Submitted { job, is_new: false });
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
        let job_of =
            Job { id: job, request, state: job_state, agents, granted: 0, shares: BTreeMap::new(), degraded };
        self.jobs.insert(job, job_of);
        self.unsaved.insert(job);
        Ok(Submitted { job, is_new: true })
    }

    fn check_quotas(&self, request: &Request, now: Now) -> Result<(), Refusal> {
        let of_owner = self.jobs.values().filter(|job| job.request.owner == request.owner).count();
        if self.store_is_full {
            Err(Refusal::StoreIsFull)
        } else if of_owner >= self.settings.jobs_per_owner_max {
            Err(Refusal::OwnerHasTooMany { max: self.settings.jobs_per_owner_max })
        } else if self.jobs.len() >= self.settings.jobs_max {
            Err(Refusal::TooMany { max: self.settings.jobs_max })
        } else if request.limit.ends_at_ns.is_some_and(|at| at <= now.wall_ns) {
            Err(Refusal::EndsInThePast)
        } else {
            Ok(())
        }
    }

    /// Connected agents for a job with their incarnations, and those whose hosts lack the capacity.
    fn choose(&self, request: &Request) -> Result<Chosen, Refusal> {
        if !request.is_open() {
            return self.choose_named(request);
        }
        let (mut agents, mut without) = (BTreeMap::new(), BTreeSet::new());
        for (agent, peer) in &self.peers {
            if peer.session().is_some() && peer.has_labels(&request.on) {
                match self.excess(agent, &request.cost) {
                    Some(why) => drop(without.insert(Degraded::NoRoom { agent: agent.clone(), why })),
                    None => drop(agents.insert(agent.clone(), peer.boot)),
                }
            }
        }
        match without.first() {
            Some(Degraded::NoRoom { agent, why }) if agents.is_empty() => {
                Err(Refusal::TooCostly { agent: agent.clone(), why: why.clone() })
            }
            None if agents.is_empty() && request.kind == Kind::OneOff => {
                Err(Refusal::NoAgent { on: request.on.clone() })
            }
            _ => Ok((agents, without)),
        }
    }

    /// The agents named by parts; all must be connected.
    fn choose_named(&self, request: &Request) -> Result<Chosen, Refusal> {
        let mut agents = BTreeMap::new();
        for agent in request.parts.keys() {
            let here = self.peers.get(agent).filter(|peer| peer.session().is_some());
            let peer = here.ok_or_else(|| Refusal::Missing { agent: agent.clone() })?;
            if let Some(why) = self.excess(agent, &request.cost) {
                return Err(Refusal::TooCostly { agent: agent.clone(), why });
            }
            agents.insert(agent.clone(), peer.boot);
        }
        Ok((agents, BTreeSet::new()))
    }

    /// Explains why a host has no capacity for a job at its packet rate; hosts without a limit accept everything.
    fn excess(&self, agent: &str, cost: &Cost) -> Option<String> {
        let capacity = &self.peers.get(agent)?.capacity;
        let max =
            Burden { cpu_millis: capacity.jobs_cpu_millis_max, memory_bytes: capacity.jobs_memory_bytes_max };
        let takes = |cost: &Cost| cost.at(capacity.packets_per_second);
        let is_there =
            |job: &&Job| job.agents.contains_key(agent) && !matches!(job.state, JobState::Ended(_));
        let on = self.jobs.values().filter(is_there);
        let borne = on.map(|job| takes(&job.request.cost)).fold(Burden::default(), Burden::and);
        takes(cost).excess(borne, max).filter(|_| max != Burden::default())
    }

    /// Adds a connected agent to the standing jobs whose labels it has; returns whether there was one.
    pub(super) fn take_in(&mut self, agent: &str) -> bool {
        let Some(peer) = self.peers.get(agent) else { return false };
        let boot = peer.boot;
        let is_for =
            |job: &Job| job.request.kind == Kind::Standing && job.state.is_active() && job.request.is_open();
        let wanted = self.jobs.values().filter(|job| is_for(job) && !job.agents.contains_key(agent));
        let wanted: Vec<u64> =
            wanted.filter(|job| peer.has_labels(&job.request.on)).map(|job| job.id).collect();
        let mut takes = false;
        for id in wanted {
            let excess = self.jobs.get(&id).and_then(|job| self.excess(agent, &job.request.cost));
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let before = job.degraded.clone();
            // The free capacity changes; only the current reason is kept.
            job.degraded.retain(|d| !matches!(d, Degraded::NoRoom { agent: known, .. } if known == agent));
            match excess {
                Some(why) => drop(job.note(Degraded::NoRoom { agent: agent.into(), why })),
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
        let stands = |job: &&Job| job.request.kind == Kind::Standing && job.state.is_active();
        let agents = self.jobs.values().filter(stands).flat_map(|job| &job.degraded);
        let without = agents.filter_map(|degraded| match degraded {
            Degraded::NoRoom { agent, .. } => Some(agent),
            _ => None,
        });
        let is_here = |agent: &&String| self.peers.get(*agent).is_some_and(|peer| peer.session().is_some());
        without.filter(is_here).cloned().collect()
    }

    /// Checks again for capacity after the end of a job, and periodically because packet rates change.
    pub(super) fn look_for_room(&mut self, now_ns: u64) {
        let has_ended = self.actions.iter().any(|action| matches!(action, ServerAction::Ended { .. }));
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
            let oldest = self.keys.iter().min_by_key(|(_, job)| **job).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.keys.remove(&oldest);
        }
        self.keys.insert(key, job);
    }
}
