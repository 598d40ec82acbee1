//! Translates a checked query and [`PlanOptions`] to a plan: [`lower_with`] determines the monitors and the dataflow,
//! [`explain`] describes the plan. In addition, assignment to a network: [`topology`] is the network, [`placement`] assigns monitors and
//! engines to its hosts, [`simulate`] evaluates the placement, and [`physical`] plans the changes to a network. Pure:
//! no clock, file, or network access.

#![forbid(unsafe_code)]

mod both_taps;
mod cost;
mod explain;
pub mod exported_query;
mod lower;
mod options;
mod period;
pub mod physical;
pub mod placement;
mod published_tuples;
mod query_dataflow;
mod query_text;
mod random;
mod recording_plan;
mod redaction_limits;
pub mod simulate;
#[cfg(test)]
mod tests;
pub mod topology;

pub use both_taps::{BothTaps, both_taps};
pub use cost::cost;
pub use explain::explain;
pub use lower::{lower, lower_with};
pub use options::{PlanInput, PlanOptions, PlanOutput};
pub use period::explain_period;
pub use published_tuples::published_tuples;
pub use random::SeededRandom;
pub use redaction_limits::compared_folded;
