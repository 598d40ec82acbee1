//! The contract between the two planes: the tasks of monitors ([`MonitorSpec`]), the processing of their tuples
//! ([`Dataflow`]), and the columns of the results ([`result::schema`]). Immutable types; all decisions are made
//! before a [`Plan`] is created.

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

/// The plan of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The text of the query.
    pub query: String,
    /// The task of monitors.
    pub monitor: MonitorSpec,
    /// The processing of their tuples.
    pub dataflow: Dataflow,
}
