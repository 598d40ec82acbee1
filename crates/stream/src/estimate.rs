//! The value of an aggregate for one group, scaled and with an interval for sampled tuples.

use std::fmt::Write;
use std::ops::Range;

use plan::{Aggregate, Total};

use crate::ops::aggregate::{State, Stratum};
use crate::ops::spread::Moments;
use crate::ops::top_k::Weight;
use crate::sampling::{self, Interval};
use crate::sketch::LogHistogram;
use crate::spectrum::Spectrum;

/// The value of an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Null,
    /// An integer, not yet clamped to its column's type.
    Integer(i128),
    /// A floating point number.
    Real(f64),
    /// Histogram buckets as JSON.
    Json(String),
}

/// A value with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: Value,
    /// Lower end of the 95 % interval; null without sampling.
    pub low: Value,
    /// Upper end of the interval.
    pub high: Value,
    /// Relative error bound, if a memory limit made the value approximate.
    pub error: Option<f64>,
}

/// Parameters of estimates that do not depend on the group.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Whether the tuples are sampled, so that estimates have intervals.
    pub is_sampled: bool,
    /// Length of the window in seconds; without windows the time from first to last tuple.
    pub seconds: f64,
    /// Estimated share of traffic missing from the capture.
    pub capture_loss: f64,
}

/// The accumulator cells of a group, by sampling rate.
///
/// With several rates, results are scaled by the smallest one. Values sampled at a larger rate are weighted by the
/// ratio of the two rates. With a single rate, all weights are 1.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// Cells by sampling rate.
    pub strata: &'a [Stratum],
    /// Index of the accumulator.
    pub place: usize,
    /// The group's cells, one per replicate.
    pub cells: Range<usize>,
}

impl<'a> Seen<'a> {
    /// The smallest rate.
    fn rate(&self) -> f64 {
        self.strata.iter().map(|stratum| stratum.rate).fold(1.0, f64::min)
    }

    /// The accumulator states with their weights.
    fn states(&self) -> impl Iterator<Item = (f64, &'a State)> + Clone {
        let (rate, place) = (self.rate(), self.place);
        self.strata.iter().map(move |stratum| (rate / stratum.rate, stratum.cells.state(place)))
    }

    /// A weighted number per replicate.
    fn parts(&self, of: impl Fn(&State, usize) -> f64) -> Vec<f64> {
        let part = |cell: usize| self.states().map(|(weight, state)| weight * of(state, cell)).sum();
        self.cells.clone().map(part).collect()
    }

    /// All replicates merged into one cell, with the weight, by rate.
    fn wholes(&self) -> Vec<(f64, State)> {
        self.states().map(|(weight, state)| (weight, state.gather(self.cells.clone()))).collect()
    }

    /// The total of an accumulator over groups, by replicate, comparable with the parts of a group.
    #[must_use]
    pub fn totals(strata: &'a [Stratum], place: usize, groups: &[u32], replicates: usize) -> Vec<f64> {
        let seen = Seen { strata, place, cells: 0..0 };
        let of_replicate = |replicate: usize| {
            let cells = || groups.iter().map(|group| *group as usize * replicates + replicate);
            seen.states().map(|(weight, state)| weight * amount(&state.gather(cells()), 0)).sum()
        };
        (0..replicates).map(of_replicate).collect()
    }

    /// The distribution in each replicate.
    fn spectra(&self) -> Vec<Spectrum> {
        let of_cell = |cell: usize| {
            let list: Vec<(f64, &LogHistogram)> =
                self.states().map(|(weight, state)| (weight, histogram(state, cell))).collect();
            Spectrum::new(list.into_iter())
        };
        self.cells.clone().map(of_cell).collect()
    }
}

impl Circumstances {
    /// Estimates `aggregate` for a group.
    #[must_use]
    pub fn estimate(&self, aggregate: &Aggregate, seen: &Seen<'_>) -> Estimate {
        let rate = seen.rate();
        if let ([only], false) = (seen.strata, self.is_sampled) {
            return self.point(aggregate, only.cells.state(seen.place), seen.cells.start, rate);
        }
        let wholes = seen.wholes();
        let mut estimate = match &wholes[..] {
            [(_, only)] => self.point(aggregate, only, 0, rate),
            several => self.weighted(aggregate, several, rate),
        };
        if matches!(aggregate, Aggregate::Hist | Aggregate::Cdf) {
            let whole = spectrum(&wholes);
            (estimate.low, estimate.high) = self.bucket_intervals(aggregate, &whole, &seen.spectra(), rate);
        } else {
            let interval = self.interval(aggregate, &estimate.value, seen, &wholes);
            (estimate.low, estimate.high) = (interval.low.into(), interval.high.into());
        }
        estimate
    }

