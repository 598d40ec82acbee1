//! The weighted combination of several histograms, from which distributions are computed for tuples with different
//! sampling rates. A single histogram with weight 1 keeps its own buckets.

use std::borrow::Cow;

use crate::sketch::LogHistogram;
use crate::sketch::log_histogram::{LogBucket, estimate};

/// Non-empty buckets, ascending.
pub struct WeightedHistogram {
    buckets: Vec<(LogBucket, f64)>,
    n: f64,
    range: Option<(f64, f64)>,
    relative_error: f64,
}

impl WeightedHistogram {
    /// Combines histograms at the coarsest resolution among them.
    #[must_use]
    pub fn new<'a>(
        histograms: impl Iterator<Item = (f64, &'a LogHistogram)> + Clone,
    ) -> WeightedHistogram {
        let bits = histograms.clone().map(|(_, h)| h.bits()).min().unwrap_or(0);
        let mut buckets = Vec::<(LogBucket, f64)>::new();
        let mut range = None;
        let mut relative_error = 0f64;
        for (weight, histogram) in histograms {
            let mut histogram = Cow::Borrowed(histogram);
            if histogram.bits() > bits {
                histogram.to_mut().coarsen(bits);
            }
            buckets.extend(histogram.buckets().map(|b| (b, weight * b.count as f64)));
            relative_error = relative_error.max(histogram.relative_error());
            let (low, high) = range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
            range = histogram
                .range()
                .map(|(a, b)| (a.min(low), b.max(high)))
                .or(range);
        }
        buckets.sort_by(|a, b| a.0.lower.total_cmp(&b.0.lower));
        buckets.dedup_by(|from, to| {
            let is_same = from.0.lower == to.0.lower && from.0.upper == to.0.upper;
            to.1 += if is_same { from.1 } else { 0.0 };
            is_same
        });
        let n = buckets.iter().map(|(_, count)| count).sum();
        WeightedHistogram {
            buckets,
            n,
            range,
            relative_error,
        }
    }

    /// Weighted number of values.
    #[must_use]
    pub fn n(&self) -> f64 {
        self.n
    }

    /// The error of the coarsest histogram.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.relative_error
    }

    /// The buckets with their weighted number of values.
    #[must_use]
    pub fn buckets(&self) -> &[(LogBucket, f64)] {
        &self.buckets
    }

    /// The bucket of the quantile `q`.
    #[must_use]
    pub fn bucket_at(&self, q: f64) -> Option<LogBucket> {
        let rank = q * self.n - 1e-9;
        let mut seen = 0.0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.or(self.buckets.last()).map(|(bucket, _)| *bucket)
    }

    /// The quantile `q`, within the relative error.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let (min, max) = self.range?;
        let bucket = self.bucket_at(q)?;
        Some(match q {
            _ if q <= 0.0 => min,
            _ if q >= 1.0 => max,
            _ => estimate(bucket).clamp(min, max),
        })
    }

    /// Weighted number of values in buckets that end at or below `upper`.
    #[must_use]
    pub fn count_up_to(&self, upper: f64) -> f64 {
        self.buckets
            .iter()
            .take_while(|(b, _)| b.upper <= upper)
            .map(|(_, count)| count)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: &[u64]) -> LogHistogram {
        let mut histogram = LogHistogram::of_integers();
        values
            .iter()
            .for_each(|value| _ = histogram.add_u64(*value));
        histogram
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(
            (any::<u64>(), 0u32..64).prop_map(|(v, shift)| v >> shift),
            0..60,
        )
    }

    /// Bounds and weights of the buckets.
    fn weights(spectrum: &WeightedHistogram) -> Vec<(f64, f64, f64)> {
        spectrum
            .buckets()
            .iter()
            .map(|(bucket, weight)| (bucket.lower, bucket.upper, *weight))
            .collect()
    }

    const SHARES: [f64; 8] = [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0];

    proptest! {
        #[test]
        fn one_histogram_is_its_own_spectrum(values in values(), bound in any::<u64>()) {
            let histogram = histogram(&values);
            let spectrum = WeightedHistogram::new([(1.0, &histogram)].into_iter());
            prop_assert_eq!(spectrum.n(), values.len() as f64);
            prop_assert_eq!(spectrum.relative_error(), histogram.relative_error());
            prop_assert_eq!(spectrum.count_up_to(bound as f64), histogram.count_up_to(bound as f64) as f64);
            for q in SHARES {
                let ours = spectrum.quantile(q);
                let its_own = histogram.quantile(q);
                // The histogram's minimum and maximum are exact.
                let is_near = |(a, b): (f64, f64)| (a - b).abs() <= 2.0 * histogram.relative_error() * b;
                prop_assert!(ours.is_some() == its_own.is_some() && ours.zip(its_own).is_none_or(is_near), "{}", q);
            }
        }

        /// A histogram of weight 3 equals three copies of it.
        #[test]
        fn weights_are_copies(a in values(), b in values(), coarse in any::<bool>()) {
            let a = histogram(&a);
            let mut b = histogram(&b);
            if coarse {
                b.coarsen(4);
            }
            let weighted = WeightedHistogram::new([(3.0, &a), (1.0, &b)].into_iter());
            let mut merged = b.clone();
            (0..3).for_each(|_| _ = merged.merge(&a));
            let copies = WeightedHistogram::new([(1.0, &merged)].into_iter());
            prop_assert_eq!(weighted.n(), copies.n());
            // Empty histograms do not reduce the resolution.
            if merged.bits() == a.bits().min(b.bits()) {
                prop_assert_eq!(weights(&weighted), weights(&copies));
                for q in SHARES {
                    prop_assert_eq!(weighted.quantile(q), copies.quantile(q), "{}", q);
                }
            }
        }
    }

    #[test]
    fn nothing_has_no_quantiles() {
        for histograms in [vec![], vec![(1.0, histogram(&[]))]] {
            let spectrum =
                WeightedHistogram::new(histograms.iter().map(|(weight, h)| (*weight, h)));
            assert_eq!(
                (
                    spectrum.n(),
                    spectrum.quantile(0.5),
                    spectrum.count_up_to(1e9)
                ),
                (0.0, None, 0.0)
            );
        }
    }
}
