//! The fleet of real agents: they connect, report what they run, and send records; jobs are sent to them as orders, and
//! their results go to the [`ResultHub`].
//!
//! One thread owns all state and decisions: the sessions ([`link::ServerSession`]), the assignment of jobs
//! ([`control::ServerControl`]), and the merge of each job's results ([`collect::Collector`]). Connection tasks only transfer
//! bytes, within a limit each, so that a slow gateway stops reading. The thread reads the clock and passes the time to
//! all decisions.
//!
//! An acknowledgment means *committed*. A record is stored (`store/sqlite/frames.rs`) together with its lane's position, many
//! in one transaction; then it is acknowledged and counted. Rows are published together with the position of the
//! records used, and with the removal of these records. After any kill, a restarted gateway reads unpublished records
//! from the store and the rest from the agents, so every record counts once. Therefore the gateway also ends as if it
//! were killed.

pub(crate) mod agent_listener;
mod agent_orders;
mod agents;
mod commit_queue;
mod control_driver;
mod event_loop;
pub(crate) mod fleet;
pub(crate) mod job_codec;
mod job_input;
mod job_joiner;
mod job_runtime;
mod job_runtimes;
mod job_status;
pub(crate) mod lanes;
pub(crate) mod merge_backend;
mod merge_reader;
mod mirror_worker;
pub(crate) mod network;
mod packet_requests;
mod record_committer;
mod result_bus;
mod sessions;
mod tuple_results;
mod user_messages;
mod window_results;
mod window_waits;

use std::sync::Arc;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use lanes::{LaneEnd, LaneFacts};

use crate::gateway::agent_listener::{AgentConnectionEvent, AgentListener, GatewayClosed};
use crate::gateway::fleet::{
    AgentView, Fleet, FleetHealth, FleetOrder, FlowPackets, PacketQuery, StopCause,
};
use crate::gateway::merge_backend::MergeBackend;
use crate::gateway::network::{NetworkBackend, NetworkView, PlannedJob};
use crate::job::JobId;
use crate::job::fleet_refusal::FleetRefusal;
use crate::results::hub::ResultHub;
use crate::store::sqlite::{FrameStore, ServerStore, StoreError};

/// Limits and times of a gateway.
#[derive(Clone, Copy, Debug)]
pub struct GatewaySettings {
    /// Assignment of jobs.
    pub control: control::ServerSettings,
    /// Limits of each session.
    pub link: link::SessionLimits,
    /// Maximum connected agents.
    pub agents_max: usize,
    /// Maximum time for which records wait for others in the same transaction.
    pub commit_every: Duration,
    /// Maximum bytes of such records.
    pub commit_bytes: usize,
    /// Time for which windows wait for an agent without progress.
    pub pace: control::PaceSettings,
    /// Time for which windows wait for the first report of an agent with the order.
    pub first_report_ns: u64,
    /// Maximum memory of a job's open windows, in bytes.
    pub window_bytes_max: usize,
    /// Maximum bytes per job of stored records of open windows; beyond that, their partial result replaces them.
    pub frames_bytes: u64,
    /// Time for which a request of the client's tap waits for the server's tap, after all agents have passed its end.
    pub join_patience: Duration,
    /// Maximum memory of a job's requests that wait for the other tap, in bytes.
    pub join_bytes_max: usize,
}

impl Default for GatewaySettings {
    fn default() -> GatewaySettings {
        GatewaySettings {
            // The limit of jobs is checked when they are submitted.
            control: control::ServerSettings {
                jobs_max: usize::MAX,
                jobs_per_owner_max: usize::MAX,
                ..control::ServerSettings::default()
            },
            link: link::SessionLimits::default(),
            agents_max: 1000,
            commit_every: Duration::from_millis(100),
            commit_bytes: 1 << 20,
            pace: control::PaceSettings::default(),
            first_report_ns: 5_000_000_000,
            window_bytes_max: 256 << 20,
            frames_bytes: 16 << 20,
            join_patience: Duration::from_secs(2),
            join_bytes_max: 64 << 20,
        }
    }
}

/// Stored lanes of a job, each with its agent. For an ended job, only if its rows are tuples.
pub(crate) fn lane_facts(
    store: &FrameStore,
    job: JobId,
) -> Result<Vec<(String, LaneFacts)>, StoreError> {
    let read = |mark| lanes::read_mark(mark).map(|(key, _, facts)| (key.agent, facts));
    Ok(store.lanes(job)?.iter().filter_map(read).collect())
}

