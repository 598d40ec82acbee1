//! A running query: packets or a recording in, rows to a sink, and a summary at the end. An [`RunObserver`] follows its
//! progress. Terminals and flags are not known here, nor files except those to be read.

#![forbid(unsafe_code)]

pub mod bus;
mod closing;
pub mod feed;
mod frames;
pub mod limits;
pub mod memory;
mod rate_regulator;
mod redacted;
mod relay;
pub mod replay;
mod run;
mod summary;

pub use feed::TupleFeed;
pub use frames::FrameWriter;
pub use memory::{MemoryDivision, MemoryLimits, RowWriting};
pub use rate_regulator::{RateActuator, RateRegulator, RegulatedRate, SamplingCost};
pub use relay::{OPEN_EVERY_NS, RelayRun};
pub use run::{QueryRun, RunObserver, RunPosition, RunResultTable, heads};
pub use summary::{FedInput, InputError, MonitorInput, PublishedInput, RunSummary, SUMMARY_FORMAT};
