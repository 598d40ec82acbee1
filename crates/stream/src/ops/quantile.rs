//! Histograms by cell, the source of quantiles, `hist`, and `cdf`.

use crate::cells::{AccumulatorEntry, EntryParts};
use crate::column::{ColumnValues, ColumnView};
use crate::ops::accumulator::Accumulator;
use crate::partial::bytes::{MalformedPartial, PartialReader};
use crate::rows::{CellSelection, RowSet, each_valid};
use crate::sketch::LogHistogram;
use crate::sketch::log_histogram::{BITS, BITS_MIN};

/// One histogram per cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellHistograms {
    empty: LogHistogram,
    list: Vec<LogHistogram>,
}

impl CellHistograms {
    /// Creates histograms for a floating point or integer column, with 2^`bits` buckets per power of two.
    #[must_use]
    pub fn new(real: bool, bits: u8) -> CellHistograms {
        let empty = if real {
            LogHistogram::of_reals()
        } else {
            LogHistogram::of_integers()
        };
        CellHistograms {
            empty: empty.with_bits(bits),
            list: Vec::new(),
        }
    }

    /// The same resolution, without cells.
    #[must_use]
    pub fn clone_empty(&self) -> CellHistograms {
        CellHistograms {
            empty: self.empty.clone(),
            list: Vec::new(),
        }
    }

    /// Adds the values of a column; returns the growth of the histograms in bytes.
    pub fn update(
        &mut self,
        cells: CellSelection<'_>,
        rows: RowSet<'_>,
        column: ColumnView<'_>,
    ) -> usize {
        let mine = &mut self.list;
        let mut grown = 0;
        match column.values {
            ColumnValues::U64(v) => {
                each_valid(cells, rows, column.nulls, |cell, row| {
                    grown += mine[cell].add_u64(v[row])
                });
            }
            ColumnValues::I64(v) => {
                each_valid(cells, rows, column.nulls, |cell, row| {
                    grown += mine[cell].add_i64(v[row])
                });
            }
            ColumnValues::F64(v) => {
                each_valid(cells, rows, column.nulls, |cell, row| {
                    grown += mine[cell].add_f64(v[row])
                });
            }
            _ => unreachable!("values are numbers"),
        }
        grown
    }

    /// Reduces the resolution of all histograms; level 0 is the finest.
    pub fn coarsen(&mut self, level: u8) {
        let bits = BITS.saturating_sub(level).max(BITS_MIN);
        self.empty.coarsen(bits);
        self.list.iter_mut().for_each(|h| h.coarsen(bits));
    }

    /// The histogram of a cell.
    #[must_use]
    pub fn histogram(&self, cell: usize) -> &LogHistogram {
        &self.list[cell]
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.list.iter().map(LogHistogram::bytes).sum()
    }
}

impl Accumulator for CellHistograms {
    const CELL_BYTES: usize = size_of::<LogHistogram>();

    fn resize(&mut self, cells: usize) {
        self.list.resize(cells, self.empty.clone());
    }

    fn reset(&mut self, cell: usize) {
        self.list[cell] = self.empty.clone();
    }

    fn merge(&mut self, cell: usize, from: &CellHistograms, other: usize) -> usize {
        self.list[cell].merge(&from.list[other])
    }

    fn is_empty(&self, cell: usize) -> bool {
        self.list[cell].n() == 0
    }

    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        cells.iter().for_each(|cell| self.list[*cell].write(out));
    }

    fn read(
        &mut self,
        cells: &[usize],
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        for cell in cells {
            self.list[*cell] = self.empty.read(tuples, from)?;
        }
        Ok(())
    }

    fn entries(&self, cell: usize, out: &mut Vec<AccumulatorEntry>) {
        self.list[cell].entries(out);
    }

    fn take_entry(
        &mut self,
        cell: usize,
        entry: EntryParts<'_>,
    ) -> Result<usize, MalformedPartial> {
        let one = self.empty.of_entry(entry)?;
        let mut n = self.list[cell].n();
        entry.parts.add(&mut n, entry.n)?;
        Ok(self.list[cell].merge(&one))
    }
}
