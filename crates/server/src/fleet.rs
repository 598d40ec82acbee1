//! Interface to the executors of jobs: agents behind a gateway, or a thread in a test.
//!
//! Guarantees of the server: [`Fleet::start`] is called once for a new job, and once more at the start of the server
//! for each job that had not ended, before any request is answered. [`Fleet::stop`] is called for started jobs, any
//! number of times. Both are called on threads that may block, but a request waits for them: they should note the
//! request and return.
//!
//! Guarantees of a fleet: it reports an accepted job to the [`Hub`](crate::Hub): every change of its state, its
//! results' columns before their first row, its rows, and finally [`State::Ended`](crate::State::Ended) exactly once,
//! also after a stop. It may do so from within `start`.

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::{Budget, Plan};
use serde::Serialize;
use utoipa::ToSchema;

use crate::door::Door;
use crate::job::{Capture, JobId, JobKind, Merger, Outcome, Redaction};
use crate::network::NetworkView;

/// Carries jobs out.
pub trait Fleet: Send + Sync {
    /// The agents that are known, connected or not.
    fn agents(&self) -> Vec<Agent>;

    /// Accepts a job.
    ///
    /// # Errors
    /// The reason why it cannot be carried out; the job is not accepted then, and the fleet must not report anything
    /// about it.
    fn start(&self, order: &Order) -> Result<(), Refused>;

    /// Ends a job: what it has by now is its result.
    fn stop(&self, job: JobId, why: Stop);

    /// How it does, for scrapers.
    fn health(&self) -> FleetHealth {
        let agent = |agent: Agent| AgentHealth {
            name: agent.name,
            connected: agent.connected,
            clock_offset_ns: agent.clock_offset_ns,
            counts: BTreeMap::new(),
        };
        let agents: Vec<_> = self.agents().into_iter().map(agent).collect();
        FleetHealth {
            sessions: agents.iter().filter(|agent| agent.connected).count(),
            agents,
            ..FleetHealth::default()
        }
    }

    /// The network in which jobs may run.
    fn network(&self) -> NetworkView {
        NetworkView::default()
    }

    /// Where agents connect, if they may.
    fn door(&self) -> Option<Door> {
        None
    }
}

/// A job as passed to a fleet.
#[derive(Clone, Debug)]
pub struct Order {
    /// Which job.
    pub id: JobId,
    /// What is to be computed.
    pub plan: Arc<Plan>,
    /// Labels that an agent must have to take part; none: every agent.
    pub on: BTreeMap<String, String>,
    /// Whether it ends by itself.
    pub kind: JobKind,
    /// What leaves an agent of texts that may say something of a person.
    pub redaction: Redaction,
    /// What agents capture.
    pub capture: Capture,
    /// Who merges what agents publish to the bus; `None`: they send it here.
    pub merged_by: Option<Merger>,
    /// It runs in the network, as that is planned within this budget; `None`: on agents with the labels.
    pub network: Option<Budget>,
}

/// Why a job is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A user stopped it.
    Asked,
    /// Its lease was not renewed.
    Abandoned,
}

impl Stop {
    /// The resulting outcome of the job.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Stop::Asked => Outcome::Stopped,
            Stop::Abandoned => Outcome::Abandoned,
        }
    }
}

/// Why a job is not taken; each with a sentence for the person who asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No agent has the labels, or there is none at all.
    #[error("{0}")]
    NoAgent(String),
    /// There are such agents, and none can take it: it lacks a parser, or is not allowed to.
    #[error("{0}")]
    Unable(String),
    /// Not now.
    #[error("{0}")]
    Busy(String),
}

/// What is known of an agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Agent {
    /// Its name, which it cannot choose for itself.
    pub name: String,
    /// What it says of itself: host, rack, role.
    pub labels: BTreeMap<String, String>,
    /// Whether it is connected.
    pub connected: bool,
    /// Its program's version.
    pub version: String,
    /// Interfaces it may capture from.
    pub interfaces: Vec<String>,
    /// Its cores.
    pub cores: u32,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// What it can do: af_packet, af_xdp, ovs.
    pub capabilities: Vec<String>,
    /// Its addresses, but for those that every host or link has: by them it is decided which agent tells of a flow that several see.
    pub addresses: Vec<String>,
    /// Those of them that another agent has, too, and that decide nothing.
    pub addresses_shared: Vec<String>,
    /// Packets a second that its interfaces have seen of late, while it is connected.
    pub packets_per_second: Option<u64>,
    /// The jobs it runs.
    pub jobs: Vec<JobId>,
    /// Its clock minus ours, as measured, in nanoseconds.
    #[serde(serialize_with = "crate::columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub clock_offset_ns: Option<i64>,
    /// When it was heard last, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub last_seen_ns: Option<i64>,
}

/// How a fleet does.
#[derive(Clone, Debug, Default)]
pub struct FleetHealth {
    /// Connections of agents.
    pub sessions: usize,
    /// Bytes of records that have come and are not on disk.
    pub waiting_bytes: usize,
    /// Whether the store takes no more.
    pub is_full: bool,
    /// The agents that are known.
    pub agents: Vec<AgentHealth>,
    /// The jobs that it has.
    pub jobs: Vec<JobHealth>,
}

/// How an agent does.
#[derive(Clone, Debug, Default)]
pub struct AgentHealth {
    /// Its name.
    pub name: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Its clock minus ours, in nanoseconds.
    pub clock_offset_ns: Option<i64>,
    /// What it said last of itself, by name; see [`link::Renew::health`].
    pub counts: BTreeMap<String, u64>,
}

/// How a job does.
#[derive(Clone, Debug)]
pub struct JobHealth {
    /// The job.
    pub id: JobId,
    /// Agents that should take part and are not there.
    pub agents_missing: usize,
    /// Tuples that came when their windows were closed.
    pub late_tuples: u64,
    /// Records that agents had no room for, or died with.
    pub lost_records: u64,
    /// Event time has come here.
    pub watermark_ns: Option<i64>,
    /// Packets that its monitors received.
    pub packets: u64,
    /// Packets lost before them.
    pub lost_packets: u64,
    /// Bytes of records whose windows are open.
    pub frames_bytes: u64,
}

/// No agent at all.
pub struct NoFleet;

impl Fleet for NoFleet {
    fn agents(&self) -> Vec<Agent> {
        Vec::new()
    }

    fn start(&self, _: &Order) -> Result<(), Refused> {
        Err(Refused::NoAgent("no agent is connected to this server: a query needs one that captures".into()))
    }

    fn stop(&self, _: JobId, _: Stop) {}
}
