//! Translates a checked query to a plan. Names, types, defaults, and processors are resolved by the checker. This
//! module determines the columns that monitors fill, and the position of conditions: those on a single input are
//! evaluated before a join.

use std::sync::Arc;

use plan::{
    AggregateFunction, COMPUTED, Column, ComputedField, Dataflow, DataflowInput, MonitorSpec, ParserUse,
    Pipeline, Plan, Predicate, RawRows, SampleMode, TimeSpan,
};
use query::CheckedQuery;
use tuple::{AgentOrigin, FieldId, TapColumns, common};

/// The plan of a query.
#[must_use]
pub fn lower(query: &CheckedQuery) -> Plan {
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
        dataflow.inputs.push(DataflowInput { schema: input.schema.clone(), columns, filter });
    }
    let parsers =
        dataflow.inputs.iter().map(|i| ParserUse { schema: i.schema.clone(), columns: i.columns.clone() });
    let monitor = MonitorSpec {
        parsers: parsers.collect(),
        clients: query.from.clone(),
        servers: query.to.clone(),
        limit: query.limit,
        span: TimeSpan::default(),
        sample: query.sample,
        sample_seed: 0,
        taps: query.taps,
    };
    Plan { query: query.text.clone(), monitor, dataflow }
}

/// The conditions of each input, and the remaining condition after the join. Without a join, WHERE is unchanged.
fn placed_conditions(query: &CheckedQuery) -> (Vec<Vec<Predicate>>, Option<Predicate>) {
    let mut before: Vec<Vec<Predicate>> =
        query.inputs.iter().map(|i| i.filter.iter().cloned().collect()).collect();
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
    if parts.len() > 1 { Some(Predicate::And(parts)) } else { parts.pop() }
}

/// The input whose columns a predicate reads, if there is only one.
fn only_input(predicate: &Predicate) -> Option<usize> {
    let mut inputs = Vec::new();
    predicate.columns(&mut |column| inputs.push(column.input));
    let first = *inputs.first()?;
    // Columns are computed after the join.
    (first != COMPUTED && inputs.iter().all(|i| *i == first)).then_some(usize::from(first))
}

/// The required columns of one input, ascending.
fn columns(query: &CheckedQuery, dataflow: &Dataflow, input: usize, own: Option<&Predicate>) -> Vec<FieldId> {
    let schema = &query.inputs[input].schema;
    if dataflow.pipelines.is_empty() && dataflow.rows.select.is_none() {
        // The sampling rate is needed only for scaling.
        return schema.ids().filter(|id| *id != common::SAMPLE_RATE).collect();
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
    select.iter().flatten().chain(order.iter().map(|(column, _)| column)).for_each(|column| read(*column));
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
    if query.sample == SampleMode::Auto && input == 0 {
        fields.push(common::SAMPLE_RATE);
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
        let ends = [common::CLIENT_IP, common::CLIENT_PORT, common::SERVER_IP, common::SERVER_PORT];
        fields.extend(ends.into_iter().chain([taps.request]).chain(schema.measure));
    }
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// Adds columns to a plan's first input if they are missing.
pub fn add_columns(plan: &mut Plan, columns: &[FieldId]) {
    let Some((input, parser)) = plan.dataflow.inputs.first_mut().zip(plan.monitor.parsers.first_mut()) else {
        return;
    };
    input.columns.extend(columns);
    input.columns.sort_unstable();
    input.columns.dedup();
    parser.columns.clone_from(&input.columns);
}

/// Changes the plan to output the tuples of its first input for later queries: with all columns, unless SELECT names
/// some.
pub fn give_tuples(plan: &mut Plan) {
    let dataflow = &mut plan.dataflow;
    let Some(input) = dataflow.inputs.first() else { return };
    let columns = match dataflow.pipelines.is_empty() && dataflow.rows.select.is_some() {
        true => vec![common::ID, common::TS, common::TS_END, common::SAMPLE_RATE],
        false => input.schema.ids().collect(),
    };
    dataflow.pipelines.clear();
    dataflow.rows = RawRows::default();
    add_columns(plan, &columns);
}

/// Dataflows that output the tuples of each input separately, for later queries: with all columns, unless SELECT
/// names some. Conditions over several inputs are left to the join.
pub fn give_tuples_of_each(plan: &mut Plan) -> Vec<Dataflow> {
    if plan.dataflow.inputs.len() < 2 {
        give_tuples(plan);
        return vec![plan.dataflow.clone()];
    }
    let dataflow = &mut plan.dataflow;
    let is_chosen = dataflow.pipelines.is_empty() && dataflow.rows.select.is_some();
    (dataflow.pipelines, dataflow.rows) = (Vec::new(), RawRows::default());
    (dataflow.filter, dataflow.computed) = (None, Vec::new());
    for (input, parser) in dataflow.inputs.iter_mut().zip(&mut plan.monitor.parsers) {
        match is_chosen {
            true => input.columns.extend([common::ID, common::TS, common::TS_END, common::SAMPLE_RATE]),
            false => input.columns = input.schema.ids().collect(),
        }
        input.columns.sort_unstable();
        input.columns.dedup();
        parser.columns.clone_from(&input.columns);
    }
    let alone = |input: &DataflowInput| {
        let filter =
            input.filter.as_ref().map(|filter| filter.renamed(&|column| Column { input: 0, ..column }));
        Dataflow { inputs: vec![DataflowInput { filter, ..input.clone() }], ..Dataflow::default() }
    };
    dataflow.inputs.iter().map(alone).collect()
}

/// Adds the columns for the origin of tuples to a plan's first input.
pub fn add_origin(plan: &mut Plan, origin: &AgentOrigin) {
    let Some((input, parser)) = plan.dataflow.inputs.first_mut().zip(plan.monitor.parsers.first_mut()) else {
        return;
    };
    let schema = Arc::make_mut(&mut input.schema);
    origin.columns().for_each(|name| schema.add_member(&name));
    let columns: Vec<FieldId> = schema.origin_columns().map(|(id, _)| id).collect();
    parser.schema = input.schema.clone();
    add_columns(plan, &columns);
}

/// Removes the columns named `field` from a plan that outputs all columns. Returns `false` if the query itself reads
/// one.
#[must_use]
pub fn leave_out(plan: &mut Plan, field: &str) -> bool {
    let Dataflow { inputs, filter, pipelines, computed, rows } = &mut plan.dataflow;
    for (i, input) in inputs.iter_mut().enumerate() {
        let Some(id) = input.schema.find(field).filter(|id| input.columns.contains(id)) else { continue };
        let mut needed = !pipelines.is_empty();
        let mut read = |c: Column| needed |= (usize::from(c.input), c.field) == (i, id);
        let mut read = |c: Column| ComputedField::sources(computed, c, &mut read);
        input.filter.iter().chain(&*filter).for_each(|p| p.columns(&mut read));
        rows.select
            .iter()
            .flatten()
            .chain(rows.order.iter().map(|(column, _)| column))
            .for_each(|c| read(*c));
        if needed {
            return false;
        }
        input.columns.retain(|column| *column != id);
        plan.monitor.parsers[i].columns.retain(|column| *column != id);
    }
    true
}
