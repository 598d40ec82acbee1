//! A job: what was asked, how far it is, and what is not as it should be. Saved by the server whenever it changes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use plan::Cost;

use crate::taps::Taps;

/// Whether a job ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Runs on the agents connected now and ends when all of them have finished.
    OneOff,
    /// Runs until it is stopped, also on agents that join later.
    Standing,
}

/// When a job ends everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Total packets over all agents. Never exceeded, and missed by at most a small remainder.
    pub packets: Option<u64>,
    /// At this time of the server's clock on the wall.
    pub ends_at_ns: Option<i64>,
}

/// A job request as submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The same key from the same owner makes one job; empty: none.
    pub key: String,
    /// Who asks.
    pub owner: String,
    /// What the owner calls it.
    pub name: String,
    /// What else the owner says of it.
    pub labels: BTreeMap<String, String>,
    /// Whether it ends by itself.
    pub kind: Kind,
    /// Labels that an agent has to have, all of them.
    pub on: BTreeMap<String, String>,
    /// When it ends everywhere.
    pub limit: Limit,
    /// What it takes of a host, as estimated.
    pub cost: Cost,
    /// Which agents tell of a flow that several see.
    pub taps: Taps,
    /// What it captures from, by patterns; none: from all interfaces of each host.
    pub interfaces: Vec<String>,
    /// The order: bytes to everyone but the monitor.
    pub body: Bytes,
    /// Orders of individual agents. If there are any, only these agents take part, and all of them must be connected
    /// when the job is accepted, because each has a part that no other agent can do.
    pub parts: BTreeMap<String, Bytes>,
}

impl Request {
    /// The order for an agent; `None`: it does not take part.
    #[must_use]
    pub fn order_of(&self, agent: &str) -> Option<&Bytes> {
        if self.parts.is_empty() { Some(&self.body) } else { self.parts.get(agent) }
    }

    /// Whether agents start its monitors again however often these fail. Others end when no agent can run them.
    pub(crate) fn is_retried(&self) -> bool {
        self.kind == Kind::Standing && self.is_open()
    }

    /// Whether an agent that comes may take part.
    pub(crate) fn is_open(&self) -> bool {
        self.parts.is_empty()
    }
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Taken; no agent fits yet.
    Planned,
    /// Orders are being sent to agents.
    Arming,
    /// A first report is committed.
    Running,
    /// Agents have been asked to stop and deliver their results.
    Draining(Why),
    /// Over.
    Ended(Why),
}

impl JobState {
    /// Whether agents are to run it.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Planned | Self::Arming | Self::Running)
    }
}

/// Why a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Its packets were taken.
    PacketLimit,
    /// Its rows are there.
    RowLimit,
    /// Its time limit was reached.
    TimeLimit,
    /// Who asked for it is gone.
    Abandoned,
    /// A user stopped it.
    Stopped {
        /// Who.
        by: String,
    },
    /// All agents are through with it.
    Finished,
    /// No agent runs it, or one does not that has a part of its own: each refused it, or it crashed there again and again.
    Poisoned,
}

/// What is not as it should be with a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Degraded {
    /// An agent is not there now.
    Absent {
        /// The agent.
        agent: String,
    },
    /// A host has no capacity for it in addition to its other jobs.
    NoRoom {
        /// Its agent.
        agent: String,
        /// What it would take, and what is left.
        why: String,
    },
    /// It crashed on an agent again and again, and is not started there any more.
    Poisoned {
        /// The agent.
        agent: String,
    },
    /// An agent does not run it: its host does not allow that, or cannot.
    Refused {
        /// The agent.
        agent: String,
    },
    /// The job ended while an agent was away: what it had not sent comes late or never.
    EndedWithout {
        /// The agent.
        agent: String,
        /// Incarnation of the agent that received the order.
        boot: u64,
    },
    /// An agent died and lost an unknown amount of unsent data.
    Restarted {
        /// The agent.
        agent: String,
        /// Which of its lives ended.
        boot: u64,
        /// When it was back, by the server's clock on the wall.
        at_ns: i64,
    },
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// What was asked.
    pub request: Request,
    /// How far it is.
    pub state: JobState,
    /// Agents of the job, each with the incarnation that last received the order.
    pub agents: BTreeMap<String, u64>,
    /// Packets that agents may take or have taken, all together. Saved before agents hear of it, so that the limit holds.
    pub granted: u64,
    /// Of these, packets granted to each agent's current incarnation: after a restart of the server an agent claims no more.
    pub shares: BTreeMap<String, u64>,
    /// What went wrong and stays true.
    pub degraded: BTreeSet<Degraded>,
}

/// How many troubles of a job are kept; what is more says nothing new.
const DEGRADED_MAX: usize = 1000;

impl Job {
    /// Notes a trouble; whether it is new.
    pub(crate) fn note(&mut self, degraded: Degraded) -> bool {
        self.degraded.len() < DEGRADED_MAX && self.degraded.insert(degraded)
    }

    /// Packets not granted to any agent yet.
    pub(crate) fn packets_left(&self) -> u64 {
        self.request.limit.packets.unwrap_or_default().saturating_sub(self.granted)
    }
}
