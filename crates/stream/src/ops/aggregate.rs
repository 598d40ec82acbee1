//! Accumulators of a pipeline's aggregates without duplicates, and their dispatch by kind.
//!
//! An accumulator is a flat vector with a cell per group (with sampling: per group and replicate). An update takes a
//! cell index per row. Merging cells is associative, so that panes and workers can be merged.

use std::ops::Range;

use plan::Column;
use tuple::{DataType, FieldId, Schema};

use crate::cells::{AccumulatorEntry, AccumulatorParts, CellColumnBuilder, EntryParts};
use crate::column::ColumnView;
use crate::ops::accumulator::Accumulator;
use crate::ops::accumulator_spec::{AccumulatorPlan, AccumulatorSpec};
use crate::ops::count::TupleCounts;
use crate::ops::distinct::{ColumnHashes, DistinctSets};
use crate::ops::filter::{TruthMask, TupleFilter};
use crate::ops::min_max::MinMax;
use crate::ops::quantile::CellHistograms;
use crate::ops::spread::{IntegerSpreads, RealSpreads};
use crate::ops::success::SuccessShares;
use crate::ops::sum::{IntegerSums, RealSums};
use crate::partial::bytes::{MalformedPartial, PartialReader, put_bits, put_len};
use crate::rows::{CellSelection, RowSet};

/// The accumulators of a pipeline.
#[derive(Clone, Debug)]
pub struct AccumulatorSet {
    states: Vec<AccumulatorState>,
    cells: usize,
}

/// The accumulators for flows with one sampling rate.
#[derive(Clone, Debug)]
pub struct Stratum {
    /// Sampling rate.
    pub rate: f64,
    /// The accumulators.
    pub cells: AccumulatorSet,
}

/// An accumulator of any kind.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum AccumulatorState {
    Count(TupleCounts),
    IntegerSum(IntegerSums),
    RealSum(RealSums),
    MinMaxU64(MinMax<u64>),
    MinMaxI64(MinMax<i64>),
    MinMaxF64(MinMax<f64>),
    IntegerSpread(IntegerSpreads),
    Spread(RealSpreads),
    Histogram(CellHistograms),
    Distinct(DistinctSets, usize),
    Outcome(SuccessShares, usize),
}

/// The accumulators required by the aggregates, and their inputs.
#[derive(Debug)]
pub struct AggregateShape {
    /// Accumulator index of each aggregate.
    pub place: Vec<usize>,
    /// By accumulator: index of its value in the pipeline.
    pub values: Vec<Option<usize>>,
    /// Columns of distinct values.
    pub distinct: Vec<FieldId>,
    /// Predicates of counted outcomes.
    pub outcomes: Vec<TupleFilter>,
    empty: Vec<AccumulatorState>,
}

/// The inputs of accumulators for one batch.
pub struct AccumulatorInputs<'a> {
    /// Value column by accumulator, if any.
    pub values: Vec<Option<ColumnView<'a>>>,
    /// Indexed like [`AggregateShape::distinct`].
    pub distinct: Vec<ColumnHashes<'a>>,
    /// Indexed like [`AggregateShape::outcomes`].
    pub outcomes: Vec<TruthMask>,
}

/// Evaluates `$body` with the accumulator of any kind bound to `$one`.
macro_rules! each_kind {
    ($state:expr, $one:pat => $body:expr) => {
        match $state {
            AccumulatorState::Count($one) => $body,
            AccumulatorState::IntegerSum($one) => $body,
            AccumulatorState::RealSum($one) => $body,
            AccumulatorState::MinMaxU64($one) => $body,
            AccumulatorState::MinMaxI64($one) => $body,
            AccumulatorState::MinMaxF64($one) => $body,
            AccumulatorState::IntegerSpread($one) => $body,
            AccumulatorState::Spread($one) => $body,
            AccumulatorState::Histogram($one) => $body,
            AccumulatorState::Distinct($one, _) => $body,
            AccumulatorState::Outcome($one, _) => $body,
        }
    };
}

