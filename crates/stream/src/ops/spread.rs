//! The sample standard deviation. For integers from exact sums in 192 bits, so that the result does not depend on the
//! distribution of tuples over workers; for floating point with Welford's update and Chan's merge, which avoid
//! cancellation.

use crate::cells::{AccumulatorParts, CellColumnBuilder, DECIMAL_MAX};
use crate::column::{ColumnValues, ColumnView};
use crate::ops::accumulator::Accumulator;
use crate::partial::bytes::{MalformedPartial, PartialReader, put, put_real, put_signed};
use crate::rows::{CellSelection, RowSet, each_valid};

/// Count, sum, and sum of squares of integers, by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntegerSpreads(Vec<PowerSums>);

/// The sums of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PowerSums {
    n: u64,
    sum: i128,
    squares: WideUnsigned,
}

/// A 192-bit unsigned integer with wrapping sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WideUnsigned {
    low: u128,
    high: u64,
}

/// Count, mean, and squared deviations, by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RealSpreads(Vec<SampleMoments>);

/// The moments of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleMoments {
    /// Number of values.
    pub n: f64,
    /// Mean.
    pub mean: f64,
    /// Sum of squared deviations from the mean.
    pub squares: f64,
}

impl IntegerSpreads {
    /// Adds the values of a column.
    pub fn update(&mut self, cells: CellSelection<'_>, rows: RowSet<'_>, column: ColumnView<'_>) {
        let mine = &mut self.0;
        match column.values {
            ColumnValues::U64(v) => {
                each_valid(cells, rows, column.nulls, |cell, row| {
                    mine[cell].add(v[row], false)
                });
            }
            ColumnValues::I64(v) => each_valid(cells, rows, column.nulls, |cell, row| {
                mine[cell].add(v[row].unsigned_abs(), v[row] < 0);
            }),
            _ => unreachable!("integer spreads are made for integer columns"),
        }
    }

    /// The moments of a cell.
    #[must_use]
    pub fn moments(&self, cell: usize) -> SampleMoments {
        self.0[cell].moments()
    }
}

impl Accumulator for IntegerSpreads {
    const CELL_BYTES: usize = size_of::<PowerSums>();

    fn resize(&mut self, cells: usize) {
        self.0.resize(cells, PowerSums::default());
    }

    fn reset(&mut self, cell: usize) {
        self.0[cell] = PowerSums::default();
    }

    fn merge(&mut self, cell: usize, from: &IntegerSpreads, other: usize) -> usize {
        let mine = &mut self.0[cell];
        let theirs = &from.0[other];
        mine.n += theirs.n;
        mine.sum += theirs.sum;
        mine.squares = mine.squares.plus(theirs.squares);
        0
    }

    fn is_empty(&self, cell: usize) -> bool {
        self.0[cell].n == 0
    }

    /// Encoding per cell: number of values, sum, and lower and upper part of the sum of squares.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        for PowerSums { n, sum, squares } in cells.iter().map(|cell| &self.0[*cell]) {
            put(out, *n);
            put_signed(out, *sum);
            put(out, squares.low);
            put(out, squares.high);
        }
    }

    fn read(
        &mut self,
        cells: &[usize],
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        for &cell in cells {
            let n = from.up_to(tuples, "a count")?;
            let sum = from.wide_signed()?;
            let squares = WideUnsigned {
                low: from.wide()?,
                high: from.number()?,
            };
            if sum.unsigned_abs() > u128::from(n) << 64 || squares.high > n {
                return Err(MalformedPartial::Invalid("a sum"));
            }
            self.0[cell] = PowerSums { n, sum, squares };
        }
        Ok(())
    }

    fn are_rows(&self) -> bool {
        let fits = |of: &PowerSums| {
            of.sum.unsigned_abs().max(of.squares.low) <= DECIMAL_MAX && of.squares.high == 0
        };
        self.0.iter().all(fits)
    }

    fn put(&self, cells: &[usize], first: usize, columns: &mut [CellColumnBuilder]) {
        let of_cells = (first..).zip(cells.iter().map(|cell| self.0[*cell]));
        for (row, PowerSums { n, sum, squares }) in of_cells.filter(|(_, of)| of.n > 0) {
            columns[0].long(row, n as i64);
            columns[1].decimal(row, sum);
            columns[2].decimal(row, squares.low as i128);
        }
    }

    fn take(&mut self, cell: usize, row: AccumulatorParts<'_>) -> Result<(), MalformedPartial> {
        let n = row.count(0)?;
        let sum = row.sum(1, n)?;
        let squares = row.squares(2, n)?;
        let mine = &mut self.0[cell];
        row.add(&mut mine.n, n)?;
        mine.sum += sum;
        mine.squares = mine.squares.plus(WideUnsigned {
            low: squares,
            high: 0,
        });
        Ok(())
    }
}

