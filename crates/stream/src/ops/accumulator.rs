//! The operations that every kind of accumulator has.

use crate::cells::{AccumulatorEntry, AccumulatorParts, CellColumnBuilder, EntryParts};
use crate::partial::bytes::{MalformedPartial, PartialReader};

/// Aggregation state in cells.
pub trait Accumulator {
    /// Size of a cell without its heap memory.
    const CELL_BYTES: usize;
    /// Sets the number of cells; new cells are empty.
    fn resize(&mut self, cells: usize);
    /// Clears a cell.
    fn reset(&mut self, cell: usize);
    /// Merges cell `other` of `from` into `cell`; returns the growth of heap memory in bytes.
    fn merge(&mut self, cell: usize, from: &Self, other: usize) -> usize;
    /// Whether a cell is empty.
    fn is_empty(&self, cell: usize) -> bool;
    /// Appends the encoding of these cells.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>);
    /// Decodes these cells, which must be empty. Rejects counts above `tuples`.
    fn read(
        &mut self,
        cells: &[usize],
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial>;
    /// Whether its cells can be converted to rows of [`crate::cells`].
    fn are_rows(&self) -> bool {
        true
    }
    /// Writes these cells to its columns of base rows, beginning at row `first`.
    fn put(&self, _cells: &[usize], _first: usize, _columns: &mut [CellColumnBuilder]) {}
    /// Adds the values of a base row.
    fn take(&mut self, _cell: usize, _row: AccumulatorParts<'_>) -> Result<(), MalformedPartial> {
        Ok(())
    }
    /// Appends the entries of a cell that become entry rows.
    fn entries(&self, _cell: usize, _out: &mut Vec<AccumulatorEntry>) {}
    /// Adds the values of an entry row; returns the growth of heap memory in bytes.
    fn take_entry(
        &mut self,
        _cell: usize,
        _entry: EntryParts<'_>,
    ) -> Result<usize, MalformedPartial> {
        Err(MalformedPartial::Invalid("an accumulator"))
    }
}
