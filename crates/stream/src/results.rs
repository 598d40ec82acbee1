//! The rows that a pipeline gives: their schema, their order, and how they are written.
//!
//! Columns: `window_start`, `window_end` of a windowed pipeline; the group's columns; `rank` of a ranking; one column
//! for each aggregate, named after it and its unit; `approximate`, `error_bound` and `lost`. With sampling the rank and every
//! aggregate are followed by the ends of their 95 % intervals, `…_low` and `…_high`.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use plan::{Aggregate, Pipeline};
use tuple::{Batch, DataType, Field, FieldId, Redact, Schema, TupleWriter, Unit};

use crate::estimate::{Circumstances, Estimate, Seen, Value};
use crate::losses::SharedLosses;
use crate::ops::top_k::{Weight, top_k};
use crate::pane::{Layout, Overflow, Pane, WEIGHT_UNIT};
use crate::scalar::{Scalar, order_rows};

/// What stands in a text column of the row of all groups that found no room.
pub const OTHER: &str = "(other)";

/// Writes the rows of one pipeline.
pub struct Results {
    writer: TupleWriter,
    pipeline: Pipeline,
    is_sampled: bool,
    /// What the capture lost, and when.
    pub losses: SharedLosses,
    /// Sums that had to be cut to their column's type.
    pub saturated: u64,
}

/// A window that is emitted.
#[derive(Clone, Copy, Debug)]
pub struct Emitted<'a> {
    /// Its groups.
    pub pane: &'a Pane,
    /// How they are laid out.
    pub layout: &'a Layout,
    /// From when to before when; `None`: the whole run.
    pub bounds: Option<(i64, i64)>,
    /// Length, for rates.
    pub seconds: f64,
}

/// Groups in the order of their rows, and with sampling the ranks that each may have.
struct Ranking {
    groups: Vec<u32>,
    ranks: Vec<(u64, u64)>,
}

impl Results {
    /// For the results of `pipeline`; `input` says the field behind a column, `value` the value's type.
    #[must_use]
    pub fn new(pipeline: &Pipeline, is_sampled: bool, input: &dyn Fn(plan::Column) -> Field) -> Results {
        let schema = Arc::new(result_schema(pipeline, is_sampled, input));
        let wanted: Vec<FieldId> = schema.ids().collect();
        Results {
            writer: TupleWriter::new(schema, &wanted),
            pipeline: pipeline.clone(),
            is_sampled,
            losses: SharedLosses::default(),
            saturated: 0,
        }
    }