impl AggregateShape {
    /// Accumulators over columns of `schema`; `place` maps columns. Up to `exact_max` distinct values are stored
    /// exactly.
    #[must_use]
    pub fn new(
        accumulation: AccumulatorPlan,
        exact_max: usize,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> AggregateShape {
        let AccumulatorPlan {
            list,
            values,
            place: place_of,
        } = accumulation;
        let mut shape = AggregateShape {
            place: place_of,
            values,
            distinct: Vec::new(),
            outcomes: Vec::new(),
            empty: Vec::with_capacity(list.len()),
        };
        for one in &list {
            let state = shape.state(one, exact_max, schema, place);
            shape.empty.push(state);
        }
        shape
    }

    /// Size of a cell of all accumulators without heap memory.
    #[must_use]
    pub fn cell_bytes(&self) -> usize {
        self.empty.iter().map(AccumulatorState::cell_bytes).sum()
    }

    /// Creates accumulators without cells at a coarsening level.
    #[must_use]
    pub fn accumulators(&self, level: u8) -> AccumulatorSet {
        let mut empty = AccumulatorSet {
            states: self.empty.clone(),
            cells: 0,
        };
        (1..=level).for_each(|l| empty.coarsen(l));
        empty
    }

    fn state(
        &mut self,
        one: &AccumulatorSpec,
        exact_max: usize,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> AccumulatorState {
        match one {
            AccumulatorSpec::Count => AccumulatorState::Count(TupleCounts::default()),
            AccumulatorSpec::Sum(of) if of.data_type == DataType::F64 => {
                AccumulatorState::RealSum(RealSums::default())
            }
            AccumulatorSpec::Sum(_) => AccumulatorState::IntegerSum(IntegerSums::default()),
            AccumulatorSpec::Extreme(of, end) => match of.data_type {
                DataType::U64 => AccumulatorState::MinMaxU64(MinMax::new(*end)),
                DataType::I64 => AccumulatorState::MinMaxI64(MinMax::new(*end)),
                _ => AccumulatorState::MinMaxF64(MinMax::new(*end)),
            },
            AccumulatorSpec::Spread(of) if of.data_type == DataType::F64 => {
                AccumulatorState::Spread(RealSpreads::default())
            }
            AccumulatorSpec::Spread(_) => {
                AccumulatorState::IntegerSpread(IntegerSpreads::default())
            }
            AccumulatorSpec::Histogram(of, bits) => AccumulatorState::Histogram(
                CellHistograms::new(of.data_type == DataType::F64, *bits),
            ),
            AccumulatorSpec::Distinct(of) => {
                self.distinct.push(place(of.column));
                AccumulatorState::Distinct(DistinctSets::new(exact_max), self.distinct.len() - 1)
            }
            AccumulatorSpec::Outcome(predicate) => {
                self.outcomes
                    .push(TupleFilter::new(predicate, schema, place));
                AccumulatorState::Outcome(SuccessShares::default(), self.outcomes.len() - 1)
            }
        }
    }
}

impl AccumulatorSet {
    /// Sets the number of cells.
    pub fn resize(&mut self, cells: usize) {
        if cells != self.cells {
            self.states
                .iter_mut()
                .for_each(|state| each_kind!(state, s => s.resize(cells)));
            self.cells = cells;
        }
    }

    /// Clears cells.
    pub fn reset(&mut self, cells: Range<usize>) {
        for state in &mut self.states {
            each_kind!(state, s => cells.clone().for_each(|cell| s.reset(cell)));
        }
    }

    /// Adds `rows`, each to its cell; returns the growth of heap memory in bytes.
    pub fn update(
        &mut self,
        cells: CellSelection<'_>,
        rows: RowSet<'_>,
        measures: &AccumulatorInputs<'_>,
    ) -> usize {
        let states = self.states.iter_mut().zip(&measures.values);
        states
            .map(|(state, value)| state.update(cells, rows, *value, measures))
            .sum()
    }

    /// Merges every cell `i` of `from` into the cell `to(i)`, if any.
    pub fn merge(&mut self, from: &AccumulatorSet, to: impl Fn(usize) -> Option<usize>) -> usize {
        let mut grown = 0;
        for (mine, theirs) in self.states.iter_mut().zip(&from.states) {
            for other in 0..from.cells {
                grown += to(other).map_or(0, |cell| mine.merge(cell, theirs, other));
            }
        }
        grown
    }

    /// The accumulator at `place`.
    #[must_use]
    pub fn state(&self, place: usize) -> &AccumulatorState {
        &self.states[place]
    }

    /// Reduces the resolution of sketches to the next level.
    pub fn coarsen(&mut self, level: u8) {
        for state in &mut self.states {
            match state {
                AccumulatorState::Histogram(h) => h.coarsen(level),
                AccumulatorState::Distinct(d, _) => d.coarsen(level),
                _ => {}
            }
        }
    }

    /// Approximate memory without sketches; vectors have spare capacity.
    #[must_use]
    pub fn cell_bytes(&self) -> usize {
        self.bytes_of(self.cells)
    }

    fn bytes_of(&self, cells: usize) -> usize {
        let of_cell: usize = self.states.iter().map(AccumulatorState::cell_bytes).sum();
        cells.next_power_of_two().max(4).saturating_mul(of_cell)
            + self.states.len() * size_of::<AccumulatorState>()
    }

    /// The non-empty cells.
    #[must_use]
    pub fn used(&self) -> Vec<usize> {
        let is_used = |cell: usize| {
            self.states
                .iter()
                .any(|state| !each_kind!(state, s => s.is_empty(cell)))
        };
        (0..self.cells).filter(|cell| is_used(*cell)).collect()
    }

    /// Whether all cells can be converted to rows.
    #[must_use]
    pub fn are_rows(&self) -> bool {
        self.states
            .iter()
            .all(|state| each_kind!(state, s => s.are_rows()))
    }

    /// Writes cells to the columns of base rows; `widths` is the number of columns per accumulator.
    pub fn put(
        &self,
        cells: &[usize],
        first: usize,
        mut columns: &mut [CellColumnBuilder],
        widths: &[usize],
    ) {
        for (state, width) in self.states.iter().zip(widths) {
            let (mine, rest) = columns.split_at_mut(*width);
            columns = rest;
            each_kind!(state, s => s.put(cells, first, mine));
        }
    }

    /// The entries of a cell of the accumulator at `slot`.
    pub fn entries(&self, slot: usize, cell: usize, out: &mut Vec<AccumulatorEntry>) {
        each_kind!(&self.states[slot], s => s.entries(cell, out));
    }

    /// Adds the values of a base row to all accumulators.
    pub fn take<'a>(
        &mut self,
        cell: usize,
        mut parts: impl Iterator<Item = AccumulatorParts<'a>>,
    ) -> Result<(), MalformedPartial> {
        let mut states = self.states.iter_mut().zip(&mut parts);
        states.try_for_each(|(state, row)| each_kind!(state, s => s.take(cell, row)))
    }

    /// Adds the values of an entry row to the accumulator at `slot`.
    pub fn take_entry(
        &mut self,
        slot: usize,
        cell: usize,
        entry: EntryParts<'_>,
    ) -> Result<usize, MalformedPartial> {
        each_kind!(&mut self.states[slot], s => s.take_entry(cell, entry))
    }

    /// Encoding: number of cells; 0 if all are non-empty, or 1 and a bitmap of the non-empty cells; per accumulator a
    /// byte for its kind and these cells.
    pub fn write(&self, out: &mut Vec<u8>) {
        let used = self.used();
        put_len(out, self.cells);
        out.push(u8::from(used.len() < self.cells));
        if used.len() < self.cells {
            let mut rest = used.iter().copied().peekable();
            put_bits(
                out,
                (0..self.cells).map(|cell| rest.next_if_eq(&cell).is_some()),
            );
        }
        for state in &self.states {
            out.push(state.kind());
            each_kind!(state, s => s.write(&used, out));
        }
    }

    /// Decodes `cells` cells into empty accumulators.
    pub fn read(
        &mut self,
        cells: usize,
        tuples: u64,
        from: &mut PartialReader<'_>,
    ) -> Result<(), MalformedPartial> {
        if from.number()? != cells as u64 {
            return Err(MalformedPartial::OtherDataflow("the number of replicates"));
        }
        from.spend(self.bytes_of(cells))?;
        let some = if from.flag()? {
            Some(from.bits(cells)?)
        } else {
            None
        };
        let used: Vec<usize> = (0..cells)
            .filter(|cell| some.is_none_or(|bits| bits.get(*cell)))
            .collect();
        self.resize(cells);
        for state in &mut self.states {
            if from.byte()? != state.kind() {
                return Err(MalformedPartial::OtherDataflow("the aggregates"));
            }
            each_kind!(state, s => s.read(&used, tuples, from))?;
        }
        Ok(())
    }

    /// Heap memory of sketches in bytes.
    #[must_use]
    pub fn sketch_bytes(&self) -> usize {
        let bytes = |state: &AccumulatorState| match state {
            AccumulatorState::Histogram(h) => h.bytes(),
            AccumulatorState::Distinct(d, _) => d.bytes(),
            _ => 0,
        };
        self.states.iter().map(bytes).sum()
    }
}

impl AccumulatorState {
    /// Merges `cells` into a state with a single cell.
    #[must_use]
    pub fn gather(&self, cells: impl Iterator<Item = usize>) -> AccumulatorState {
        let mut all = self.clone_empty();
        each_kind!(&mut all, s => s.resize(1));
        cells.for_each(|cell| {
            all.merge(0, self, cell);
        });
        all
    }

