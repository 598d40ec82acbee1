//! The value of an aggregate for one group, scaled and with an interval for sampled tuples.

use std::fmt::Write;
use std::ops::Range;

use plan::{AggregateFunction, SampledUnit, ShareTotal};

use crate::ops::aggregate::{AccumulatorState, Stratum};
use crate::ops::spread::SampleMoments;
use crate::ops::top_k::RankWeight;
use crate::pane::PaneLayout;
use crate::sampling::{self, ConfidenceInterval};
use crate::sketch::LogHistogram;
use crate::weighted_histogram::WeightedHistogram;

/// The value of an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub enum EstimateValue {
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
    pub value: EstimateValue,
    /// Lower end of the 95 % interval; null without sampling.
    pub low: EstimateValue,
    /// Upper end of the interval.
    pub high: EstimateValue,
    /// Relative error bound, if a memory limit made the value approximate.
    pub error: Option<f64>,
}

/// Parameters of estimates that do not depend on the group.
#[derive(Clone, Copy, Debug)]
pub struct EstimateContext {
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
pub struct ObservedGroup<'a> {
    /// Cells by sampling rate.
    pub strata: &'a [Stratum],
    /// Index of the accumulator.
    pub place: usize,
    /// The group's cells, one per replicate.
    pub cells: Range<usize>,
    /// Unit of the rates, if tuples carry one. Counters are scaled already, so that the rate of every tuple counts as 1.
    pub rates: Option<SampledUnit>,
}

impl<'a> ObservedGroup<'a> {
    /// Whether values are scaled already.
    fn is_scaled(&self) -> bool {
        self.rates == Some(SampledUnit::Counters)
    }

    /// The rate by which values are scaled.
    fn rate(&self) -> f64 {
        if self.is_scaled() {
            1.0
        } else {
            self.smallest_rate()
        }
    }

    /// Effective number of samples and their rate: the estimate's variance is that of this many samples of this rate,
    /// and their quotient is the estimated number of tuples.
    #[must_use]
    pub fn sample_size(&self) -> (f64, f64) {
        let mut tuples = 0.0;
        let mut squares = 0.0;
        for stratum in self.strata {
            let state = stratum.cells.state(self.place);
            let seen: f64 = self.cells.clone().map(|cell| n(state, cell)).sum();
            tuples += seen / stratum.rate;
            squares += seen / stratum.rate.powi(2);
        }
        if tuples > 0.0 {
            let rate = tuples / squares;
            (tuples * rate, rate)
        } else {
            (0.0, 1.0)
        }
    }

    /// The smallest rate.
    fn smallest_rate(&self) -> f64 {
        self.strata
            .iter()
            .map(|stratum| stratum.rate)
            .fold(1.0, f64::min)
    }

    /// The accumulator states with their weights.
    fn states(&self) -> impl Iterator<Item = (f64, &'a AccumulatorState)> + Clone {
        let rate = self.rate();
        let place = self.place;
        let is_scaled = self.is_scaled();
        self.strata.iter().map(move |stratum| {
            let weight = if is_scaled { 1.0 } else { rate / stratum.rate };
            (weight, stratum.cells.state(place))
        })
    }

    /// A weighted number per replicate.
    fn parts(&self, of: impl Fn(&AccumulatorState, usize) -> f64) -> Vec<f64> {
        let part = |cell: usize| {
            self.states()
                .map(|(weight, state)| weight * of(state, cell))
                .sum()
        };
        self.cells.clone().map(part).collect()
    }

    /// All replicates merged into one cell, with the weight, by rate.
    fn wholes(&self) -> Vec<(f64, AccumulatorState)> {
        self.states()
            .map(|(weight, state)| (weight, state.gather(self.cells.clone())))
            .collect()
    }

    /// The total of an accumulator over groups, by replicate, comparable with the parts of a group.
    #[must_use]
    pub fn totals(
        strata: &'a [Stratum],
        place: usize,
        groups: &[u32],
        layout: &PaneLayout,
    ) -> Vec<f64> {
        let replicates = layout.replicates;
        let seen = ObservedGroup {
            strata,
            place,
            cells: 0..0,
            rates: layout.rates,
        };
        let of_replicate = |replicate: usize| {
            let cells = || {
                groups
                    .iter()
                    .map(|group| *group as usize * replicates + replicate)
            };
            seen.states()
                .map(|(weight, state)| weight * amount(&state.gather(cells()), 0))
                .sum()
        };
        (0..replicates).map(of_replicate).collect()
    }

