//! A query at work: packets or a recording in, rows to a sink, and a summary at the end. Whoever wants to see how it goes
//! gives an [`Observer`]; this crate itself knows no terminal, no flags and no files but those that it is told to read.

#![forbid(unsafe_code)]

pub mod bus;
mod closing;
pub mod feed;
mod frames;
pub mod limits;
pub mod memory;
mod redacted;
mod relay;
pub mod replay;
mod run;
mod summary;

pub use feed::Feed;
pub use frames::Frames;
pub use memory::{Limits, Memory, Writing};
pub use relay::{OPEN_EVERY_NS, Relay};
pub use run::{Observer, Position, ResultTable, Run, heads};
pub use summary::{Fed, InputError, Monitored, Published, SUMMARY_FORMAT, Summary};
