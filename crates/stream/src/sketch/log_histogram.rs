//! Counts by logarithmic bucket: quantiles within 1/128 (0.78 %) of the true value, lossless merges.
//!
//! Every power of two is divided into 2^b equal buckets, initially with b = 6 (as in HdrHistogram). A bucket from
//! `lo` to `hi` has hi − lo ≤ lo / 2^b, and its estimate 2·lo·hi / (lo + hi) differs by at most (hi − lo) / (hi + lo)
//! < 1 / 2^(b+1) from any value in it. Integers below 2^(b+1) have a bucket each and are exact. Negative values
//! mirror positive ones. A floating point number smaller than 2^−32 in magnitude counts as zero, one of at least 2^64
//! as the last bucket. There are at most 2·96·2^b + 1 buckets. [`LogHistogram::coarsen`] reduces b and thus memory.

mod form;

use std::borrow::Cow;

/// b of a new histogram.
pub const BITS: u8 = 6;
/// b of a histogram with buckets that are small compared with an interval.
pub const FINE_BITS: u8 = 9;
/// The smallest b for [`LogHistogram::coarsen`].
pub const BITS_MIN: u8 = 3;
/// log2 of the smallest non-zero floating point value.
const REAL_MIN_LOG2: i32 = -32;
/// log2 of the end of the last floating point bucket.
const REAL_MAX_LOG2: i32 = 64;
/// Number of buckets allowed in a table regardless of the number of values.
const TABLE_MIN: usize = 64;
/// Maximum unsorted values.
const FRESH_MAX: usize = 32;

/// A histogram with its minimum and maximum value.
///
/// ```
/// let mut histogram = stream::sketch::LogHistogram::of_integers();
/// (1..=1000).for_each(|ms| { histogram.add_u64(ms * 1_000_000); });
/// let p95 = histogram.quantile(0.95).unwrap();
/// assert!((p95 / 950e6 - 1.0).abs() < 1.0 / 128.0);
/// assert_eq!(histogram.quantile(1.0), Some(1e9));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LogHistogram {
    real: bool,
    bits: u8,
    n: u64,
    min: f64,
    max: f64,
    /// The buckets of the minimum and maximum value.
    ends: (i32, i32),
    store: BucketStore,
}

/// A non-empty bucket. All its values are between `lower` and `upper` (for floating point values, `upper` is
/// exclusive).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogBucket {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
    /// Number of values.
    pub count: u64,
}

#[derive(Clone, Debug)]
enum BucketStore {
    /// Buckets with their counts, ascending, and the buckets of recent values, unsorted: inserting each of them would
    /// move half of the list.
    Sparse {
        list: Vec<(i32, u64)>,
        fresh: Vec<i32>,
    },
    /// A table of counts; larger counts require the list.
    Dense { first: i32, counts: Vec<u32> },
}

impl PartialEq for BucketStore {
    fn eq(&self, other: &BucketStore) -> bool {
        self.iter().eq(other.iter())
    }
}

impl LogHistogram {
    /// Creates a histogram of integers.
    #[must_use]
    pub fn of_integers() -> LogHistogram {
        LogHistogram {
            real: false,
            bits: BITS,
            n: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            ends: (i32::MAX, i32::MIN),
            store: BucketStore::sparse(Vec::new()),
        }
    }

    /// Creates a histogram of floating point numbers.
    #[must_use]
    pub fn of_reals() -> LogHistogram {
        LogHistogram {
            real: true,
            ..LogHistogram::of_integers()
        }
    }

    /// Sets b.
    #[must_use]
    pub fn with_bits(self, bits: u8) -> LogHistogram {
        LogHistogram { bits, ..self }
    }

    /// Adds an unsigned integer; returns the growth of the histogram in bytes.
    #[inline]
    pub fn add_u64(&mut self, value: u64) -> usize {
        self.add_at(integer_bucket(value, self.bits), || value as f64)
    }

