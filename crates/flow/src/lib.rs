//! The flow table and TCP reassembly. Processes decoded packets and returns [`FlowEvent`]s.
//!
//! No clock and no I/O: time is that of the packets, and the hash seed is an argument, so a replay gives the same
//! result as live traffic. Independent of protocols above TCP and UDP, of queries, and of tuples.

#![forbid(unsafe_code)]

mod config;
mod delivery_order;
mod dormant_connections;
mod duplicates;
pub mod event;
mod event_outlet;
mod evicted_flows;
mod expiry;
mod fast_path;
pub mod flow;
mod flow_budget;
mod flow_layout;
mod flow_mut;
mod handshake;
mod index;
pub mod metrics;
mod pending_openings;
mod reassembly;
mod reassembly_budget;
mod segment_check;
mod segment_context;
mod store;
pub mod table;
mod tcp_state;
mod timeouts;
mod waiting_segments;

pub use config::{FlowTableConfig, TrackingDetail};
pub use event::{
    CloseReason, EventBytes, FlowEvent, FlowEvents, FlowIdx, IndexedFlowEvent, StreamPlace,
};
pub use fast_path::{FastPathOutcome, FastPathSegment};
pub use flow::{Flow, FlowCore, flow_id};
pub use flow_budget::FlowBudget;
pub use metrics::{CaptureLoss, ConnState, FlowTableCounters, SideCounters};
pub use table::{FlowTable, HashedKey};
