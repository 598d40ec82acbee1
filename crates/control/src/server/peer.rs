//! State of an agent on the server.

use std::collections::BTreeMap;

use link::{ClockOffset, Hello, HostCapacity, ObservedJob, ObservedJobs, ObservedState};

use crate::JobSpec;

/// Presence of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPresence {
    /// Connected.
    Here {
        /// Number of the session.
        session: u64,
    },
    /// Recently disconnected; windows wait for its lanes.
    Away {
        /// Monotonic time of the disconnection.
        since_ns: u64,
    },
    /// Disconnected for longer than windows wait.
    Absent {
        /// Monotonic time of the disconnection.
        since_ns: u64,
    },
}

/// An agent's share of a job's packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrantedShare {
    pub allowed: u64,
    pub used: u64,
    pub grant: u64,
    /// The agent returned unused allowance: others are served first.
    pub gave_back: bool,
}

/// A known agent.
#[derive(Debug)]
pub(super) struct AgentPeer {
    pub presence: AgentPresence,
    pub boot: u64,
    pub labels: BTreeMap<String, String>,
    pub capabilities: Vec<String>,
    pub capacity: HostCapacity,
    /// Generation of the last set sent to the agent.
    pub generation: u64,
    /// Generation of the last set that the agent has adopted.
    pub seen_generation: u64,
    pub observed: BTreeMap<u64, ObservedJob>,
    number: u64,
    is_asked: bool,
    pub shares: BTreeMap<u64, GrantedShare>,
    pub ahead: Option<ClockOffset>,
    /// Whether the agent's set must be sent again.
    pub is_outdated: bool,
}

impl AgentPeer {
    /// An agent known only from jobs.
    pub(super) fn absent(now_ns: u64, boot: u64) -> Self {
        Self {
            presence: AgentPresence::Away { since_ns: now_ns },
            boot,
            labels: BTreeMap::new(),
            capabilities: Vec::new(),
            capacity: HostCapacity::default(),
            generation: 0,
            seen_generation: 0,
            observed: BTreeMap::new(),
            number: 0,
            is_asked: false,
            shares: BTreeMap::new(),
            ahead: None,
            is_outdated: false,
        }
    }

    /// Handles the agent's Hello, which replaces all previous state.
    pub(super) fn greet(&mut self, session: u64, hello: Hello) {
        if self.boot != hello.boot {
            // The agent's monitors died, and their allowances are lost.
            self.shares.clear();
        }
        self.presence = AgentPresence::Here { session };
        self.boot = hello.boot;
        self.labels = hello.labels;
        self.capabilities = hello.capabilities;
        self.capacity = hello.capacity;
        self.ahead = None;
        self.take_all(hello.observed);
        // The agent adopts only sets newer than its own.
        self.generation = self.generation.max(self.seen_generation).saturating_add(1);
        self.is_outdated = false;
    }

    fn take_all(&mut self, observed: ObservedJobs) {
        self.number = observed.number;
        self.seen_generation = observed.generation;
        self.observed = observed
            .jobs
            .into_iter()
            .map(|job| (job.job, job))
            .collect();
        self.is_asked = false;
    }

    /// Adopts changes; returns whether a complete report must be requested.
    pub(super) fn observe(&mut self, observed: ObservedJobs) -> bool {
        if observed.is_everything {
            self.take_all(observed);
            return false;
        }
        if observed.number != self.number.saturating_add(1) {
            return !std::mem::replace(&mut self.is_asked, true);
        }
        self.number = observed.number;
        self.seen_generation = observed.generation;
        for job in observed.jobs {
            if job.state() == ObservedState::Gone {
                self.observed.remove(&job.job);
            } else {
                self.observed.insert(job.job, job);
            }
        }
        false
    }

    pub(super) fn session(&self) -> Option<u64> {
        match self.presence {
            AgentPresence::Here { session } => Some(session),
            _ => None,
        }
    }

    /// Time since the agent's disconnection.
    pub(super) fn away_ns(&self, now_ns: u64) -> Option<u64> {
        match self.presence {
            AgentPresence::Here { .. } => None,
            AgentPresence::Away { since_ns } | AgentPresence::Absent { since_ns } => {
                Some(now_ns.saturating_sub(since_ns))
            }
        }
    }

    /// State of a job on the agent, unless it is older than the last set sent.
    pub(super) fn state_of(&self, job: u64) -> Option<ObservedState> {
        let is_new = self.session().is_some()
            && self.seen_generation >= self.generation
            && !self.is_outdated;
        is_new.then(|| {
            self.observed
                .get(&job)
                .map_or(ObservedState::Gone, ObservedJob::state)
        })
    }

    /// Whether the agent has the labels and the capability that a job requires.
    pub(super) fn suits(&self, job: &JobSpec) -> bool {
        let has_label = |(label, value): (&String, &String)| self.labels.get(label) == Some(value);
        let capability = job.capability.as_ref();
        job.on.iter().all(has_label)
            && capability.is_none_or(|needed| self.capabilities.contains(needed))
    }
}
