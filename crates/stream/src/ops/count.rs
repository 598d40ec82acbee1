//! Counts tuples, including those with a null value.

use crate::cells::{AccumulatorParts, CellColumnBuilder};
use crate::ops::accumulator::Accumulator;
use crate::partial::bytes::{MalformedPartial, PartialReader, put};
use crate::rows::{CellSelection, RowSet};

/// Number of tuples by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TupleCounts(Vec<u64>);

impl TupleCounts {
    /// Counts one tuple per row.
    pub fn update(&mut self, cells: CellSelection<'_>, rows: RowSet<'_>) {
        match cells {
            CellSelection::One(cell) => self.0[cell] += rows.len() as u64,
            CellSelection::Each(cells) => cells.iter().for_each(|cell| self.0[*cell as usize] += 1),
        }
    }

    /// The count of a cell.
    #[must_use]
    pub fn count(&self, cell: usize) -> u64 {
        self.0[cell]
    }
}

impl Accumulator for TupleCounts {
    const CELL_BYTES: usize = size_of::<u64>();

    fn resize(&mut self, cells: usize) {
        self.0.resize(cells, 0);
    }

    fn reset(&mut self, cell: usize) {
        self.0[cell] = 0;
    }

    fn merge(&mut self, cell: usize, from: &TupleCounts, other: usize) -> usize {
        self.0[cell] += from.0[other];
        0
    }

    fn is_empty(&self, cell: usize) -> bool {
        self.0[cell] == 0
    }

    /// One number per cell.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        cells.iter().for_each(|cell| put(out, self.0[*cell]));
    }

    fn read(
        &mut self,
        cells: &[usize],
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        for cell in cells {
            self.0[*cell] = from.up_to(tuples, "a count")?;
        }
        Ok(())
    }

    fn put(&self, cells: &[usize], first: usize, columns: &mut [CellColumnBuilder]) {
        let some = (first..).zip(cells).filter(|(_, cell)| self.0[**cell] > 0);
        some.for_each(|(row, cell)| columns[0].long(row, self.0[*cell] as i64));
    }

    fn take(&mut self, cell: usize, row: AccumulatorParts<'_>) -> Result<(), MalformedPartial> {
        row.add(&mut self.0[cell], row.count(0)?)
    }
}
