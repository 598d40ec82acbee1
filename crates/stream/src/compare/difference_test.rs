//! Decides whether two numbers differ by more than noise.
//!
//! Tuples are not independent: requests come in bursts, and slow minutes contain many slow requests. The variance of
//! a number is therefore estimated from the differences and the autocorrelation of the slices, and is at least the
//! variance of independent tuples:
//!
//! - counts are Poisson counts with the variance multiplied by φ ≥ 1, estimated from the slices; two counts are
//!   compared by testing one of them against their sum;
//! - proportions use Newcombe's interval with the effective number of independent tuples;
//! - a quantile is treated as a proportion: of tuples below the quantile of both periods combined;
//! - means and sums use Welch's test with the variance of their slices.

use super::interval::{shares_differ, student, welch};
use super::measure::{ComparisonMeasure, SLICES};
use super::period_engine::{PeriodSlice, PeriodSlices};

/// Minimum tuples per period for judging a mean.
const MEAN_MIN: f64 = 5.0;
/// Minimum tuples of both periods together for judging a sum.
const SUM_MIN: f64 = 10.0;

/// Maximum lag of the autocovariance, in slices.
const LAGS: usize = 4;

/// Judges the results of one pipeline.
pub struct DifferenceTest<'a> {
    sides: [&'a PeriodSlices; 2],
    /// Length of each period.
    seconds: [f64; 2],
    confidence: f64,
    /// Totals over all groups, by side and column position.
    totals: [Vec<SliceSeries>; 2],
}

/// One number per slice.
type SliceSeries = [f64; SLICES];