    /// The result's schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.writer.schema()
    }

    /// Writes the rows of a window; full batches go to `full`.
    pub fn write(&mut self, emitted: &Emitted<'_>, full: &mut dyn FnMut(Batch)) {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let capture_loss = losses.share(emitted.bounds);
        drop(losses);
        let circumstances =
            Circumstances { is_sampled: self.is_sampled, seconds: emitted.seconds, capture_loss };
        let ranking = self.ranking(emitted, circumstances);
        for (place, &group) in ranking.groups.iter().enumerate() {
            let rank = self.pipeline.top_k.map(|_| (place as u64 + 1, ranking.ranks.get(place).copied()));
            self.write_row(emitted, circumstances, group, rank);
            if self.writer.is_full() {
                full(self.writer.finish());
            }
        }
    }

    /// The rows that were not full batches yet.
    #[must_use]
    pub fn finish(&mut self) -> Option<Batch> {
        (self.writer.rows() > 0).then(|| self.writer.finish())
    }

    fn ranking(&self, emitted: &Emitted<'_>, circumstances: Circumstances) -> Ranking {
        let keys = emitted.pane.keys();
        let mut groups: Vec<u32> = emitted.pane.listed().collect();
        let Some(by) = self.pipeline.top_k else {
            groups.sort_unstable_by(|a, b| order_rows(keys.key(*a), keys.key(*b)));
            groups.extend(emitted.pane.pool());
            return Ranking { groups, ranks: Vec::new() };
        };
        let estimate = |group: &u32| self.estimate(emitted, circumstances, *group, by.by);
        let estimates: Vec<Estimate> = groups.iter().map(estimate).collect();
        let weights: Vec<Weight> = estimates.iter().map(|e| e.value.weight()).collect();
        let best = top_k(&groups, &weights, keys, by.k);
        let ranks = if self.is_sampled { possible_ranks(&groups, &estimates, &best) } else { Vec::new() };
        Ranking { groups: best, ranks }
    }

    fn write_row(
        &mut self,
        emitted: &Emitted<'_>,
        circumstances: Circumstances,
        group: u32,
        rank: Option<(u64, Option<(u64, u64)>)>,
    ) {
        let mut at = Columns(0);
        if let Some((start, end)) = emitted.bounds {
            self.writer.i64(at.next(), start);
            self.writer.i64(at.next(), end);
        }
        self.write_group(emitted.pane, group, &mut at);
        if let Some((rank, possible)) = rank {
            self.writer.u64(at.next(), rank);
            if let Some((low, high)) = possible {
                self.writer.u64(at.next(), low);
                self.writer.u64(at.next(), high);
            }
        }
        let (mut is_cut, mut error) = (false, None::<f64>);
        for i in 0..self.pipeline.aggregates.len() {
            let estimate = self.estimate(emitted, circumstances, group, i);
            is_cut |= self.write_value(at.next(), &estimate.value);
            if self.is_sampled {
                self.write_value(at.next(), &estimate.low);
                self.write_value(at.next(), &estimate.high);
            }
            error = error.into_iter().chain(estimate.error).reduce(f64::max);
        }
        self.saturated += u64::from(is_cut);
        let (is_bounded, bound) = self.overflow_error(emitted, group);
        self.writer.bool(at.next(), is_cut || is_bounded || error.is_some());
        let error_bound = at.next();
        if let Some(error) = bound.or(error.filter(|_| !is_bounded)) {
            self.writer.f64(error_bound, error);
        }
        let lost = at.next();
        if circumstances.capture_loss > 0.0 {
            self.writer.f64(lost, circumstances.capture_loss);
        }
        self.writer.end_row();
    }

    fn write_group(&mut self, pane: &Pane, group: u32, at: &mut Columns) {
        let mut key = pane.keys().key(group);
        for _ in &self.pipeline.group {
            let id = at.next();
            let is_text = self.writer.schema().field(id).data_type == DataType::Text;
            if pane.pool() == Some(group) {
                if is_text {
                    self.writer.text(id, OTHER.as_bytes());
                }
            } else if let Some((scalar, rest)) = Scalar::decode(key) {
                scalar.write(&mut self.writer, id);
                key = rest;
            }
        }
    }

    /// Whether the value had to be cut to its column's type.
    fn write_value(&mut self, id: FieldId, value: &Value) -> bool {
        match (value, self.writer.schema().field(id).data_type) {
            (Value::Null, _) => {}
            (Value::Json(text), _) => self.writer.text(id, text.as_bytes()),
            (Value::Integer(v), DataType::U64) => {
                let cut = (*v).clamp(0, u64::MAX.into());
                self.writer.u64(id, cut as u64);
                return cut != *v;
            }
            (Value::Integer(v), DataType::I64) => {
                let cut = (*v).clamp(i64::MIN.into(), i64::MAX.into());
                self.writer.i64(id, cut as i64);
                return cut != *v;
            }
            (Value::Integer(v), _) => self.writer.f64(id, *v as f64),
            (Value::Real(v), _) => self.writer.f64(id, *v),
        }
        false
    }

    fn estimate(
        &self,
        emitted: &Emitted<'_>,
        circumstances: Circumstances,
        group: u32,
        place: usize,
    ) -> Estimate {
        let aggregate = &self.pipeline.aggregates[place];
        let state_at = emitted.layout.shape.place[place];
        let cells = Pane::cells(group, emitted.layout);
        let seen = Seen { strata: emitted.pane.strata(), place: state_at, cells };
        let mut estimate = circumstances.estimate(aggregate, &seen);
        let saved = match emitted.layout.overflow {
            Overflow::SaveByCount(by) | Overflow::SaveBySum(by) => {
                by == state_at && *aggregate != Aggregate::Avg
            }
            Overflow::Pool => false,
        };
        if let Some(saving) = emitted.pane.saving().filter(|_| saved) {
            // The accumulator began when the group took its place; the weight covers all of its tuples.
            let per = per(aggregate, emitted);
            let weight = saving.weight(group);
            estimate.value = match aggregate {
                Aggregate::Rate if emitted.seconds <= 0.0 => Value::Null,
                Aggregate::Rate => Value::Real(weight as f64 / per),
                _ if self.is_sampled => Value::Integer((weight as f64 / per).round() as i128),
                _ => Value::Integer(i128::try_from(weight).unwrap_or(i128::MAX)),
            };
            let inherited = saving.error(group) as f64 / per;
            estimate.high = estimate.high.real().map(|high| high + inherited).into();
        }
        estimate
    }

    /// Whether a memory bound touched the group, and by how much its rank's aggregate may be too high.
    fn overflow_error(&self, emitted: &Emitted<'_>, group: u32) -> (bool, Option<f64>) {
        let pane = emitted.pane;
        if let (Some(saving), Some(by)) = (pane.saving(), self.pipeline.top_k) {
            let per = per(&self.pipeline.aggregates[by.by], emitted);
            let error = saving.error(group).saturating_add(saving.negative()) as f64 / per;
            // What is in the pool may belong to any group.
            return (true, Some(error).filter(|e| e.is_finite() && pane.pool().is_none()));
        }
        let is_ranking = self.pipeline.top_k.is_some() && pane.pool().is_some();
        (pane.pool() == Some(group) || pane.is_partial(group) || is_ranking, None)
    }
}

