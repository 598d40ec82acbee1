//! The number (or distribution) that an aggregate gives for one group; with sampling scaled, and with its interval.

use std::fmt::Write;
use std::ops::Range;

use plan::Aggregate;

use crate::ops::aggregate::State;
use crate::ops::spread::Moments;
use crate::ops::top_k::Weight;
use crate::sampling::{self, Interval};
use crate::sketch::LogHistogram;
use crate::sketch::log_histogram::rank_of;

/// A result of an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Null,
    /// An integer, not yet cut to its column's type.
    Integer(i128),
    /// A real number.
    Real(f64),
    /// Buckets.
    Json(String),
}

/// A result, how sure it is, and whether a memory bound made it approximate.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The result.
    pub value: Value,
    /// Lower end of the 95 % interval; only with sampling.
    pub low: Value,
    /// Upper end.
    pub high: Value,
    /// Relative error bound, where a memory bound was reached.
    pub error: Option<f64>,
}

/// What estimates depend on beside the group.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// The share of flows that was seen.
    pub sample: f64,
    /// Length of the window, or of the run from first to last tuple.
    pub seconds: f64,
}

impl Circumstances {
    /// The estimate of `aggregate` over a group's cells.
    #[must_use]
    pub fn estimate(&self, aggregate: &Aggregate, state: &State, cells: Range<usize>) -> Estimate {
        if self.sample >= 1.0 {
            return self.point(aggregate, state, cells.start);
        }
        let whole = state.gather(cells.clone());
        let mut estimate = self.point(aggregate, &whole, 0);
        match (aggregate, state) {
            (Aggregate::Hist | Aggregate::Cdf, State::Histogram(s)) => {
                let parts: Vec<&LogHistogram> = cells.map(|c| s.histogram(c)).collect();
                let State::Histogram(whole) = &whole else { unreachable!("gathering keeps the kind") };
                (estimate.low, estimate.high) = self.bucket_intervals(aggregate, whole.histogram(0), &parts);
            }
            _ => {
                let interval = self.interval(aggregate, &estimate.value, state, &whole, cells);
                (estimate.low, estimate.high) = (interval.low.into(), interval.high.into());
            }
        }
        estimate
    }

    fn point(&self, aggregate: &Aggregate, state: &State, cell: usize) -> Estimate {
        let mut error = None;
        let value = match (aggregate, state) {
            (Aggregate::Count, State::Count(s)) => self.scale(s.count(cell).into()),
            (Aggregate::Rate, State::Count(s)) => self.per_second(s.count(cell) as f64),
            (Aggregate::Sum, State::IntegerSum(s)) if s.n(cell) > 0 => self.scale(s.sum(cell)),
            (Aggregate::Sum, State::RealSum(s)) if s.n(cell) > 0 => Value::Real(s.sum(cell) / self.sample),
            (Aggregate::Avg, State::IntegerSum(s)) if s.n(cell) > 0 => {
                Value::Real(quotient(s.sum(cell), s.n(cell)))
            }
            (Aggregate::Avg, State::RealSum(s)) if s.n(cell) > 0 => {
                Value::Real(s.sum(cell) / s.n(cell) as f64)
            }
            (_, State::ExtremeU64(s)) => s.value(cell).map_or(Value::Null, |v| Value::Integer(v.into())),
            (_, State::ExtremeI64(s)) => s.value(cell).map_or(Value::Null, |v| Value::Integer(v.into())),
            (_, State::ExtremeF64(s)) => s.value(cell).into(),
            (_, State::IntegerSpread(s)) => s.moments(cell).stddev().into(),
            (_, State::Spread(s)) => s.moments(cell).stddev().into(),
            (Aggregate::Quantile(q), State::Histogram(s)) => {
                error = coarse(s.histogram(cell));
                s.histogram(cell).quantile(*q).into()
            }
            (_, State::Histogram(s)) => {
                error = coarse(s.histogram(cell));
                self.buckets(aggregate, s.histogram(cell))
            }
            (_, State::Distinct(s, _)) => {
                let (n, off) = s.set(cell).estimate();
                error = (off > 0.0).then_some(off);
                Value::Integer(n.into())
            }
            (_, State::Success(s, _)) if s.known(cell) > 0 => {
                Value::Real(s.yes(cell) as f64 / s.known(cell) as f64)
            }
            _ => Value::Null,
        };
        Estimate { value, low: Value::Null, high: Value::Null, error }
    }

