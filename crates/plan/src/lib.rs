//! The contract of the two planes: what a query makes monitors do ([`MonitorSpec`]) and what happens to the tuples
//! they emit ([`Dataflow`]), and which columns their results have ([`result::schema`]). Types, immutable once made;
//! nothing after a [`Plan`] makes a choice.

#![forbid(unsafe_code)]

pub mod bounds;
mod budget;
pub mod cost;
pub mod dataflow;
pub mod expr;
pub mod message;
pub mod monitor_spec;
pub mod result;
pub mod slice;
pub mod sound;
pub mod taps;

pub use bounds::Bounds;
pub use budget::Budget;
pub use cost::{Burden, Cost};
pub use dataflow::{
    Aggregate, Aggregated, Dataflow, Direction, GroupBy, Input, Pipeline, Profile, RawRows, Selection,
    SortKey, TopK, Total, Value, Window,
};
pub use expr::{
    Arithmetic, COMPUTED, Case, Column, Compare, Computed, Expr, Literal, Predicate, Regex, TextFunction,
};
pub use monitor_spec::{AddressMatch, Limit, MonitorSpec, ParserUse, Sample, Span};
pub use slice::{Coin, Slice};
pub use taps::{TapTable, Taps};

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