    /// The distribution in each replicate.
    fn spectra(&self) -> Vec<WeightedHistogram> {
        let of_cell = |cell: usize| {
            let list: Vec<(f64, &LogHistogram)> = self
                .states()
                .map(|(weight, state)| (weight, histogram(state, cell)))
                .collect();
            WeightedHistogram::new(list.into_iter())
        };
        self.cells.clone().map(of_cell).collect()
    }
}

impl EstimateContext {
    /// Estimates `aggregate` for a group.
    #[must_use]
    pub fn estimate(&self, aggregate: &AggregateFunction, seen: &ObservedGroup<'_>) -> Estimate {
        if seen.is_scaled() {
            self.of_counters(aggregate, seen)
        } else {
            self.of_tuples(aggregate, seen)
        }
    }

    /// Estimates `aggregate` over tuples that stand for others.
    fn of_tuples(&self, aggregate: &AggregateFunction, seen: &ObservedGroup<'_>) -> Estimate {
        let rate = seen.rate();
        if let ([only], false) = (seen.strata, self.is_sampled) {
            return self.point(
                aggregate,
                only.cells.state(seen.place),
                seen.cells.start,
                rate,
            );
        }
        let wholes = seen.wholes();
        let mut estimate = match &wholes[..] {
            [(_, only)] => self.point(aggregate, only, 0, rate),
            several => self.weighted(aggregate, several, rate),
        };
        if matches!(aggregate, AggregateFunction::Hist | AggregateFunction::Cdf) {
            let whole = spectrum(&wholes);
            (estimate.low, estimate.high) =
                self.bucket_intervals(aggregate, &whole, &seen.spectra(), rate);
        } else {
            let interval = self.interval(aggregate, &estimate.value, seen, &wholes);
            estimate.low = interval.low.into();
            estimate.high = interval.high.into();
        }
        estimate
    }

    /// Estimates `aggregate` over tuples whose counters are scaled already. Values are those of the tuples. Sums have
    /// intervals. The number of tuples is a lower bound, because flows without a sampled packet have no tuple.
    fn of_counters(&self, aggregate: &AggregateFunction, seen: &ObservedGroup<'_>) -> Estimate {
        let estimate = self.of_tuples(aggregate, seen);
        let p = seen.smallest_rate();
        if p == 1.0 {
            return self.of_all_packets(aggregate, seen, estimate);
        }
        let total = || {
            let parts: Vec<f64> = seen.parts(sum).iter().map(|part| part * p).collect();
            self.total(&parts, &seen.parts(n), p)
        };
        let interval = match aggregate {
            AggregateFunction::Sum => total(),
            AggregateFunction::Throughput => total().map(|v| v / self.seconds),
            AggregateFunction::Count
            | AggregateFunction::Rate
            | AggregateFunction::Distinct(_)
            | AggregateFunction::Max => ConfidenceInterval {
                low: estimate.value.real(),
                high: None,
            },
            _ => ConfidenceInterval::default(),
        };
        Estimate {
            low: interval.low.into(),
            high: interval.high.into(),
            ..estimate
        }
    }

    /// Adds the interval to an estimate from exporters that measure every packet: only losses are unknown.
    fn of_all_packets(
        &self,
        aggregate: &AggregateFunction,
        seen: &ObservedGroup<'_>,
        estimate: Estimate,
    ) -> Estimate {
        let is_total = matches!(
            aggregate,
            AggregateFunction::Count
                | AggregateFunction::Rate
                | AggregateFunction::Sum
                | AggregateFunction::Throughput
        );
        let is_histogram = matches!(aggregate, AggregateFunction::Hist | AggregateFunction::Cdf);
        let missing = (2.0 * self.capture_loss).min(1.0);
        // Without a tuple, the rate is unknown.
        let is_empty = seen.parts(n).iter().sum::<f64>() == 0.0;
        if is_empty || is_histogram || missing > 0.0 && !is_total {
            return estimate;
        }
        let value = estimate.value.real();
        let high = value
            .map(|value| value / (1.0 - missing))
            .filter(|high| high.is_finite());
        Estimate {
            low: value.into(),
            high: high.into(),
            ..estimate
        }
    }

