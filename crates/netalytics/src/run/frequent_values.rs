//! The values of the fields in WHERE, when WHERE has matched nothing: a second pass over the files of a query.

use plan::{ComputedField, MonitorSpec, Plan, QueryLimit};
use sinks::units;
use tuple::{DataType, Field, Unit};

use crate::cli::flags::{TrafficInputFlags, WorkFlags};
use crate::cli::verbosity::Verbosity;
use crate::diagnose::overview::layout::middle;
use crate::diagnose::overview::queries::together;
use crate::diagnose::overview::rows::{CollectedResults, ResultRow};
use crate::run::multi_query::{plan_all, run_plans};

/// Maximum fields described.
const FIELDS_MAX: usize = 3;
/// Number of values per field.
const VALUES: usize = 5;
/// Maximum characters of a value.
const VALUE_CHARS: usize = 40;
/// Packets read again.
const PACKETS_MAX: u64 = 1_000_000;

/// One line per field. Empty for input that cannot be read again, for joins, and after errors, which the first pass has
/// reported.
pub fn describe(flags: &WorkFlags, plan: &Plan) -> Vec<String> {
    let can_repeat = !flags.read.is_empty()
        && flags.read.iter().all(|path| path.is_file())
        && flags.server_tap.is_empty();
    let [input] = plan.dataflow.inputs.as_slice() else {
        return Vec::new();
    };
    if !can_repeat {
        return Vec::new();
    }
    let fields = fields_of_where(plan);
    let question = |field: &&Field| {
        let parser = &input.schema.name;
        let name = &field.name;
        if is_measured(field) {
            format!("PARSE {parser} PROCESS (min-max: value={name})")
        } else {
            format!("PARSE {parser} PROCESS (group-count-top-k: group={name}, k={VALUES})")
        }
    };
    let texts: Vec<String> = fields.iter().map(question).collect();
    let Ok(rows) = read_again(flags, plan, &texts) else {
        return Vec::new();
    };
    let lines = fields.iter().enumerate();
    lines
        .filter_map(|(place, field)| line(field, &rows.rows(place).collect::<Vec<_>>()))
        .collect()
}

/// The fields that WHERE reads.
fn fields_of_where(plan: &Plan) -> Vec<&Field> {
    let flow = &plan.dataflow;
    let mut columns = Vec::new();
    let filters = flow.inputs.iter().filter_map(|input| input.filter.as_ref());
    for filter in filters.chain(&flow.filter) {
        filter.columns(&mut |column| {
            ComputedField::sources(&flow.computed, column, &mut |source| {
                if !columns.contains(&source) {
                    columns.push(source);
                }
            });
        });
    }
    let fields = columns.iter().map(|column| {
        flow.inputs[usize::from(column.input)]
            .schema
            .field(column.field)
    });
    fields.take(FIELDS_MAX).collect()
}

/// Whether a field is a quantity, whose extremes say more than its frequent values.
fn is_measured(field: &Field) -> bool {
    let is_quantity = matches!(
        field.unit,
        Unit::Nanoseconds | Unit::EpochNanoseconds | Unit::Bytes
    );
    is_quantity && field.data_type != DataType::Text
}

fn read_again(
    flags: &WorkFlags,
    plan: &Plan,
    texts: &[String],
) -> anyhow::Result<CollectedResults> {
    let input = TrafficInputFlags {
        read: flags.read.clone(),
        live: flags.live.clone(),
        words: Vec::new(),
        span: None,
        progress: flags.progress,
        workers: flags.workers,
        limits: flags.limits.clone(),
    };
    let plans = plan_all(&input, texts)?;
    let limit = &plan.monitor.limit;
    let monitor = MonitorSpec {
        parsers: together(&plans).parsers,
        limit: QueryLimit {
            packets: Some(limit.packets.unwrap_or(PACKETS_MAX).min(PACKETS_MAX)),
            ..*limit
        },
        ..plan.monitor.clone()
    };
    let mut rows = CollectedResults::default();
    run_plans(&mut rows, &input, &plans, &monitor, Verbosity::Errors)?;
    Ok(rows)
}

/// `status is most often 200 (198 tuples), 302 (11)`, or `response_time is 38 µs to 182 ms`.
fn line(field: &Field, rows: &[ResultRow<'_>]) -> Option<String> {
    let name = &field.name;
    let first = rows.first()?;
    if is_measured(field) {
        let of = |column: &str| {
            let value = first.real(column);
            let value = value.or_else(|| first.real(&format!("{column}_bytes")))?;
            Some(units::number(field.unit, value))
        };
        return Some(format!("{name} is {} to {}", of("min")?, of("max")?));
    }
    let value = |row: &ResultRow<'_>| {
        let text = middle(&row.text(name), VALUE_CHARS);
        let text = match (row.value(name).is_null(), field.data_type) {
            (true, _) => "null".to_owned(),
            (false, DataType::Text) => format!("'{text}'"),
            (false, _) => text,
        };
        format!("{text} ({})", row.number("count"))
    };
    let values: Vec<String> = rows.iter().map(value).collect();
    Some(format!("{name} is most often {}", values.join(", ")))
}
