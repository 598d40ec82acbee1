//! Translates a checked query to a plan: [`lower`] determines the monitors and the dataflow, [`explain`] describes
//! the plan. In addition, assignment to a network: [`topology`] is the network, [`placement`] assigns monitors and
//! engines to its hosts, [`simulate`] evaluates the placement, and [`physical`] plans the changes to a network. Pure:
//! no clock, file, or network access.

#![forbid(unsafe_code)]

mod both_taps;
mod cost;
mod explain;
mod lower;
mod period;
pub mod physical;
pub mod placement;
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
pub use lower::{add_columns, add_origin, give_tuples, give_tuples_of_each, leave_out, lower};
pub use period::{explain_period, within};
pub use random::SeededRandom;
pub use recording_plan::recorded;
pub use redaction_limits::compared_folded;
