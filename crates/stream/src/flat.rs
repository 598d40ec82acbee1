//! A dataflow that joins its inputs, as one over tuples that are joined already: what a recording of them is asked.

use std::sync::Arc;

use plan::{Aggregate, Column, Dataflow, Input, Predicate};
use tuple::FieldId;

use crate::ops::join::{SAME_IN_ALL, joined_schema};

/// The same analysis of joined tuples. What the inputs were filtered by, the joined tuples are: the join is an inner
/// one. A dataflow with one input stays as it is.
#[must_use]
pub fn flat(dataflow: &Dataflow) -> Dataflow {
    if dataflow.inputs.len() < 2 {
        return dataflow.clone();
    }
    let (schema, starts) = joined_schema(&dataflow.inputs);
    // Joined tuples have once only what says which flow it is.
    let place = |column: Column| match SAME_IN_ALL.contains(&column.field) {
        true => column.field,
        false => FieldId(starts[usize::from(column.input)] + column.field.0),
    };
    let moved = |column: Column| Column { input: 0, field: place(column) };
    let mut columns: Vec<FieldId> = Vec::new();
    let mut filters: Vec<Predicate> = Vec::new();
    for (i, input) in dataflow.inputs.iter().enumerate() {
        columns.extend(input.columns.iter().map(|field| place(Column { input: i as u16, field: *field })));
        filters.extend(input.filter.as_ref().map(|p| renamed(p, &moved)));
    }
    columns.sort_unstable();
    columns.dedup();
    let filter = (!filters.is_empty()).then_some(Predicate::And(filters));
    let mut pipelines = dataflow.pipelines.clone();
    for pipeline in &mut pipelines {
        pipeline.value.iter_mut().for_each(|value| value.column = moved(value.column));
        pipeline.group.iter_mut().for_each(|group| group.column = moved(group.column));
        for aggregate in &mut pipeline.aggregates {
            match aggregate {
                Aggregate::Distinct(column) => *column = moved(*column),
                Aggregate::Success(predicate) => *predicate = renamed(predicate, &moved),
                _ => {}
            }
        }
    }
    Dataflow {
        inputs: vec![Input { schema: Arc::new(schema), columns, filter }],
        filter: dataflow.filter.as_ref().map(|p| renamed(p, &moved)),
        pipelines,
    }
}

/// The same predicate of other columns.
fn renamed(predicate: &Predicate, to: &dyn Fn(Column) -> Column) -> Predicate {
    let all = |parts: &[Predicate]| parts.iter().map(|p| renamed(p, to)).collect();
    match predicate {
        Predicate::And(parts) => Predicate::And(all(parts)),
        Predicate::Or(parts) => Predicate::Or(all(parts)),
        Predicate::Not(inner) => Predicate::Not(Box::new(renamed(inner, to))),
        Predicate::Compare { column, op, literal } => {
            Predicate::Compare { column: to(*column), op: *op, literal: literal.clone() }
        }
        Predicate::Like { column, pattern } => {
            Predicate::Like { column: to(*column), pattern: pattern.clone() }
        }
        Predicate::In { column, literals } => {
            Predicate::In { column: to(*column), literals: literals.clone() }
        }
        Predicate::IsNull(column) => Predicate::IsNull(to(*column)),
    }
}
