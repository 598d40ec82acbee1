//! The flow table and TCP reassembly. Processes decoded packets and returns [`FlowEvent`]s.
//!
//! No clock and no I/O: time is that of the packets, and the hash seed is an argument, so a replay gives the same
//! result as live traffic. Independent of protocols above TCP and UDP, of queries, and of tuples.

#![forbid(unsafe_code)]

mod config;
mod dormant;
mod duplicates;
pub mod event;
mod evicted;
mod expiry;
mod fast_path;
pub mod flow;
mod gatekeeping;
mod handshake;
mod index;
pub mod metrics;
mod order;
mod reassembly;
mod record;
mod room;
mod store;
pub mod table;
mod tcp_state;
mod timeouts;
mod unconfirmed;

pub use config::{Config, Detail};
pub use event::{Chunk, CloseReason, Event, Events, FlowEvent, FlowIdx, Place};
pub use fast_path::Segment;
pub use flow::{Flow, FlowCore, flow_id};
pub use metrics::{CaptureLoss, ConnState, Counters, SideCounters};
pub use room::Room;
pub use table::{Hashed, Table};
