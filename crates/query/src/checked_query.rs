//! A checked query: all names resolved, all literals of their column's type, all defaults set. Parts adopted
//! unchanged by a plan have the plan's types.

use std::sync::Arc;

use plan::{
    AddressMatch, Column, ComputedField, NetworkBudget, Pipeline, Predicate, QueryLimit, RateGoal,
    RawRows, SampleMode, TapSelection,
};
use tuple::{Field, Schema};

use crate::period::{BaselinePeriod, TimePeriod};

/// A query without errors.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedQuery {
    /// Text of the query.
    pub text: String,
    /// PARSE, in order.
    pub inputs: Vec<QueryInput>,
    /// FROM; if empty, any client.
    pub from: Vec<AddressMatch>,
    /// TO; if empty, any server.
    pub to: Vec<AddressMatch>,
    /// The conjunction of all WHERE clauses.
    pub filter: Option<Predicate>,
    /// SINCE and UNTIL.
    pub period: TimePeriod,
    /// BASELINE.
    pub baseline: Option<BaselinePeriod>,
    /// LIMIT.
    pub limit: QueryLimit,
    /// SAMPLE.
    pub sample: SampleMode,
    /// ERROR, and BUDGET cpu outside of a network.
    pub goal: RateGoal,
    /// TAPS.
    pub taps: TapSelection,
    /// BUDGET.
    pub budget: NetworkBudget,
    /// PROCESS; if empty, the tuples are the result.
    pub processors: Vec<Pipeline>,
    /// Columns that are computed.
    pub computed: Vec<ComputedField>,
    /// SELECT, ORDER BY, and LIMIT n ROWS.
    pub rows: RawRows,
}

impl CheckedQuery {
    /// The field of a column.
    ///
    /// # Panics
    /// If the column belongs to another query.
    #[must_use]
    pub fn field(&self, column: Column) -> &Field {
        match column.computed_place() {
            Some(place) => &self.computed[place].field,
            None => self.inputs[usize::from(column.input)]
                .schema
                .field(column.field),
        }
    }
}

/// One parser's tuples.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryInput {
    /// Schema of the tuples.
    pub schema: Arc<Schema>,
    /// Condition for tuples to be processed, in addition to WHERE.
    pub filter: Option<Predicate>,
}
