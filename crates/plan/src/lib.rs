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
pub mod taps;
pub mod validate;

pub use bounds::TimeBounds;
pub use budget::NetworkBudget;
pub use cost::{JobCost, ResourceUsage};
pub use dataflow::{
    AggregateColumn, AggregateFunction, AggregatedValue, Dataflow, DataflowInput, GroupBy,
    Pipeline, ProfileSpec, RawRows, ResultSelection, SampledUnit, ShareTotal, SortDirection,
    SortKey, TopK, Window,
};
pub use expr::{
    ArithmeticOperator, COMPUTED, CaseSensitivity, Column, ComparisonOperator, ComputedField, Expr,
    Literal, Predicate, RegexPattern, TextFunction,
};
pub use monitor_spec::{
    AddressMatch, MonitorSpec, ParserUse, QueryLimit, RateGoal, SampleMode, TimeSpan,
};
pub use slice::{FlowSlice, SliceSource};
pub use taps::{TapSelection, TapTable};

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
