//! Interface to a network: monitors of a job run where the network plan places them, each on an agent, and switches
//! copy to them. The implementation knows the network file, plans, and controls switches.
//!
//! Guarantees of the server: [`Network::plan`] is called on a thread that may block, once per job and start of the
//! server. [`Copies::begin`] of the result is called when all monitors of the job capture, [`Copies::end`] when they
//! should end: before they are stopped if a user stops the job, at the same time if it ends by its limits or has
//! failed. Both are called on a thread of the job. Dropping the value also removes the copies; without an earlier
//! [`Copies::begin`], dropping it must not wait for a switch.

use plan::{AddressMatch, Budget, Plan};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::job::JobId;

/// Plans jobs for a network.
pub trait Network: Send + Sync {
    /// What a job does to the network. Nothing of it is done yet.
    ///
    /// # Errors
    /// Why there is no plan, in words: what would overload a host, with the figure.
    fn plan(&self, job: JobId, plan: &Plan, budget: Budget) -> Result<Planned, String>;

    /// What is known of it, and what is in force there.
    fn view(&self) -> NetworkView;
}

/// What a job does to a network.
pub struct Planned {
    /// What its agents do; no agent twice.
    pub parts: Vec<AgentPart>,
    /// What its answer lacks in the chosen mode, in words.
    pub lacks: Vec<String>,
    /// What switches do.
    pub copies: Box<dyn Copies>,
}

/// The part of one agent: the flows of its own switch, so that each flow is reported by one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPart {
    /// Which agent.
    pub agent: String,
    /// Who asks; none: anybody.
    pub clients: Vec<AddressMatch>,
    /// Who answers.
    pub servers: Vec<AddressMatch>,
    /// Where it captures.
    pub interfaces: Vec<String>,
}

/// What switches copy for a job. When it is dropped they copy nothing for it any more.
pub trait Copies: Send {
    /// Has them copy, all of them or none.
    ///
    /// # Errors
    /// Which of them does not, and why; then all is as it was.
    fn begin(&mut self) -> Result<(), String>;

    /// Why nothing is copied any more, if so.
    fn lost(&mut self) -> Option<String>;

    /// Takes away what they had for it.
    ///
    /// # Errors
    /// What stays, and goes with its lease.
    fn end(&mut self) -> Result<(), String>;
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct NetworkView {
    /// Whether the server was given one (`serve --network FILE`).
    pub is_known: bool,
    /// Its switches.
    pub switches: Vec<NetworkSwitch>,
    /// Its hosts.
    pub hosts: Vec<NetworkHost>,
    /// Links between switches.
    pub links: Vec<NetworkLink>,
    /// Jobs that run in it.
    pub jobs: Vec<NetworkJob>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkSwitch {
    /// Its name.
    pub name: String,
    /// Where in the tree it is: edge, aggregation or core.
    pub tier: String,
    /// How it is controlled: by its database (ovsdb) or its controller; null: it cannot be controlled.
    pub reached: Option<String>,
    /// The agent on its own host, which reads at its ports.
    pub agent: Option<String>,
    /// The server's rules in force there.
    pub rules: Vec<NetworkRule>,
    /// The server's mirrors of ports there.
    pub mirrors: Vec<NetworkMirror>,
}

/// A rule that is in force, as its switch has said it last: after a change, or when its lease was renewed.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkRule {
    /// The job for which it is, the first of several; none: it serves all jobs of the server.
    pub job: Option<JobId>,
    /// By what its switch tells whose it is.
    pub cookie: String,
    /// Its table.
    pub table: u8,
    /// Of those that match, the highest decides.
    pub priority: u16,
    /// For which packets.
    pub matches: String,
    /// What is done with them.
    pub actions: String,
    /// Seconds without a renewal after which it expires.
    pub lease_seconds: u16,
}

/// A mirror of ports.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkMirror {
    /// The job for which it is.
    pub job: Option<JobId>,
    /// Its name at the switch.
    pub name: String,
    /// The ports of which all is copied.
    pub ports: Vec<String>,
    /// The port to which.
    pub to: Option<String>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkHost {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The switch that it is at.
    pub switch: String,
    /// The port there.
    pub port: u32,
    /// Whether it has nothing else to do than to read copies.
    pub spare: bool,
    /// The agent there.
    pub agent: Option<String>,
}

/// A link between two switches.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkLink {
    /// The lower one.
    pub from: String,
    /// Its port.
    pub from_port: u32,
    /// The upper one.
    pub to: String,
    /// Its port.
    pub to_port: u32,
    /// What it bears each way.
    pub mbps: f64,
}

/// How far the copies of a job are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopiesState {
    /// Monitors are being started; nothing is copied yet.
    Waiting,
    /// What is asked for is copied, or read at the switches' ports.
    Copying,
    /// Nothing is copied any more.
    Ended,
}

/// A job in the network.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkJob {
    /// The job.
    pub job: JobId,
    /// How far its copies are.
    pub state: CopiesState,
    /// Which packets are copied.
    pub mode: String,
    /// Why these.
    pub why: String,
    /// What its answer lacks.
    pub lacks: Vec<String>,
    /// Flows that are not covered.
    pub not_covered: Vec<String>,
    /// Where its monitors are.
    pub monitors: Vec<NetworkMonitor>,
    /// What was proved of what the switches say that they have, in words.
    pub proof: String,
    /// The whole plan, as `explain --format json` has it.
    #[schema(value_type = Object)]
    pub plan: Value,
}

/// A monitor.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct NetworkMonitor {
    /// The agent that runs it.
    pub agent: String,
    /// Its host, or the switch on whose own host it is.
    pub host: String,
    /// The switch whose packets it gets.
    pub switch: String,
    /// Where it captures.
    pub interfaces: Vec<String>,
    /// Who asks in its flows; none: anybody.
    pub clients: Vec<String>,
    /// Who answers.
    pub servers: Vec<String>,
    /// Mb/s that are expected to come to it.
    pub mbps: f64,
    /// Cores that it is expected to take.
    pub cores: f64,
}
