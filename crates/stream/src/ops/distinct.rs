//! Distinct values of a column per cell: exact for few values, then a HyperLogLog.
//!
//! Values are compared by 64-bit hashes: always correct for integers; for texts and addresses, the probability of a
//! collision is below n² / 2^65 for n values.

use arrow_buffer::NullBuffer;
use hashbrown::HashTable;

use crate::cells::{AccumulatorEntry, EntryParts};
use crate::ops::accumulator::Accumulator;
use crate::partial::bytes::{MalformedPartial, PartialReader, put_len};
use crate::rows::{CellSelection, RowSet, each_valid};
use crate::sketch::HyperLogLog;

/// Precision p of HyperLogLog at level 0, reduced by two at each level.
const PRECISION: u8 = 14;
const PRECISION_MIN: u8 = 6;

/// One set per cell.
#[derive(Clone, Debug)]
pub struct DistinctSets {
    exact_max: usize,
    precision: u8,
    sets: Vec<DistinctSet>,
}

/// The distinct values of a cell.
#[derive(Clone, Debug)]
pub enum DistinctSet {
    /// The hashes of all values.
    Exact(HashTable<u64>),
    /// A sketch.
    Estimated(HyperLogLog),
}

/// The hashes of a column, one per row of the batch, and the null rows.
pub struct ColumnHashes<'a> {
    /// By row; undefined for rows that are not selected.
    pub hashes: Vec<u64>,
    /// Null rows; `None` if there are none.
    pub nulls: Option<&'a NullBuffer>,
}

impl DistinctSets {
    /// Creates sets that each store up to `exact_max` values exactly.
    #[must_use]
    pub fn new(exact_max: usize) -> DistinctSets {
        DistinctSets {
            exact_max,
            precision: PRECISION,
            sets: Vec::new(),
        }
    }

    /// Copies the limits, without cells.
    #[must_use]
    pub fn clone_empty(&self) -> DistinctSets {
        DistinctSets {
            exact_max: self.exact_max,
            precision: self.precision,
            sets: Vec::new(),
        }
    }

    /// Adds the hashes of `rows`; returns the growth of the sets in bytes.
    pub fn update(
        &mut self,
        cells: CellSelection<'_>,
        rows: RowSet<'_>,
        hashes: &ColumnHashes<'_>,
    ) -> usize {
        let exact_max = self.exact_max;
        let precision = self.precision;
        let mut grown = 0;
        each_valid(cells, rows, hashes.nulls, |cell, row| {
            grown += self.sets[cell].add(hashes.hashes[row], exact_max, precision);
        });
        grown
    }

    /// Reduces the resolution of all sets; levels count from 0. Each level divides the exact maximum by four and
    /// reduces p by two, down to 64 registers.
    pub fn coarsen(&mut self, level: u8) {
        self.exact_max = self.exact_max.min((self.exact_max >> 2).max(4));
        self.precision = PRECISION.saturating_sub(2 * level).max(PRECISION_MIN);
        self.sets
            .iter_mut()
            .for_each(|set| set.shrink(self.exact_max, self.precision));
    }

    /// The set of a cell.
    #[must_use]
    pub fn set(&self, cell: usize) -> &DistinctSet {
        &self.sets[cell]
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sets.iter().map(DistinctSet::bytes).sum()
    }
}

impl Accumulator for DistinctSets {
    const CELL_BYTES: usize = size_of::<DistinctSet>();

    fn resize(&mut self, cells: usize) {
        self.sets.resize_with(cells, DistinctSet::default);
    }

    fn reset(&mut self, cell: usize) {
        self.sets[cell] = DistinctSet::default();
    }

    fn merge(&mut self, cell: usize, from: &DistinctSets, other: usize) -> usize {
        self.sets[cell].merge(&from.sets[other], self.exact_max, self.precision)
    }

    fn is_empty(&self, cell: usize) -> bool {
        matches!(&self.sets[cell], DistinctSet::Exact(set) if set.is_empty())
    }

    fn write(&self, cells: &[usize], out: &mut Vec<u8>) {
        cells.iter().for_each(|cell| self.sets[*cell].write(out));
    }

    fn read(
        &mut self,
        cells: &[usize],
        _tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        for cell in cells {
            self.sets[*cell] = DistinctSet::read(self.exact_max, self.precision, from)?;
        }
        Ok(())
    }

    fn are_rows(&self) -> bool {
        self.sets
            .iter()
            .all(|set| matches!(set, DistinctSet::Exact(_)))
    }

