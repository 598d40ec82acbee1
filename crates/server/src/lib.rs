//! The service `netalytics serve`: jobs submitted over HTTP and run by a [`Fleet`] of agents, with live and stored
//! results. One process, one data directory.
//!
//! Executors are connected by two interfaces: the [`Fleet`] receives jobs and reports their results to the [`Hub`].
//! Below are the [`Store`] (jobs and settings: SQLite), the history (results: Parquet, the latest rows in the store),
//! and the API. Packets are not known here, and decisions about agents are made in `control`.

#![forbid(unsafe_code)]

mod access;
mod actions;
mod alerts;
mod asking;
mod backup;
mod bell;
mod bus;
mod catalog;
mod columns;
mod coverage;
mod delivery;
mod demo;
mod denied;
mod door;
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
mod looked_at;
mod meters;
mod metrics;
mod network;
mod past;
mod proxies;
mod recordings;
mod rows;
mod rules;
mod run;
mod scaling;
mod service;
mod shelf;
mod store;
mod tls;
mod unkept;

pub use access::{Access, NewToken, Role, Scope, Token};
pub use actions::ActionLimits;
pub use alerts::{AlertLimits, Receiver};
pub use backup::{BackedUp, Restored, backup, restore};
pub use bus::{Bus, Merge, Merged, Wanted};
pub use columns::{AGENTS_MISSING, ColumnHead, read_rows, schema};
pub use delivery::Named;
pub use door::Door;
pub use fleet::{Agent, AgentHealth, Fleet, FleetHealth, JobHealth, NoFleet, Order, Refused, Stop};
pub use gateway::{Doors, Gateway, GatewaySettings};
pub use history::Kept;
pub use http::{PageFile, Serving, openapi};
pub use hub::{Account, AgentAccount, Coverage, Delivery, Hub, ResultTable, TapAccount, WindowState};
pub use job::{
    BusKind, Capture, End, Job, JobId, JobKind, JobOutlet, Keep, Merger, Outcome, OutletLosses, OutletState,
    Redaction, State, Submission,
};
pub use limits::{Limits, PastLimits, Retention, Scrapers};
pub use network::{
    AgentPart, Copies, CopiesState, Network, NetworkHost, NetworkJob, NetworkLink, NetworkMirror,
    NetworkMonitor, NetworkRule, NetworkSwitch, NetworkView, Planned,
};
pub use proxies::TrustedProxies;
pub use rows::read_arrow;
pub use run::{Beside, Bound, Listen, serve};
pub use service::{ADMIN_TOKEN, Denied, Opened, Service};
pub use shelf::{Looked, Read, ReadLimits, ReadResult, Reader, ShelfLimits, Unread};
pub use store::{Store, StoreError};
pub use tls::{Shown, Tls, authority_pem};
pub use unkept::Unkept;