    fn interval(
        &self,
        aggregate: &Aggregate,
        value: &Value,
        state: &State,
        whole: &State,
        cells: Range<usize>,
    ) -> Interval {
        let p = self.sample;
        match state {
            State::Count(s) => {
                let n: Vec<u64> = cells.map(|c| s.count(c)).collect();
                let parts: Vec<f64> = n.iter().map(|n| *n as f64).collect();
                let interval = sampling::total(&parts, &n, p, true);
                if *aggregate == Aggregate::Rate { interval.map(|v| v / self.seconds) } else { interval }
            }
            State::IntegerSum(s) => {
                let n: Vec<u64> = cells.clone().map(|c| s.n(c)).collect();
                let parts: Vec<f64> = cells.map(|c| s.sum(c) as f64).collect();
                total_or_mean(aggregate, &parts, &n, p)
            }
            State::RealSum(s) => {
                let n: Vec<u64> = cells.clone().map(|c| s.n(c)).collect();
                let parts: Vec<f64> = cells.map(|c| s.sum(c)).collect();
                total_or_mean(aggregate, &parts, &n, p)
            }
            State::IntegerSpread(s) => {
                let parts: Vec<Moments> = cells.map(|c| s.moments(c)).collect();
                spread_interval(value.real(), &parts, p)
            }
            State::Spread(s) => {
                let parts: Vec<Moments> = cells.map(|c| s.moments(c)).collect();
                spread_interval(value.real(), &parts, p)
            }
            State::Success(s, _) => {
                let n: Vec<u64> = cells.clone().map(|c| s.known(c)).collect();
                let yes: Vec<f64> = cells.map(|c| s.yes(c) as f64).collect();
                sampling::share(&yes, &n, p)
            }
            State::Histogram(s) => {
                let parts: Vec<&LogHistogram> = cells.map(|c| s.histogram(c)).collect();
                let State::Histogram(whole) = whole else { unreachable!("gathering keeps the kind") };
                let Aggregate::Quantile(q) = aggregate else { return Interval::default() };
                quantile_interval(*q, whole.histogram(0), &parts, p)
            }
            // What was seen bounds these on one side; nothing bounds what was not seen.
            State::Distinct(..) => Interval { low: value.real(), high: None },
            _ if *aggregate == Aggregate::Min => Interval { low: None, high: value.real() },
            _ => Interval { low: value.real(), high: None },
        }
    }

    /// A total of integers, rounded.
    fn scale(&self, total: i128) -> Value {
        Value::Integer(if self.sample < 1.0 { (total as f64 / self.sample).round() as i128 } else { total })
    }

    fn per_second(&self, n: f64) -> Value {
        if self.seconds > 0.0 { Value::Real(n / self.sample / self.seconds) } else { Value::Null }
    }

    /// `[[upper bound, count], …]`, for `cdf` the shares up to the bound.
    fn buckets(&self, aggregate: &Aggregate, histogram: &LogHistogram) -> Value {
        let mut seen = 0;
        let pairs = histogram.buckets().map(|bucket| {
            seen += bucket.count;
            let number = match aggregate {
                Aggregate::Cdf => seen as f64 / histogram.n() as f64,
                _ => (bucket.count as f64 / self.sample).round(),
            };
            (bucket.upper, Some(number))
        });
        if histogram.n() == 0 { Value::Null } else { json(pairs) }
    }

    /// Of every bucket by itself; an open end is a JSON null.
    fn bucket_intervals(
        &self,
        aggregate: &Aggregate,
        whole: &LogHistogram,
        parts: &[&LogHistogram],
    ) -> (Value, Value) {
        let n: Vec<u64> = parts.iter().map(|h| h.n()).collect();
        let mut counts: Vec<Vec<f64>> = Vec::new();
        let uppers: Vec<f64> = whole.buckets().map(|b| b.upper).collect();
        for part in parts {
            let mut column = vec![0.0; uppers.len()];
            for bucket in part.buckets() {
                column[uppers.partition_point(|u| *u < bucket.upper)] += bucket.count as f64;
            }
            if *aggregate == Aggregate::Cdf {
                (1..column.len()).for_each(|i| column[i] += column[i - 1]);
            }
            counts.push(column);
        }
        let intervals: Vec<Interval> = (0..uppers.len())
            .map(|i| {
                let column: Vec<f64> = counts.iter().map(|c| c[i]).collect();
                match aggregate {
                    Aggregate::Cdf => sampling::share(&column, &n, self.sample),
                    _ => {
                        let n: Vec<u64> = column.iter().map(|c| *c as u64).collect();
                        sampling::total(&column, &n, self.sample, true)
                    }
                }
            })
            .collect();
        let side =
            |end: fn(&Interval) -> Option<f64>| json(uppers.iter().copied().zip(intervals.iter().map(end)));
        if uppers.is_empty() { (Value::Null, Value::Null) } else { (side(|i| i.low), side(|i| i.high)) }
    }
}