impl PowerSums {
    #[inline]
    fn add(&mut self, magnitude: u64, is_negative: bool) {
        let magnitude = u128::from(magnitude);
        self.n += 1;
        self.sum += if is_negative {
            -(magnitude as i128)
        } else {
            magnitude as i128
        };
        self.squares = self.squares.plus(WideUnsigned {
            low: magnitude * magnitude,
            high: 0,
        });
    }

    /// Deviations from the integer nearest to the mean, Σ(x − m)² = Σx² − m·(Σx + r) with r = Σx − n·m, are exact.
    /// The mean differs from m by at most a half, so that subtracting r²/n cancels at most half of the sum.
    fn moments(&self) -> SampleMoments {
        if self.n == 0 {
            return SampleMoments::default();
        }
        let n = i128::from(self.n);
        let near = (self.sum + n / 2).div_euclid(n);
        let rest = self.sum - n * near;
        let product =
            WideUnsigned::product(near.unsigned_abs() as u64, (self.sum + rest).unsigned_abs());
        let is_negative = (near < 0) != (self.sum + rest < 0);
        let off = if is_negative {
            self.squares.plus(product)
        } else {
            self.squares.minus(product)
        };
        let n = self.n as f64;
        let rest = rest as f64;
        SampleMoments {
            n,
            mean: near as f64 + rest / n,
            squares: off.to_f64() - rest * (rest / n),
        }
    }
}

impl WideUnsigned {
    #[inline]
    fn plus(self, other: WideUnsigned) -> WideUnsigned {
        let (low, carry) = self.low.overflowing_add(other.low);
        WideUnsigned {
            low,
            high: self
                .high
                .wrapping_add(other.high)
                .wrapping_add(u64::from(carry)),
        }
    }

    fn minus(self, other: WideUnsigned) -> WideUnsigned {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        WideUnsigned {
            low,
            high: self
                .high
                .wrapping_sub(other.high)
                .wrapping_sub(u64::from(borrow)),
        }
    }

    fn product(a: u64, b: u128) -> WideUnsigned {
        let near = u128::from(a) * (b & u128::from(u64::MAX));
        let far = u128::from(a) * (b >> 64);
        WideUnsigned { low: near, high: 0 }.plus(WideUnsigned {
            low: far << 64,
            high: (far >> 64) as u64,
        })
    }

    fn to_f64(self) -> f64 {
        self.high as f64 * f64::powi(2.0, 128) + self.low as f64
    }
}

impl RealSpreads {
    /// Adds the values of a column.
    pub fn update(&mut self, cells: CellSelection<'_>, rows: RowSet<'_>, column: ColumnView<'_>) {
        let ColumnValues::F64(v) = column.values else {
            unreachable!("real spreads are made for real columns")
        };
        each_valid(cells, rows, column.nulls, |cell, row| {
            self.0[cell].add(v[row])
        });
    }

    /// The moments of a cell.
    #[must_use]
    pub fn moments(&self, cell: usize) -> SampleMoments {
        self.0[cell]
    }
}

impl Accumulator for RealSpreads {
    const CELL_BYTES: usize = size_of::<SampleMoments>();