    /// The group's share of a total; `totals` are from [`ObservedGroup::totals`].
    #[must_use]
    pub fn share(&self, of: ShareTotal, seen: &ObservedGroup<'_>, totals: &[f64]) -> Estimate {
        let parts = seen.parts(amount);
        let part: f64 = parts.iter().sum();
        let whole: f64 = totals.iter().sum();
        let has_value = seen.parts(n).iter().sum::<f64>() > 0.0;
        let value: EstimateValue = Some(part / whole)
            .filter(|_| has_value && whole > 0.0)
            .into();
        let is_nonnegative = parts.iter().chain(totals).all(|v| *v >= 0.0);
        let p = seen.smallest_rate();
        let interval = match of {
            _ if !self.is_sampled || !is_nonnegative || value == EstimateValue::Null => {
                ConfidenceInterval::default()
            }
            ShareTotal::Tuples if seen.is_scaled() && p < 1.0 => ConfidenceInterval::default(),
            ShareTotal::Tuples => sampling::share(&parts, totals, p),
            ShareTotal::Values => {
                let ratio = sampling::mean(&parts, totals, p, true);
                ConfidenceInterval {
                    high: ratio.high.map(|high| high.min(1.0)),
                    ..ratio
                }
            }
        };
        Estimate {
            value,
            low: interval.low.into(),
            high: interval.high.into(),
            error: None,
        }
    }

    /// Estimate from one cell of flows with the same sampling rate.
    fn point(
        &self,
        aggregate: &AggregateFunction,
        state: &AccumulatorState,
        cell: usize,
        rate: f64,
    ) -> Estimate {
        let mut error = None;
        let value = match (aggregate, state) {
            (AggregateFunction::Count, AccumulatorState::Count(s)) => {
                scale(s.count(cell).into(), rate)
            }
            (AggregateFunction::Rate, AccumulatorState::Count(s)) => {
                self.per_second(s.count(cell) as f64 / rate)
            }
            (AggregateFunction::Sum, AccumulatorState::IntegerSum(s)) if s.n(cell) > 0 => {
                scale(s.sum(cell), rate)
            }
            (AggregateFunction::Sum, AccumulatorState::RealSum(s)) if s.n(cell) > 0 => {
                EstimateValue::Real(s.sum(cell) / rate)
            }
            (
                AggregateFunction::Throughput,
                AccumulatorState::IntegerSum(_) | AccumulatorState::RealSum(_),
            ) if n(state, cell) > 0.0 => self.per_second(sum(state, cell) / rate),
            (AggregateFunction::Avg, AccumulatorState::IntegerSum(s)) if s.n(cell) > 0 => {
                EstimateValue::Real(quotient(s.sum(cell), s.n(cell)))
            }
            (AggregateFunction::Avg, AccumulatorState::RealSum(s)) if s.n(cell) > 0 => {
                EstimateValue::Real(s.sum(cell) / s.n(cell) as f64)
            }
            (_, AccumulatorState::MinMaxU64(s)) => s
                .value(cell)
                .map_or(EstimateValue::Null, |v| EstimateValue::Integer(v.into())),
            (_, AccumulatorState::MinMaxI64(s)) => s
                .value(cell)
                .map_or(EstimateValue::Null, |v| EstimateValue::Integer(v.into())),
            (_, AccumulatorState::MinMaxF64(s)) => s.value(cell).into(),
            (_, AccumulatorState::IntegerSpread(_) | AccumulatorState::Spread(_)) => {
                moments(state, cell).stddev().into()
            }
            (AggregateFunction::Quantile(q), AccumulatorState::Histogram(s)) => {
                error = coarse(s.histogram(cell).relative_error());
                s.histogram(cell).quantile(*q).into()
            }
            (_, AccumulatorState::Histogram(s)) => {
                error = coarse(s.histogram(cell).relative_error());
                buckets(
                    aggregate,
                    &WeightedHistogram::new([(1.0, s.histogram(cell))].into_iter()),
                    rate,
                )
            }
            (_, AccumulatorState::Distinct(s, _)) => {
                let (n, off) = s.set(cell).estimate();
                error = (off > 0.0).then_some(off);
                EstimateValue::Integer(n.into())
            }
            (_, AccumulatorState::Outcome(s, _)) if s.known(cell) > 0 => {
                EstimateValue::Real(s.yes(cell) as f64 / s.known(cell) as f64)
            }
            _ => EstimateValue::Null,
        };
        Estimate {
            value,
            low: EstimateValue::Null,
            high: EstimateValue::Null,
            error,
        }
    }

