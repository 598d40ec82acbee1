//! Sums of values: for integers exact in 128 bits (2^63 tuples cannot overflow them), for floating point with
//! Neumaier's compensation. A mean is a sum divided by its count.

use crate::cells::{AccumulatorParts, CellColumnBuilder, DECIMAL_MAX};
use crate::column::{ColumnValues, ColumnView};
use crate::ops::accumulator::Accumulator;
use crate::partial::bytes::{MalformedPartial, PartialReader, put, put_real, put_signed};
use crate::rows::{CellSelection, RowSet, each_valid};

/// Sums and counts of integers, by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntegerSums(Vec<IntegerSum>);

/// A sum in two halves and the number of values: three adjacent words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct IntegerSum {
    low: u64,
    high: i64,
    n: u64,
}

/// Sums and counts of floating point values, by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RealSums {
    sums: Vec<CompensatedSum>,
    n: Vec<u64>,
}

/// A sum and its accumulated rounding error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl IntegerSums {
    /// Adds the values of a column.
    pub fn update(&mut self, cells: CellSelection<'_>, rows: RowSet<'_>, column: ColumnView<'_>) {
        let mine = &mut self.0;
        match column.values {
            ColumnValues::U64(v) => {
                each_valid(cells, rows, column.nulls, |cell, row| {
                    mine[cell].add(v[row], 0, 1)
                });
            }
            ColumnValues::I64(v) => each_valid(cells, rows, column.nulls, |cell, row| {
                mine[cell].add(v[row] as u64, v[row] >> 63, 1);
            }),
            _ => unreachable!("integer sums are made for integer columns"),
        }
    }

    /// The sum of a cell.
    #[must_use]
    pub fn sum(&self, cell: usize) -> i128 {
        let IntegerSum { low, high, .. } = self.0[cell];
        (i128::from(high) << 64) + i128::from(low)
    }

    /// Number of values in a cell.
    #[must_use]
    pub fn n(&self, cell: usize) -> u64 {
        self.0[cell].n
    }
}

impl IntegerSum {
    #[inline]
    fn add(&mut self, low: u64, high: i64, n: u64) {
        let (sum, carry) = self.low.overflowing_add(low);
        self.low = sum;
        self.high = self.high.wrapping_add(high).wrapping_add(i64::from(carry));
        self.n += n;
    }
}

impl Accumulator for IntegerSums {
    const CELL_BYTES: usize = size_of::<IntegerSum>();

    fn resize(&mut self, cells: usize) {
        self.0.resize(cells, IntegerSum::default());
    }

    fn reset(&mut self, cell: usize) {
        self.0[cell] = IntegerSum::default();
    }

    fn merge(&mut self, cell: usize, from: &IntegerSums, other: usize) -> usize {
        let IntegerSum { low, high, n } = from.0[other];
        self.0[cell].add(low, high, n);
        0
    }

    fn is_empty(&self, cell: usize) -> bool {
        self.0[cell].n == 0
    }

    /// Encoding per cell: number of values and sum.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        for &cell in cells {
            put(out, self.n(cell));
            put_signed(out, self.sum(cell));
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
            if sum.unsigned_abs() > u128::from(n) << 64 {
                return Err(MalformedPartial::Invalid("a sum"));
            }
            self.0[cell] = IntegerSum {
                low: sum as u64,
                high: (sum >> 64) as i64,
                n,
            };
        }
        Ok(())
    }

    fn are_rows(&self) -> bool {
        (0..self.0.len()).all(|cell| self.sum(cell).unsigned_abs() <= DECIMAL_MAX)
    }

    fn put(&self, cells: &[usize], first: usize, columns: &mut [CellColumnBuilder]) {
        for (row, &cell) in (first..).zip(cells).filter(|(_, cell)| self.n(**cell) > 0) {
            columns[0].long(row, self.n(cell) as i64);
            columns[1].decimal(row, self.sum(cell));
        }
    }

    fn take(&mut self, cell: usize, row: AccumulatorParts<'_>) -> Result<(), MalformedPartial> {
        let n = row.count(0)?;
        let sum = row.sum(1, n)?;
        let mine = &mut self.0[cell];
        mine.add(sum as u64, (sum >> 64) as i64, 0);
        row.add(&mut mine.n, n)
    }
}

impl RealSums {
    /// Adds the values of a column.
    pub fn update(&mut self, cells: CellSelection<'_>, rows: RowSet<'_>, column: ColumnView<'_>) {
        let ColumnValues::F64(v) = column.values else {
            unreachable!("real sums are made for real columns")
        };
        each_valid(cells, rows, column.nulls, |cell, row| {
            self.sums[cell].add(v[row]);
            self.n[cell] += 1;
        });
    }

    /// The sum of a cell.
    #[must_use]
    pub fn sum(&self, cell: usize) -> f64 {
        self.sums[cell].sum + self.sums[cell].lost
    }

    /// Number of values in a cell.
    #[must_use]
    pub fn n(&self, cell: usize) -> u64 {
        self.n[cell]
    }
}

impl Accumulator for RealSums {
    const CELL_BYTES: usize = size_of::<CompensatedSum>() + size_of::<u64>();

    fn resize(&mut self, cells: usize) {
        self.sums.resize(cells, CompensatedSum::default());
        self.n.resize(cells, 0);
    }

    fn reset(&mut self, cell: usize) {
        self.sums[cell] = CompensatedSum::default();
        self.n[cell] = 0;
    }

    fn merge(&mut self, cell: usize, from: &RealSums, other: usize) -> usize {
        self.sums[cell].add(from.sums[other].sum);
        self.sums[cell].lost += from.sums[other].lost;
        self.n[cell] += from.n[other];
        0
    }

    fn is_empty(&self, cell: usize) -> bool {
        self.n[cell] == 0
    }

    /// Encoding per cell: number of values, sum, and rounding error.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        for &cell in cells {
            put(out, self.n[cell]);
            put_real(out, self.sums[cell].sum);
            put_real(out, self.sums[cell].lost);
        }
    }

    fn read(
        &mut self,
        cells: &[usize],
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        for &cell in cells {
            self.n[cell] = from.up_to(tuples, "a count")?;
            self.sums[cell] = CompensatedSum {
                sum: from.real()?,
                lost: from.real()?,
            };
        }
        Ok(())
    }

    fn put(&self, cells: &[usize], first: usize, columns: &mut [CellColumnBuilder]) {
        for (row, &cell) in (first..).zip(cells).filter(|(_, cell)| self.n[**cell] > 0) {
            columns[0].long(row, self.n[cell] as i64);
            columns[1].double(row, self.sum(cell));
        }
    }

    fn take(&mut self, cell: usize, row: AccumulatorParts<'_>) -> Result<(), MalformedPartial> {
        let n = row.count(0)?;
        self.sums[cell].add(row.real_sum(1, n)?);
        row.add(&mut self.n[cell], n)
    }
}

impl CompensatedSum {
    #[inline]
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }
}