    /// The group's share of a total; `totals` are from [`Seen::totals`].
    #[must_use]
    pub fn share(&self, of: Total, seen: &Seen<'_>, totals: &[f64]) -> Estimate {
        let parts = seen.parts(amount);
        let (part, whole): (f64, f64) = (parts.iter().sum(), totals.iter().sum());
        let has_value = seen.parts(n).iter().sum::<f64>() > 0.0;
        let value: Value = Some(part / whole).filter(|_| has_value && whole > 0.0).into();
        let is_nonnegative = parts.iter().chain(totals).all(|v| *v >= 0.0);
        let interval = match of {
            _ if !self.is_sampled || !is_nonnegative || value == Value::Null => Interval::default(),
            Total::Tuples => sampling::share(&parts, totals, seen.rate()),
            Total::Values => {
                let ratio = sampling::mean(&parts, totals, seen.rate(), true);
                Interval { high: ratio.high.map(|high| high.min(1.0)), ..ratio }
            }
        };
        Estimate { value, low: interval.low.into(), high: interval.high.into(), error: None }
    }

    /// Estimate from one cell of flows with the same sampling rate.
    fn point(&self, aggregate: &Aggregate, state: &State, cell: usize, rate: f64) -> Estimate {
        let mut error = None;
        let value = match (aggregate, state) {
            (Aggregate::Count, State::Count(s)) => scale(s.count(cell).into(), rate),
            (Aggregate::Rate, State::Count(s)) => self.per_second(s.count(cell) as f64 / rate),
            (Aggregate::Sum, State::IntegerSum(s)) if s.n(cell) > 0 => scale(s.sum(cell), rate),
            (Aggregate::Sum, State::RealSum(s)) if s.n(cell) > 0 => Value::Real(s.sum(cell) / rate),
            (Aggregate::Throughput, State::IntegerSum(_) | State::RealSum(_)) if n(state, cell) > 0.0 => {
                self.per_second(sum(state, cell) / rate)
            }
            (Aggregate::Avg, State::IntegerSum(s)) if s.n(cell) > 0 => {
                Value::Real(quotient(s.sum(cell), s.n(cell)))
            }
            (Aggregate::Avg, State::RealSum(s)) if s.n(cell) > 0 => {
                Value::Real(s.sum(cell) / s.n(cell) as f64)
            }
            (_, State::MinMaxU64(s)) => s.value(cell).map_or(Value::Null, |v| Value::Integer(v.into())),
            (_, State::MinMaxI64(s)) => s.value(cell).map_or(Value::Null, |v| Value::Integer(v.into())),
            (_, State::MinMaxF64(s)) => s.value(cell).into(),
            (_, State::IntegerSpread(_) | State::Spread(_)) => moments(state, cell).stddev().into(),
            (Aggregate::Quantile(q), State::Histogram(s)) => {
                error = coarse(s.histogram(cell).relative_error());
                s.histogram(cell).quantile(*q).into()
            }
            (_, State::Histogram(s)) => {
                error = coarse(s.histogram(cell).relative_error());
                buckets(aggregate, &Spectrum::new([(1.0, s.histogram(cell))].into_iter()), rate)
            }
            (_, State::Distinct(s, _)) => {
                let (n, off) = s.set(cell).estimate();
                error = (off > 0.0).then_some(off);
                Value::Integer(n.into())
            }
            (_, State::Outcome(s, _)) if s.known(cell) > 0 => {
                Value::Real(s.yes(cell) as f64 / s.known(cell) as f64)
            }
            _ => Value::Null,
        };
        Estimate { value, low: Value::Null, high: Value::Null, error }
    }

    /// Estimate from flows with several sampling rates.
    fn weighted(&self, aggregate: &Aggregate, wholes: &[(f64, State)], rate: f64) -> Estimate {
        let total = |of: fn(&State, usize) -> f64| -> f64 { wholes.iter().map(|(w, s)| w * of(s, 0)).sum() };
        let share = |of| Some(total(of) / total(n)).filter(|_| total(n) > 0.0);
        let is_real = wholes.iter().any(|(_, s)| matches!(s, State::RealSum(_)));
        let mut error = None;
        let value = match aggregate {
            Aggregate::Count => Value::Integer((total(n) / rate).round() as i128),
            Aggregate::Rate => self.per_second(total(n) / rate),
            Aggregate::Sum | Aggregate::Throughput if total(n) <= 0.0 => Value::Null,
            Aggregate::Throughput => self.per_second(total(sum) / rate),
            Aggregate::Sum if is_real => Value::Real(total(sum) / rate),
            Aggregate::Sum => Value::Integer((total(sum) / rate).round() as i128),
            Aggregate::Avg | Aggregate::Success(_) | Aggregate::Ratio(_) => share(sum).into(),
            Aggregate::Stddev => {
                let mut all = Moments::default();
                wholes.iter().for_each(|(weight, s)| all.merge(&moments(s, 0).weighted(*weight)));
                all.stddev().into()
            }
            Aggregate::Quantile(q) => {
                let all = spectrum(wholes);
                error = coarse(all.relative_error());
                all.quantile(*q).into()
            }
            Aggregate::Hist | Aggregate::Cdf => {
                let all = spectrum(wholes);
                error = coarse(all.relative_error());
                buckets(aggregate, &all, rate)
            }
            // These do not depend on rates, so the states are merged.
            Aggregate::Min | Aggregate::Max | Aggregate::Distinct(_) => {
                let mut all = wholes[0].1.clone();
                wholes[1..].iter().for_each(|(_, state)| {
                    all.merge(0, state, 0);
                });
                return self.point(aggregate, &all, 0, 1.0);
            }
            Aggregate::Share(_) => unreachable!("a share needs the total of all groups"),
        };
        Estimate { value, low: Value::Null, high: Value::Null, error }
    }

