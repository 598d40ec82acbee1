//! Rewrites a dataflow with a join for tuples that are already joined, for queries over their recording.

use std::sync::Arc;

use plan::{
    AggregateColumn, AggregateFunction, Column, ComputedField, Dataflow, DataflowInput, Predicate,
    RawRows,
};
use tuple::FieldId;

use crate::ops::join::{SAME_IN_ALL, joined_schema};

/// The same analysis of joined tuples. Input filters become filters of the joined tuples, since the join is an inner
/// join. A dataflow with one input is unchanged.
#[must_use]
pub fn flat(dataflow: &Dataflow) -> Dataflow {
    if dataflow.inputs.len() < 2 {
        return dataflow.clone();
    }
    let (schema, starts) = joined_schema(&dataflow.inputs);
    // Joined tuples contain the flow's common columns only once.
    let place = |column: Column| {
        if SAME_IN_ALL.contains(&column.field) {
            column.field
        } else {
            FieldId(starts[usize::from(column.input)] + column.field.0)
        }
    };
    let moved = |column: Column| match column.computed_place() {
        Some(_) => column,
        None => Column {
            input: 0,
            field: place(column),
        },
    };
    let mut columns: Vec<FieldId> = Vec::new();
    let mut filters: Vec<Predicate> = Vec::new();
    for (i, input) in dataflow.inputs.iter().enumerate() {
        columns.extend(input.columns.iter().map(|field| {
            place(Column {
                input: i as u16,
                field: *field,
            })
        }));
        filters.extend(input.filter.as_ref().map(|p| p.renamed(&moved)));
    }
    columns.sort_unstable();
    columns.dedup();
    let filter = (!filters.is_empty()).then_some(Predicate::And(filters));
    let mut pipelines = dataflow.pipelines.clone();
    for pipeline in &mut pipelines {
        pipeline
            .values
            .iter_mut()
            .for_each(|value| value.column = moved(value.column));
        pipeline
            .group
            .iter_mut()
            .for_each(|group| group.column = moved(group.column));
        for AggregateColumn { aggregate, .. } in &mut pipeline.aggregates {
            match aggregate {
                AggregateFunction::Distinct(column) => *column = moved(*column),
                AggregateFunction::Success(predicate) | AggregateFunction::Ratio(predicate) => {
                    *predicate = predicate.renamed(&moved);
                }
                _ => {}
            }
        }
    }
    Dataflow {
        inputs: vec![DataflowInput {
            schema: Arc::new(schema),
            columns,
            filter,
        }],
        filter: dataflow.filter.as_ref().map(|p| p.renamed(&moved)),
        pipelines,
        computed: dataflow
            .computed
            .iter()
            .map(|c| ComputedField {
                expr: c.expr.renamed(&moved),
                ..c.clone()
            })
            .collect(),
        rows: RawRows {
            select: dataflow
                .rows
                .select
                .as_ref()
                .map(|select| select.iter().map(|c| moved(*c)).collect()),
            order: dataflow
                .rows
                .order
                .iter()
                .map(|(c, direction)| (moved(*c), *direction))
                .collect(),
            rows_max: dataflow.rows.rows_max,
        },
    }
}
