//! Validation of plans: all columns exist and have the required type, all numbers are in range. Plans from the
//! planner are valid; plans from other sources are validated before an engine runs them, because the engine does not
//! check them.

mod pipeline;
mod types;

use tuple::{DataType, Field, FieldId, RedactionRule, common};

use crate::Plan;
use crate::dataflow::{Dataflow, DataflowInput, Pipeline};
use crate::expr::{Column, ComputedField, Expr};
use crate::monitor_spec::{AddressMatch, MonitorSpec, SampleMode};

/// The errors of a plan, one line each; empty if it is valid.
#[must_use]
pub fn check(plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut note = |result: Result<(), String>| wrong.extend(result.err());
    note(monitor(&plan.monitor));
    note(inputs(&plan.monitor, &plan.dataflow));
    // Otherwise columns cannot be resolved.
    if wrong.is_empty() {
        dataflow(&plan.dataflow, &mut |result| wrong.extend(result.err()));
    }
    wrong
}

/// `Err` with the text if the condition is false.
fn ensure(holds: bool, or: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(or()) }
}

fn monitor(spec: &MonitorSpec) -> Result<(), String> {
    let fits = |of: &AddressMatch| {
        of.net
            .is_none_or(|(ip, prefix)| prefix <= if ip.is_ipv4() { 32 } else { 128 })
    };
    ensure(spec.clients.iter().chain(&spec.servers).all(fits), || {
        "an invalid network".into()
    })?;
    ensure(spec.limit.nanos.is_none_or(|ns| ns >= 0), || {
        "a negative time limit".into()
    })?;
    let share = if let SampleMode::Fraction(share) = spec.sample {
        share
    } else {
        0.5
    };
    ensure(share > 0.0 && share < 1.0, || {
        format!("{share} is not a share of the flows")
    })
}

/// The parsers of the monitor must equal the inputs and provide their columns.
fn inputs(spec: &MonitorSpec, dataflow: &Dataflow) -> Result<(), String> {
    ensure(!dataflow.inputs.is_empty(), || "no input".into())?;
    ensure(spec.parsers.len() == dataflow.inputs.len(), || {
        "the numbers of parsers and inputs differ".into()
    })?;
    for (parser, input) in spec.parsers.iter().zip(&dataflow.inputs) {
        let name = &input.schema.name;
        ensure(parser.schema == input.schema, || {
            format!("input {name} belongs to no parser")
        })?;
        let is_there = |id: &FieldId| usize::from(id.0) < input.schema.fields.len();
        ensure(parser.columns.iter().all(is_there), || {
            format!("an unknown column of {name}")
        })?;
        ensure(
            input.columns.iter().all(|id| parser.columns.contains(id)),
            || format!("a column of {name} that its parser does not produce"),
        )?;
    }
    let fields: usize = dataflow
        .inputs
        .iter()
        .map(|input| input.schema.fields.len())
        .sum();
    let computed = dataflow
        .pipelines
        .iter()
        .map(|p| p.selection.computed.len())
        .max()
        .unwrap_or(0);
    ensure(
        fields + dataflow.computed.len() + computed < usize::from(u16::MAX),
        || "too many columns".into(),
    )
}

fn dataflow(dataflow: &Dataflow, note: &mut dyn FnMut(Result<(), String>)) {
    let Dataflow {
        inputs,
        filter,
        pipelines,
        computed,
        rows,
    } = dataflow;
    for (i, input) in inputs.iter().enumerate() {
        let own = |column: Column| {
            if usize::from(column.input) == i {
                field(inputs, &[], column)
            } else {
                Err("the filter of an input reads another input".into())
            }
        };
        note(
            input
                .filter
                .iter()
                .try_for_each(|p| types::condition(p, &own)),
        );
    }
    note(computations(computed, &|column| field(inputs, &[], column)));
    let all = |column: Column| field(inputs, computed, column);
    note(filter.iter().try_for_each(|p| types::condition(p, &all)));
    note(needed(inputs, pipelines));
    pipelines
        .iter()
        .for_each(|p| note(pipeline::check(p, &all)));
    let shown = rows
        .select
        .iter()
        .flatten()
        .chain(rows.order.iter().map(|(column, _)| column));
    note(
        shown
            .copied()
            .try_for_each(|column| all(column).map(|_| ())),
    );
    note(ensure(
        rows.select.as_ref().is_none_or(|list| !list.is_empty()),
        || "no column is shown".into(),
    ));
    note(ensure(
        rows.order.is_empty() || rows.rows_max.is_some(),
        || "an order of rows without a limit".into(),
    ));
}

