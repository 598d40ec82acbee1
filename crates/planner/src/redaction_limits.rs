//! Conditions of a query that fail on redacted texts.

use plan::{Column, ComputedField, Dataflow, Predicate};
use tuple::RedactionRule;

/// The name of a redacted column used in a comparison; `None` if there is none.
#[must_use]
pub fn compared_folded(dataflow: &Dataflow) -> Option<String> {
    let field = |column: Column| {
        dataflow.inputs[usize::from(column.input)]
            .schema
            .field(column.field)
    };
    let mut compared = Vec::new();
    let filters = dataflow
        .inputs
        .iter()
        .map(|input| &input.filter)
        .chain([&dataflow.filter]);
    let mut add = |column| {
        ComputedField::sources(&dataflow.computed, column, &mut |column| {
            compared.push(column)
        })
    };
    filters
        .flatten()
        .for_each(|filter| compared_by(filter, &mut add));
    compared.retain(|column| field(*column).redact != RedactionRule::Keep);
    compared
        .first()
        .map(|column| field(*column).name.to_string())
}

fn compared_by(predicate: &Predicate, add: &mut dyn FnMut(Column)) {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => {
            parts.iter().for_each(|part| compared_by(part, add))
        }
        Predicate::Not(part) => compared_by(part, add),
        Predicate::IsNull(_) => {}
        compares => compares.columns(add),
    }
}
