//! The least or the largest value, of the value's own type.

use crate::column::{ColumnView, Values};
use crate::ops::aggregate::{Accumulator, each_valid};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The least.
    Min,
    /// The largest.
    Max,
}

/// The extreme value by cell; `None` before the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Extremes<T> {
    end: End,
    values: Vec<Option<T>>,
}

/// A type that columns hold and that has an order.
pub trait Ordered: Copy + PartialOrd {
    /// The values of a column of this type.
    fn of(values: Values<'_>) -> Option<&[Self]>;
}

impl<T: Ordered> Extremes<T> {
    /// No cell yet.
    #[must_use]
    pub fn new(end: End) -> Extremes<T> {
        Extremes { end, values: Vec::new() }
    }

    /// The same end, without cells.
    #[must_use]
    pub fn clone_empty(&self) -> Extremes<T> {
        Extremes::new(self.end)
    }

    /// Takes the column's values.
    pub fn update(&mut self, cells: &[u32], rows: &[u32], column: ColumnView<'_>) {
        let values = T::of(column.values).expect("extremes are made for their column's type");
        let mine = &mut self.values;
        match self.end {
            End::Min => {
                each_valid(cells, rows, column.nulls, |cell, row| lower(&mut mine[cell], values[row]))
            }
            End::Max => {
                each_valid(cells, rows, column.nulls, |cell, row| raise(&mut mine[cell], values[row]))
            }
        }
    }

    /// The extreme of a cell.
    #[must_use]
    pub fn value(&self, cell: usize) -> Option<T> {
        self.values[cell]
    }
}

impl<T: Ordered> Accumulator for Extremes<T> {
    fn resize(&mut self, cells: usize) {
        self.values.resize(cells, None);
    }

    fn reset(&mut self, cell: usize) {
        self.values[cell] = None;
    }

    fn merge(&mut self, cell: usize, from: &Extremes<T>, other: usize) -> usize {
        if let Some(value) = from.values[other] {
            match self.end {
                End::Min => lower(&mut self.values[cell], value),
                End::Max => raise(&mut self.values[cell], value),
            }
        }
        0
    }
}

impl Ordered for u64 {
    fn of(values: Values<'_>) -> Option<&[u64]> {
        if let Values::U64(v) = values { Some(v) } else { None }
    }
}

impl Ordered for i64 {
    fn of(values: Values<'_>) -> Option<&[i64]> {
        if let Values::I64(v) = values { Some(v) } else { None }
    }
}

impl Ordered for f64 {
    fn of(values: Values<'_>) -> Option<&[f64]> {
        if let Values::F64(v) = values { Some(v) } else { None }
    }
}

#[inline]
fn lower<T: PartialOrd>(slot: &mut Option<T>, value: T) {
    if slot.as_ref().is_none_or(|held| value < *held) {
        *slot = Some(value);
    }
}

#[inline]
fn raise<T: PartialOrd>(slot: &mut Option<T>, value: T) {
    if slot.as_ref().is_none_or(|held| value > *held) {
        *slot = Some(value);
    }
}