/// Columns required by the engine itself.
fn needed(inputs: &[DataflowInput], pipelines: &[Pipeline]) -> Result<(), String> {
    let is_joined = inputs.len() > 1;
    let is_profiled = pipelines.iter().any(|p| p.profile.is_some());
    let is_per_second = |p: &Pipeline| p.aggregates.iter().any(|a| a.aggregate.is_per_second());
    let is_timed = pipelines
        .iter()
        .any(|p| p.window.is_some() || is_per_second(p));
    for input in inputs {
        let has = |id| input.columns.contains(&id);
        let name = &input.schema.name;
        ensure(has(common::ID) || !(is_joined || is_profiled), || {
            format!("{name} lacks id")
        })?;
        let needs_time = is_joined || is_profiled || is_timed;
        ensure(has(common::TS_END) || !needs_time, || {
            format!("{name} lacks ts_end")
        })?;
    }
    Ok(())
}

/// The field of an existing column.
fn field<'a>(
    inputs: &'a [DataflowInput],
    computed: &'a [ComputedField],
    column: Column,
) -> Result<&'a Field, String> {
    if let Some(place) = column.computed_place() {
        let found = computed.get(place).map(|computed| &computed.field);
        return found.ok_or_else(|| format!("computed column {place} is undefined"));
    }
    let input = inputs
        .get(usize::from(column.input))
        .ok_or_else(|| "an unknown input".to_owned())?;
    ensure(input.columns.contains(&column.field), || {
        "an unknown column".into()
    })?;
    input
        .schema
        .fields
        .get(usize::from(column.field.0))
        .ok_or_else(|| "an unknown column".into())
}

/// Checks computed columns, which may read preceding ones and other columns; `field` returns the field of the latter.
fn computations<'a>(
    list: &'a [ComputedField],
    field: &dyn Fn(Column) -> Result<&'a Field, String>,
) -> Result<(), String> {
    for (place, computed) in list.iter().enumerate() {
        let before = |column: Column| match column.computed_place() {
            Some(of) if of < place => Ok(&list[of].field),
            Some(_) => Err("a computed column uses a later one".to_owned()),
            None => field(column),
        };
        let name = &computed.field.name;
        let is_same = matches!(computed.expr, Expr::Column(_));
        let found = match &computed.expr {
            // A renamed column.
            Expr::Column(column) => Some(before(*column)?.data_type),
            expr => types::value(expr, &before)?,
        };
        let fits = match (found, computed.field.data_type) {
            (Some(DataType::I64), DataType::F64) => !is_same,
            (found, declared) => found == Some(declared),
        };
        ensure(fits, || format!("{name} has another type than declared"))?;
        let is_open = computed.field.data_type == DataType::Text
            && computed.field.redact == RedactionRule::Keep;
        ensure(!is_open || !is_secret(&computed.expr, &before), || {
            format!("{name} would show redacted text")
        })?;
    }
    Ok(())
}

/// Whether a text contains redacted data. Columns read by conditions do not count.
fn is_secret<'a>(expr: &Expr, field: &dyn Fn(Column) -> Result<&'a Field, String>) -> bool {
    match expr {
        Expr::Column(column) => {
            field(*column).is_ok_and(|field| field.redact != RedactionRule::Keep)
        }
        Expr::Literal(_) | Expr::Null | Expr::Test(_) | Expr::Compare(..) | Expr::Length(_) => {
            false
        }
        Expr::Arithmetic(a, _, b) | Expr::If(_, a, b) => is_secret(a, field) || is_secret(b, field),
        Expr::Coalesce(list) => list.iter().any(|expr| is_secret(expr, field)),
        Expr::Trunc(of, _) | Expr::Subnet(of, ..) | Expr::Text(of, _) => is_secret(of, field),
    }
}
