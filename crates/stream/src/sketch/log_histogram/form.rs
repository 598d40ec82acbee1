//! Serialization of histograms.

use super::{BITS_MIN, BucketStore, LogHistogram, REAL_MAX_LOG2, REAL_MIN_LOG2, edges};
use crate::cells::{AccumulatorEntry, EntryParts};
use crate::partial::bytes::{MalformedPartial, PartialReader, put, put_len, put_real, put_signed};

impl LogHistogram {
    /// Encoding: b; number of non-empty buckets; the first, then for each the number of empty buckets since the
    /// previous one; the counts; the minimum and maximum value.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let list: Vec<(i32, u64)> = self.store.iter().collect();
        out.push(self.bits);
        put_len(out, list.len());
        let Some((first, _)) = list.first() else {
            return;
        };
        put_signed(out, *first);
        list.windows(2)
            .for_each(|pair| put(out, (pair[1].0 - pair[0].0 - 1) as u32));
        list.iter().for_each(|(_, count)| put(out, *count));
        put_real(out, self.min);
        put_real(out, self.max);
    }

    /// Decodes a histogram of this kind, not finer, with at most `n_max` values.
    pub(crate) fn read(
        &self,
        n_max: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<LogHistogram, MalformedPartial> {
        let bits = from.byte()?;
        if !(BITS_MIN..=self.bits).contains(&bits) {
            return Err(MalformedPartial::Invalid("a histogram"));
        }
        let mut read = LogHistogram {
            bits,
            real: self.real,
            ..LogHistogram::of_integers()
        };
        let len = from.len()?;
        if len == 0 {
            return Ok(read);
        }
        from.spend(len * size_of::<(i32, u64)>())?;
        let mut list: Vec<(i32, u64)> = Vec::with_capacity(len);
        let mut bucket = from.signed()?;
        for place in 0..len {
            if place > 0 {
                bucket = bucket
                    .saturating_add(1)
                    .saturating_add_unsigned(from.number()?);
            }
            if bucket.unsigned_abs() > read.last_bucket() {
                return Err(MalformedPartial::Invalid("a histogram"));
            }
            list.push((bucket as i32, 0));
        }
        for (_, count) in &mut list {
            *count = from.number()?;
            read.n = read
                .n
                .checked_add(*count)
                .filter(|n| *count > 0 && *n <= n_max)
                .ok_or(MalformedPartial::Invalid("a count"))?;
        }
        read.min = from.real()?;
        read.max = from.real()?;
        let is_range = read.min <= read.max;
        if !is_range {
            return Err(MalformedPartial::Invalid("a least value"));
        }
        read.ends = (list[0].0, list[len - 1].0);
        read.store = BucketStore::sparse(list);
        Ok(read)
    }

    /// Converts its buckets to entry rows of cells.
    pub(crate) fn entries(&self, out: &mut Vec<AccumulatorEntry>) {
        let first = out.len();
        let bucket = |(at, n): (i32, u64)| AccumulatorEntry {
            at: at.into(),
            bits: Some(self.bits),
            n,
            ..AccumulatorEntry::default()
        };
        out.extend(self.store.iter().map(bucket));
        if let [first, ..] = &mut out[first..] {
            first.min = Some(self.min);
        }
        if let [.., last] = &mut out[first..] {
            last.max = Some(self.max);
        }
    }

    /// Creates a histogram of this kind, not finer, from an entry row.
    pub(crate) fn of_entry(&self, entry: EntryParts<'_>) -> Result<LogHistogram, MalformedPartial> {
        let malformed = MalformedPartial::Invalid("a histogram");
        let bits = entry.bits.and_then(|bits| u8::try_from(bits).ok());
        let bits = bits
            .filter(|bits| (BITS_MIN..=self.bits).contains(bits))
            .ok_or(malformed.clone())?;
        let one = LogHistogram {
            bits,
            real: self.real,
            ..LogHistogram::of_integers()
        };
        let bucket = entry
            .at
            .filter(|at| at.unsigned_abs() <= one.last_bucket())
            .ok_or(malformed)? as i32;
        let (lower, upper) = edges(bucket, bits, self.real);
        // Values counted as zero may lie outside the bounds of their bucket.
        let (min, max) = match (entry.parts.double(0)?, entry.parts.double(1)?) {
            (None, None) => (lower, upper),
            (Some(min), None) => (min, upper.max(min)),
            (None, Some(max)) => (lower.min(max), max),
            // After a merge of two histograms, the bucket may be the first of one and the last of the other, with
            // minimum above maximum. Other rows then carry the overall extremes, and any values within the bucket are
            // valid here.
            (Some(a), Some(b)) => (a.min(b), a.max(b)),
        };
        if entry.n == 0 {
            return Err(MalformedPartial::Invalid("a count"));
        }
        let store = BucketStore::sparse(vec![(bucket, entry.n)]);
        Ok(LogHistogram {
            n: entry.n,
            min,
            max,
            ends: (bucket, bucket),
            store,
            ..one
        })
    }

    /// Number of the last bucket.
    fn last_bucket(&self) -> u64 {
        if self.real {
            ((REAL_MAX_LOG2 - REAL_MIN_LOG2) as u64) << self.bits
        } else {
            ((65 - u64::from(self.bits)) << self.bits) - 1
        }
    }
}