/// How many weights make one of what the aggregate counts.
fn per(aggregate: &Aggregate, emitted: &Emitted<'_>) -> f64 {
    let of_tuple = if emitted.layout.is_weighted { WEIGHT_UNIT } else { emitted.layout.sample };
    if *aggregate == Aggregate::Rate { of_tuple * emitted.seconds } else { of_tuple }
}

/// Counts columns up.
struct Columns(u16);

impl Columns {
    fn next(&mut self) -> FieldId {
        self.0 += 1;
        FieldId(self.0 - 1)
    }
}

/// How many groups surely rank above, and how many may, for each of `best`.
fn possible_ranks(groups: &[u32], estimates: &[Estimate], best: &[u32]) -> Vec<(u64, u64)> {
    let low = |e: &Estimate| e.low.real().unwrap_or(f64::NEG_INFINITY);
    let high = |e: &Estimate| e.high.real().unwrap_or(f64::INFINITY);
    let mut lows: Vec<f64> = estimates.iter().map(low).collect();
    let mut highs: Vec<f64> = estimates.iter().map(high).collect();
    lows.sort_unstable_by(f64::total_cmp);
    highs.sort_unstable_by(f64::total_cmp);
    best.iter()
        .map(|group| {
            // Groups are listed in ascending order.
            let own = &estimates[groups.partition_point(|g| g < group)];
            let above = lows.len() - lows.partition_point(|l| *l <= high(own));
            let not_below = highs.len() - highs.partition_point(|h| *h < low(own));
            (above as u64 + 1, not_below.max(above + 1) as u64)
        })
        .collect()
}

fn result_schema(pipeline: &Pipeline, is_sampled: bool, input: &dyn Fn(plan::Column) -> Field) -> Schema {
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
    for aggregate in &pipeline.aggregates {
        let field = aggregate_field(pipeline, aggregate, input);
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
    if is_sampled {
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

fn aggregate_field(
    pipeline: &Pipeline,
    aggregate: &Aggregate,
    input: &dyn Fn(plan::Column) -> Field,
) -> Field {
    let value = pipeline.value.map(|v| (input(v.column).data_type, v.unit));
    let (value_type, unit) = value.unwrap_or((DataType::U64, Unit::None));
    let of_value = |name: &str, data_type, doc| Field {
        name: format!("{name}{}", unit_suffix(unit)).into(),
        data_type,
        unit,
        doc: Cow::Borrowed(doc),
        redact: Redact::Keep,
    };
    match aggregate {
        Aggregate::Count => Field::new("count", DataType::U64, Unit::None, "tuples"),
        Aggregate::Sum => of_value("sum", value_type, "sum of the values"),
        Aggregate::Avg => of_value("avg", DataType::F64, "mean of the values"),
        Aggregate::Min => of_value("min", value_type, "least value"),
        Aggregate::Max => of_value("max", value_type, "largest value"),
        Aggregate::Stddev => of_value("stddev", DataType::F64, "sample standard deviation"),
        Aggregate::Rate => Field::new("rate", DataType::F64, Unit::PerSecond, "tuples per second"),
        Aggregate::Distinct(column) => {
            let distinct = pipeline.aggregates.iter().filter(|a| matches!(a, Aggregate::Distinct(_))).count();
            let name = if distinct > 1 {
                format!("distinct_{}", input(*column).name).into()
            } else {
                "distinct".into()
            };
            Field { name, ..Field::new("", DataType::U64, Unit::None, "different values") }
        }
        Aggregate::Quantile(q) => of_value(&quantile_name(*q), DataType::F64, "quantile, within 1 %"),
        Aggregate::Hist => of_value("hist", DataType::Json, "[[upper bound, count], …]"),
        Aggregate::Cdf => of_value("cdf", DataType::Json, "[[upper bound, share up to it], …]"),
        Aggregate::Success(_) => {
            Field::new("success", DataType::F64, Unit::Fraction, "share without an error")
        }
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
    for i in 1..fields.len() {
        let (before, rest) = fields.split_at_mut(i);
        let name = rest[0].name.clone();
        let mut n = 1;
        while before.iter().any(|f| f.name == rest[0].name) {
            n += 1;
            rest[0].name = format!("{name}_{n}").into();
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