    fn entries(&self, cell: usize, out: &mut Vec<AccumulatorEntry>) {
        if let DistinctSet::Exact(set) = &self.sets[cell] {
            out.extend(set.iter().map(|hash| AccumulatorEntry {
                at: *hash as i64,
                n: 1,
                ..AccumulatorEntry::default()
            }));
        }
    }

    fn take_entry(
        &mut self,
        cell: usize,
        entry: EntryParts<'_>,
    ) -> Result<usize, MalformedPartial> {
        let hash = entry.hash.ok_or(MalformedPartial::Invalid("a value"))?;
        Ok(self.sets[cell].add(hash, self.exact_max, self.precision))
    }
}

impl Default for DistinctSet {
    fn default() -> DistinctSet {
        DistinctSet::Exact(HashTable::new())
    }
}

impl DistinctSet {
    /// The number of distinct values, and the relative half-width of the 95 % interval; 0 if exact.
    #[must_use]
    pub fn estimate(&self) -> (u64, f64) {
        match self {
            DistinctSet::Exact(set) => (set.len() as u64, 0.0),
            DistinctSet::Estimated(sketch) => {
                (sketch.estimate().round() as u64, sketch.relative_error())
            }
        }
    }

    /// Adds a hash; returns the growth of the set in bytes.
    #[inline]
    pub fn add(&mut self, hash: u64, exact_max: usize, precision: u8) -> usize {
        match self {
            DistinctSet::Estimated(sketch) => {
                sketch.add(hash);
                0
            }
            DistinctSet::Exact(set) if set.find(hash, |held| *held == hash).is_some() => 0,
            DistinctSet::Exact(set) => {
                let before = set.allocation_size();
                set.insert_unique(hash, hash, |held| *held);
                self.shrink(exact_max, precision);
                self.bytes().saturating_sub(before)
            }
        }
    }

    /// Merges another set; returns the growth of this set in bytes.
    pub fn merge(&mut self, other: &DistinctSet, exact_max: usize, precision: u8) -> usize {
        match other {
            DistinctSet::Exact(set) => set
                .iter()
                .map(|hash| self.add(*hash, exact_max, precision))
                .sum(),
            DistinctSet::Estimated(sketch) => {
                let before = self.bytes();
                self.shrink(0, precision);
                match self {
                    DistinctSet::Estimated(mine) => mine.merge(sketch),
                    DistinctSet::Exact(_) => *self = DistinctSet::Estimated(sketch.clone()),
                }
                self.bytes().saturating_sub(before)
            }
        }
    }

    /// Converts a set of more than `exact_max` values to a sketch, and folds a sketch to `precision`.
    fn shrink(&mut self, exact_max: usize, precision: u8) {
        match self {
            DistinctSet::Exact(set) if set.len() > exact_max => {
                let mut sketch = HyperLogLog::new(precision);
                set.iter().for_each(|hash| sketch.add(*hash));
                *self = DistinctSet::Estimated(sketch);
            }
            DistinctSet::Exact(_) => {}
            DistinctSet::Estimated(sketch) => sketch.fold(precision),
        }
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            DistinctSet::Exact(set) => set.allocation_size(),
            DistinctSet::Estimated(sketch) => sketch.bytes(),
        }
    }

    /// Encoding: 0 and the ascending list of hashes, eight bytes each; or 1 and the sketch.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            DistinctSet::Exact(set) => {
                let mut hashes: Vec<u64> = set.iter().copied().collect();
                hashes.sort_unstable();
                out.push(0);
                put_len(out, hashes.len());
                hashes
                    .iter()
                    .for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
            }
            DistinctSet::Estimated(sketch) => {
                out.push(1);
                sketch.write(out);
            }
        }
    }

    /// Decodes a set; more than `exact_max` hashes become a sketch.
    pub fn read(
        exact_max: usize,
        precision: u8,
        from: &mut PartialReader<'_>,
    ) -> Result<DistinctSet, MalformedPartial> {
        if from.flag()? {
            return HyperLogLog::read(PRECISION, from).map(DistinctSet::Estimated);
        }
        let n = from.len()?;
        let hashes = from.take(n.saturating_mul(8))?.as_chunks().0;
        if !hashes.is_sorted_by(|a, b| u64::from_le_bytes(*a) < u64::from_le_bytes(*b)) {
            return Err(MalformedPartial::Invalid("a set"));
        }
        from.spend(if n > exact_max {
            1 << precision
        } else {
            n * 16
        })?;
        let mut set = if n > exact_max {
            DistinctSet::Estimated(HyperLogLog::new(precision))
        } else {
            DistinctSet::default()
        };
        for hash in hashes {
            set.add(u64::from_le_bytes(*hash), exact_max, precision);
        }
        Ok(set)
    }
}
