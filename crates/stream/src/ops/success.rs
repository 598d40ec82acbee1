//! The proportion of tuples for which a predicate is true, out of those for which it is not null.

use crate::cells::{AccumulatorParts, CellColumnBuilder};
use crate::ops::accumulator::Accumulator;
use crate::ops::filter::TruthMask;
use crate::partial::bytes::{MalformedPartial, PartialReader, put};
use crate::rows::{CellSelection, RowSet, each_valid};

/// True and known outcomes by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuccessShares {
    yes: Vec<u64>,
    known: Vec<u64>,
}

impl SuccessShares {
    /// Adds the outcomes of `rows`.
    pub fn update(&mut self, cells: CellSelection<'_>, rows: RowSet<'_>, truth: &TruthMask) {
        each_valid(cells, rows, None, |cell, row| {
            let yes = truth.yes.value(row);
            self.yes[cell] += u64::from(yes);
            self.known[cell] += u64::from(yes | truth.no.value(row));
        });
    }

    /// Number of true outcomes.
    #[must_use]
    pub fn yes(&self, cell: usize) -> u64 {
        self.yes[cell]
    }

    /// Number of true and false outcomes.
    #[must_use]
    pub fn known(&self, cell: usize) -> u64 {
        self.known[cell]
    }
}

impl Accumulator for SuccessShares {
    const CELL_BYTES: usize = 2 * size_of::<u64>();

    fn resize(&mut self, cells: usize) {
        self.yes.resize(cells, 0);
        self.known.resize(cells, 0);
    }

    fn reset(&mut self, cell: usize) {
        self.yes[cell] = 0;
        self.known[cell] = 0;
    }

    fn merge(&mut self, cell: usize, from: &SuccessShares, other: usize) -> usize {
        self.yes[cell] += from.yes[other];
        self.known[cell] += from.known[other];
        0
    }

    fn is_empty(&self, cell: usize) -> bool {
        self.known[cell] == 0
    }

    /// Encoding per cell: known outcomes, then true outcomes.
    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        for cell in cells {
            put(out, self.known[*cell]);
            put(out, self.yes[*cell]);
        }
    }

    fn read(
        &mut self,
        cells: &[usize],
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        for &cell in cells {
            self.known[cell] = from.up_to(tuples, "a count")?;
            self.yes[cell] = from.up_to(self.known[cell], "a count")?;
        }
        Ok(())
    }

    fn put(&self, cells: &[usize], first: usize, columns: &mut [CellColumnBuilder]) {
        for (row, &cell) in (first..)
            .zip(cells)
            .filter(|(_, cell)| self.known[**cell] > 0)
        {
            columns[0].long(row, self.known[cell] as i64);
            columns[1].long(row, self.yes[cell] as i64);
        }
    }

    fn take(&mut self, cell: usize, row: AccumulatorParts<'_>) -> Result<(), MalformedPartial> {
        let known = row.count(0)?;
        let yes = row.count(1)?;
        if yes > known {
            return Err(MalformedPartial::Invalid("a count"));
        }
        row.add(&mut self.known[cell], known)?;
        row.add(&mut self.yes[cell], yes)
    }
}