    /// Adds a signed integer; returns the growth of the histogram in bytes.
    #[inline]
    pub fn add_i64(&mut self, value: i64) -> usize {
        let bucket = integer_bucket(value.unsigned_abs(), self.bits);
        self.add_at(if value < 0 { -bucket } else { bucket }, || value as f64)
    }

    /// Adds a floating point number; returns the growth of the histogram in bytes.
    #[inline]
    pub fn add_f64(&mut self, value: f64) -> usize {
        let bucket = real_bucket(value.abs(), self.bits);
        self.add_at(if value < 0.0 { -bucket } else { bucket }, || value)
    }

    /// Merges another histogram of the same kind, at the coarser resolution of the two.
    pub fn merge(&mut self, other: &LogHistogram) -> usize {
        debug_assert_eq!(self.real, other.real);
        let before = self.bytes();
        self.coarsen(other.bits);
        for (bucket, count) in other.store.iter() {
            let bucket = rebucket(bucket, other.bits, self.bits, self.real);
            self.n += count;
            self.ends = (self.ends.0.min(bucket), self.ends.1.max(bucket));
            self.store.add(bucket, count, self.n);
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.bytes().saturating_sub(before)
    }

    /// Reduces b to `bits`, if it is larger.
    pub fn coarsen(&mut self, bits: u8) {
        if bits >= self.bits {
            return;
        }
        let mut coarse = LogHistogram {
            bits,
            ..LogHistogram::of_integers()
        };
        coarse.real = self.real;
        coarse.merge(self);
        *self = coarse;
    }

    /// The resolution b.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Number of values.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The bound of [`LogHistogram::quantile`]'s relative error: 1 / 2^(b+1).
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        0.5 / f64::from(1u32 << self.bits)
    }

    /// The value of rank ⌈q·n⌉ (at least 1) in ascending order, within the relative error; minimum and maximum are
    /// exact. `None` for an empty histogram.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = rank_of(q, self.n)?;
        if rank == 1 {
            return Some(self.min);
        }
        if rank == self.n {
            return Some(self.max);
        }
        let bucket = self.bucket_of_rank(rank)?;
        Some(estimate(bucket).clamp(self.min, self.max))
    }

    /// The bucket with the value of this rank (1 to n).
    #[must_use]
    pub fn bucket_of_rank(&self, rank: u64) -> Option<LogBucket> {
        let mut seen = 0;
        self.buckets().find(|b| {
            seen += b.count;
            seen >= rank
        })
    }

    /// Number of values in buckets that end at or below `upper`; exact if `upper` is the end of a bucket.
    #[must_use]
    pub fn count_up_to(&self, upper: f64) -> u64 {
        self.buckets()
            .take_while(|b| b.upper <= upper)
            .map(|b| b.count)
            .sum()
    }

    /// The minimum and maximum value.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.n > 0).then_some((self.min, self.max))
    }

    /// The non-empty buckets, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = LogBucket> + '_ {
        self.store.iter().map(|(bucket, count)| {
            let (lower, upper) = edges(bucket, self.bits, self.real);
            LogBucket {
                lower,
                upper,
                count,
            }
        })
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.store {
            BucketStore::Sparse { list, fresh } => {
                list.capacity() * size_of::<(i32, u64)>() + fresh.capacity() * size_of::<i32>()
            }
            BucketStore::Dense { counts, .. } => counts.capacity() * size_of::<u32>(),
        }
    }

    #[inline]
    fn add_at(&mut self, bucket: i32, value: impl Fn() -> f64) -> usize {
        self.n += 1;
        if bucket <= self.ends.0 || bucket >= self.ends.1 {
            self.ends = (self.ends.0.min(bucket), self.ends.1.max(bucket));
            self.min = self.min.min(value());
            self.max = self.max.max(value());
        }
        if let BucketStore::Dense { first, counts } = &mut self.store
            && let Some(count) = counts.get_mut(bucket.wrapping_sub(*first) as u32 as usize)
            && *count < u32::MAX
        {
            *count += 1;
            return 0;
        }
        self.add_slowly(bucket)
    }

    #[inline(never)]
    fn add_slowly(&mut self, bucket: i32) -> usize {
        let before = self.bytes();
        self.store.add(bucket, 1, self.n);
        self.bytes().saturating_sub(before)
    }
}