    /// Size of a cell without its heap memory.
    fn cell_bytes(&self) -> usize {
        fn of<A: Accumulator>(_: &A) -> usize {
            A::CELL_BYTES
        }
        each_kind!(self, s => of(s))
    }

    /// First byte of the encoding.
    fn kind(&self) -> u8 {
        match self {
            AccumulatorState::Count(_) => 1,
            AccumulatorState::IntegerSum(_) => 2,
            AccumulatorState::RealSum(_) => 3,
            AccumulatorState::MinMaxU64(_) => 4,
            AccumulatorState::MinMaxI64(_) => 5,
            AccumulatorState::MinMaxF64(_) => 6,
            AccumulatorState::IntegerSpread(_) => 7,
            AccumulatorState::Spread(_) => 8,
            AccumulatorState::Histogram(_) => 9,
            AccumulatorState::Distinct(..) => 10,
            AccumulatorState::Outcome(..) => 11,
        }
    }

    fn clone_empty(&self) -> AccumulatorState {
        match self {
            AccumulatorState::Count(_) => AccumulatorState::Count(TupleCounts::default()),
            AccumulatorState::IntegerSum(_) => AccumulatorState::IntegerSum(IntegerSums::default()),
            AccumulatorState::RealSum(_) => AccumulatorState::RealSum(RealSums::default()),
            AccumulatorState::MinMaxU64(s) => AccumulatorState::MinMaxU64(s.clone_empty()),
            AccumulatorState::MinMaxI64(s) => AccumulatorState::MinMaxI64(s.clone_empty()),
            AccumulatorState::MinMaxF64(s) => AccumulatorState::MinMaxF64(s.clone_empty()),
            AccumulatorState::IntegerSpread(_) => {
                AccumulatorState::IntegerSpread(IntegerSpreads::default())
            }
            AccumulatorState::Spread(_) => AccumulatorState::Spread(RealSpreads::default()),
            AccumulatorState::Histogram(s) => AccumulatorState::Histogram(s.clone_empty()),
            AccumulatorState::Distinct(s, i) => AccumulatorState::Distinct(s.clone_empty(), *i),
            AccumulatorState::Outcome(_, i) => {
                AccumulatorState::Outcome(SuccessShares::default(), *i)
            }
        }
    }

