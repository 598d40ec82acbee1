//! From a checked query to a plan: [`lower`] decides what monitors do and what the dataflow is, [`explain`] says it in
//! words. Pure: no clock, no file, no network.

#![forbid(unsafe_code)]

mod both_taps;
mod cost;
mod explain;
mod folded;
mod lower;
mod period;
mod recorded;
#[cfg(test)]
mod tests;
mod words;

pub use both_taps::{BothTaps, both_taps};
pub use cost::cost;
pub use explain::explain;
pub use folded::compared_folded;
pub use lower::{add_columns, add_origin, give_tuples, give_tuples_of_each, leave_out, lower};
pub use period::{explain_period, within};
pub use recorded::recorded;
