//! Connects capture, flow table, parsers, and stream engine: packets in, results out, every packet accounted
//! for.
//!
//! [`pipeline`] is the data path from top to bottom. [`Job`] runs it on several threads; the results do not
//! depend on the number of threads. A monitor does not depend on output formats.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod address_filter;
pub mod allowance;
mod dispatch;
mod epochs;
pub mod fragments;
pub mod gate;
mod in_flight;
pub mod job;
pub mod limiter;
mod limits;
pub mod look_back;
mod losses;
pub mod networks;
pub mod outputs;
pub mod pipeline;
pub mod pressure;
pub mod ring;
pub mod sample;
pub mod slice;
pub mod taps;
mod threads;
pub mod vitals;
pub mod walk;
pub mod worker;

pub use accounting::Accounting;
pub use gate::{Keep, Keeper};
pub use job::{Ended, Input, Job, PacketFacts, Step};
pub use pipeline::{Config, Monitor, Progress};
pub use slice::SharedSlice;
pub use taps::SharedTaps;
