//! The columns of a pipeline's results: names, types, and units.
//!
//! `window_start` and `window_end` for a windowed pipeline; the group columns; `rank` for a ranking; one column per
//! aggregate, named after the aggregate and its unit; `approximate`, `error_bound`, and `lost`. With intervals, the
//! rank and every aggregate are followed by the ends of their 95 % intervals, `…_low` and `…_high`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tuple::{DataType, Field, FieldId, Redact, Schema, Unit};

use crate::{Aggregate, Aggregated, Column, Pipeline, Total};

/// Whether results have confidence intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervals {
    /// Results are from all flows.
    None,
    /// Results are from a sample.
    Shown,
}

/// Meaning of a result column without intervals. Other programs identify columns by it, because names depend on the
/// other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
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
pub fn shown(pipeline: &Pipeline) -> Vec<Shown> {
    let window = pipeline.window.iter().flat_map(|_| [Shown::WindowStart, Shown::WindowEnd]);
    let group = (0..pipeline.group.len()).map(Shown::Group);
    let rank = pipeline.top_k.iter().map(|_| Shown::Rank);
    let aggregates = (0..pipeline.aggregates.len()).map(Shown::Aggregate);
    let rest = [Shown::Approximate, Shown::ErrorBound, Shown::Lost];
    window.chain(group).chain(rank).chain(aggregates).chain(rest).collect()
}

