//! A running query: packets or a recording in, rows to a sink, and a summary at the end. An [`Observer`] follows its
//! progress. Terminals and flags are not known here, nor files except those to be read.

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