impl BucketStore {
    /// Adds to a bucket of a histogram with `n` values.
    fn add(&mut self, bucket: i32, count: u64, n: u64) {
        if let BucketStore::Dense { first, counts } = self {
            if reach(first, counts, bucket, n)
                && let held = &mut counts[(bucket - *first) as usize]
                && let Ok(sum) = u32::try_from(u64::from(*held) + count)
            {
                *held = sum;
                return;
            }
            *self = BucketStore::sparse(self.iter().collect());
        }
        let BucketStore::Sparse { list, fresh } = self else {
            return;
        };
        if count == 1 {
            fresh.push(bucket);
            if fresh.len() < FRESH_MAX {
                return;
            }
            *list = settled(list, fresh);
            fresh.clear();
        } else {
            match list.binary_search_by_key(&bucket, |(b, _)| *b) {
                Ok(i) => list[i].1 += count,
                Err(i) => list.insert(i, (bucket, count)),
            }
        }
        self.become_dense_if_worth_it(n);
    }

    fn sparse(list: Vec<(i32, u64)>) -> BucketStore {
        BucketStore::Sparse {
            list,
            fresh: Vec::new(),
        }
    }

    /// A table costs 4 bytes per bucket of its range; a list costs 16 bytes per non-empty bucket and a search per
    /// value. The table is used as soon as there are as many values as buckets.
    fn become_dense_if_worth_it(&mut self, n: u64) {
        let BucketStore::Sparse { list, fresh } = self else {
            return;
        };
        if !fresh.is_empty() {
            return;
        }
        let Some((first, _)) = list.first() else {
            return;
        };
        let Some((last, _)) = list.last() else { return };
        let span = (last - first) as usize + 1;
        if span > 4 * list.len() && span as u64 > n {
            return;
        }
        let first = *first;
        let mut counts = vec![0; span];
        for (bucket, count) in list {
            let Ok(count) = u32::try_from(*count) else {
                return;
            };
            counts[(*bucket - first) as usize] = count;
        }
        *self = BucketStore::Dense { first, counts };
    }

    fn iter(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        let (list, first, counts) = match self {
            BucketStore::Sparse { list, fresh } if fresh.is_empty() => {
                (Cow::Borrowed(&list[..]), 0, &[][..])
            }
            BucketStore::Sparse { list, fresh } => (Cow::Owned(settled(list, fresh)), 0, &[][..]),
            BucketStore::Dense { first, counts } => (Cow::Borrowed(&[][..]), *first, &counts[..]),
        };
        let dense = counts
            .iter()
            .enumerate()
            .filter(|(_, c)| **c > 0)
            .map(move |(i, c)| (first + i as i32, u64::from(*c)));
        (0..list.len()).map(move |i| list[i]).chain(dense)
    }
}

/// Merges one value per bucket in `fresh` into `list`.
fn settled(list: &[(i32, u64)], fresh: &[i32]) -> Vec<(i32, u64)> {
    let mut all = Vec::with_capacity(list.len() + fresh.len());
    all.extend_from_slice(list);
    all.extend(fresh.iter().map(|bucket| (*bucket, 1)));
    all.sort_unstable_by_key(|(bucket, _)| *bucket);
    all.dedup_by(|(bucket, count), (before, sum)| {
        let same = bucket == before;
        *sum += if same { *count } else { 0 };
        same
    });
    all
}

