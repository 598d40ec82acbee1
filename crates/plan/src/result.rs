//! The columns of a pipeline's results: names, types, and units.
//!
//! `window_start` and `window_end` for a windowed pipeline; the group columns; `rank` for a ranking; one column per
//! aggregate, named after the aggregate and its unit; `approximate`, `error_bound`, and `lost`. With intervals, the
//! rank and every aggregate are followed by the ends of their 95 % intervals, `…_low` and `…_high`. With a bound of the
//! error, `sampled_at`, `relative_error`, and `within_error` are the last columns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tuple::{DataType, Field, FieldId, RedactionRule, Schema, Unit};

use crate::{AggregateColumn, AggregateFunction, Column, Pipeline, ShareTotal};

/// Whether results have confidence intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalMode {
    /// Results are from all flows.
    None,
    /// Results are from a sample.
    Shown,
    /// Results are from a sample with a bound of the error: each row has its rate and its error.
    Bounded,
}

/// Meaning of a result column without intervals. Other programs identify columns by it, because names depend on the
/// other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultColumn {
    /// `window_start`.
    WindowStart,
    /// `window_end`.
    WindowEnd,
    /// The group column at this index.
    Group(usize),
    /// `rank`.
    Rank,
    /// The aggregate at this index.
    Aggregate(usize),
    /// `approximate`.
    Approximate,
    /// `error_bound`.
    ErrorBound,
    /// `lost`.
    Lost,
}

/// The meaning of the columns of [`schema`] without intervals, in order.
#[must_use]
pub fn shown(pipeline: &Pipeline) -> Vec<ResultColumn> {
    let window = pipeline
        .window
        .iter()
        .flat_map(|_| [ResultColumn::WindowStart, ResultColumn::WindowEnd]);
    let group = (0..pipeline.group.len()).map(ResultColumn::Group);
    let rank = pipeline.top_k.iter().map(|_| ResultColumn::Rank);
    let aggregates = (0..pipeline.aggregates.len()).map(ResultColumn::Aggregate);
    let rest = [
        ResultColumn::Approximate,
        ResultColumn::ErrorBound,
        ResultColumn::Lost,
    ];
    window
        .chain(group)
        .chain(rank)
        .chain(aggregates)
        .chain(rest)
        .collect()
}

/// The positions of result columns without intervals in a result with or without them.
#[must_use]
pub fn places(pipeline: &Pipeline, intervals: IntervalMode) -> Vec<FieldId> {
    let mut next = 0;
    let place = |shown: ResultColumn| {
        let place = FieldId(next);
        let is_followed = matches!(shown, ResultColumn::Rank | ResultColumn::Aggregate(_));
        next += if is_followed && intervals != IntervalMode::None {
            3
        } else {
            1
        };
        place
    };
    shown(pipeline).into_iter().map(place).collect()
}

/// Position of the first aggregate in results without intervals.
#[must_use]
pub fn first_aggregate(pipeline: &Pipeline) -> usize {
    let window = if pipeline.window.is_some() { 2 } else { 0 };
    window + pipeline.group.len() + usize::from(pipeline.top_k.is_some())
}

