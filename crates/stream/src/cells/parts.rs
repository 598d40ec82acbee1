//! The columns of one accumulator in a row of cells.

use std::cell::Cell;

use super::column::CellColumnReader;
use crate::partial::MalformedPartial;
use crate::partial::bytes::TUPLES_MAX;

/// Maximum sum stored in a row. Some thousands of such sums can be added within 38 digits.
pub const DECIMAL_MAX: u128 = 10u128.pow(34);

/// An entry row of an accumulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccumulatorEntry {
    /// Position of the entry.
    pub at: i64,
    /// Bucket resolution in bits.
    pub bits: Option<u8>,
    /// Number of values in the entry.
    pub n: u64,
    /// The minimum of these values; `None` if it is not needed for the overall minimum.
    pub min: Option<f64>,
    /// The maximum of these values.
    pub max: Option<f64>,
}

/// The columns of an accumulator in one row.
#[derive(Clone, Copy)]
pub struct AccumulatorParts<'a> {
    /// Columns of the accumulator.
    pub columns: &'a [CellColumnReader<'a>],
    /// Row number.
    pub row: usize,
    /// The largest count computed from rows so far.
    pub largest: &'a Cell<u64>,
}

/// The columns of an entry row.
#[derive(Clone, Copy)]
pub struct EntryParts<'a> {
    /// Columns of the accumulator.
    pub parts: AccumulatorParts<'a>,
    /// Position of the entry: a bucket.
    pub at: Option<i64>,
    /// Bucket resolution in bits.
    pub bits: Option<i64>,
    /// Hash of a distinct value.
    pub hash: Option<u64>,
    /// Number of values in the entry.
    pub n: u64,
}

/// Converts a count; null is 0.
pub fn count(value: Option<i64>) -> Result<u64, MalformedPartial> {
    let count = u64::try_from(value.unwrap_or(0))
        .ok()
        .filter(|n| *n <= TUPLES_MAX);
    count.ok_or(MalformedPartial::Invalid("a count"))
}

impl AccumulatorParts<'_> {
    /// The count in `column`; null is 0.
    pub fn count(&self, column: usize) -> Result<u64, MalformedPartial> {
        count(self.columns[column].long(self.row))
    }

    /// Adds `count` to `held`.
    pub fn add(&self, held: &mut u64, count: u64) -> Result<(), MalformedPartial> {
        let sum = held.checked_add(count).filter(|sum| *sum <= TUPLES_MAX);
        *held = sum.ok_or(MalformedPartial::Invalid("a count"))?;
        self.largest.set(self.largest.get().max(*held));
        Ok(())
    }

    /// The integer in `column`.
    pub fn long(&self, column: usize) -> Option<i64> {
        self.columns[column].long(self.row)
    }

    /// The floating point number in `column`; NaN is rejected.
    pub fn double(&self, column: usize) -> Result<Option<f64>, MalformedPartial> {
        match self.columns[column].double(self.row) {
            Some(value) if value.is_nan() => Err(MalformedPartial::Invalid("a value")),
            value => Ok(value),
        }
    }

    /// The sum of `n` values of at most 64 bits each. Null with `n` above 0 is rejected: the sum exceeded 38 digits.
    pub fn sum(&self, column: usize, n: u64) -> Result<i128, MalformedPartial> {
        let sum = self.columns[column]
            .decimal(self.row)
            .or((n == 0).then_some(0));
        let sum = sum.filter(|sum| sum.unsigned_abs() <= u128::from(n) << 64);
        sum.ok_or(MalformedPartial::Invalid("a sum"))
    }

    /// The sum of the squares of `n` such values.
    pub fn squares(&self, column: usize, n: u64) -> Result<u128, MalformedPartial> {
        let sum = self.columns[column]
            .decimal(self.row)
            .or((n == 0).then_some(0));
        let sum = sum
            .and_then(|sum| u128::try_from(sum).ok())
            .filter(|sum| n > 0 || *sum == 0);
        sum.ok_or(MalformedPartial::Invalid("a sum"))
    }

    /// The sum of `n` floating point values.
    pub fn real_sum(&self, column: usize, n: u64) -> Result<f64, MalformedPartial> {
        let sum = self.columns[column]
            .double(self.row)
            .or((n == 0).then_some(0.0));
        sum.ok_or(MalformedPartial::Invalid("a sum"))
    }
}
