//! A checked query: every name resolved, every literal of its column's type, every default filled in. What a plan takes
//! over as it is has the plan's types.

use std::sync::Arc;

use plan::{AddressMatch, Budget, Column, Computed, Limit, Pipeline, Predicate, RawRows, Sample, Taps};
use tuple::{Field, Schema};

use crate::period::{Baseline, Period};

/// A query without errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// As it was written.
    pub text: String,
    /// PARSE, in its order.
    pub inputs: Vec<Input>,
    /// FROM; empty: any client.
    pub from: Vec<AddressMatch>,
    /// TO; empty: any server.
    pub to: Vec<AddressMatch>,
    /// Every WHERE, joined by and.
    pub filter: Option<Predicate>,
    /// SINCE and UNTIL.
    pub period: Period,
    /// BASELINE.
    pub baseline: Option<Baseline>,
    /// LIMIT.
    pub limit: Limit,
    /// SAMPLE.
    pub sample: Sample,
    /// TAPS.
    pub taps: Taps,
    /// BUDGET.
    pub budget: Budget,
    /// PROCESS; empty: the tuples themselves are the result.
    pub processors: Vec<Pipeline>,
    /// Columns that are computed.
    pub computed: Vec<Computed>,
    /// SELECT, ORDER BY and LIMIT n ROWS.
    pub rows: RawRows,
}

impl Query {
    /// The field of a column.
    ///
    /// # Panics
    /// When the column is of another query.
    #[must_use]
    pub fn field(&self, column: Column) -> &Field {
        match column.computed_place() {
            Some(place) => &self.computed[place].field,
            None => self.inputs[usize::from(column.input)].schema.field(column.field),
        }
    }
}

/// One parser's tuples.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Their schema.
    pub schema: Arc<Schema>,
    /// Which of them take part, beyond what WHERE says.
    pub filter: Option<Predicate>,
}