/// Events of the gateway's thread.
pub(crate) enum GatewayEvent {
    /// An event of a connection.
    Arrival(AgentConnectionEvent),
    /// Starts a job; in a network, with its plan or the reason why there is none.
    Start {
        order: Box<FleetOrder>,
        planned: Option<Result<PlannedJob, String>>,
        answer: SyncSender<Result<(), FleetRefusal>>,
    },
    /// Ends a job.
    Stop { job: JobId, why: StopCause },
    /// Requests the list of agents.
    Agents { answer: SyncSender<Vec<AgentView>> },
    /// Requests a part of the packets that an agent keeps.
    Packets {
        agent: String,
        request: link::PacketRequest,
        answer: SyncSender<link::PacketReply>,
    },
    /// Agents of the job preserve their packets, because an alert of this rule fires.
    Preserve { job: JobId, rule: String },
    /// Requests the metrics.
    Health { answer: SyncSender<FleetHealth> },
    /// From the thread that reads a job's published results.
    Merged(JobId, merge_reader::MergeEvent),
    /// From the thread that controls switches for a job.
    Copies(JobId, mirror_worker::MirrorEvent),
    /// The gateway ends.
    End,
}

/// See the module documentation.
pub struct Gateway {
    events: Sender<GatewayEvent>,
    door: AgentListener,
    network: Option<Arc<dyn NetworkBackend>>,
    thread: Option<JoinHandle<()>>,
}

/// Interfaces that some jobs need besides agents.
#[derive(Clone, Default)]
pub struct GatewayBackends {
    /// Bus to which agents publish results.
    pub bus: Option<Arc<dyn MergeBackend>>,
    /// Switches that mirror to monitors.
    pub network: Option<Arc<dyn NetworkBackend>>,
}

impl Gateway {
    /// Starts a gateway that stores records in `store` and reports results to `hub`.
    ///
    /// # Errors
    /// `StoreError` when the store cannot be read, or the system cannot create threads.
    pub(crate) fn on(
        store: &ServerStore,
        hub: Arc<ResultHub>,
        settings: GatewaySettings,
        backends: GatewayBackends,
    ) -> Result<Arc<Gateway>, StoreError> {
        let (events, incoming) = mpsc::channel();
        let GatewayBackends { bus, network } = backends;
        let event_loop = event_loop::EventLoop::new(store, hub, settings, bus, events.clone())?;
        let thread = std::thread::Builder::new()
            .name("gateway".into())
            .spawn(move || event_loop.run(&incoming));
        let thread = thread.map_err(|_| StoreError::Other(rusqlite::Error::InvalidQuery))?;
        let arrivals = events.clone();
        let tell = move |arrival| {
            arrivals
                .send(GatewayEvent::Arrival(arrival))
                .map_err(|_| GatewayClosed)
        };
        let door = AgentListener::new(settings.agents_max, Arc::new(tell));
        Ok(Arc::new(Gateway {
            events,
            door,
            network,
            thread: Some(thread),
        }))
    }
}

impl Fleet for Gateway {
    fn agents(&self) -> Vec<AgentView> {
        let (answer, answered) = mpsc::sync_channel(1);
        let sent = self.events.send(GatewayEvent::Agents { answer });
        sent.ok()
            .and_then(|()| answered.recv().ok())
            .unwrap_or_default()
    }

    fn health(&self) -> FleetHealth {
        let (answer, answered) = mpsc::sync_channel(1);
        let sent = self.events.send(GatewayEvent::Health { answer });
        sent.ok()
            .and_then(|()| answered.recv().ok())
            .unwrap_or_default()
    }

    fn start(&self, order: &FleetOrder) -> Result<(), FleetRefusal> {
        let without =
            || Err("this server has no network: serve --network FILE names one".to_owned());
        let planned = order.network.map(|budget| {
            let network = self.network.as_ref();
            network.map_or_else(without, |network| {
                network.plan(order.id, &order.plan, budget)
            })
        });
        let (answer, answered) = mpsc::sync_channel(1);
        let order = Box::new(order.clone());
        let sent = self.events.send(GatewayEvent::Start {
            order,
            planned,
            answer,
        });
        let ended = || Err(FleetRefusal::Busy("the server is ending".into()));
        sent.ok()
            .and_then(|()| answered.recv().ok())
            .unwrap_or_else(ended)
    }

    fn stop(&self, job: JobId, why: StopCause) {
        // A gateway that has ended runs no jobs.
        let _ = self.events.send(GatewayEvent::Stop { job, why });
    }

    fn network(&self) -> NetworkView {
        self.network
            .as_ref()
            .map(|network| network.view())
            .unwrap_or_default()
    }

    fn packets(&self, asked: &PacketQuery) -> Result<FlowPackets, FleetRefusal> {
        packet_requests::collect(&self.events, &self.agents(), asked)
    }

    fn preserve_packets(&self, job: JobId, rule: &str) {
        let rule = rule.to_owned();
        // A gateway that has ended has no agents.
        let _ = self.events.send(GatewayEvent::Preserve { job, rule });
    }

    fn door(&self) -> Option<AgentListener> {
        Some(self.door.clone())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.events.send(GatewayEvent::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
