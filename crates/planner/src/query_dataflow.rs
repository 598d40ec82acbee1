//! The dataflow of a checked query. Names, types, defaults, and processors are resolved by the checker. This module
//! determines the columns of the inputs, and the position of conditions: those on a single input are evaluated before a
//! join.

use plan::{
    AggregateFunction, COMPUTED, Column, ComputedField, Dataflow, DataflowInput, Pipeline,
    Predicate, RawRows, SampleMode,
};
use query::CheckedQuery;
use tuple::{FieldId, TapColumns, common};

/// The dataflow of a query over packets.
pub(crate) fn dataflow(query: &CheckedQuery) -> Dataflow {
    let (before_join, filter) = placed_conditions(query);
    let mut dataflow = Dataflow {
        inputs: Vec::new(),
        filter,
        pipelines: query.processors.clone(),
        computed: query.computed.clone(),
        rows: query.rows.clone(),
    };
    for (i, (input, filters)) in query.inputs.iter().zip(before_join).enumerate() {
        let filter = all_of(filters);
        let columns = columns(query, &dataflow, i, filter.as_ref());
        dataflow.inputs.push(DataflowInput {
            schema: input.schema.clone(),
            columns,
            filter,
        });
    }
    dataflow
}

/// The conditions of each input, and the remaining condition after the join. Without a join, WHERE is unchanged.
fn placed_conditions(query: &CheckedQuery) -> (Vec<Vec<Predicate>>, Option<Predicate>) {
    let mut before: Vec<Vec<Predicate>> = query
        .inputs
        .iter()
        .map(|i| i.filter.iter().cloned().collect())
        .collect();
    let filter = query.filter.clone();
    if query.inputs.len() < 2 {
        return (before, filter);
    }
    let parts = match filter {
        Some(Predicate::And(parts)) => parts,
        other => other.into_iter().collect(),
    };
    let mut after = Vec::new();
    for part in parts {
        match only_input(&part) {
            Some(input) => before[input].push(part),
            None => after.push(part),
        }
    }
    (before, all_of(after))
}

pub(crate) fn all_of(mut parts: Vec<Predicate>) -> Option<Predicate> {
    if parts.len() > 1 {
        Some(Predicate::And(parts))
    } else {
        parts.pop()
    }
}

/// The input whose columns a predicate reads, if there is only one.
fn only_input(predicate: &Predicate) -> Option<usize> {
    let mut inputs = Vec::new();
    predicate.columns(&mut |column| inputs.push(column.input));
    let first = *inputs.first()?;
    // Columns are computed after the join.
    (first != COMPUTED && inputs.iter().all(|i| *i == first)).then_some(usize::from(first))
}

/// The column with the sampling rate of tuples of the first input, if rates vary.
pub(crate) fn rate_column(query: &CheckedQuery) -> Option<FieldId> {
    let schema = &query.inputs.first()?.schema;
    match query.sample {
        SampleMode::All | SampleMode::Fraction(_) => None,
        SampleMode::Auto => Some(common::SAMPLE_RATE),
        SampleMode::Exported => {
            let of_counters = schema.facts.counter_rate.and_then(|name| schema.find(name));
            Some(of_counters.unwrap_or(common::SAMPLE_RATE))
        }
    }
}

/// The required columns of one input, ascending.
fn columns(
    query: &CheckedQuery,
    dataflow: &Dataflow,
    input: usize,
    own: Option<&Predicate>,
) -> Vec<FieldId> {
    let schema = &query.inputs[input].schema;
    if dataflow.pipelines.is_empty() && dataflow.rows.select.is_none() {
        // The sampling rate is needed only for scaling.
        return schema
            .ids()
            .filter(|id| *id != common::SAMPLE_RATE || query.sample == SampleMode::Exported)
            .collect();
    }
    let mut fields = Vec::new();
    let mut read = |column: Column| {
        ComputedField::sources(&dataflow.computed, column, &mut |column| {
            if usize::from(column.input) == input {
                fields.push(column.field);
            }
        });
    };
    for predicate in own.into_iter().chain(&dataflow.filter) {
        predicate.columns(&mut read);
    }
    let RawRows { select, order, .. } = &dataflow.rows;
    select
        .iter()
        .flatten()
        .chain(order.iter().map(|(column, _)| column))
        .for_each(|column| read(*column));
    for pipeline in &dataflow.pipelines {
        pipeline.values.iter().for_each(|v| read(v.column));
        pipeline.group.iter().for_each(|g| read(g.column));
        pipeline.aggregates.iter().for_each(|a| match &a.aggregate {
            AggregateFunction::Distinct(column) => read(*column),
            AggregateFunction::Success(predicate) | AggregateFunction::Ratio(predicate) => {
                predicate.columns(&mut read)
            }
            _ => {}
        });
        if let Some(profile) = &pipeline.profile {
            profile.columns().for_each(&mut read);
            profile.predicates().for_each(|p| p.columns(&mut read));
        }
    }
    let joined = query.inputs.len() > 1;
    let profiled = dataflow.pipelines.iter().any(|p| p.profile.is_some());
    // Intervals of sampled results depend on the variance between flows; a profile compares consecutive operations of
    // a flow.
    if joined || profiled || query.sample != SampleMode::All {
        fields.push(common::ID);
    }
    // With a variable rate, every tuple carries its rate; a joined tuple that of the first input.
    if input == 0 {
        fields.extend(rate_column(query));
    }
    let is_per_second = |p: &Pipeline| p.aggregates.iter().any(|a| a.aggregate.is_per_second());
    let timed = |p: &Pipeline| p.window.is_some() || p.profile.is_some() || is_per_second(p);
    if joined || dataflow.pipelines.iter().any(timed) {
        fields.push(common::TS_END);
    }
    // Sort keys of tuples.
    if dataflow.pipelines.is_empty() {
        fields.extend([common::ID, common::TS, common::TS_END]);
    }
    // Columns that identify a request seen by another tap.
    if let Some(taps) = TapColumns::of(schema).filter(|taps| taps.any(&fields)) {
        let ends = [
            common::CLIENT_IP,
            common::CLIENT_PORT,
            common::SERVER_IP,
            common::SERVER_PORT,
        ];
        fields.extend(ends.into_iter().chain([taps.request]).chain(schema.measure));
    }
    fields.sort_unstable();
    fields.dedup();
    fields
}