impl<'a> DifferenceTest<'a> {
    pub fn new(
        own: &'a PeriodSlices,
        baseline: &'a PeriodSlices,
        seconds: [f64; 2],
        confidence: f64,
    ) -> DifferenceTest<'a> {
        let sides = [own, baseline];
        DifferenceTest {
            sides,
            seconds,
            confidence,
            totals: sides.map(totals),
        }
    }

    /// Whether a group's number differs; `None` if there is too little data.
    pub fn differs(&self, group: &[u8], measure: ComparisonMeasure) -> Option<bool> {
        if self.sides.iter().any(|side| side.is_overflowed) {
            return None;
        }
        match measure {
            ComparisonMeasure::Unjudged => None,
            ComparisonMeasure::Count => self.counts(self.series(group, 0)),
            ComparisonMeasure::Total { sum } => {
                self.sums(self.series(group, sum), self.series(group, 0))
            }
            ComparisonMeasure::Mean { sum, known, stddev } => self.means(group, sum, known, stddev),
            ComparisonMeasure::Proportion { sum, known } => {
                self.shares(self.series(group, sum), self.known(group, known))
            }
            ComparisonMeasure::Quantile { hist, q } => self.quantiles(group, hist, q),
            ComparisonMeasure::ShareOfTuples => self.shares(self.series(group, 0), self.total(0)),
            ComparisonMeasure::ShareOfValues { sum } => self.parts(group, sum),
        }
    }

    /// The numbers at a column position, for both sides; 0 where missing.
    fn series(&self, group: &[u8], place: usize) -> [SliceSeries; 2] {
        self.sides.map(|side| {
            let slices = side.groups.get(group);
            std::array::from_fn(|i| {
                let number = slices.and_then(|slices| slices[i].numbers.get(place).copied());
                number.filter(|number| number.is_finite()).unwrap_or(0.0)
            })
        })
    }

    /// Number of non-null tuples per slice, from the proportion at a column position.
    fn known(&self, group: &[u8], place: usize) -> [SliceSeries; 2] {
        let counts = self.series(group, 0);
        let shares = self.series(group, place);
        [0, 1].map(|side| std::array::from_fn(|i| (counts[side][i] * shares[side][i]).round()))
    }

    fn total(&self, place: usize) -> [SliceSeries; 2] {
        [0, 1].map(|side| {
            self.totals[side]
                .get(place)
                .copied()
                .unwrap_or([0.0; SLICES])
        })
    }

    fn counts(&self, series: [SliceSeries; 2]) -> Option<bool> {
        let n = series.map(|s| sum(&s));
        let all = n[0] + n[1];
        if all <= 0.0 || self.seconds.iter().any(|s| *s <= 0.0) {
            return None;
        }
        let inflated = |i: usize| {
            if n[i] > 0.0 {
                (variance_of_sum(&series[i]) / n[i]).max(1.0)
            } else {
                1.0
            }
        };
        let factor = (inflated(0) * n[0] + inflated(1) * n[1]) / all;
        let own = n[0] / factor;
        let all = all / factor;
        let expected = self.seconds[0] / (self.seconds[0] + self.seconds[1]);
        let away = ((own - all * expected).abs() - 0.5).max(0.0);
        Some(away > self.reach(freedom()) * (all * expected * (1.0 - expected)).sqrt())
    }

    fn sums(&self, series: [SliceSeries; 2], counts: [SliceSeries; 2]) -> Option<bool> {
        let few = sum(&counts[0]) + sum(&counts[1]) < SUM_MIN;
        if few || self.seconds.iter().any(|s| *s <= 0.0) {
            return None;
        }
        let rate = |i: usize| sum(&series[i]) / self.seconds[i];
        let variance = |i: usize| variance_of_sum(&series[i]) / (self.seconds[i] * self.seconds[i]);
        let one = (SLICES - 1) as f64;
        let freedom = welch((variance(0), one), (variance(1), one));
        Some((rate(0) - rate(1)).abs() > self.reach(freedom) * (variance(0) + variance(1)).sqrt())
    }

    fn means(&self, group: &[u8], sum_at: usize, known: usize, stddev: usize) -> Option<bool> {
        let sums = self.series(group, sum_at);
        let known = self.known(group, known);
        let spread = self.series(group, stddev);
        let n = known.map(|s| sum(&s));
        if n.iter().any(|n| *n < MEAN_MIN) {
            return None;
        }
        let mean = [0, 1].map(|side| sum(&sums[side]) / n[side]);
        let variance = [0, 1].map(|side| {
            let independent =
                pooled(&sums[side], &known[side], &spread[side], mean[side]) / n[side];
            variance_of_ratio(&sums[side], &known[side]).max(independent)
        });
        let freedom = n.map(|n| (n - 1.0).min((SLICES - 1) as f64));
        let freedom = welch((variance[0], freedom[0]), (variance[1], freedom[1]));
        Some((mean[0] - mean[1]).abs() > self.reach(freedom) * (variance[0] + variance[1]).sqrt())
    }

    fn shares(&self, trues: [SliceSeries; 2], known: [SliceSeries; 2]) -> Option<bool> {
        let n = known.map(|s| sum(&s));
        if n.iter().any(|n| *n <= 0.0) {
            return None;
        }
        let p = [0, 1].map(|side| (sum(&trues[side]) / n[side]).clamp(0.0, 1.0));
        // Ratio of the observed variance to that of independent tuples.
        let inflated = |side: usize| {
            let independent = p[side] * (1.0 - p[side]) / n[side];
            if independent <= 0.0 {
                return 1.0;
            }
            (variance_of_ratio(&trues[side], &known[side]) / independent).max(1.0)
        };
        let factor = (inflated(0) * n[0] + inflated(1) * n[1]) / (n[0] + n[1]);
        Some(shares_differ(
            (p[0], n[0] / factor),
            (p[1], n[1] / factor),
            self.reach(freedom()),
        ))
    }

    fn quantiles(&self, group: &[u8], hist: usize, q: f64) -> Option<bool> {
        let histograms = |side: usize| {
            let slices = self.sides[side].groups.get(group).into_iter().flatten();
            slices.filter_map(move |slice: &PeriodSlice| slice.histograms.get(hist))
        };
        let mut all: Vec<(f64, f64)> = histograms(0)
            .chain(histograms(1))
            .flatten()
            .copied()
            .collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let wanted = q * all.iter().map(|(_, count)| count).sum::<f64>();
        let mut seen = 0.0;
        let border = all.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        let border = border?.0;
        let of_slices = |side: usize, is_counted: &dyn Fn(f64) -> bool| -> SliceSeries {
            let slices = self.sides[side].groups.get(group);
            std::array::from_fn(|i| {
                let buckets = slices
                    .and_then(|slices| slices[i].histograms.get(hist))
                    .into_iter()
                    .flatten();
                buckets
                    .filter(|(upper, _)| is_counted(*upper))
                    .map(|(_, count)| count)
                    .sum()
            })
        };
        let below = [0, 1].map(|side| of_slices(side, &|upper| upper <= border));
        self.shares(below, [0, 1].map(|side| of_slices(side, &|_| true)))
    }

    /// Compares the group's proportion of a total.
    fn parts(&self, group: &[u8], place: usize) -> Option<bool> {
        let own = self.series(group, place);
        let all = self.total(place);
        let counts = self.series(group, 0);
        let few = sum(&counts[0]) + sum(&counts[1]) < SUM_MIN;
        if few || all.iter().any(|all| sum(all) <= 0.0) {
            return None;
        }
        let part = |side: usize| sum(&own[side]) / sum(&all[side]);
        let variance = [0, 1].map(|side| variance_of_ratio(&own[side], &all[side]));
        let one = (SLICES - 1) as f64;
        let freedom = welch((variance[0], one), (variance[1], one));
        Some((part(0) - part(1)).abs() > self.reach(freedom) * (variance[0] + variance[1]).sqrt())
    }

    fn reach(&self, freedom: f64) -> f64 {
        student(self.confidence, freedom)
    }
}