impl Value {
    /// As a real number.
    #[must_use]
    pub fn real(&self) -> Option<f64> {
        match self {
            Value::Integer(v) => Some(*v as f64),
            Value::Real(v) => Some(*v),
            Value::Null | Value::Json(_) => None,
        }
    }

    /// As what groups are ranked by.
    #[must_use]
    pub fn weight(&self) -> Weight {
        match self {
            Value::Integer(v) => Weight::Integer(*v),
            Value::Real(v) => Weight::Real(*v),
            Value::Null | Value::Json(_) => Weight::Null,
        }
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Value {
        value.map_or(Value::Null, Value::Real)
    }
}

impl Interval {
    fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        let finite = |v: f64| Some(f(v)).filter(|v| v.is_finite());
        Interval { low: self.low.and_then(finite), high: self.high.and_then(finite) }
    }
}

/// The error of a histogram that had to be made coarser than what is promised.
fn coarse(histogram: &LogHistogram) -> Option<f64> {
    Some(histogram.relative_error()).filter(|error| *error > 0.01)
}

/// Rounded once for sums that a real number holds, and as near for others.
fn quotient(sum: i128, n: u64) -> f64 {
    let n_wide = i128::from(n);
    (sum / n_wide) as f64 + (sum % n_wide) as f64 / n as f64
}

fn total_or_mean(aggregate: &Aggregate, parts: &[f64], n: &[u64], p: f64) -> Interval {
    let is_nonnegative = parts.iter().all(|v| *v >= 0.0);
    match aggregate {
        Aggregate::Sum => sampling::total(parts, n, p, is_nonnegative),
        _ => sampling::mean(parts, n, p, is_nonnegative),
    }
}

fn spread_interval(whole: Option<f64>, parts: &[Moments], p: f64) -> Interval {
    let Some(whole) = whole else { return Interval::default() };
    let n: Vec<u64> = parts.iter().map(|m| m.n as u64).collect();
    let without = |left_out: usize| {
        let mut rest = Moments::default();
        parts.iter().enumerate().filter(|(i, _)| *i != left_out).for_each(|(_, m)| rest.merge(m));
        rest.stddev()
    };
    let without: Option<Vec<f64>> = (0..parts.len()).filter(|i| n[*i] > 0).map(without).collect();
    let Some(without) = without else { return Interval::default() };
    sampling::deviation(whole, &without, &n, p)
}

/// The values at the ends of the share's interval; where it leaves 0 to 1 the sample knows no end.
fn quantile_interval(q: f64, whole: &LogHistogram, parts: &[&LogHistogram], p: f64) -> Interval {
    let n: Vec<u64> = parts.iter().map(|h| h.n()).collect();
    let Some(at) = rank_of(q, whole.n()).and_then(|rank| whole.bucket_of_rank(rank)) else {
        return Interval::default();
    };
    let up_to: Vec<f64> = parts.iter().map(|h| h.count_up_to(at.upper) as f64).collect();
    let Some(off) = sampling::share_at_quantile(q, &up_to, &n, p) else { return Interval::default() };
    let bucket = |q: f64| rank_of(q, whole.n()).and_then(|rank| whole.bucket_of_rank(rank));
    Interval {
        low: (q - off > 0.0).then(|| bucket(q - off)).flatten().map(|b| b.lower),
        high: (q + off < 1.0).then(|| bucket(q + off)).flatten().map(|b| b.upper),
    }
}

fn json(pairs: impl Iterator<Item = (f64, Option<f64>)>) -> Value {
    let mut text = String::from("[");
    for (upper, number) in pairs {
        let comma = if text.len() > 1 { "," } else { "" };
        let written = match number {
            Some(number) => write!(text, "{comma}[{upper},{number}]"),
            None => write!(text, "{comma}[{upper},null]"),
        };
        written.expect("writing to a string does not fail");
    }
    text.push(']');
    Value::Json(text)
}