/// The positions of result columns without intervals in a result with or without them.
#[must_use]
pub fn places(pipeline: &Pipeline, intervals: Intervals) -> Vec<FieldId> {
    let mut next = 0;
    let place = |shown: Shown| {
        let place = FieldId(next);
        let is_followed = matches!(shown, Shown::Rank | Shown::Aggregate(_));
        next += if is_followed && intervals == Intervals::Shown { 3 } else { 1 };
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
pub fn schema(pipeline: &Pipeline, intervals: Intervals, input: &dyn Fn(Column) -> Field) -> Schema {
    let mut fields = Vec::new();
    if pipeline.window.is_some() {
        let time = |name, doc| Field::new(name, DataType::I64, Unit::EpochNanoseconds, doc);
        fields.push(time("window_start", "first nanosecond of the window"));
        fields.push(time("window_end", "first nanosecond after the window"));
    }
    for group in &pipeline.group {
        fields.push(Field { name: group.name.clone().into(), ..input(group.column) });
    }
    let mut ends: Vec<(usize, DataType)> = Vec::new();
    if pipeline.top_k.is_some() {
        ends.push((fields.len(), DataType::U64));
        fields.push(Field::new("rank", DataType::U64, Unit::None, "1 is the largest"));
    }
    for aggregated in &pipeline.aggregates {
        let field = aggregate_field(pipeline, aggregated, input);
        let end = if field.data_type == DataType::Json { DataType::Json } else { DataType::F64 };
        ends.push((fields.len(), end));
        fields.push(field);
    }
    fields.push(Field::new("approximate", DataType::Bool, Unit::None, "whether a memory bound was reached"));
    fields.push(Field::new(
        "error_bound",
        DataType::F64,
        Unit::None,
        "by how much at most, where it is known",
    ));
    fields.push(Field::new(
        "lost",
        DataType::F64,
        Unit::Fraction,
        "share of the window's traffic that is known to be missing in the capture",
    ));
    make_unique(&mut fields);
    if intervals == Intervals::Shown {
        for (place, end) in ends.into_iter().rev() {
            let Field { name, unit, .. } = fields[place].clone();
            let of = |suffix: &str, doc| Field {
                name: format!("{name}{suffix}").into(),
                data_type: end,
                unit,
                doc,
                redact: Redact::Keep,
            };
            fields.insert(place + 1, of("_high", Cow::Borrowed("upper end of the 95 % interval")));
            fields.insert(place + 1, of("_low", Cow::Borrowed("lower end of the 95 % interval")));
        }
        make_unique(&mut fields);
    }
    let (name, doc) = (pipeline.name.clone().into(), Cow::Borrowed("results of a pipeline"));
    Schema { name, version: 1, doc, fields, measure: None, key: None, parts: &[], facts: &tuple::Facts::NONE }
}

fn aggregate_field(pipeline: &Pipeline, aggregated: &Aggregated, input: &dyn Fn(Column) -> Field) -> Field {
    use Unit::{BytesPerSecond, Fraction, PerSecond};
    let value = pipeline.values.get(aggregated.value).map(|v| (input(v.column).data_type, v.unit));
    let (value_type, unit) = value.unwrap_or((DataType::U64, Unit::None));
    let of_value = |data_type, doc| Field::new("", data_type, unit, doc);
    let field = match &aggregated.aggregate {
        Aggregate::Count => Field::new("", DataType::U64, Unit::None, "tuples"),
        Aggregate::Sum => of_value(value_type, "sum of the values"),
        Aggregate::Avg => of_value(DataType::F64, "mean of the values"),
        Aggregate::Min => of_value(value_type, "least value"),
        Aggregate::Max => of_value(value_type, "largest value"),
        Aggregate::Stddev => of_value(DataType::F64, "sample standard deviation"),
        Aggregate::Rate => Field::new("", DataType::F64, PerSecond, "tuples per second"),
        Aggregate::Distinct(_) => Field::new("", DataType::U64, Unit::None, "different values"),
        Aggregate::Quantile(_) => of_value(DataType::F64, "quantile, within 1 %"),
        Aggregate::Hist => of_value(DataType::Json, "[[upper bound, count], …]"),
        Aggregate::Cdf => of_value(DataType::Json, "[[upper bound, share up to it], …]"),
        Aggregate::Success(_) => Field::new("", DataType::F64, Fraction, "share without an error"),
        Aggregate::Ratio(_) => {
            Field::new("", DataType::F64, Fraction, "share for which the condition is true")
        }
        Aggregate::Throughput => {
            let unit = if unit == Unit::Bytes { BytesPerSecond } else { PerSecond };
            Field::new("", DataType::F64, unit, "sum of the values per second")
        }
        Aggregate::Share(Total::Tuples) => Field::new("", DataType::F64, Fraction, "share of all tuples"),
        Aggregate::Share(Total::Values) => Field::new("", DataType::F64, Fraction, "share of the sum of all"),
    };
    let name = aggregated.name.clone().unwrap_or_else(|| usual_name(pipeline, aggregated, unit, input));
    Field { name: name.into(), ..field }
}

/// The aggregate and its unit; with several values the aggregate and the column: `sum_bytes`, `sum_request_bytes`.
fn usual_name(
    pipeline: &Pipeline,
    aggregated: &Aggregated,
    unit: Unit,
    input: &dyn Fn(Column) -> Field,
) -> String {
    let distinct = |c: &Aggregated| matches!(c.aggregate, Aggregate::Distinct(_));
    let word = match &aggregated.aggregate {
        Aggregate::Count => "count",
        Aggregate::Sum => "sum",
        Aggregate::Avg => "avg",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::Stddev => "stddev",
        Aggregate::Rate => "rate",
        Aggregate::Distinct(column) if pipeline.aggregates.iter().filter(|c| distinct(c)).count() > 1 => {
            return format!("distinct_{}", input(*column).name);
        }
        Aggregate::Distinct(_) => "distinct",
        Aggregate::Quantile(q) => &quantile_name(*q),
        Aggregate::Hist => "hist",
        Aggregate::Cdf => "cdf",
        Aggregate::Success(_) => "success",
        Aggregate::Ratio(_) => "ratio",
        Aggregate::Throughput => "throughput",
        Aggregate::Share(_) => "share",
    };
    match pipeline.values.get(aggregated.value).filter(|_| aggregated.aggregate.takes_value()) {
        Some(value) if pipeline.values.len() > 1 || matches!(aggregated.aggregate, Aggregate::Share(_)) => {
            format!("{word}_{}", input(value.column).name)
        }
        Some(_) => format!("{word}{}", unit_suffix(unit)),
        None => word.to_owned(),
    }
}

/// 0.95 → p95, 0.999 → p99_9.
fn quantile_name(q: f64) -> String {
    let percent = format!("{:.8}", q * 100.0);
    format!("p{}", percent.trim_end_matches('0').trim_end_matches('.').replace('.', "_"))
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
        assert_eq!(fields.map(|f| f.name.into_owned()), ["count", "rank", "count_2", "count_3"]);
    }
}
