//! Capture, flow table, parsers and stream engine put together: packets in, results out, every packet accounted for.
//!
//! [`pipeline`] is the one place where the data path can be read from top to bottom. [`Job`] runs it on as many
//! threads as are wanted; what comes out does not depend on how many. A monitor knows nothing of output formats.

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
