//! What a query over redacted tuples cannot find.

use plan::{Column, Computed, Dataflow, Predicate};
use recording::Head;
use tuple::Redact;

/// Says what may surprise in the answer over files with these heads.
pub fn mention<'a>(dataflow: &Dataflow, heads: impl Iterator<Item = &'a Head>, note: &mut dyn FnMut(&str)) {
    let mut keys: Vec<Option<u64>> = heads.map(|head| head.redacted).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.iter().all(Option::is_none) {
        return;
    }
    let field = |column: Column| dataflow.inputs[usize::from(column.input)].schema.field(column.field);
    let mut compared = Vec::new();
    let filters = dataflow.inputs.iter().map(|input| &input.filter).chain([&dataflow.filter]);
    let mut add = |column| Computed::sources(&dataflow.computed, column, &mut |column| compared.push(column));
    filters.flatten().for_each(|filter| compared_by(filter, &mut add));
    compared.retain(|column| field(*column).redact != Redact::Keep);
    if let Some(column) = compared.first() {
        note(&format!(
            "{} was redacted when it was recorded; WHERE sees what is left of it",
            field(*column).name
        ));
    }
    let mut inputs = dataflow.inputs.iter();
    let reads = inputs.any(|i| i.columns.iter().any(|id| i.schema.field(*id).redact != Redact::Keep));
    if reads && keys.len() > 1 {
        note(
            "parts of the recording were redacted with different keys, or not at all: one text has several hashes \
             there (--redact-key keeps them the same)",
        );
    }
}

fn compared_by(predicate: &Predicate, add: &mut dyn FnMut(Column)) {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|part| compared_by(part, add)),
        Predicate::Not(part) => compared_by(part, add),
        Predicate::IsNull(_) => {}
        compares => compares.columns(add),
    }
}
