//! One of the two compared periods: an engine for the whole period, with the displayed results, and one engine per
//! slice.

use std::collections::HashMap;
use std::sync::Arc;

use plan::{Column, ComparisonOperator, Dataflow, Literal, Predicate, TimeBounds};
use tuple::{Batch, DataType, Schema, common};

use super::measure::{ComparisonMeasure, SLICES, of_slices};
use crate::column::ColumnView;
use crate::scalar::Scalar;
use crate::{Engine, EngineConfig, EngineOutput};

/// A period being evaluated.
pub struct PeriodEngine {
    whole: Engine,
    slices: Vec<(TimeBounds, Engine)>,
    /// Indexed by pipeline and aggregate.
    pub measures: Vec<Vec<ComparisonMeasure>>,
    bounds: TimeBounds,
    /// Rows emitted before the end; always empty, since these engines have no windows.
    out: Vec<EngineOutput>,
    /// Number of group columns in the results of each pipeline.
    keys: Vec<usize>,
}

/// A pipeline's results for one period.
pub struct PeriodResults {
    /// Result rows of the whole period.
    pub batches: Vec<Batch>,
    /// Batch and row index of each group, in row order.
    pub groups: Vec<(Vec<u8>, (usize, usize))>,
    /// Batch and row index by group.
    pub place: HashMap<Vec<u8>, (usize, usize)>,
    /// Results of the slices.
    pub slices: PeriodSlices,
}

/// Results of a period's slices, by group.
#[derive(Debug, Default)]
pub struct PeriodSlices {
    /// The slices of each group.
    pub groups: HashMap<Vec<u8>, Vec<PeriodSlice>>,
    /// Whether a slice exceeded the maximum number of groups.
    pub is_overflowed: bool,
}

/// The results of one slice for one group.
#[derive(Clone, Debug, Default)]
pub struct PeriodSlice {
    /// Numbers by column position; NaN if missing.
    pub numbers: Vec<f64>,
    /// Histograms by column position: upper bounds and counts.
    pub histograms: Vec<Vec<(f64, f64)>>,
}

impl PeriodEngine {
    pub fn new(dataflow: &Dataflow, config: &EngineConfig, bounds: TimeBounds) -> PeriodEngine {
        let mut of_slices_only = dataflow.clone();
        let (pipelines, measures) = dataflow
            .pipelines
            .iter()
            .map(|p| of_slices(p, &mut of_slices_only))
            .unzip();
        of_slices_only.pipelines = pipelines;
        let config = EngineConfig {
            window_bytes_max: config.window_bytes_max / (SLICES + 1),
            ..config.clone()
        };
        let engine =
            |dataflow: &Dataflow, bounds| Engine::new(&within(dataflow, bounds), config.clone());
        let slices = (0..SLICES).map(|i| slice(bounds, i)).collect::<Vec<_>>();
        PeriodEngine {
            whole: engine(dataflow, bounds),
            slices: slices
                .into_iter()
                .map(|bounds| (bounds, engine(&of_slices_only, bounds)))
                .collect(),
            measures,
            bounds,
            out: Vec::new(),
            keys: dataflow.pipelines.iter().map(|p| p.group.len()).collect(),
        }
    }

    pub fn push(&mut self, batch: &Batch) {
        self.whole.push(0, batch, &mut self.out);
        let times = ColumnView::of(batch, common::TS_END);
        let times = (0..batch.rows()).filter_map(|row| match times.scalar(row) {
            Scalar::I64(time) => Some(time),
            _ => None,
        });
        let (first, last) = times.fold((i64::MAX, i64::MIN), |(a, b), time| {
            (a.min(time), b.max(time))
        });
        for (bounds, engine) in &mut self.slices {
            let is_behind = bounds.since_ns.is_some_and(|since| last < since);
            let is_before = bounds.until_ns.is_some_and(|until| first >= until);
            if !is_behind && !is_before {
                engine.push(0, batch, &mut self.out);
            }
        }
    }

    pub fn seconds(&self) -> f64 {
        self.bounds.nanos().unwrap_or(0) as f64 / 1e9
    }

    pub fn result_schema(&self, pipeline: usize) -> &Arc<Schema> {
        self.whole.result_schema(pipeline)
    }

    /// The results, by pipeline.
    pub fn finish(&mut self) -> Vec<PeriodResults> {
        self.whole.finish(&mut self.out);
        let keys = &self.keys;
        let mut all: Vec<PeriodResults> = keys.iter().map(|_| PeriodResults::new()).collect();
        for EngineOutput {
            pipeline, batch, ..
        } in std::mem::take(&mut self.out)
        {
            let pipeline = pipeline.unwrap_or(0);
            all[pipeline].add(batch, keys[pipeline]);
        }
        for (i, (_, engine)) in self.slices.iter_mut().enumerate() {
            let mut out = Vec::new();
            engine.finish(&mut out);
            for EngineOutput {
                pipeline, batch, ..
            } in out
            {
                let pipeline = pipeline.unwrap_or(0);
                all[pipeline].slices.add(i, &batch, keys[pipeline]);
            }
        }
        all
    }
}

