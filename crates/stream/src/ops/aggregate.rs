//! Accumulators of a pipeline's aggregates without duplicates, and their dispatch by kind.
//!
//! An accumulator is a flat vector with a cell per group (with sampling: per group and replicate). An update takes a
//! cell index per row. Merging cells is associative, so that panes and workers can be merged.

use std::ops::Range;

use plan::Column;
use tuple::{DataType, FieldId, Schema};

use crate::cells::{Building, Entry, EntryOf, PartsOf};
use crate::column::ColumnView;
use crate::ops::accumulated::{Accumulated, Accumulation};
use crate::ops::count::Counts;
use crate::ops::distinct::{DistinctSets, Hashes};
use crate::ops::filter::{Filter, Truth};
use crate::ops::min_max::MinMax;
use crate::ops::quantile::Histograms;
use crate::ops::spread::{IntegerSpreads, Spreads};
use crate::ops::success::Shares;
use crate::ops::sum::{IntegerSums, RealSums};
use crate::partial::bytes::{Malformed, Reader, put_bits, put_len};
use crate::rows::{Cells, Rows};

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
    fn read(&mut self, cells: &[usize], tuples: u64, from: &mut Reader<'_>) -> Result<(), Malformed>;
    /// Whether its cells can be converted to rows of [`crate::cells`].
    fn are_rows(&self) -> bool {
        true
    }
    /// Writes these cells to its columns of base rows, beginning at row `first`.
    fn put(&self, _cells: &[usize], _first: usize, _columns: &mut [Building]) {}
    /// Adds the values of a base row.
    fn take(&mut self, _cell: usize, _row: PartsOf<'_>) -> Result<(), Malformed> {
        Ok(())
    }
    /// Appends the entries of a cell that become entry rows.
    fn entries(&self, _cell: usize, _out: &mut Vec<Entry>) {}
    /// Adds the values of an entry row; returns the growth of heap memory in bytes.
    fn take_entry(&mut self, _cell: usize, _entry: EntryOf<'_>) -> Result<usize, Malformed> {
        Err(Malformed::Invalid("an accumulator"))
    }
}

/// The accumulators of a pipeline.
#[derive(Clone, Debug)]
pub struct Accumulators {
    states: Vec<State>,
    cells: usize,
}

/// The accumulators for flows with one sampling rate.
#[derive(Clone, Debug)]
pub struct Stratum {
    /// Sampling rate.
    pub rate: f64,
    /// The accumulators.
    pub cells: Accumulators,
}

/// An accumulator of any kind.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum State {
    Count(Counts),
    IntegerSum(IntegerSums),
    RealSum(RealSums),
    MinMaxU64(MinMax<u64>),
    MinMaxI64(MinMax<i64>),
    MinMaxF64(MinMax<f64>),
    IntegerSpread(IntegerSpreads),
    Spread(Spreads),
    Histogram(Histograms),
    Distinct(DistinctSets, usize),
    Outcome(Shares, usize),
}

/// The accumulators required by the aggregates, and their inputs.
#[derive(Debug)]
pub struct Shape {
    /// Accumulator index of each aggregate.
    pub place: Vec<usize>,
    /// By accumulator: index of its value in the pipeline.
    pub values: Vec<Option<usize>>,
    /// Columns of distinct values.
    pub distinct: Vec<FieldId>,
    /// Predicates of counted outcomes.
    pub outcomes: Vec<Filter>,
    empty: Vec<State>,
}

/// The inputs of accumulators for one batch.
pub struct Measures<'a> {
    /// Value column by accumulator, if any.
    pub values: Vec<Option<ColumnView<'a>>>,
    /// Indexed like [`Shape::distinct`].
    pub distinct: Vec<Hashes<'a>>,
    /// Indexed like [`Shape::outcomes`].
    pub outcomes: Vec<Truth>,
}

/// Evaluates `$body` with the accumulator of any kind bound to `$one`.
macro_rules! each_kind {
    ($state:expr, $one:pat => $body:expr) => {
        match $state {
            State::Count($one) => $body,
            State::IntegerSum($one) => $body,
            State::RealSum($one) => $body,
            State::MinMaxU64($one) => $body,
            State::MinMaxI64($one) => $body,
            State::MinMaxF64($one) => $body,
            State::IntegerSpread($one) => $body,
            State::Spread($one) => $body,
            State::Histogram($one) => $body,
            State::Distinct($one, _) => $body,
            State::Outcome($one, _) => $body,
        }
    };
}

