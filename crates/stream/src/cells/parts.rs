//! What one accumulator has of a row of cells.

use std::cell::Cell;

use super::column::Column;
use crate::partial::Malformed;
use crate::partial::bytes::TUPLES_MAX;

/// Sums beyond this make no rows, so that some thousands of them can be added in 38 digits.
pub const DECIMAL_MAX: u128 = 10u128.pow(34);

/// A row of its own, of what an accumulator holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Position of the entry.
    pub at: i64,
    /// How fine the buckets are.
    pub bits: Option<u8>,
    /// How many values it stands for.
    pub n: u64,
    /// The least of them, unless it is no less than the others' in any case.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// What a row has of an accumulator.
#[derive(Clone, Copy)]
pub struct PartsOf<'a> {
    /// Its columns.
    pub columns: &'a [Column<'a>],
    /// Which row.
    pub row: usize,
    /// The largest count that was made of rows.
    pub largest: &'a Cell<u64>,
}

/// What an entry row has.
#[derive(Clone, Copy)]
pub struct EntryOf<'a> {
    /// Its accumulator's.
    pub parts: PartsOf<'a>,
    /// Which entry: a bucket.
    pub at: Option<i64>,
    /// How fine it is.
    pub bits: Option<i64>,
    /// The hash of a different value.
    pub hash: Option<u64>,
    /// How many it stands for.
    pub n: u64,
}

/// A count of a row; null is none.
pub fn count(value: Option<i64>) -> Result<u64, Malformed> {
    let count = u64::try_from(value.unwrap_or(0)).ok().filter(|n| *n <= TUPLES_MAX);
    count.ok_or(Malformed::Invalid("a count"))
}

impl PartsOf<'_> {
    /// A count; null is none.
    pub fn count(&self, column: usize) -> Result<u64, Malformed> {
        count(self.columns[column].long(self.row))
    }

    /// Adds a count to `held`.
    pub fn add(&self, held: &mut u64, count: u64) -> Result<(), Malformed> {
        let sum = held.checked_add(count).filter(|sum| *sum <= TUPLES_MAX);
        *held = sum.ok_or(Malformed::Invalid("a count"))?;
        self.largest.set(self.largest.get().max(*held));
        Ok(())
    }

    /// A whole number.
    pub fn long(&self, column: usize) -> Option<i64> {
        self.columns[column].long(self.row)
    }

    /// A real number; NaN is rejected.
    pub fn double(&self, column: usize) -> Result<Option<f64>, Malformed> {
        match self.columns[column].double(self.row) {
            Some(value) if value.is_nan() => Err(Malformed::Invalid("a value")),
            value => Ok(value),
        }
    }

    /// The sum of `n` values that cannot be beyond 64 bits; null of some is one that left its digits.
    pub fn sum(&self, column: usize, n: u64) -> Result<i128, Malformed> {
        let sum = self.columns[column].decimal(self.row).or((n == 0).then_some(0));
        let sum = sum.filter(|sum| sum.unsigned_abs() <= u128::from(n) << 64);
        sum.ok_or(Malformed::Invalid("a sum"))
    }

    /// The sum of the squares of `n` such values.
    pub fn squares(&self, column: usize, n: u64) -> Result<u128, Malformed> {
        let sum = self.columns[column].decimal(self.row).or((n == 0).then_some(0));
        let sum = sum.and_then(|sum| u128::try_from(sum).ok()).filter(|sum| n > 0 || *sum == 0);
        sum.ok_or(Malformed::Invalid("a sum"))
    }

    /// The sum of `n` real values.
    pub fn real_sum(&self, column: usize, n: u64) -> Result<f64, Malformed> {
        let sum = self.columns[column].double(self.row).or((n == 0).then_some(0.0));
        sum.ok_or(Malformed::Invalid("a sum"))
    }
}
