//! A job: its request, state, and problems. Saved by the server at every change.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use plan::JobCost;

use crate::taps::TapAssignment;

/// Whether a job ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobLifetime {
    /// Runs on the agents connected now and ends when all of them have finished.
    OneOff,
    /// Runs until a user stops the job, also on agents that join later.
    Standing,
}

/// Limits that end a job on all agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobLimit {
    /// Total packets over all agents. Never exceeded, and missed by at most a small remainder.
    pub packets: Option<u64>,
    /// Unix time in nanoseconds by the server's clock.
    pub ends_at_ns: Option<i64>,
}

/// A job request as submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// Idempotency key, per owner; empty: none.
    pub key: String,
    /// Name of the owner.
    pub owner: String,
    /// Name of the job.
    pub name: String,
    /// Labels of the job.
    pub labels: BTreeMap<String, String>,
    /// Whether it ends by itself.
    pub kind: JobLifetime,
    /// Labels that an agent must have.
    pub on: BTreeMap<String, String>,
    /// Capability that an agent must have, by its name in [`link::Hello::capabilities`].
    pub capability: Option<String>,
    /// Limits that end the job on all agents.
    pub limit: JobLimit,
    /// Estimated cost on a host.
    pub cost: JobCost,
    /// Agents that report a flow seen by several.
    pub taps: TapAssignment,
    /// Patterns of capture interfaces; empty: all interfaces of each host.
    pub interfaces: Vec<String>,
    /// The order, decoded only by the monitor.
    pub body: Bytes,
    /// Orders of individual agents. If there are any, only these agents take part, and all of them must be connected
    /// when the job is accepted, because each has a part that no other agent can do.
    pub parts: BTreeMap<String, Bytes>,
}

impl JobSpec {
    /// The order for an agent; `None`: the agent does not take part.
    #[must_use]
    pub fn order_of(&self, agent: &str) -> Option<&Bytes> {
        if self.parts.is_empty() {
            Some(&self.body)
        } else {
            self.parts.get(agent)
        }
    }

    /// Whether agents restart its monitors without limit. Other jobs end when no agent can run them.
    pub(crate) fn is_retried(&self) -> bool {
        self.kind == JobLifetime::Standing && self.is_open()
    }

    /// Whether agents that connect later may take part.
    pub(crate) fn is_open(&self) -> bool {
        self.parts.is_empty()
    }
}

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Accepted; no matching agent.
    Planned,
    /// Orders are being sent to agents.
    Arming,
    /// The first report is committed.
    Running,
    /// Agents have been asked to stop and deliver their results.
    Draining(EndReason),
    /// Ended.
    Ended(EndReason),
}

impl JobState {
    /// Whether agents should run the job.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Planned | Self::Arming | Self::Running)
    }
}

/// Reason for the end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The packet limit was reached.
    PacketLimit,
    /// The row limit was reached.
    RowLimit,
    /// The time limit was reached.
    TimeLimit,
    /// The lease expired.
    Abandoned,
    /// A user stopped the job.
    Stopped {
        /// Name of the user.
        by: String,
    },
    /// All agents have finished.
    Finished,
    /// No agent runs the job, or one that has a part of it does not: the job was rejected, or its monitor crashed too often.
    Poisoned,
}

/// Problem of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Degradation {
    /// An agent is disconnected.
    Absent {
        /// Name of the agent.
        agent: String,
    },
    /// A host lacks the capacity for the job in addition to its other jobs.
    NoRoom {
        /// Name of the agent.
        agent: String,
        /// Required and available capacity.
        why: String,
    },
    /// Too many crashes on an agent; no longer restarted there.
    Poisoned {
        /// Name of the agent.
        agent: String,
    },
    /// An agent does not run the job: forbidden by the host's owner, or impossible.
    Refused {
        /// Name of the agent.
        agent: String,
    },
    /// The job ended while an agent was disconnected: its unsent data arrives late or never.
    EndedWithout {
        /// Name of the agent.
        agent: String,
        /// Incarnation of the agent that received the order.
        boot: u64,
    },
    /// An agent died and lost an unknown amount of unsent data.
    Restarted {
        /// Name of the agent.
        agent: String,
        /// Incarnation that ended.
        boot: u64,
        /// Unix time in nanoseconds of its return, by the server's clock.
        at_ns: i64,
    },
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlledJob {
    /// Number.
    pub id: u64,
    /// The request.
    pub request: JobSpec,
    /// State.
    pub state: JobState,
    /// Agents of the job, each with the incarnation that last received the order.
    pub agents: BTreeMap<String, u64>,
    /// Total packets that agents have used or may use. Saved before agents receive their grant, so that the limit holds
    /// after a restart.
    pub granted: u64,
    /// Of these, packets granted to each agent's current incarnation: after a restart of the server an agent claims no more.
    pub shares: BTreeMap<String, u64>,
    /// Permanent problems.
    pub degraded: BTreeSet<Degradation>,
}

/// Maximum stored problems of a job.
const DEGRADED_MAX: usize = 1000;

impl ControlledJob {
    /// Records a problem; returns whether the problem is new.
    pub(crate) fn note(&mut self, degraded: Degradation) -> bool {
        self.degraded.len() < DEGRADED_MAX && self.degraded.insert(degraded)
    }

    /// Packets not granted to any agent yet.
    pub(crate) fn packets_left(&self) -> u64 {
        self.request
            .limit
            .packets
            .unwrap_or_default()
            .saturating_sub(self.granted)
    }
}