    /// Estimate from flows with several sampling rates.
    fn weighted(
        &self,
        aggregate: &AggregateFunction,
        wholes: &[(f64, AccumulatorState)],
        rate: f64,
    ) -> Estimate {
        let total = |of: fn(&AccumulatorState, usize) -> f64| -> f64 {
            wholes.iter().map(|(w, s)| w * of(s, 0)).sum()
        };
        let share = |of| Some(total(of) / total(n)).filter(|_| total(n) > 0.0);
        let is_real = wholes
            .iter()
            .any(|(_, s)| matches!(s, AccumulatorState::RealSum(_)));
        let mut error = None;
        let value = match aggregate {
            AggregateFunction::Count => EstimateValue::Integer((total(n) / rate).round() as i128),
            AggregateFunction::Rate => self.per_second(total(n) / rate),
            AggregateFunction::Sum | AggregateFunction::Throughput if total(n) <= 0.0 => {
                EstimateValue::Null
            }
            AggregateFunction::Throughput => self.per_second(total(sum) / rate),
            AggregateFunction::Sum if is_real => EstimateValue::Real(total(sum) / rate),
            AggregateFunction::Sum => EstimateValue::Integer((total(sum) / rate).round() as i128),
            AggregateFunction::Avg
            | AggregateFunction::Success(_)
            | AggregateFunction::Ratio(_) => share(sum).into(),
            AggregateFunction::Stddev => {
                let mut all = SampleMoments::default();
                wholes
                    .iter()
                    .for_each(|(weight, s)| all.merge(&moments(s, 0).weighted(*weight)));
                all.stddev().into()
            }
            AggregateFunction::Quantile(q) => {
                let all = spectrum(wholes);
                error = coarse(all.relative_error());
                all.quantile(*q).into()
            }
            AggregateFunction::Hist | AggregateFunction::Cdf => {
                let all = spectrum(wholes);
                error = coarse(all.relative_error());
                buckets(aggregate, &all, rate)
            }
            // These aggregates do not depend on rates, so the states are merged.
            AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::Distinct(_) => {
                let mut all = wholes[0].1.clone();
                wholes[1..].iter().for_each(|(_, state)| {
                    all.merge(0, state, 0);
                });
                return self.point(aggregate, &all, 0, 1.0);
            }
            AggregateFunction::Share(_) => unreachable!("a share needs the total of all groups"),
        };
        Estimate {
            value,
            low: EstimateValue::Null,
            high: EstimateValue::Null,
            error,
        }
    }

    fn interval(
        &self,
        aggregate: &AggregateFunction,
        value: &EstimateValue,
        seen: &ObservedGroup<'_>,
        wholes: &[(f64, AccumulatorState)],
    ) -> ConfidenceInterval {
        let p = seen.rate();
        let n = || seen.parts(n);
        let sums = || seen.parts(sum);
        match aggregate {
            AggregateFunction::Count => self.total(&n(), &n(), p),
            AggregateFunction::Rate => self.total(&n(), &n(), p).map(|v| v / self.seconds),
            AggregateFunction::Sum => self.total(&sums(), &n(), p),
            AggregateFunction::Throughput => self.total(&sums(), &n(), p).map(|v| v / self.seconds),
            AggregateFunction::Avg => {
                sampling::mean(&sums(), &n(), p, sums().iter().all(|v| *v >= 0.0))
            }
            AggregateFunction::Success(_) | AggregateFunction::Ratio(_) => {
                sampling::share(&sums(), &n(), p)
            }
            AggregateFunction::Stddev => {
                let of_cell = |cell: usize| {
                    let mut all = SampleMoments::default();
                    seen.states()
                        .for_each(|(weight, s)| all.merge(&moments(s, cell).weighted(weight)));
                    all
                };
                let parts: Vec<SampleMoments> = seen.cells.clone().map(of_cell).collect();
                spread_interval(value.real(), &parts, p)
            }
            AggregateFunction::Quantile(q) => {
                quantile_interval(*q, &spectrum(wholes), &seen.spectra(), p)
            }
            // Observed values bound the extreme on one side; the other side is unbounded.
            AggregateFunction::Min => ConfidenceInterval {
                low: None,
                high: value.real(),
            },
            _ => ConfidenceInterval {
                low: value.real(),
                high: None,
            },
        }
    }