    fn update(
        &mut self,
        cells: CellSelection<'_>,
        rows: RowSet<'_>,
        value: Option<ColumnView<'_>>,
        measures: &AccumulatorInputs<'_>,
    ) -> usize {
        let value = || value.expect("an aggregate of a value has one");
        match self {
            AccumulatorState::Count(s) => s.update(cells, rows),
            AccumulatorState::IntegerSum(s) => s.update(cells, rows, value()),
            AccumulatorState::RealSum(s) => s.update(cells, rows, value()),
            AccumulatorState::MinMaxU64(s) => s.update(cells, rows, value()),
            AccumulatorState::MinMaxI64(s) => s.update(cells, rows, value()),
            AccumulatorState::MinMaxF64(s) => s.update(cells, rows, value()),
            AccumulatorState::IntegerSpread(s) => s.update(cells, rows, value()),
            AccumulatorState::Spread(s) => s.update(cells, rows, value()),
            AccumulatorState::Histogram(s) => return s.update(cells, rows, value()),
            AccumulatorState::Distinct(s, i) => {
                return s.update(cells, rows, &measures.distinct[*i]);
            }
            AccumulatorState::Outcome(s, i) => s.update(cells, rows, &measures.outcomes[*i]),
        }
        0
    }

    /// Merges cell `other` of `from` into `cell`; returns the growth of heap memory in bytes.
    pub fn merge(&mut self, cell: usize, from: &AccumulatorState, other: usize) -> usize {
        match (self, from) {
            (AccumulatorState::Count(a), AccumulatorState::Count(b)) => a.merge(cell, b, other),
            (AccumulatorState::IntegerSum(a), AccumulatorState::IntegerSum(b)) => {
                a.merge(cell, b, other)
            }
            (AccumulatorState::RealSum(a), AccumulatorState::RealSum(b)) => a.merge(cell, b, other),
            (AccumulatorState::MinMaxU64(a), AccumulatorState::MinMaxU64(b)) => {
                a.merge(cell, b, other)
            }
            (AccumulatorState::MinMaxI64(a), AccumulatorState::MinMaxI64(b)) => {
                a.merge(cell, b, other)
            }
            (AccumulatorState::MinMaxF64(a), AccumulatorState::MinMaxF64(b)) => {
                a.merge(cell, b, other)
            }
            (AccumulatorState::IntegerSpread(a), AccumulatorState::IntegerSpread(b)) => {
                a.merge(cell, b, other)
            }
            (AccumulatorState::Spread(a), AccumulatorState::Spread(b)) => a.merge(cell, b, other),
            (AccumulatorState::Histogram(a), AccumulatorState::Histogram(b)) => {
                a.merge(cell, b, other)
            }
            (AccumulatorState::Distinct(a, _), AccumulatorState::Distinct(b, _)) => {
                a.merge(cell, b, other)
            }
            (AccumulatorState::Outcome(a, _), AccumulatorState::Outcome(b, _)) => {
                a.merge(cell, b, other)
            }
            _ => unreachable!("only accumulators of one shape are merged"),
        }
    }
}
