//! Evaluates conditions defined outside the query on result rows: assertions and alert rules.

use plan::{Column, Computed, Predicate};
use tuple::{Batch, Schema};

use super::expr::Computer;
use super::filter::Filter;

/// Evaluates each condition for each row. `schema` describes the columns of the rows, `computed` the columns computed
/// from them.
#[must_use]
pub fn truths(
    conditions: &[&Predicate],
    computed: &[Computed],
    schema: &Schema,
    batch: &Batch,
) -> Vec<Vec<bool>> {
    let own = |column: Column| column.field;
    let computer = Computer::new(computed, schema, &own);
    let places: Vec<usize> = (0..computed.len()).collect();
    let batch = computer.extend(batch, &places);
    let place = |column: Column| computer.place(column, &own);
    let truth = |condition: &&Predicate| {
        Filter::new(condition, computer.schema(), &place).evaluate(&batch).yes.iter().collect()
    };
    conditions.iter().map(truth).collect()
}
