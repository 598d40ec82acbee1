//! Distributions in exponential buckets, as in OpenTelemetry and Prometheus's native histograms: bucket `i` holds
//! values above 2^((i-1)/2^scale) up to 2^(i/2^scale). Converted from the buckets of `hist`, whose width is at most
//! 1/64 of their values: the highest scale used here, 5, has buckets of 2.2 %.

use std::collections::BTreeMap;

/// See the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct ExponentialBuckets {
    /// Scale.
    pub scale: i32,
    /// Number of zero values.
    pub zero: u64,
    /// Counts of positive values, by index.
    pub positive: BTreeMap<i32, u64>,
    /// Counts of negative values, by the index of their magnitude.
    pub negative: BTreeMap<i32, u64>,
    /// Sum of values, within 1 %.
    pub sum: f64,
}

/// Highest scale.
const SCALE: i32 = 5;
/// Maximum range of buckets; beyond, adjacent ones are merged.
const BUCKETS_MAX: usize = 320;

impl ExponentialBuckets {
    /// Without values.
    pub fn new() -> ExponentialBuckets {
        ExponentialBuckets {
            scale: SCALE,
            zero: 0,
            positive: BTreeMap::new(),
            negative: BTreeMap::new(),
            sum: 0.0,
        }
    }

    /// Parses the text of `hist`, `[[upper bound, count], …]`, with bounds multiplied by `unit`; `None` if it is
    /// invalid.
    pub fn parse(hist: &str, unit: f64) -> Option<ExponentialBuckets> {
        let mut all = ExponentialBuckets::new();
        for bucket in serde_json::from_str::<Vec<(f64, f64)>>(hist).ok()? {
            let (upper, count) = bucket;
            all.add(
                upper * unit,
                if count >= 0.5 {
                    count.round() as u64
                } else {
                    0
                },
            );
        }
        all.fit();
        Some(all)
    }

    /// Adds a value.
    pub fn record(&mut self, value: f64) {
        self.add(value, 1);
        self.fit();
    }

    fn add(&mut self, value: f64, count: u64) {
        if count == 0 || !value.is_finite() {
            return;
        }
        self.sum += value * count as f64;
        let buckets = match value {
            v if v > 0.0 => &mut self.positive,
            v if v < 0.0 => &mut self.negative,
            _ => {
                self.zero += count;
                return;
            }
        };
        let place = value.abs().log2() * 2f64.powi(self.scale);
        // A bound equal to a power of two except for rounding is included in the bucket.
        let index = (place - 1e-9).ceil() as i32;
        *buckets.entry(index).or_default() += count;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.zero + self.positive.values().sum::<u64>() + self.negative.values().sum::<u64>()
    }

    /// Merges another histogram; the result has the lower scale of the two.
    pub fn merge(&mut self, other: &ExponentialBuckets) {
        let mut other = other.clone();
        while self.scale > other.scale {
            self.coarsen();
        }
        while other.scale > self.scale {
            other.coarsen();
        }
        self.zero += other.zero;
        self.sum += other.sum;
        for (index, count) in other.positive {
            *self.positive.entry(index).or_default() += count;
        }
        for (index, count) in other.negative {
            *self.negative.entry(index).or_default() += count;
        }
        self.fit();
    }

    fn fit(&mut self) {
        let width = |buckets: &BTreeMap<i32, u64>| {
            let ends = buckets.first_key_value().zip(buckets.last_key_value());
            ends.map_or(0, |((first, _), (last, _))| {
                (i64::from(*last) - i64::from(*first)) as usize + 1
            })
        };
        while width(&self.positive).max(width(&self.negative)) > BUCKETS_MAX {
            self.coarsen();
        }
    }

    /// Merges adjacent buckets.
    fn coarsen(&mut self) {
        let halved = |buckets: &BTreeMap<i32, u64>| {
            let mut half = BTreeMap::new();
            for (index, count) in buckets {
                *half.entry((index + 1).div_euclid(2)).or_default() += count;
            }
            half
        };
        self.positive = halved(&self.positive);
        self.negative = halved(&self.negative);
        self.scale -= 1;
    }

    /// Number of values of at most 2^`exponent`; exact except for the buckets' width.
    pub fn up_to(&self, exponent: i32) -> u64 {
        let last = match self.scale {
            scale if scale >= 0 => exponent << scale,
            scale => exponent >> -scale,
        };
        let below: u64 = self.positive.range(..=last).map(|(_, count)| count).sum();
        below + self.zero + self.negative.values().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bounds of a bucket.
    fn bounds(index: i32, scale: i32) -> (f64, f64) {
        let width = 2f64.powi(-scale);
        (
            ((f64::from(index) - 1.0) * width).exp2(),
            (f64::from(index) * width).exp2(),
        )
    }

    #[test]
    fn powers_of_two_are_the_last_of_their_bucket() {
        for (value, index) in [
            (1.0, 0),
            (2.0, 32),
            (4.0, 64),
            (0.5, -32),
            (1.01, 1),
            (1.99, 32),
            (2.01, 33),
        ] {
            let text = format!("[[{value:?},3]]");
            let parsed = ExponentialBuckets::parse(&text, 1.0).expect("buckets");
            assert_eq!(parsed.positive, BTreeMap::from([(index, 3)]), "{value}");
        }
        assert_eq!(ExponentialBuckets::parse("{}", 1.0), None);
        let mixed = ExponentialBuckets::parse("[[-2,1],[0,2],[8,4]]", 0.5).expect("buckets");
        assert_eq!((mixed.count(), mixed.zero, mixed.sum), (7, 2, 15.0));
        assert_eq!((mixed.up_to(1), mixed.up_to(2), mixed.up_to(-9)), (3, 7, 3));
    }

    proptest! {
        #[test]
        fn values_are_in_their_buckets_at_any_scale(
            values in prop::collection::vec((1e-9f64..1e9, 1u64..9), 1..200), others in prop::collection::vec(1e-3f64..1e3, 0..9),
        ) {
            let text = |values: &[(f64, u64)]| serde_json::to_string(values).expect("JSON");
            let mut all = ExponentialBuckets::parse(&text(&values), 1.0).expect("buckets");
            let others: Vec<_> = others.into_iter().map(|value| (value, 1)).collect();
            all.merge(&ExponentialBuckets::parse(&text(&others), 1.0).expect("buckets"));
            let mut values: Vec<_> = values.into_iter().chain(others).collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            prop_assert_eq!(all.count(), values.iter().map(|v| v.1).sum::<u64>());
            // Sorted values fill the buckets in order.
            let mut left = values.into_iter();
            let mut current = left.next();
            for (index, count) in &all.positive {
                let (low, high) = bounds(*index, all.scale);
                let mut room = *count;
                while room > 0 {
                    let (value, n) = current.expect("a value for each count");
                    prop_assert!(value > low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9), "{value} in {low}..{high}");
                    room -= n;
                    current = left.next();
                }
            }
            prop_assert!(all.positive.len() <= BUCKETS_MAX);
        }
    }
}
