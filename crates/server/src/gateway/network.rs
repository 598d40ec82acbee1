//! Interface to a network: the network plan assigns each monitor of a job to an agent, and switches mirror to them. The
//! implementation reads the network file, plans, and controls switches.
//!
//! Guarantees of the server: [`NetworkBackend::plan`] is called on a thread that may block, once per job and start of the
//! server. [`MirrorSession::begin`] of the result is called when all monitors of the job capture, [`MirrorSession::end`] when they
//! should end: before they are stopped if a user stops the job, at the same time if it ends by its limits or has
//! failed. Both are called on a thread of the job. Dropping the value also removes the rules; without an earlier
//! [`MirrorSession::begin`], dropping it must not wait for a switch.

use plan::{AddressMatch, NetworkBudget, Plan};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::job::JobId;

/// Plans jobs for a network.
pub trait NetworkBackend: Send + Sync {
    /// Plans a job without changing the network.
    ///
    /// # Errors
    /// The reason, such as the host that would be overloaded and by how much.
    fn plan(&self, job: JobId, plan: &Plan, budget: NetworkBudget) -> Result<PlannedJob, String>;

    /// State of the network and its active rules.
    fn view(&self) -> NetworkView;
}

/// Plan of a job in a network.
pub struct PlannedJob {
    /// Parts of the agents; each agent has at most one.
    pub parts: Vec<AgentShare>,
    /// Limitations of the result in the chosen mode, a sentence each.
    pub lacks: Vec<String>,
    /// Whether monitors receive packets only while switches mirror. The time limit of such a job begins with the
    /// mirroring, and windows in which it begins are approximate.
    pub is_mirrored: bool,
    /// Mirroring by switches.
    pub copies: Box<dyn MirrorSession>,
}

/// The part of one agent: the flows of its own switch, so that each flow is reported by one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentShare {
    /// Name of the agent.
    pub agent: String,
    /// Clients of the flows; empty: any.
    pub clients: Vec<AddressMatch>,
    /// Servers of the flows; empty: any.
    pub servers: Vec<AddressMatch>,
    /// Capture interfaces.
    pub interfaces: Vec<String>,
}

/// Mirroring for a job; dropping it removes its rules.
pub trait MirrorSession: Send {
    /// Installs the rules on all switches.
    ///
    /// # Errors
    /// The switch that failed and the reason; all rules have been removed again then.
    fn begin(&mut self) -> Result<(), String>;

    /// Reason why mirroring has stopped, if it has.
    fn lost(&mut self) -> Option<String>;

    /// Removes the rules.
    ///
    /// # Errors
    /// The remaining rules, which expire with their leases.
    fn end(&mut self) -> Result<(), String>;
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct NetworkView {
    /// Whether the server has a network file (`serve --network FILE`).
    pub is_known: bool,
    /// Switches.
    pub switches: Vec<NetworkSwitch>,
    /// Hosts.
    pub hosts: Vec<NetworkHost>,
    /// Links between switches.
    pub links: Vec<NetworkLink>,
    /// Jobs in the network.
    pub jobs: Vec<NetworkJob>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkSwitch {
    /// Name.
    pub name: String,
    /// Tier in the tree: edge, aggregation or core.
    pub tier: String,
    /// Control channel: its database (ovsdb) or its controller; null: none.
    pub reached: Option<String>,
    /// Agent on the switch's own host, which captures at its ports.
    pub agent: Option<String>,
    /// The server's active rules.
    pub rules: Vec<NetworkRule>,
    /// The server's port mirrors.
    pub mirrors: Vec<NetworkMirror>,
}

/// An active rule, as last read from its switch: after a change or a renewal of its lease.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkRule {
    /// Job of the rule, the first of several; none: shared by all jobs.
    pub job: Option<JobId>,
    /// Cookie that identifies the owner.
    pub cookie: String,
    /// Table number.
    pub table: u8,
    /// Priority; the highest matching rule applies.
    pub priority: u16,
    /// Match of packets.
    pub matches: String,
    /// Actions.
    pub actions: String,
    /// Seconds without renewal after which it expires.
    pub lease_seconds: u16,
}

/// A port mirror.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkMirror {
    /// Job of the mirror.
    pub job: Option<JobId>,
    /// Name on the switch.
    pub name: String,
    /// Mirrored ports.
    pub ports: Vec<String>,
    /// Output port.
    pub to: Option<String>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkHost {
    /// Name.
    pub name: String,
    /// IP addresses.
    pub addresses: Vec<String>,
    /// Switch to which it is connected.
    pub switch: String,
    /// Port of that switch.
    pub port: u32,
    /// Whether it is reserved for monitors.
    pub spare: bool,
    /// Agent on the host.
    pub agent: Option<String>,
}

/// A link between two switches.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkLink {
    /// Lower switch.
    pub from: String,
    /// Port of the lower switch.
    pub from_port: u32,
    /// Upper switch.
    pub to: String,
    /// Port of the upper switch.
    pub to_port: u32,
    /// Capacity in each direction, in Mb/s.
    pub mbps: f64,
}

/// State of a job's mirroring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopiesState {
    /// Monitors are being started; mirroring has not started.
    Waiting,
    /// The requested packets are mirrored, or captured at the switches' ports.
    Copying,
    /// Mirroring has ended.
    Ended,
}

/// A job in the network.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkJob {
    /// Job number.
    pub job: JobId,
    /// State of mirroring.
    pub state: CopiesState,
    /// Selection of mirrored packets.
    pub mode: String,
    /// Reason for the selection.
    pub why: String,
    /// Data that the result lacks.
    pub lacks: Vec<String>,
    /// Flows that are not captured.
    pub not_covered: Vec<String>,
    /// Monitors.
    pub monitors: Vec<NetworkMonitor>,
    /// Result of the proof over the switches' reported rules, as text.
    pub proof: String,
    /// Complete plan, in the format of `explain --format json`.
    #[schema(value_type = Object)]
    pub plan: Value,
}

/// A monitor in the network.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkMonitor {
    /// Agent that runs it.
    pub agent: String,
    /// Host of the monitor, or the switch on whose own host it runs.
    pub host: String,
    /// Switch whose packets it receives.
    pub switch: String,
    /// Capture interfaces.
    pub interfaces: Vec<String>,
    /// Clients of its flows; empty: any.
    pub clients: Vec<String>,
    /// Servers of its flows; empty: any.
    pub servers: Vec<String>,
    /// Expected traffic in Mb/s.
    pub mbps: f64,
    /// Expected load in cores.
    pub cores: f64,
}