    fn interval(
        &self,
        aggregate: &Aggregate,
        value: &Value,
        seen: &Seen<'_>,
        wholes: &[(f64, State)],
    ) -> Interval {
        let p = seen.rate();
        let (n, sums) = (|| seen.parts(n), || seen.parts(sum));
        match aggregate {
            Aggregate::Count => self.total(&n(), &n(), p),
            Aggregate::Rate => self.total(&n(), &n(), p).map(|v| v / self.seconds),
            Aggregate::Sum => self.total(&sums(), &n(), p),
            Aggregate::Throughput => self.total(&sums(), &n(), p).map(|v| v / self.seconds),
            Aggregate::Avg => sampling::mean(&sums(), &n(), p, sums().iter().all(|v| *v >= 0.0)),
            Aggregate::Success(_) | Aggregate::Ratio(_) => sampling::share(&sums(), &n(), p),
            Aggregate::Stddev => {
                let of_cell = |cell: usize| {
                    let mut all = Moments::default();
                    seen.states().for_each(|(weight, s)| all.merge(&moments(s, cell).weighted(weight)));
                    all
                };
                let parts: Vec<Moments> = seen.cells.clone().map(of_cell).collect();
                spread_interval(value.real(), &parts, p)
            }
            Aggregate::Quantile(q) => quantile_interval(*q, &spectrum(wholes), &seen.spectra(), p),
            // Observed values bound the extreme on one side; the other side is unbounded.
            Aggregate::Min => Interval { low: None, high: value.real() },
            _ => Interval { low: value.real(), high: None },
        }
    }

    /// The interval of a total, extended by capture loss: a tuple consists of at least two packets, and losing either
    /// may lose the tuple.
    fn total(&self, parts: &[f64], n: &[f64], p: f64) -> Interval {
        let is_nonnegative = parts.iter().all(|part| *part >= 0.0);
        let mut interval = sampling::total(parts, n, p, is_nonnegative);
        let missing = (2.0 * self.capture_loss).min(1.0);
        if is_nonnegative {
            interval.high = interval.high.map(|high| high / (1.0 - missing)).filter(|high| high.is_finite());
        }
        interval
    }

    /// The interval of each bucket; an open end is a JSON null.
    fn bucket_intervals(
        &self,
        aggregate: &Aggregate,
        whole: &Spectrum,
        parts: &[Spectrum],
        p: f64,
    ) -> (Value, Value) {
        let n: Vec<f64> = parts.iter().map(Spectrum::n).collect();
        let uppers: Vec<f64> = whole.buckets().iter().map(|(b, _)| b.upper).collect();
        let counts: Vec<Vec<f64>> = parts.iter().map(|part| counts_in(part, &uppers, aggregate)).collect();
        let interval = |i: usize| {
            let column: Vec<f64> = counts.iter().map(|c| c[i]).collect();
            match aggregate {
                Aggregate::Cdf => sampling::share(&column, &n, p),
                _ => self.total(&column, &column, p),
            }
        };
        let intervals: Vec<Interval> = (0..uppers.len()).map(interval).collect();
        let side =
            |end: fn(&Interval) -> Option<f64>| json(uppers.iter().copied().zip(intervals.iter().map(end)));
        if uppers.is_empty() { (Value::Null, Value::Null) } else { (side(|i| i.low), side(|i| i.high)) }
    }

    fn per_second(&self, n: f64) -> Value {
        if self.seconds > 0.0 { Value::Real(n / self.seconds) } else { Value::Null }
    }
}

/// Number of tuples or values in a cell.
fn n(state: &State, cell: usize) -> f64 {
    match state {
        State::Count(s) => s.count(cell) as f64,
        State::IntegerSum(s) => s.n(cell) as f64,
        State::RealSum(s) => s.n(cell) as f64,
        State::Outcome(s, _) => s.known(cell) as f64,
        _ => 0.0,
    }
}

