//! A distribution in exponential buckets, as OpenTelemetry and Prometheus's native histograms have them: bucket `i` holds values above
//! 2^((i-1)/2^scale) up to 2^(i/2^scale). Made of `hist`'s buckets, whose width is at most 1/64 of their values: the finest scale used
//! here, 5, has buckets of 2.2 %.

use std::collections::BTreeMap;

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    /// How fine it is.
    pub scale: i32,
    /// Values of 0.
    pub zero: u64,
    /// Of values above 0, by index.
    pub positive: BTreeMap<i32, u64>,
    /// Of values below 0, by the index of their magnitude.
    pub negative: BTreeMap<i32, u64>,
    /// Their sum, within 1 %.
    pub sum: f64,
}

/// The finest scale.
const SCALE: i32 = 5;
/// From the first bucket to the last; beyond, neighbours are put together.
const BUCKETS_MAX: usize = 320;

impl Exponential {
    /// Without values.
    pub fn new() -> Exponential {
        Exponential { scale: SCALE, zero: 0, positive: BTreeMap::new(), negative: BTreeMap::new(), sum: 0.0 }
    }

    /// Of `hist`'s text, `[[upper bound, count], …]`, its bounds times `unit`; `None`, where it is none.
    pub fn parse(hist: &str, unit: f64) -> Option<Exponential> {
        let mut all = Exponential::new();
        for bucket in serde_json::from_str::<Vec<(f64, f64)>>(hist).ok()? {
            let (upper, count) = bucket;
            all.add(upper * unit, if count >= 0.5 { count.round() as u64 } else { 0 });
        }
        all.fit();
        Some(all)
    }

    /// Adds one value.
    pub fn record(&mut self, value: f64) {
        self.add(value, 1);
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
        let place = value.abs().log2() * f64::from(1 << SCALE);
        // A bound that is a power of two up to rounding belongs below it.
        let index = (place - 1e-9).ceil() as i32;
        *buckets.entry(index).or_default() += count;
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.zero + self.positive.values().sum::<u64>() + self.negative.values().sum::<u64>()
    }

    /// Adds another's values; as fine as the coarser of the two.
    pub fn merge(&mut self, other: &Exponential) {
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
            ends.map_or(0, |((first, _), (last, _))| (i64::from(*last) - i64::from(*first)) as usize + 1)
        };
        while width(&self.positive).max(width(&self.negative)) > BUCKETS_MAX {
            self.coarsen();
        }
    }

    /// Puts two neighbours together each.
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

    /// How many values are at most 2^`exponent`; exact up to the buckets' own width.
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

    /// Whether a value is in the bucket's bounds.
    fn bounds(index: i32, scale: i32) -> (f64, f64) {
        let width = 2f64.powi(-scale);
        (((f64::from(index) - 1.0) * width).exp2(), (f64::from(index) * width).exp2())
    }

    #[test]
    fn powers_of_two_are_the_last_of_their_bucket() {
        for (value, index) in [(1.0, 0), (2.0, 32), (4.0, 64), (0.5, -32), (1.01, 1), (1.99, 32), (2.01, 33)]
        {
            let text = format!("[[{value:?},3]]");
            let parsed = Exponential::parse(&text, 1.0).expect("buckets");
            assert_eq!(parsed.positive, BTreeMap::from([(index, 3)]), "{value}");
        }
        assert_eq!(Exponential::parse("{}", 1.0), None);
        let mixed = Exponential::parse("[[-2,1],[0,2],[8,4]]", 0.5).expect("buckets");
        assert_eq!((mixed.count(), mixed.zero, mixed.sum), (7, 2, 15.0));
        assert_eq!((mixed.up_to(1), mixed.up_to(2), mixed.up_to(-9)), (3, 7, 3));
    }

    proptest! {
        #[test]
        fn every_value_is_in_its_bucket_however_coarse(
            values in prop::collection::vec((1e-9f64..1e9, 1u64..9), 1..200), others in prop::collection::vec(1e-3f64..1e3, 0..9),
        ) {
            let text = |values: &[(f64, u64)]| serde_json::to_string(values).expect("JSON");
            let mut all = Exponential::parse(&text(&values), 1.0).expect("buckets");
            let others: Vec<_> = others.into_iter().map(|value| (value, 1)).collect();
            all.merge(&Exponential::parse(&text(&others), 1.0).expect("buckets"));
            let mut values: Vec<_> = values.into_iter().chain(others).collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            prop_assert_eq!(all.count(), values.iter().map(|v| v.1).sum::<u64>());
            // In order, the values fill the buckets one after the other.
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