/// The columns of a pipeline's results; `input` returns the field of a dataflow column.
#[must_use]
pub fn schema(
    pipeline: &Pipeline,
    intervals: IntervalMode,
    input: &dyn Fn(Column) -> Field,
) -> Schema {
    let mut fields = Vec::new();
    if pipeline.window.is_some() {
        let time = |name, doc| Field::new(name, DataType::I64, Unit::EpochNanoseconds, doc);
        fields.push(time("window_start", "first nanosecond of the window"));
        fields.push(time("window_end", "first nanosecond after the window"));
    }
    for group in &pipeline.group {
        fields.push(Field {
            name: group.name.clone().into(),
            ..input(group.column)
        });
    }
    let mut ends: Vec<(usize, DataType)> = Vec::new();
    if pipeline.top_k.is_some() {
        ends.push((fields.len(), DataType::U64));
        fields.push(Field::new(
            "rank",
            DataType::U64,
            Unit::None,
            "1 is the largest",
        ));
    }
    for aggregated in &pipeline.aggregates {
        let field = aggregate_field(pipeline, aggregated, input);
        let end = if field.data_type == DataType::Json {
            DataType::Json
        } else {
            DataType::F64
        };
        ends.push((fields.len(), end));
        fields.push(field);
    }
    fields.push(Field::new(
        "approximate",
        DataType::Bool,
        Unit::None,
        "whether a memory bound was reached",
    ));
    fields.push(Field::new(
        "error_bound",
        DataType::F64,
        Unit::None,
        "maximum error, if known",
    ));
    fields.push(Field::new(
        "lost",
        DataType::F64,
        Unit::Fraction,
        "share of the window's traffic that is known to be missing in the capture",
    ));
    if intervals == IntervalMode::Bounded {
        fields.push(Field::new(
            "sampled_at",
            DataType::F64,
            Unit::Fraction,
            "sampling rate of the row",
        ));
        fields.push(Field::new(
            "relative_error",
            DataType::F64,
            Unit::Fraction,
            "half width of the widest 95 % interval of a count, sum, rate, mean, or share, divided by the value; null if an end is open",
        ));
        fields.push(Field::new(
            "within_error",
            DataType::Bool,
            Unit::None,
            "whether relative_error is within the bound of ERROR",
        ));
    }
    make_unique(&mut fields);
    if intervals != IntervalMode::None {
        for (place, end) in ends.into_iter().rev() {
            let Field { name, unit, .. } = fields[place].clone();
            let of = |suffix: &str, doc| Field {
                name: format!("{name}{suffix}").into(),
                data_type: end,
                unit,
                doc,
                redact: RedactionRule::Keep,
            };
            fields.insert(
                place + 1,
                of("_high", Cow::Borrowed("upper end of the 95 % interval")),
            );
            fields.insert(
                place + 1,
                of("_low", Cow::Borrowed("lower end of the 95 % interval")),
            );
        }
        make_unique(&mut fields);
    }
    let name = pipeline.name.clone().into();
    let doc = Cow::Borrowed("results of a pipeline");
    Schema {
        name,
        version: 1,
        doc,
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    }
}

fn aggregate_field(
    pipeline: &Pipeline,
    aggregated: &AggregateColumn,
    input: &dyn Fn(Column) -> Field,
) -> Field {
    use Unit::{BytesPerSecond, Fraction, PerSecond};
    let value = pipeline
        .values
        .get(aggregated.value)
        .map(|v| (input(v.column).data_type, v.unit));
    let (value_type, unit) = value.unwrap_or((DataType::U64, Unit::None));
    let of_value = |data_type, doc| Field::new("", data_type, unit, doc);
    let field = match &aggregated.aggregate {
        AggregateFunction::Count => Field::new("", DataType::U64, Unit::None, "tuples"),
        AggregateFunction::Sum => of_value(value_type, "sum of the values"),
        AggregateFunction::Avg => of_value(DataType::F64, "mean of the values"),
        AggregateFunction::Min => of_value(value_type, "least value"),
        AggregateFunction::Max => of_value(value_type, "largest value"),
        AggregateFunction::Stddev => of_value(DataType::F64, "sample standard deviation"),
        AggregateFunction::Rate => Field::new("", DataType::F64, PerSecond, "tuples per second"),
        AggregateFunction::Distinct(_) => {
            Field::new("", DataType::U64, Unit::None, "different values")
        }
        AggregateFunction::Quantile(_) => of_value(DataType::F64, "quantile, within 1 %"),
        AggregateFunction::Hist => of_value(DataType::Json, "[[upper bound, count], …]"),
        AggregateFunction::Cdf => of_value(DataType::Json, "[[upper bound, share up to it], …]"),
        AggregateFunction::Success(_) => {
            Field::new("", DataType::F64, Fraction, "share without an error")
        }
        AggregateFunction::Ratio(_) => Field::new(
            "",
            DataType::F64,
            Fraction,
            "share for which the condition is true",
        ),
        AggregateFunction::Throughput => {
            let unit = if unit == Unit::Bytes {
                BytesPerSecond
            } else {
                PerSecond
            };
            Field::new("", DataType::F64, unit, "sum of the values per second")
        }
        AggregateFunction::Share(ShareTotal::Tuples) => {
            Field::new("", DataType::F64, Fraction, "share of all tuples")
        }
        AggregateFunction::Share(ShareTotal::Values) => {
            Field::new("", DataType::F64, Fraction, "share of the sum of all")
        }
    };
    let name = aggregated
        .name
        .clone()
        .unwrap_or_else(|| usual_name(pipeline, aggregated, unit, input));
    Field {
        name: name.into(),
        ..field
    }
}

