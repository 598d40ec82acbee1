//! From a checked query to a plan: [`lower`] decides what monitors do and what the dataflow is, [`explain`] says it in
//! words. Beside it, where in a network things go: [`topology`] is the network, [`placement`] puts monitors and engines on its
//! hosts, [`simulate`] studies how well, [`physical`] says what all of that does to a network. Pure: no clock, no file, no network.

#![forbid(unsafe_code)]

mod both_taps;
mod cost;
mod explain;
mod folded;
mod lower;
mod period;
pub mod physical;
pub mod placement;
mod random;
mod recorded;
pub mod simulate;
#[cfg(test)]
mod tests;
pub mod topology;
mod words;

pub use both_taps::{BothTaps, both_taps};
pub use cost::cost;
pub use explain::explain;
pub use folded::compared_folded;
pub use lower::{add_columns, add_origin, give_tuples, give_tuples_of_each, leave_out, lower};
pub use period::{explain_period, within};
pub use random::Random;
pub use recorded::recorded;