    /// The interval of a total, extended by capture loss: a tuple consists of at least two packets, and losing either
    /// may lose the tuple.
    fn total(&self, parts: &[f64], n: &[f64], p: f64) -> ConfidenceInterval {
        let is_nonnegative = parts.iter().all(|part| *part >= 0.0);
        let mut interval = sampling::total(parts, n, p, is_nonnegative);
        let missing = (2.0 * self.capture_loss).min(1.0);
        if is_nonnegative {
            interval.high = interval
                .high
                .map(|high| high / (1.0 - missing))
                .filter(|high| high.is_finite());
        }
        interval
    }

    /// The interval of each bucket; an open end is a JSON null.
    fn bucket_intervals(
        &self,
        aggregate: &AggregateFunction,
        whole: &WeightedHistogram,
        parts: &[WeightedHistogram],
        p: f64,
    ) -> (EstimateValue, EstimateValue) {
        let n: Vec<f64> = parts.iter().map(WeightedHistogram::n).collect();
        let uppers: Vec<f64> = whole.buckets().iter().map(|(b, _)| b.upper).collect();
        let counts: Vec<Vec<f64>> = parts
            .iter()
            .map(|part| counts_in(part, &uppers, aggregate))
            .collect();
        let interval = |i: usize| {
            let column: Vec<f64> = counts.iter().map(|c| c[i]).collect();
            match aggregate {
                AggregateFunction::Cdf => sampling::share(&column, &n, p),
                _ => self.total(&column, &column, p),
            }
        };
        let intervals: Vec<ConfidenceInterval> = (0..uppers.len()).map(interval).collect();
        let side = |end: fn(&ConfidenceInterval) -> Option<f64>| {
            json(uppers.iter().copied().zip(intervals.iter().map(end)))
        };
        if uppers.is_empty() {
            (EstimateValue::Null, EstimateValue::Null)
        } else {
            (side(|i| i.low), side(|i| i.high))
        }
    }

    fn per_second(&self, n: f64) -> EstimateValue {
        if self.seconds > 0.0 {
            EstimateValue::Real(n / self.seconds)
        } else {
            EstimateValue::Null
        }
    }
}

/// Number of tuples or values in a cell.
fn n(state: &AccumulatorState, cell: usize) -> f64 {
    match state {
        AccumulatorState::Count(s) => s.count(cell) as f64,
        AccumulatorState::IntegerSum(s) => s.n(cell) as f64,
        AccumulatorState::RealSum(s) => s.n(cell) as f64,
        AccumulatorState::Outcome(s, _) => s.known(cell) as f64,
        _ => 0.0,
    }
}

/// The numerator of a mean or proportion.
fn sum(state: &AccumulatorState, cell: usize) -> f64 {
    match state {
        AccumulatorState::IntegerSum(s) => s.sum(cell) as f64,
        AccumulatorState::RealSum(s) => s.sum(cell),
        AccumulatorState::Outcome(s, _) => s.yes(cell) as f64,
        _ => 0.0,
    }
}

/// The amount of which groups have shares.
fn amount(state: &AccumulatorState, cell: usize) -> f64 {
    if let AccumulatorState::Count(_) = state {
        n(state, cell)
    } else {
        sum(state, cell)
    }
}

fn moments(state: &AccumulatorState, cell: usize) -> SampleMoments {
    match state {
        AccumulatorState::IntegerSpread(s) => s.moments(cell),
        AccumulatorState::Spread(s) => s.moments(cell),
        _ => SampleMoments::default(),
    }
}

fn histogram(state: &AccumulatorState, cell: usize) -> &LogHistogram {
    match state {
        AccumulatorState::Histogram(s) => s.histogram(cell),
        _ => unreachable!("distributions are read from histograms"),
    }
}

fn spectrum(wholes: &[(f64, AccumulatorState)]) -> WeightedHistogram {
    WeightedHistogram::new(
        wholes
            .iter()
            .map(|(weight, state)| (*weight, histogram(state, 0))),
    )
}

/// Scales an integer total by the rate, rounded.
fn scale(total: i128, rate: f64) -> EstimateValue {
    EstimateValue::Integer(if rate < 1.0 {
        (total as f64 / rate).round() as i128
    } else {
        total
    })
}

