//! The service `netalytics serve`: jobs submitted over HTTP and run by a [`Fleet`] of agents, with live and stored
//! results. One process, one data directory.
//!
//! Executors are connected by two interfaces: the [`Fleet`] receives jobs and reports their results to the [`ResultHub`].
//! Below are the [`ServerStore`] (jobs and settings: SQLite), the history (results: Parquet, the latest rows in the store),
//! and the API. Packets are not known here, and decisions about agents are made in `control`.

#![forbid(unsafe_code)]

mod access;
mod actions;
mod agent_listener;
mod alerts;
mod backup;
mod catalog;
mod columns;
mod counters;
mod coverage;
mod delivery;
mod demo;
mod enrolment;
mod events;
mod fleet;
pub mod fuzzing;
mod gateway;
mod history;
mod http;
mod hub;
mod job;
mod leases;
mod limits;
mod merge_backend;
mod metrics_page;
mod network;
mod notifier;
mod past;
mod persist_error;
mod query_assist;
mod recording_store;
mod recordings;
mod rows;
mod rules;
mod run;
mod scaling;
mod service;
mod service_error;
mod store;
mod tls;
mod trusted_proxies;
mod windowed_result;

pub use access::{AccessRole, AccessToken, ClientAccess, NetworkScope, NewToken};
pub use actions::ActionLimits;
pub use agent_listener::AgentListener;
pub use alerts::{AlertLimits, AlertReceiver};
pub use backup::{BackupSummary, RestoreSummary, backup, restore};
pub use columns::{AGENTS_MISSING, ColumnHead, read_rows, schema};
pub use delivery::NamedOutlets;
pub use fleet::{
    AgentHealth, AgentView, Fleet, FleetHealth, FleetOrder, FleetRefusal, JobHealth, NoFleet, StopCause,
};
pub use gateway::{Gateway, GatewayBackends, GatewaySettings};
pub use history::HistoryUsage;
pub use http::{HttpServer, PageFile, openapi};
pub use hub::{
    AgentAccount, AgentCoverage, JobAccount, ResultDelivery, ResultHub, ResultTable, TapAccount, WindowState,
};
pub use job::{
    BusKind, CaptureRequest, JobEnding, JobId, JobKind, JobOutcome, JobOutlet, JobPhase, JobRecord,
    JobSubmission, MergeEngine, OutletLosses, OutletState, RedactionMode, RetainedRows,
};
pub use limits::{PastLimits, RowRetention, ScrapeAccess, ServiceLimits};
pub use merge_backend::{MergeBackend, MergeRequest, MergeStatus, ResultMerge};
pub use network::{
    AgentShare, CopiesState, MirrorSession, NetworkBackend, NetworkHost, NetworkJob, NetworkLink,
    NetworkMirror, NetworkMonitor, NetworkRule, NetworkSwitch, NetworkView, PlannedJob,
};
pub use persist_error::PersistError;
pub use recording_store::{
    ReadLimits, RecordingAnswer, RecordingInspection, RecordingLimits, RecordingQueryError, RecordingReader,
    RecordingResult,
};
pub use rows::read_arrow;
pub use run::{BoundAddresses, ListenOptions, SecondAddress, serve};
pub use service::{ADMIN_TOKEN, DataDirectory, Service, ServiceError};
pub use store::{ServerStore, StoreError};
pub use tls::{ServerCertificate, ServerTls, authority_pem};
pub use trusted_proxies::TrustedProxies;