/// Degrees of freedom of a variance estimated from the slices of both periods.
fn freedom() -> f64 {
    2.0 * (SLICES - 1) as f64
}

fn sum(series: &SliceSeries) -> f64 {
    series.iter().sum()
}

/// The variance of the sum over all slices.
fn variance_of_sum(series: &SliceSeries) -> f64 {
    let mean = sum(series) / SLICES as f64;
    variance(&series.map(|x| x - mean))
}

/// The variance of the ratio of two sums, estimated from the slices.
fn variance_of_ratio(above: &SliceSeries, below: &SliceSeries) -> f64 {
    let all = sum(below);
    let ratio = sum(above) / all;
    variance(&std::array::from_fn(|i| above[i] - ratio * below[i])) / (all * all)
}

/// The variance of a sum, from the deviations of its parts from their mean. Positive autocorrelation, as in a slow
/// phase longer than a slice, increases it (Newey and West's estimator); negative autocorrelation never decreases it.
fn variance(away: &SliceSeries) -> f64 {
    let products = |lag: usize| {
        away.iter()
            .zip(&away[lag..])
            .map(|(a, b)| a * b)
            .sum::<f64>()
    };
    let weighted = |lag: usize| 2.0 * (1.0 - lag as f64 / (LAGS + 1) as f64) * products(lag);
    let alone = products(0);
    let together = alone + (1..=LAGS).map(weighted).sum::<f64>();
    let m = SLICES as f64;
    m / (m - 1.0) * together.max(alone)
}

/// The variance of single values, pooled over the slices.
fn pooled(sums: &SliceSeries, known: &SliceSeries, spread: &SliceSeries, mean: f64) -> f64 {
    let n = sum(known);
    let slices = sums
        .iter()
        .zip(known)
        .zip(spread)
        .filter(|((_, known), _)| **known > 0.0);
    let squares = slices.map(|((sum, known), spread)| {
        let away = sum / known - mean;
        (known - 1.0) * spread * spread + known * away * away
    });
    squares.sum::<f64>() / (n - 1.0)
}

/// Totals over all groups.
fn totals(side: &PeriodSlices) -> Vec<SliceSeries> {
    let mut totals: Vec<SliceSeries> = Vec::new();
    for (i, slice) in side
        .groups
        .values()
        .flat_map(|slices| slices.iter().enumerate())
    {
        for (place, number) in slice
            .numbers
            .iter()
            .enumerate()
            .filter(|(_, number)| number.is_finite())
        {
            if totals.len() <= place {
                totals.resize(place + 1, [0.0; SLICES]);
            }
            totals[place][i] += number;
        }
    }
    totals
}
