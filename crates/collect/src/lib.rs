//! Where the results of many workers meet: each says in a [`Report`] what it has found by when, and a [`Collector`] makes of
//! all reports the rows that one worker would have given.

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
