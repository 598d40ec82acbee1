//! The contract of the two planes: what a query makes monitors do ([`MonitorSpec`]) and what happens to the tuples
//! they emit ([`Dataflow`]). Types only, immutable once made; nothing after a [`Plan`] makes a choice.

#![forbid(unsafe_code)]

pub mod dataflow;
pub mod monitor_spec;

pub use dataflow::{
    Aggregate, Column, Compare, Dataflow, GroupBy, Input, Literal, Pipeline, Predicate, Profile, TopK, Value,
    Window,
};
pub use monitor_spec::{AddressMatch, Limit, MonitorSpec, ParserUse, Sample};

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The query as it was written.
    pub query: String,
    /// What monitors do.
    pub monitor: MonitorSpec,
    /// What is done with their tuples.
    pub dataflow: Dataflow,
}