/// `[[upper bound, count], …]`; for `cdf` cumulative proportions.
fn buckets(
    aggregate: &AggregateFunction,
    spectrum: &WeightedHistogram,
    rate: f64,
) -> EstimateValue {
    let mut seen = 0.0;
    let pairs = spectrum.buckets().iter().map(|(bucket, count)| {
        seen += count;
        let number = match aggregate {
            AggregateFunction::Cdf => seen / spectrum.n(),
            _ => (count / rate).round(),
        };
        (bucket.upper, Some(number))
    });
    if spectrum.buckets().is_empty() {
        EstimateValue::Null
    } else {
        json(pairs)
    }
}

/// Number of values of a replicate in each bucket of the whole; for `cdf` cumulative.
fn counts_in(part: &WeightedHistogram, uppers: &[f64], aggregate: &AggregateFunction) -> Vec<f64> {
    let mut column = vec![0.0; uppers.len()];
    for (bucket, count) in part.buckets() {
        // A replicate may have finer buckets than the whole.
        column[uppers
            .partition_point(|u| *u < bucket.upper)
            .min(uppers.len() - 1)] += count;
    }
    if *aggregate == AggregateFunction::Cdf {
        (1..column.len()).for_each(|i| column[i] += column[i - 1]);
    }
    column
}

impl EstimateValue {
    /// The value as floating point.
    #[must_use]
    pub fn real(&self) -> Option<f64> {
        match self {
            EstimateValue::Integer(v) => Some(*v as f64),
            EstimateValue::Real(v) => Some(*v),
            EstimateValue::Null | EstimateValue::Json(_) => None,
        }
    }

    /// The value as a ranking weight.
    #[must_use]
    pub fn weight(&self) -> RankWeight {
        match self {
            EstimateValue::Integer(v) => RankWeight::Integer(*v),
            EstimateValue::Real(v) => RankWeight::Real(*v),
            EstimateValue::Null | EstimateValue::Json(_) => RankWeight::Null,
        }
    }
}

impl From<Option<f64>> for EstimateValue {
    fn from(value: Option<f64>) -> EstimateValue {
        value.map_or(EstimateValue::Null, EstimateValue::Real)
    }
}

impl ConfidenceInterval {
    fn map(self, f: impl Fn(f64) -> f64) -> ConfidenceInterval {
        let finite = |v: f64| Some(f(v)).filter(|v| v.is_finite());
        ConfidenceInterval {
            low: self.low.and_then(finite),
            high: self.high.and_then(finite),
        }
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

fn spread_interval(whole: Option<f64>, parts: &[SampleMoments], p: f64) -> ConfidenceInterval {
    let Some(whole) = whole else {
        return ConfidenceInterval::default();
    };
    let n: Vec<f64> = parts.iter().map(|m| m.n).collect();
    let without = |left_out: usize| {
        let mut rest = SampleMoments::default();
        parts
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != left_out)
            .for_each(|(_, m)| rest.merge(m));
        rest.stddev()
    };
    let without: Option<Vec<f64>> = (0..parts.len())
        .filter(|i| n[*i] > 0.0)
        .map(without)
        .collect();
    let Some(without) = without else {
        return ConfidenceInterval::default();
    };
    sampling::deviation(whole, &without, &n, p)
}

/// The values at the ends of the proportion's interval.
fn quantile_interval(
    q: f64,
    whole: &WeightedHistogram,
    parts: &[WeightedHistogram],
    p: f64,
) -> ConfidenceInterval {
    let n: Vec<f64> = parts.iter().map(WeightedHistogram::n).collect();
    let Some(at) = whole.bucket_at(q) else {
        return ConfidenceInterval::default();
    };
    let up_to: Vec<f64> = parts
        .iter()
        .map(|part| part.count_up_to(at.upper))
        .collect();
    let shares = sampling::shares_around_quantile(q, &up_to, &n, p);
    ConfidenceInterval {
        low: shares.low.and_then(|q| whole.bucket_at(q)).map(|b| b.lower),
        high: shares
            .high
            .and_then(|q| whole.bucket_at(q))
            .map(|b| b.upper),
    }
}

fn json(pairs: impl Iterator<Item = (f64, Option<f64>)>) -> EstimateValue {
    let mut text = String::from("[");
    for (upper, number) in pairs {
        let comma = if text.len() > 1 { "," } else { "" };
        let written = match number {
            Some(number) => write!(text, "{comma}[{upper},{number}]"),
            None => write!(text, "{comma}[{upper},null]"),
        };
        written.expect("writing to memory cannot fail");
    }
    text.push(']');
    EstimateValue::Json(text)
}
