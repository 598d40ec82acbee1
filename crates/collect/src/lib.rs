//! Merges the results of several workers: each reports its results and progress in a [`Report`], and a [`Collector`]
//! computes the rows that a single worker would have emitted.

#![forbid(unsafe_code)]

mod collector;
#[cfg(test)]
mod fixture;
mod frame;
mod lanes;
mod message;
mod report;
mod rows;

pub use collector::{Collector, TakeRows, Whatever};
pub use frame::{FRAME_BYTES_MAX, Frame, TAKEN, WAITING};
pub use lanes::{Coverage, LaneId, Lanes, State};
pub use message::{Brings, Head, Malformed, REPORT_BYTES_MAX, head};
pub use report::{Part, Report};