/// The aggregate and its unit; with several values the aggregate and the column: `sum_bytes`, `sum_request_bytes`.
fn usual_name(
    pipeline: &Pipeline,
    aggregated: &AggregateColumn,
    unit: Unit,
    input: &dyn Fn(Column) -> Field,
) -> String {
    let distinct = |c: &AggregateColumn| matches!(c.aggregate, AggregateFunction::Distinct(_));
    let word = match &aggregated.aggregate {
        AggregateFunction::Count => "count",
        AggregateFunction::Sum => "sum",
        AggregateFunction::Avg => "avg",
        AggregateFunction::Min => "min",
        AggregateFunction::Max => "max",
        AggregateFunction::Stddev => "stddev",
        AggregateFunction::Rate => "rate",
        AggregateFunction::Distinct(column)
            if pipeline.aggregates.iter().filter(|c| distinct(c)).count() > 1 =>
        {
            return format!("distinct_{}", input(*column).name);
        }
        AggregateFunction::Distinct(_) => "distinct",
        AggregateFunction::Quantile(q) => &quantile_name(*q),
        AggregateFunction::Hist => "hist",
        AggregateFunction::Cdf => "cdf",
        AggregateFunction::Success(_) => "success",
        AggregateFunction::Ratio(_) => "ratio",
        AggregateFunction::Throughput => "throughput",
        AggregateFunction::Share(_) => "share",
    };
    match pipeline
        .values
        .get(aggregated.value)
        .filter(|_| aggregated.aggregate.takes_value())
    {
        Some(value)
            if pipeline.values.len() > 1
                || matches!(aggregated.aggregate, AggregateFunction::Share(_)) =>
        {
            format!("{word}_{}", input(value.column).name)
        }
        Some(_) => format!("{word}{}", unit_suffix(unit)),
        None => word.to_owned(),
    }
}

/// 0.95 → p95, 0.999 → p99_9.
fn quantile_name(q: f64) -> String {
    let percent = format!("{:.8}", q * 100.0);
    format!(
        "p{}",
        percent
            .trim_end_matches('0')
            .trim_end_matches('.')
            .replace('.', "_")
    )
}

fn unit_suffix(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "_ns",
        Unit::Bytes => "_bytes",
        _ => "",
    }
}

/// A second `count` becomes `count_2`.
fn make_unique(fields: &mut [Field]) {
    let mut taken = BTreeSet::new();
    let mut last: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    for field in fields {
        let n = last.entry(field.name.clone()).or_insert(1);
        let name = field.name.clone();
        while !taken.insert(field.name.clone()) {
            *n += 1;
            field.name = format!("{name}_{n}").into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_have_names_of_percent() {
        for (q, name) in [
            (0.5, "p50"),
            (0.95, "p95"),
            (0.999, "p99_9"),
            (0.0, "p0"),
            (1.0, "p100"),
            (0.29, "p29"),
            (0.0001, "p0_01"),
        ] {
            assert_eq!(quantile_name(q), name);
        }
    }

    #[test]
    fn names_are_made_unique() {
        let field = |name: &'static str| Field::new(name, DataType::U64, Unit::None, "");
        let mut fields = ["count", "rank", "count", "count"].map(field);
        make_unique(&mut fields);
        assert_eq!(
            fields.map(|f| f.name.into_owned()),
            ["count", "rank", "count_2", "count_3"]
        );
    }
}
