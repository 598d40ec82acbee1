//! Capture, flow table and parsers put together: packets in, tuple batches out, every packet accounted for.
//!
//! [`pipeline`] is the one place where the data path can be read from top to bottom. A monitor knows nothing of
//! windows, groups or output formats; what is done with its tuples is the stream engine's affair.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod address_filter;
pub mod outputs;
pub mod pipeline;
pub mod ring;
pub mod sample;

pub use accounting::Accounting;
pub use pipeline::{Config, Monitor, Progress};