    fn resize(&mut self, cells: usize) {
        self.0.resize(cells, SampleMoments::default());
    }

    fn reset(&mut self, cell: usize) {
        self.0[cell] = SampleMoments::default();
    }

    fn merge(&mut self, cell: usize, from: &RealSpreads, other: usize) -> usize {
        self.0[cell].merge(&from.0[other]);
        0
    }

    fn is_empty(&self, cell: usize) -> bool {
        self.0[cell].n == 0.0
    }

    /// Encoding per cell: number of values, mean, and sum of squared deviations.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        for SampleMoments { n, mean, squares } in cells.iter().map(|cell| &self.0[*cell]) {
            put(out, *n as u64);
            put_real(out, *mean);
            put_real(out, *squares);
        }
    }

    fn read(
        &mut self,
        cells: &[usize],
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        for &cell in cells {
            let n = from.up_to(tuples, "a count")? as f64;
            self.0[cell] = SampleMoments {
                n,
                mean: from.real()?,
                squares: from.real()?,
            };
        }
        Ok(())
    }

    /// The merge is not a sum.
    fn are_rows(&self) -> bool {
        false
    }
}

impl SampleMoments {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.n += 1.0;
        let off = value - self.mean;
        self.mean += off / self.n;
        self.squares += off * (value - self.mean);
    }

    /// Merges the values of another cell.
    pub fn merge(&mut self, other: &SampleMoments) {
        if other.n == 0.0 {
            return;
        }
        let n = self.n + other.n;
        let off = other.mean - self.mean;
        self.mean += off * (other.n / n);
        self.squares += other.squares + off * off * (self.n * other.n / n);
        self.n = n;
    }

    /// Multiplies the weight of all values.
    #[must_use]
    pub fn weighted(&self, weight: f64) -> SampleMoments {
        SampleMoments {
            n: self.n * weight,
            mean: self.mean,
            squares: self.squares * weight,
        }
    }

    /// √(squares / (n − 1)); `None` for fewer than two values.
    #[must_use]
    pub fn stddev(&self) -> Option<f64> {
        (self.n >= 2.0).then(|| (self.squares / (self.n - 1.0)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Deviations relative to a nearby integer, so that the reference result does not cancel.
    fn slow(values: &[i128]) -> f64 {
        let n = values.len() as f64;
        let origin = values[0];
        let off: Vec<f64> = values.iter().map(|v| (v - origin) as f64).collect();
        let mean = off.iter().sum::<f64>() / n;
        off.iter().map(|v| (v - mean).powi(2)).sum()
    }

    proptest! {
        #[test]
        fn integers_do_not_cancel(
            base in prop_oneof![Just(0i64), any::<i64>()],
            off in prop::collection::vec(prop_oneof![0i64..3, -1000i64..1000], 2..200),
        ) {
            let values: Vec<i64> = off.iter().map(|v| base.saturating_add(*v)).collect();
            let mut powers = PowerSums::default();
            values.iter().for_each(|v| powers.add(v.unsigned_abs(), *v < 0));
            let wide: Vec<i128> = values.iter().map(|v| i128::from(*v)).collect();
            let got = powers.moments().squares;
            let truth = slow(&wide);
            prop_assert!((got - truth).abs() <= 1e-12 * truth, "{} is not {}", got, truth);
        }
    }

    #[test]
    fn the_largest_integers_fit() {
        let mut powers = PowerSums::default();
        (0..1000).for_each(|i| powers.add(if i % 2 == 0 { u64::MAX } else { 0 }, false));
        let half = u64::MAX as f64 / 2.0;
        assert!((powers.moments().squares / (1000.0 * half * half) - 1.0).abs() < 1e-12);
        let mut powers = PowerSums::default();
        (0..1000).for_each(|i| powers.add(1 << 63, i % 2 == 0));
        assert!((powers.moments().squares / (1000.0 * f64::powi(2.0, 126)) - 1.0).abs() < 1e-12);
    }
}
