//! Evaluates conditions defined outside the query on result rows: assertions and alert rules.

use plan::{Column, ComputedField, Predicate};
use tuple::{Batch, Schema};

use super::expr::ColumnComputer;
use super::filter::TupleFilter;

/// Evaluates each condition for each row. `schema` describes the columns of the rows, `computed` the columns computed
/// from them.
#[must_use]
pub fn truths(
    conditions: &[&Predicate],
    computed: &[ComputedField],
    schema: &Schema,
    batch: &Batch,
) -> Vec<Vec<bool>> {
    let own = |column: Column| column.field;
    let computer = ColumnComputer::new(computed, schema, &own);
    let places: Vec<usize> = (0..computed.len()).collect();
    let batch = computer.extend(batch, &places);
    let place = |column: Column| computer.place(column, &own);
    let truth = |condition: &&Predicate| {
        TupleFilter::new(condition, computer.schema(), &place)
            .evaluate(&batch)
            .yes
            .iter()
            .collect()
    };
    conditions.iter().map(truth).collect()
}
