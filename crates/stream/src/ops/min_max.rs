//! The minimum or maximum value, in the value's type.

use crate::cells::{AccumulatorParts, CellColumnBuilder};
use crate::column::{ColumnValues, ColumnView};
use crate::ops::accumulator::Accumulator;
use crate::ops::accumulator_spec::ExtremeEnd;
use crate::partial::bytes::{MalformedPartial, PartialReader, put, put_bits, put_real, put_signed};
use crate::rows::{CellSelection, RowSet, each_valid};

/// The extreme value by cell.
#[derive(Clone, Debug, PartialEq)]
pub struct MinMax<T> {
    end: ExtremeEnd,
    /// The neutral element in empty cells.
    values: Vec<T>,
    is_known: Vec<bool>,
}

/// An ordered column type.
pub trait OrderedValue: Copy + PartialOrd {
    /// The smallest value.
    const LEAST: Self;
    /// The largest value.
    const LARGEST: Self;
    /// The values of a column of this type.
    fn of(values: ColumnValues<'_>) -> Option<&[Self]>;
    /// Appends the encoding of a value.
    fn write(self, out: &mut Vec<u8>);
    /// Decodes a value.
    fn read(from: &mut PartialReader<'_>) -> Result<Self, MalformedPartial>;
    /// Sets a row of a cell column.
    fn put(self, row: usize, column: &mut CellColumnBuilder);
    /// The value in a row of cells.
    fn take(row: AccumulatorParts<'_>) -> Result<Option<Self>, MalformedPartial>;
}

impl<T: OrderedValue> MinMax<T> {
    /// Creates an accumulator without cells.
    #[must_use]
    pub fn new(end: ExtremeEnd) -> MinMax<T> {
        MinMax {
            end,
            values: Vec::new(),
            is_known: Vec::new(),
        }
    }

    /// The same extreme, without cells.
    #[must_use]
    pub fn clone_empty(&self) -> MinMax<T> {
        MinMax::new(self.end)
    }

    /// Adds the values of a column.
    pub fn update(&mut self, cells: CellSelection<'_>, rows: RowSet<'_>, column: ColumnView<'_>) {
        let values = T::of(column.values).expect("extremes are made for their column's type");
        let mine = &mut self.values;
        let is_known = &mut self.is_known;
        match self.end {
            ExtremeEnd::Min => each_valid(cells, rows, column.nulls, |cell, row| {
                is_known[cell] = true;
                mine[cell] = lower(mine[cell], values[row]);
            }),
            ExtremeEnd::Max => each_valid(cells, rows, column.nulls, |cell, row| {
                is_known[cell] = true;
                mine[cell] = higher(mine[cell], values[row]);
            }),
        }
    }

    /// The extreme of a cell.
    #[must_use]
    pub fn value(&self, cell: usize) -> Option<T> {
        self.is_known[cell].then(|| self.values[cell])
    }

    fn beyond(&self) -> T {
        if self.end == ExtremeEnd::Min {
            T::LARGEST
        } else {
            T::LEAST
        }
    }
}

impl<T: OrderedValue> Accumulator for MinMax<T> {
    const CELL_BYTES: usize = size_of::<T>() + size_of::<bool>();

    fn resize(&mut self, cells: usize) {
        self.values.resize(cells, self.beyond());
        self.is_known.resize(cells, false);
    }

    fn reset(&mut self, cell: usize) {
        self.values[cell] = self.beyond();
        self.is_known[cell] = false;
    }

    fn merge(&mut self, cell: usize, from: &MinMax<T>, other: usize) -> usize {
        let mine = self.values[cell];
        let theirs = from.values[other];
        self.values[cell] = if self.end == ExtremeEnd::Min {
            lower(mine, theirs)
        } else {
            higher(mine, theirs)
        };
        self.is_known[cell] |= from.is_known[other];
        0
    }

    fn is_empty(&self, cell: usize) -> bool {
        !self.is_known[cell]
    }

    /// Encoding: a bitmap of cells with a value, then the values.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        put_bits(out, cells.iter().map(|cell| self.is_known[*cell]));
        cells
            .iter()
            .filter_map(|cell| self.value(*cell))
            .for_each(|value| value.write(out));
    }

    fn read(
        &mut self,
        cells: &[usize],
        _tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        let is_known = from.bits(cells.len())?;
        for (_, &cell) in cells
            .iter()
            .enumerate()
            .filter(|(place, _)| is_known.get(*place))
        {
            self.values[cell] = T::read(from)?;
            self.is_known[cell] = true;
        }
        Ok(())
    }

    fn put(&self, cells: &[usize], first: usize, columns: &mut [CellColumnBuilder]) {
        for (row, cell) in (first..).zip(cells) {
            self.value(*cell)
                .into_iter()
                .for_each(|value| value.put(row, &mut columns[0]));
        }
    }

    fn take(&mut self, cell: usize, row: AccumulatorParts<'_>) -> Result<(), MalformedPartial> {
        if let Some(value) = T::take(row)? {
            let mine = self.values[cell];
            self.values[cell] = if self.end == ExtremeEnd::Min {
                lower(mine, value)
            } else {
                higher(mine, value)
            };
            self.is_known[cell] = true;
        }
        Ok(())
    }
}

impl OrderedValue for u64 {
    const LEAST: u64 = u64::MIN;
    const LARGEST: u64 = u64::MAX;

    fn of(values: ColumnValues<'_>) -> Option<&[u64]> {
        if let ColumnValues::U64(v) = values {
            Some(v)
        } else {
            None
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        put(out, self);
    }

    fn read(from: &mut PartialReader<'_>) -> Result<u64, MalformedPartial> {
        from.number()
    }

    /// The top bit is flipped, so that signed order equals unsigned order.
    fn put(self, row: usize, column: &mut CellColumnBuilder) {
        column.long(row, (self ^ 1 << 63) as i64);
    }

    fn take(row: AccumulatorParts<'_>) -> Result<Option<u64>, MalformedPartial> {
        Ok(row.long(0).map(|value| value as u64 ^ 1 << 63))
    }
}

impl OrderedValue for i64 {
    const LEAST: i64 = i64::MIN;
    const LARGEST: i64 = i64::MAX;

    fn of(values: ColumnValues<'_>) -> Option<&[i64]> {
        if let ColumnValues::I64(v) = values {
            Some(v)
        } else {
            None
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        put_signed(out, self);
    }

    fn read(from: &mut PartialReader<'_>) -> Result<i64, MalformedPartial> {
        from.signed()
    }

    fn put(self, row: usize, column: &mut CellColumnBuilder) {
        column.long(row, self);
    }

    fn take(row: AccumulatorParts<'_>) -> Result<Option<i64>, MalformedPartial> {
        Ok(row.long(0))
    }
}

impl OrderedValue for f64 {
    const LEAST: f64 = f64::NEG_INFINITY;
    const LARGEST: f64 = f64::INFINITY;

    fn of(values: ColumnValues<'_>) -> Option<&[f64]> {
        if let ColumnValues::F64(v) = values {
            Some(v)
        } else {
            None
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        put_real(out, self);
    }

    fn read(from: &mut PartialReader<'_>) -> Result<f64, MalformedPartial> {
        Some(from.real()?)
            .filter(|v| !v.is_nan())
            .ok_or(MalformedPartial::Invalid("a value"))
    }

    fn put(self, row: usize, column: &mut CellColumnBuilder) {
        column.double(row, self);
    }

    fn take(row: AccumulatorParts<'_>) -> Result<Option<f64>, MalformedPartial> {
        row.double(0)
    }
}

#[inline]
fn lower<T: PartialOrd>(held: T, value: T) -> T {
    if value < held { value } else { held }
}

#[inline]
fn higher<T: PartialOrd>(held: T, value: T) -> T {
    if value > held { value } else { held }
}
