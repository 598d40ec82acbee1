//! The sample standard deviation: Welford's update and Chan's merge, which do not cancel.

use crate::column::{ColumnView, Values};
use crate::ops::aggregate::{Accumulator, each_valid};

/// Count, mean and squared deviations by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spreads(Vec<Moments>);

/// Of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Values.
    pub n: f64,
    /// Their mean.
    pub mean: f64,
    /// Sum of the squared deviations from it.
    pub squares: f64,
}

impl Spreads {
    /// Takes the column's values.
    pub fn update(&mut self, cells: &[u32], rows: &[u32], column: ColumnView<'_>) {
        let mine = &mut self.0;
        match column.values {
            Values::U64(v) => {
                each_valid(cells, rows, column.nulls, |cell, row| mine[cell].add(v[row] as f64))
            }
            Values::I64(v) => {
                each_valid(cells, rows, column.nulls, |cell, row| mine[cell].add(v[row] as f64))
            }
            Values::F64(v) => each_valid(cells, rows, column.nulls, |cell, row| mine[cell].add(v[row])),
            _ => unreachable!("values are numbers"),
        }
    }

    /// Of a cell.
    #[must_use]
    pub fn moments(&self, cell: usize) -> Moments {
        self.0[cell]
    }
}

impl Accumulator for Spreads {
    fn resize(&mut self, cells: usize) {
        self.0.resize(cells, Moments::default());
    }

    fn reset(&mut self, cell: usize) {
        self.0[cell] = Moments::default();
    }

    fn merge(&mut self, cell: usize, from: &Spreads, other: usize) -> usize {
        self.0[cell].merge(&from.0[other]);
        0
    }
}

impl Moments {
    /// Takes one value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.n += 1.0;
        let off = value - self.mean;
        self.mean += off / self.n;
        self.squares += off * (value - self.mean);
    }

    /// Takes the values of another cell.
    pub fn merge(&mut self, other: &Moments) {
        if other.n == 0.0 {
            return;
        }
        let n = self.n + other.n;
        let off = other.mean - self.mean;
        self.mean += off * (other.n / n);
        self.squares += other.squares + off * off * (self.n * other.n / n);
        self.n = n;
    }

    /// √(squares / (n − 1)); `None` below two values.
    #[must_use]
    pub fn stddev(&self) -> Option<f64> {
        (self.n >= 2.0).then(|| (self.squares / (self.n - 1.0)).sqrt())
    }
}
