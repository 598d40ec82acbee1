//! The service `netalytics serve`: jobs submitted over HTTP and run by a [`Fleet`] of agents, with live and stored
//! results. One process, one data directory.
//!
//! Executors are connected by two interfaces: the [`Fleet`] receives jobs and reports their results to the [`ResultHub`].
//! Folders are rooms: `job` (values), `store` (disk), `results`, `rules`, `gateway` (agents), `jobs` (requests), `queries`
//! (stored data), `api` (HTTP), `startup`. A room uses only rooms before it in this list; ARCHITECTURE.md has the table.
//! Packets are not known here, and decisions about agents are made in `control`.

#![forbid(unsafe_code)]

mod api;
pub mod fuzzing;
mod gateway;
mod job;
mod jobs;
mod queries;
mod results;
mod rules;
mod startup;
mod store;

pub use api::row_formats::read_arrow;
pub use api::service::Service;
pub use api::{HttpServer, PageFile, openapi};
pub use gateway::agent_listener::AgentListener;
pub use gateway::fleet::{
    AgentHealth, AgentView, Fleet, FleetHealth, FleetOrder, JobHealth, NoFleet, StopCause,
};
pub use gateway::merge_backend::{MergeBackend, MergeRequest, MergeStatus, ResultMerge};
pub use gateway::network::{
    AgentShare, CopiesState, MirrorSession, NetworkBackend, NetworkHost, NetworkJob, NetworkLink,
    NetworkMirror, NetworkMonitor, NetworkRule, NetworkSwitch, NetworkView, PlannedJob,
};
pub use gateway::{Gateway, GatewayBackends, GatewaySettings};
pub use job::columns::{AGENTS_MISSING, ColumnHead, read_rows, schema};
pub use job::fleet_refusal::FleetRefusal;
pub use job::{
    BusKind, CaptureRequest, Job, JobEnding, JobId, JobKind, JobOutcome, JobOutlet, JobSource,
    JobSpec, JobState, MergeEngine, OutletLosses, OutletState, RedactionMode, RetainedRows,
};
pub use jobs::limits::{PastLimits, ScrapeAccess, ServiceLimits};
pub use jobs::trusted_proxies::TrustedProxies;
pub use results::delivery::NamedOutlets;
pub use results::hub::{
    AgentAccount, AgentCoverage, JobAccount, ResultDelivery, ResultHub, ResultTable, TapAccount,
    WindowState,
};
pub use rules::actions::ActionLimits;
pub use rules::alerts::{AlertLimits, AlertReceiver};
pub use startup::backup::{BackupSummary, RestoreSummary, backup, restore};
pub use startup::data_directory::{ADMIN_TOKEN, DataDirectory};
pub use startup::run::{BoundAddresses, ListenOptions, SecondAddress, serve};
pub use store::access::{AccessRole, AccessToken, ClientAccess, NetworkScope, NewToken};
pub use store::history::{HistoryUsage, RowRetention};
pub use store::persist_error::PersistError;
pub use store::recorded_flow::{
    ConversationSide, ConversationTurn, FlowConversation, FlowPart, FlowRequest, RecordedFlow,
};
pub use store::recording_store::{
    ReadLimits, RecordingAnswer, RecordingInspection, RecordingLimits, RecordingQueryError,
    RecordingReader, RecordingResult,
};
pub use store::service_error::ServiceError;
pub use store::sqlite::{ServerStore, StoreError};
pub use store::tls::{ServerCertificate, ServerTls, authority_pem};
