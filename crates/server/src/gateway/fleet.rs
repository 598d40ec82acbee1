//! Interface to the executors of jobs: agents behind a gateway, or a thread in a test.
//!
//! Guarantees of the server: [`Fleet::start`] is called once for a new job, and once more at the start of the server
//! for each job that had not ended, before any request is answered. [`Fleet::stop`] is called for started jobs, any
//! number of times. Both are called on threads that may block, but a request waits for them: they should note the
//! request and return.
//!
//! Guarantees of a fleet: it reports an accepted job to the [`ResultHub`](crate::ResultHub): every change of its state, its
//! results' columns before their first row, its rows, and finally [`JobState::Ended`](crate::JobState::Ended) exactly once,
//! also after a stop. It may do so from within `start`.

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::{NetworkBudget, Plan};
use serde::Serialize;
use utoipa::ToSchema;

use crate::gateway::agent_listener::AgentListener;
use crate::gateway::network::NetworkView;
use crate::job::fleet_refusal::FleetRefusal;
use crate::job::{JobId, JobOutcome, JobSpec};

/// Executes jobs.
pub trait Fleet: Send + Sync {
    /// All known agents, connected or not.
    fn agents(&self) -> Vec<AgentView>;

    /// Accepts a job.
    ///
    /// # Errors
    /// The reason for the rejection; the fleet must not report anything about the job then.
    fn start(&self, order: &FleetOrder) -> Result<(), FleetRefusal>;

    /// Ends a job and keeps its results so far.
    fn stop(&self, job: JobId, why: StopCause);

    /// State of the fleet, for metrics.
    fn health(&self) -> FleetHealth {
        let agent = |agent: AgentView| AgentHealth {
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

    /// Packets of flows, from the agent that has most of them.
    ///
    /// # Errors
    /// `NoAgent`: no connected agent keeps packets, or none has these. `Unable`: the reasons of all agents.
    fn packets(&self, _: &PacketQuery) -> Result<FlowPackets, FleetRefusal> {
        Err(FleetRefusal::NoAgent(NO_RECORDER.into()))
    }

    /// Agents of a job preserve the packets that they keep, because an alert of this rule fires.
    fn preserve_packets(&self, _: JobId, _rule: &str) {}

    /// Listener for agents, if the fleet has one.
    fn door(&self) -> Option<AgentListener> {
        None
    }
}

/// Message when no connected agent keeps packets.
pub(crate) const NO_RECORDER: &str =
    "no connected agent keeps packets: its policy file needs [packets] bytes_max = BYTES";

/// A request for packets.
#[derive(Clone, Debug)]
pub struct PacketQuery {
    /// Name of the agent; `None`: all that keep packets.
    pub agent: Option<String>,
    /// Community ID of the flows.
    pub community_id: String,
    /// Period, in nanoseconds since the epoch.
    pub period_ns: (i64, i64),
    /// Maximum bytes; later packets are omitted.
    pub bytes_max: u64,
}

/// Packets of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPackets {
    /// The agent that kept them.
    pub agent: String,
    /// Packets as pcapng.
    pub pcapng: Vec<u8>,
    /// Whether later packets are omitted.
    pub is_cut: bool,
    /// Reasons of agents that could not read theirs.
    pub notes: Vec<String>,
}

/// A job as passed to a fleet.
#[derive(Clone, Debug)]
pub struct FleetOrder {
    /// Job identifier.
    pub id: JobId,
    /// Owner.
    pub owner: String,
    /// Specification.
    pub spec: JobSpec,
    /// Plan of the query.
    pub plan: Arc<Plan>,
    /// Resource budget of a job in the network; `None`: the job runs on agents with the labels.
    pub network: Option<NetworkBudget>,
}

/// Reason for the end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// A user stopped it.
    Asked,
    /// The lease was not renewed.
    Abandoned,
}

impl StopCause {
    /// The resulting outcome of the job.
    #[must_use]
    pub fn outcome(self) -> JobOutcome {
        match self {
            StopCause::Asked => JobOutcome::Stopped,
            StopCause::Abandoned => JobOutcome::Abandoned,
        }
    }
}

/// A known agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
pub struct AgentView {
    /// Name, assigned by an admin.
    pub name: String,
    /// Labels reported by the agent: host, rack, role.
    pub labels: BTreeMap<String, String>,
    /// Whether the agent is connected.
    pub connected: bool,
    /// Version of its program.
    pub version: String,
    /// Interfaces from which the agent may capture.
    pub interfaces: Vec<String>,
    /// Number of cores.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Capabilities: af_packet, af_xdp, ovs.
    pub capabilities: Vec<String>,
    /// Addresses, without loopback and link-local ones; they determine which agent reports a flow that several see.
    pub addresses: Vec<String>,
    /// Addresses that another agent also has, which therefore determine nothing.
    pub addresses_shared: Vec<String>,
    /// Recent packets per second on its interfaces, while it is connected.
    pub packets_per_second: Option<u64>,
    /// Jobs it runs.
    pub jobs: Vec<JobId>,
    /// Offset of its clock from the server's, as measured, in nanoseconds.
    #[serde(serialize_with = "crate::job::columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub clock_offset_ns: Option<i64>,
    /// Time of its last message, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::job::columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub last_seen_ns: Option<i64>,
}

/// State of a fleet, for metrics.
#[derive(Clone, Debug, Default)]
pub struct FleetHealth {
    /// Connections of agents.
    pub sessions: usize,
    /// Bytes of records received but not committed.
    pub waiting_bytes: usize,
    /// Whether the store rejects writes, for example because the disk is full.
    pub rejects_writes: bool,
    /// Known agents.
    pub agents: Vec<AgentHealth>,
    /// Jobs of the fleet.
    pub jobs: Vec<JobHealth>,
}

/// State of an agent, for metrics.
#[derive(Clone, Debug, Default)]
pub struct AgentHealth {
    /// Name.
    pub name: String,
    /// Whether the agent is connected.
    pub connected: bool,
    /// Offset of its clock from the server's, in nanoseconds.
    pub clock_offset_ns: Option<i64>,
    /// Last counters that the agent reported, by name; see [`link::Renew::health`].
    pub counts: BTreeMap<String, u64>,
}

/// State of a job, for metrics.
#[derive(Clone, Debug)]
pub struct JobHealth {
    /// Job identifier.
    pub id: JobId,
    /// Agents of the job that are not connected.
    pub agents_missing: usize,
    /// Late tuples: their windows were closed.
    pub late_tuples: u64,
    /// Records dropped by agents for lack of space, or lost with them.
    pub lost_records: u64,
    /// Watermark.
    pub watermark_ns: Option<i64>,
    /// Packets received by its monitors.
    pub packets: u64,
    /// Packets lost before the monitors.
    pub lost_packets: u64,
    /// Bytes of stored records of open windows.
    pub frames_bytes: u64,
}

/// A fleet without agents.
pub struct NoFleet;

impl Fleet for NoFleet {
    fn agents(&self) -> Vec<AgentView> {
        Vec::new()
    }

    fn start(&self, _: &FleetOrder) -> Result<(), FleetRefusal> {
        Err(FleetRefusal::NoAgent(
            "no agent is connected to this server: a query needs an agent that captures".into(),
        ))
    }

    fn stop(&self, _: JobId, _: StopCause) {}
}
