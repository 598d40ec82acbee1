//! Connects capture, flow table, parsers, and stream engine: packets in, results out, every packet accounted
//! for.
//!
//! [`pipeline`] is the data path from top to bottom. [`MonitorJob`] runs it on several threads; the results do not
//! depend on the number of threads. A monitor does not depend on output formats.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod address_filter;
pub mod allowance;
mod capture_start;
pub mod capture_walk;
mod chunk_reader;
mod epochs;
pub mod exports;
pub mod flush;
pub mod fragments;
pub mod gate;
mod in_flight;
pub mod job;
mod limit_meter;
pub mod limiter;
pub mod look_back;
mod loss_meter;
mod packet_chunk;
pub mod pipeline;
pub mod sample;
pub mod sampling_control;
mod shared_input;
mod silences;
pub mod slice;
mod source_log;
pub mod taps;
mod threads;
pub mod tuple_outputs;
pub mod virtual_networks;
pub mod vitals;
pub mod worker;

pub use accounting::PacketAccounting;
pub use exports::{ExportAccounting, ExporterState};
pub use gate::{PacketRetention, SharedPacketRetention};
pub use job::{JobInput, MonitorJob, MonitorOutcome, MonitorProgress};
pub use pipeline::{BatchProgress, Monitor, MonitorConfig};
pub use slice::SharedSlice;
pub use source_log::PacketFacts;
pub use taps::SharedTaps;