/// Extends the table to `bucket` with a margin of one eighth; false if it would be too large for `n` values.
fn reach(first: &mut i32, counts: &mut Vec<u32>, bucket: i32, n: u64) -> bool {
    let missing = if bucket < *first {
        (*first - bucket) as usize
    } else {
        ((bucket - *first) as usize + 1).saturating_sub(counts.len())
    };
    if missing == 0 {
        return true;
    }
    let span = counts.len() + missing;
    if span > TABLE_MIN && span as u64 > 2 * n {
        return false;
    }
    let slack = counts.len() / 8 + 8;
    if bucket < *first {
        counts.splice(0..0, std::iter::repeat_n(0, missing + slack));
        *first -= (missing + slack) as i32;
    } else {
        counts.reserve_exact(missing + slack);
        counts.resize(span + slack, 0);
    }
    true
}

/// ⌈q·n⌉, clamped to 1 to n; tolerates the rounding error of the product.
#[must_use]
pub fn rank_of(q: f64, n: u64) -> Option<u64> {
    let rank = (q * n as f64 - 1e-9).ceil() as u64;
    (n > 0).then(|| rank.clamp(1, n))
}

#[inline]
fn integer_bucket(value: u64, bits: u8) -> i32 {
    // A value below 2^(b+1) is not shifted.
    let bits = u32::from(bits);
    let shift = 63 - bits - (value | 1 << bits).leading_zeros();
    ((shift << bits) as u64 + (value >> shift)) as i32
}

#[inline]
fn real_bucket(magnitude: f64, bits: u8) -> i32 {
    let below_one = ((1023 + REAL_MIN_LOG2) << bits) - 1;
    let last = (REAL_MAX_LOG2 - REAL_MIN_LOG2) << bits;
    let bucket = (magnitude.to_bits() >> (52 - bits)) as i32 - below_one;
    bucket.clamp(0, last)
}

/// The bounds of a bucket.
fn edges(bucket: i32, bits: u8, real: bool) -> (f64, f64) {
    let magnitude = bucket.unsigned_abs();
    let (near, far) = if real {
        real_edges(magnitude, bits)
    } else {
        integer_edges(magnitude, bits)
    };
    if bucket < 0 {
        (-far, -near)
    } else {
        (near, far)
    }
}

fn integer_edges(bucket: u32, bits: u8) -> (f64, f64) {
    let (near, width) = integer_start(bucket, bits);
    (near as f64, (near + (width - 1)) as f64)
}

/// Smallest magnitude of a bucket and the number of its integers.
fn integer_start(bucket: u32, bits: u8) -> (u64, u64) {
    let bits = u32::from(bits);
    if bucket >> (bits + 1) == 0 {
        return (u64::from(bucket), 1);
    }
    let shift = (bucket >> bits) - 1;
    (u64::from(bucket - (shift << bits)) << shift, 1 << shift)
}

fn real_edges(bucket: u32, bits: u8) -> (f64, f64) {
    if bucket == 0 {
        return (0.0, 0.0);
    }
    let below_one = u64::from(((1023 + REAL_MIN_LOG2) as u32) << bits) - 1;
    let start = |bucket: u64| f64::from_bits((bucket + below_one) << (52 - bits));
    (start(u64::from(bucket)), start(u64::from(bucket) + 1))
}

/// The same bucket with a smaller b.
fn rebucket(bucket: i32, from: u8, to: u8, real: bool) -> i32 {
    if from == to {
        return bucket;
    }
    let magnitude = bucket.unsigned_abs();
    let coarse = if real {
        real_bucket(real_edges(magnitude, from).0, to)
    } else {
        integer_bucket(integer_start(magnitude, from).0, to)
    };
    if bucket < 0 { -coarse } else { coarse }
}