/// The bounds of the `i`-th slice.
fn slice(bounds: TimeBounds, i: usize) -> TimeBounds {
    let since = bounds.since_ns.unwrap_or(0);
    let nanos = bounds.nanos().unwrap_or(0);
    let border = |i: usize| {
        let offset = i128::from(nanos) * i as i128 / SLICES as i128;
        Some(since.saturating_add(i64::try_from(offset).unwrap_or(i64::MAX)))
    };
    TimeBounds {
        since_ns: border(i),
        until_ns: border(i + 1),
    }
}

/// Restricts a dataflow with one input to tuples within `bounds`.
fn within(dataflow: &Dataflow, bounds: TimeBounds) -> Dataflow {
    let mut dataflow = dataflow.clone();
    let input = &mut dataflow.inputs[0];
    let time = |op, ns| {
        let column = Column {
            input: 0,
            field: common::TS_END,
        };
        Predicate::Compare {
            column,
            op,
            literal: Literal::I64(ns),
        }
    };
    let since = bounds.since_ns.map(|ns| time(ComparisonOperator::Ge, ns));
    let until = bounds.until_ns.map(|ns| time(ComparisonOperator::Lt, ns));
    // Time conditions come first: they are cheap, and most slices contain no row of a batch.
    let parts = since.into_iter().chain(until).chain(input.filter.take());
    input.filter = Some(Predicate::And(parts.collect()));
    dataflow
}

impl PeriodResults {
    fn new() -> PeriodResults {
        let groups = Vec::new();
        let place = HashMap::new();
        PeriodResults {
            batches: Vec::new(),
            groups,
            place,
            slices: PeriodSlices::default(),
        }
    }

    fn add(&mut self, batch: Batch, keys: usize) {
        for row in 0..batch.rows() {
            let key = key(&batch, keys, row);
            let place = (self.batches.len(), row);
            self.place.insert(key.clone(), place);
            self.groups.push((key, place));
        }
        self.batches.push(batch);
    }
}

impl PeriodSlices {
    fn add(&mut self, slice: usize, batch: &Batch, keys: usize) {
        let schema = batch.schema();
        let approximate = schema.find("approximate");
        let end = approximate.map_or(schema.fields.len(), |id| usize::from(id.0));
        let columns: Vec<ColumnView<'_>> = schema
            .ids()
            .take(end)
            .skip(keys)
            .map(|id| ColumnView::of(batch, id))
            .collect();
        let is_json: Vec<bool> = schema
            .ids()
            .take(end)
            .skip(keys)
            .map(|id| schema.field(id).data_type == DataType::Json)
            .collect();
        let flag = approximate.map(|id| ColumnView::of(batch, id));
        for row in 0..batch.rows() {
            self.is_overflowed |= flag.is_some_and(|flag| flag.scalar(row) == Scalar::Bool(true));
            let of_group = self
                .groups
                .entry(key(batch, keys, row))
                .or_insert_with(|| vec![PeriodSlice::default(); SLICES]);
            let cells = columns
                .iter()
                .zip(&is_json)
                .map(|(column, is_json)| (column.scalar(row), *is_json));
            of_group[slice] = PeriodSlice {
                numbers: cells
                    .clone()
                    .map(|(cell, _)| number(cell).unwrap_or(f64::NAN))
                    .collect(),
                histograms: cells
                    .map(|(cell, is_json)| if is_json { buckets(cell) } else { Vec::new() })
                    .collect(),
            };
        }
    }
}

/// Encodes the group of a row; equal in both periods for the same group.
fn key(batch: &Batch, keys: usize, row: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in batch.schema().ids().take(keys) {
        ColumnView::of(batch, id).scalar(row).encode(&mut bytes);
    }
    bytes
}

/// Converts a numeric scalar to floating point.
pub fn number(scalar: Scalar<'_>) -> Option<f64> {
    match scalar {
        Scalar::U64(v) => Some(v as f64),
        Scalar::I64(v) => Some(v as f64),
        Scalar::F64(v) => Some(v),
        _ => None,
    }
}

/// Parses the pairs of numbers in `[[upper bound, count], …]`.
fn buckets(cell: Scalar<'_>) -> Vec<(f64, f64)> {
    let Scalar::Text(text) = cell else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(text);
    let numbers: Vec<f64> = text
        .split(['[', ']', ',', ' '])
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect()
}