/// The numerator of a mean or proportion.
fn sum(state: &State, cell: usize) -> f64 {
    match state {
        State::IntegerSum(s) => s.sum(cell) as f64,
        State::RealSum(s) => s.sum(cell),
        State::Outcome(s, _) => s.yes(cell) as f64,
        _ => 0.0,
    }
}

/// The amount of which groups have shares.
fn amount(state: &State, cell: usize) -> f64 {
    if let State::Count(_) = state { n(state, cell) } else { sum(state, cell) }
}

fn moments(state: &State, cell: usize) -> Moments {
    match state {
        State::IntegerSpread(s) => s.moments(cell),
        State::Spread(s) => s.moments(cell),
        _ => Moments::default(),
    }
}

fn histogram(state: &State, cell: usize) -> &LogHistogram {
    match state {
        State::Histogram(s) => s.histogram(cell),
        _ => unreachable!("distributions are read from histograms"),
    }
}

fn spectrum(wholes: &[(f64, State)]) -> Spectrum {
    Spectrum::new(wholes.iter().map(|(weight, state)| (*weight, histogram(state, 0))))
}

/// Scales an integer total by the rate, rounded.
fn scale(total: i128, rate: f64) -> Value {
    Value::Integer(if rate < 1.0 { (total as f64 / rate).round() as i128 } else { total })
}

/// `[[upper bound, count], …]`; for `cdf` cumulative proportions.
fn buckets(aggregate: &Aggregate, spectrum: &Spectrum, rate: f64) -> Value {
    let mut seen = 0.0;
    let pairs = spectrum.buckets().iter().map(|(bucket, count)| {
        seen += count;
        let number = match aggregate {
            Aggregate::Cdf => seen / spectrum.n(),
            _ => (count / rate).round(),
        };
        (bucket.upper, Some(number))
    });
    if spectrum.buckets().is_empty() { Value::Null } else { json(pairs) }
}

/// Number of values of a replicate in each bucket of the whole; for `cdf` cumulative.
fn counts_in(part: &Spectrum, uppers: &[f64], aggregate: &Aggregate) -> Vec<f64> {
    let mut column = vec![0.0; uppers.len()];
    for (bucket, count) in part.buckets() {
        // A replicate may have finer buckets than the whole.
        column[uppers.partition_point(|u| *u < bucket.upper).min(uppers.len() - 1)] += count;
    }
    if *aggregate == Aggregate::Cdf {
        (1..column.len()).for_each(|i| column[i] += column[i - 1]);
    }
    column
}

impl Value {
    /// The value as floating point.
    #[must_use]
    pub fn real(&self) -> Option<f64> {
        match self {
            Value::Integer(v) => Some(*v as f64),
            Value::Real(v) => Some(*v),
            Value::Null | Value::Json(_) => None,
        }
    }

    /// The value as a ranking weight.
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

/// The error of a histogram that exceeds the promised resolution.
fn coarse(error: f64) -> Option<f64> {
    Some(error).filter(|error| *error > 0.01)
}

/// The mean: rounded once for sums exact in floating point, with a similar error for others.
fn quotient(sum: i128, n: u64) -> f64 {
    let n_wide = i128::from(n);
    (sum / n_wide) as f64 + (sum % n_wide) as f64 / n as f64
}

fn spread_interval(whole: Option<f64>, parts: &[Moments], p: f64) -> Interval {
    let Some(whole) = whole else { return Interval::default() };
    let n: Vec<f64> = parts.iter().map(|m| m.n).collect();
    let without = |left_out: usize| {
        let mut rest = Moments::default();
        parts.iter().enumerate().filter(|(i, _)| *i != left_out).for_each(|(_, m)| rest.merge(m));
        rest.stddev()
    };
    let without: Option<Vec<f64>> = (0..parts.len()).filter(|i| n[*i] > 0.0).map(without).collect();
    let Some(without) = without else { return Interval::default() };
    sampling::deviation(whole, &without, &n, p)
}

/// The values at the ends of the proportion's interval.
fn quantile_interval(q: f64, whole: &Spectrum, parts: &[Spectrum], p: f64) -> Interval {
    let n: Vec<f64> = parts.iter().map(Spectrum::n).collect();
    let Some(at) = whole.bucket_at(q) else { return Interval::default() };
    let up_to: Vec<f64> = parts.iter().map(|part| part.count_up_to(at.upper)).collect();
    let shares = sampling::shares_around_quantile(q, &up_to, &n, p);
    Interval {
        low: shares.low.and_then(|q| whole.bucket_at(q)).map(|b| b.lower),
        high: shares.high.and_then(|q| whole.bucket_at(q)).map(|b| b.upper),
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