/// The value with the smallest worst-case relative error: 2·lo·hi / (lo + hi).
#[must_use]
pub fn estimate(bucket: LogBucket) -> f64 {
    let lo = bucket.lower;
    let hi = bucket.upper;
    if lo == hi {
        lo
    } else {
        lo * (2.0 * (hi / (lo + hi)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(values: &[f64], q: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[rank_of(q, values.len() as u64).expect("some values") as usize - 1]
    }

    fn check(histogram: &LogHistogram, values: &[f64]) {
        for q in [0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
            let truth = exact(values, q);
            let guess = histogram.quantile(q).expect("some values");
            let bound = histogram.relative_error() * truth.abs() + f64::powi(2.0, REAL_MIN_LOG2);
            assert!(
                (guess - truth).abs() <= bound,
                "q={q}: {guess} is not {truth}"
            );
        }
        assert_eq!(
            histogram.buckets().map(|b| b.count).sum::<u64>(),
            values.len() as u64
        );
        for b in histogram.buckets() {
            assert!(b.lower <= b.upper);
        }
    }

    fn signed() -> impl Strategy<Value = i64> {
        (any::<i64>(), 0u32..64).prop_map(|(v, shift)| v >> shift)
    }

    proptest! {
        #[test]
        fn integers_are_within_the_bound(values in prop::collection::vec(signed(), 1..600), split in 0usize..600) {
            let split = split.min(values.len());
            let mut whole = LogHistogram::of_integers();
            let mut left = whole.clone();
            let mut right = whole.clone();
            for (i, v) in values.iter().enumerate() {
                whole.add_i64(*v);
                if i < split { left.add_i64(*v) } else { right.add_i64(*v) };
            }
            let floats: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            check(&whole, &floats);
            left.merge(&right);
            prop_assert_eq!(&left, &whole);
            for bits in [5, 4, 3] {
                left.coarsen(4);
                right.coarsen(bits);
                whole.coarsen(bits);
                check(&whole, &floats);
            }
        }

        #[test]
        fn reals_are_within_the_bound(
            values in prop::collection::vec((any::<i32>(), -50i32..50).prop_map(|(m, e)| f64::from(m) * f64::powi(2.0, e - 20)), 1..300),
        ) {
            let mut h = LogHistogram::of_reals();
            values.iter().for_each(|v| { h.add_f64(*v); });
            check(&h, &values);
            h.coarsen(4);
            check(&h, &values);
        }
    }

    #[test]
    fn counts_beyond_a_word_are_kept() {
        let mut h = LogHistogram::of_integers();
        (0..100).for_each(|v| assert!(h.add_u64(v) < 10_000));
        (0..33).for_each(|_| {
            let other = h.clone();
            h.merge(&other);
        });
        h.add_u64(7);
        assert_eq!(h.n(), (100 << 33) + 1);
        assert_eq!(h.buckets().map(|b| b.count).max(), Some((1 << 33) + 1));
        assert_eq!(h.buckets().count(), 100);
        assert_eq!(h.quantile(0.5), Some(49.0));
    }

    #[test]
    fn extremes_have_buckets() {
        let mut h = LogHistogram::of_integers();
        for v in [0, 1, 127, 128, u64::MAX - 1, u64::MAX] {
            h.add_u64(v);
        }
        h.add_i64(i64::MIN);
        assert_eq!(h.quantile(0.0), Some(i64::MIN as f64));
        assert_eq!(h.quantile(1.0), Some(u64::MAX as f64));
        let mut r = LogHistogram::of_reals();
        for v in [f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, -f64::MAX, -0.0] {
            r.add_f64(v);
        }
        assert_eq!(r.n(), 5);
        assert_eq!(LogHistogram::of_reals().quantile(0.5), None);
    }

    #[test]
    fn integer_buckets_tile_the_line() {
        for bits in [BITS_MIN, 4, 5, BITS] {
            let mut next = 0u64;
            for bucket in 0.. {
                let (start, width) = integer_start(bucket, bits);
                assert_eq!(start, next, "bucket {bucket}");
                assert_eq!(integer_bucket(start, bits), bucket as i32);
                assert_eq!(integer_bucket(start + (width - 1), bits), bucket as i32);
                match start.checked_add(width) {
                    Some(end) => next = end,
                    None => break,
                }
            }
        }
    }
}