impl Shape {
    /// Accumulators over columns of `schema`; `place` maps columns. Up to `exact_max` distinct values are stored
    /// exactly.
    #[must_use]
    pub fn new(
        accumulation: Accumulation,
        exact_max: usize,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> Shape {
        let Accumulation { list, values, place: place_of } = accumulation;
        let mut shape = Shape {
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
        self.empty.iter().map(State::cell_bytes).sum()
    }

    /// Creates accumulators without cells at a coarsening level.
    #[must_use]
    pub fn accumulators(&self, level: u8) -> Accumulators {
        let mut empty = Accumulators { states: self.empty.clone(), cells: 0 };
        (1..=level).for_each(|l| empty.coarsen(l));
        empty
    }

    fn state(
        &mut self,
        one: &Accumulated,
        exact_max: usize,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> State {
        match one {
            Accumulated::Count => State::Count(Counts::default()),
            Accumulated::Sum(of) if of.data_type == DataType::F64 => State::RealSum(RealSums::default()),
            Accumulated::Sum(_) => State::IntegerSum(IntegerSums::default()),
            Accumulated::Extreme(of, end) => match of.data_type {
                DataType::U64 => State::MinMaxU64(MinMax::new(*end)),
                DataType::I64 => State::MinMaxI64(MinMax::new(*end)),
                _ => State::MinMaxF64(MinMax::new(*end)),
            },
            Accumulated::Spread(of) if of.data_type == DataType::F64 => State::Spread(Spreads::default()),
            Accumulated::Spread(_) => State::IntegerSpread(IntegerSpreads::default()),
            Accumulated::Histogram(of, bits) => {
                State::Histogram(Histograms::new(of.data_type == DataType::F64, *bits))
            }
            Accumulated::Distinct(of) => {
                self.distinct.push(place(of.column));
                State::Distinct(DistinctSets::new(exact_max), self.distinct.len() - 1)
            }
            Accumulated::Outcome(predicate) => {
                self.outcomes.push(Filter::new(predicate, schema, place));
                State::Outcome(Shares::default(), self.outcomes.len() - 1)
            }
        }
    }
}

impl Accumulators {
    /// Sets the number of cells.
    pub fn resize(&mut self, cells: usize) {
        if cells != self.cells {
            self.states.iter_mut().for_each(|state| each_kind!(state, s => s.resize(cells)));
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
    pub fn update(&mut self, cells: Cells<'_>, rows: Rows<'_>, measures: &Measures<'_>) -> usize {
        let states = self.states.iter_mut().zip(&measures.values);
        states.map(|(state, value)| state.update(cells, rows, *value, measures)).sum()
    }

    /// Merges every cell `i` of `from` into the cell `to(i)`, if any.
    pub fn merge(&mut self, from: &Accumulators, to: impl Fn(usize) -> Option<usize>) -> usize {
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
    pub fn state(&self, place: usize) -> &State {
        &self.states[place]
    }

    /// Reduces the resolution of sketches to the next level.
    pub fn coarsen(&mut self, level: u8) {
        for state in &mut self.states {
            match state {
                State::Histogram(h) => h.coarsen(level),
                State::Distinct(d, _) => d.coarsen(level),
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
        let of_cell: usize = self.states.iter().map(State::cell_bytes).sum();
        cells.next_power_of_two().max(4).saturating_mul(of_cell) + self.states.len() * size_of::<State>()
    }

    /// The non-empty cells.
    #[must_use]
    pub fn used(&self) -> Vec<usize> {
        let is_used = |cell: usize| self.states.iter().any(|state| !each_kind!(state, s => s.is_empty(cell)));
        (0..self.cells).filter(|cell| is_used(*cell)).collect()
    }

    /// Whether all cells can be converted to rows.
    #[must_use]
    pub fn are_rows(&self) -> bool {
        self.states.iter().all(|state| each_kind!(state, s => s.are_rows()))
    }

    /// Writes cells to the columns of base rows; `widths` is the number of columns per accumulator.
    pub fn put(&self, cells: &[usize], first: usize, mut columns: &mut [Building], widths: &[usize]) {
        for (state, width) in self.states.iter().zip(widths) {
            let (mine, rest) = columns.split_at_mut(*width);
            columns = rest;
            each_kind!(state, s => s.put(cells, first, mine));
        }
    }

    /// The entries of a cell of the accumulator at `slot`.
    pub fn entries(&self, slot: usize, cell: usize, out: &mut Vec<Entry>) {
        each_kind!(&self.states[slot], s => s.entries(cell, out));
    }

    /// Adds the values of a base row to all accumulators.
    pub fn take<'a>(
        &mut self,
        cell: usize,
        mut parts: impl Iterator<Item = PartsOf<'a>>,
    ) -> Result<(), Malformed> {
        let mut states = self.states.iter_mut().zip(&mut parts);
        states.try_for_each(|(state, row)| each_kind!(state, s => s.take(cell, row)))
    }

    /// Adds the values of an entry row to the accumulator at `slot`.
    pub fn take_entry(&mut self, slot: usize, cell: usize, entry: EntryOf<'_>) -> Result<usize, Malformed> {
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
            put_bits(out, (0..self.cells).map(|cell| rest.next_if_eq(&cell).is_some()));
        }
        for state in &self.states {
            out.push(state.kind());
            each_kind!(state, s => s.write(&used, out));
        }
    }

    /// Decodes `cells` cells into empty accumulators.
    pub fn read(&mut self, cells: usize, tuples: u64, from: &mut Reader<'_>) -> Result<(), Malformed> {
        if from.number()? != cells as u64 {
            return Err(Malformed::OtherDataflow("the number of replicates"));
        }
        from.spend(self.bytes_of(cells))?;
        let some = if from.flag()? { Some(from.bits(cells)?) } else { None };
        let used: Vec<usize> = (0..cells).filter(|cell| some.is_none_or(|bits| bits.get(*cell))).collect();
        self.resize(cells);
        for state in &mut self.states {
            if from.byte()? != state.kind() {
                return Err(Malformed::OtherDataflow("what is computed"));
            }
            each_kind!(state, s => s.read(&used, tuples, from))?;
        }
        Ok(())
    }

    /// Heap memory of sketches in bytes.
    #[must_use]
    pub fn sketch_bytes(&self) -> usize {
        let bytes = |state: &State| match state {
            State::Histogram(h) => h.bytes(),
            State::Distinct(d, _) => d.bytes(),
            _ => 0,
        };
        self.states.iter().map(bytes).sum()
    }
}

impl State {
    /// Merges `cells` into a state with a single cell.
    #[must_use]
    pub fn gather(&self, cells: impl Iterator<Item = usize>) -> State {
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
            State::Count(_) => 1,
            State::IntegerSum(_) => 2,
            State::RealSum(_) => 3,
            State::MinMaxU64(_) => 4,
            State::MinMaxI64(_) => 5,
            State::MinMaxF64(_) => 6,
            State::IntegerSpread(_) => 7,
            State::Spread(_) => 8,
            State::Histogram(_) => 9,
            State::Distinct(..) => 10,
            State::Outcome(..) => 11,
        }
    }

    fn clone_empty(&self) -> State {
        match self {
            State::Count(_) => State::Count(Counts::default()),
            State::IntegerSum(_) => State::IntegerSum(IntegerSums::default()),
            State::RealSum(_) => State::RealSum(RealSums::default()),
            State::MinMaxU64(s) => State::MinMaxU64(s.clone_empty()),
            State::MinMaxI64(s) => State::MinMaxI64(s.clone_empty()),
            State::MinMaxF64(s) => State::MinMaxF64(s.clone_empty()),
            State::IntegerSpread(_) => State::IntegerSpread(IntegerSpreads::default()),
            State::Spread(_) => State::Spread(Spreads::default()),
            State::Histogram(s) => State::Histogram(s.clone_empty()),
            State::Distinct(s, i) => State::Distinct(s.clone_empty(), *i),
            State::Outcome(_, i) => State::Outcome(Shares::default(), *i),
        }
    }

    fn update(
        &mut self,
        cells: Cells<'_>,
        rows: Rows<'_>,
        value: Option<ColumnView<'_>>,
        measures: &Measures<'_>,
    ) -> usize {
        let value = || value.expect("an aggregate of a value has one");
        match self {
            State::Count(s) => s.update(cells, rows),
            State::IntegerSum(s) => s.update(cells, rows, value()),
            State::RealSum(s) => s.update(cells, rows, value()),
            State::MinMaxU64(s) => s.update(cells, rows, value()),
            State::MinMaxI64(s) => s.update(cells, rows, value()),
            State::MinMaxF64(s) => s.update(cells, rows, value()),
            State::IntegerSpread(s) => s.update(cells, rows, value()),
            State::Spread(s) => s.update(cells, rows, value()),
            State::Histogram(s) => return s.update(cells, rows, value()),
            State::Distinct(s, i) => return s.update(cells, rows, &measures.distinct[*i]),
            State::Outcome(s, i) => s.update(cells, rows, &measures.outcomes[*i]),
        }
        0
    }

    /// Merges cell `other` of `from` into `cell`; returns the growth of heap memory in bytes.
    pub fn merge(&mut self, cell: usize, from: &State, other: usize) -> usize {
        match (self, from) {
            (State::Count(a), State::Count(b)) => a.merge(cell, b, other),
            (State::IntegerSum(a), State::IntegerSum(b)) => a.merge(cell, b, other),
            (State::RealSum(a), State::RealSum(b)) => a.merge(cell, b, other),
            (State::MinMaxU64(a), State::MinMaxU64(b)) => a.merge(cell, b, other),
            (State::MinMaxI64(a), State::MinMaxI64(b)) => a.merge(cell, b, other),
            (State::MinMaxF64(a), State::MinMaxF64(b)) => a.merge(cell, b, other),
            (State::IntegerSpread(a), State::IntegerSpread(b)) => a.merge(cell, b, other),
            (State::Spread(a), State::Spread(b)) => a.merge(cell, b, other),
            (State::Histogram(a), State::Histogram(b)) => a.merge(cell, b, other),
            (State::Distinct(a, _), State::Distinct(b, _)) => a.merge(cell, b, other),
            (State::Outcome(a, _), State::Outcome(b, _)) => a.merge(cell, b, other),
            _ => unreachable!("only accumulators of one shape are merged"),
        }
    }
}
