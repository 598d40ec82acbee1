//! Fingerprints of the meaning of cells. Cells with equal fingerprints can be merged.

use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, Column, ComputedField, Dataflow,
    DataflowInput, Expr, Pipeline, ResultSelection, TopK, message,
};
use tuple::{DataType, Field, Unit};
use xxhash_rust::xxh3::xxh3_64;

use super::table::accumulation;
use super::{AccumulatorSpec, ExtremeEnd};
use crate::config::EngineConfig;
use crate::ops::accumulator_spec::AccumulatorPlan;
use crate::pane::GroupOverflow;

/// Returns 16 hexadecimal digits that identify the meaning of a pipeline's cells: their tuples, grouping,
/// accumulators, and times of delivery. Properties that affect only results computed from cells are excluded: names,
/// the number, choice, and order of rows, and the aggregates that read an accumulator. Without windows, only rates
/// require the times of the first and last tuple. Further properties that determine the
/// tuples are given by the last argument.
///
/// # Panics
/// If the pipeline does not exist or the dataflow is invalid.
#[must_use]
pub fn fingerprint(
    dataflow: &Dataflow,
    pipeline: usize,
    config: &EngineConfig,
    beside: &[u8],
) -> String {
    let accumulation = accumulation(dataflow, pipeline, config);
    let bits = accumulation.list.iter().find_map(|one| match one {
        AccumulatorSpec::Histogram(_, bits) => Some(*bits),
        _ => None,
    });
    let mut bytes = message::bytes_of(&bare(dataflow, &dataflow.pipelines[pipeline], accumulation));
    bytes.extend_from_slice(&config.sample.to_bits().to_le_bytes());
    bytes.extend_from_slice(&config.sample_seed.to_le_bytes());
    bytes.push(bits.unwrap_or(0));
    let of = &dataflow.pipelines[pipeline];
    if of.window.is_none()
        && of
            .aggregates
            .iter()
            .any(|one| one.aggregate.is_per_second())
    {
        // Only rates need the times of the first and last tuple; other cells omit them.
        bytes.push(1);
    }
    bytes.extend_from_slice(beside);
    format!("{:016x}", xxh3_64(&bytes))
}

/// Reduces the dataflow to one pipeline and the parts that affect its cells.
fn bare(dataflow: &Dataflow, of: &Pipeline, accumulation: AccumulatorPlan) -> Dataflow {
    // A ranking that exceeds its memory drops the groups with the smallest rank.
    let top_k = match GroupOverflow::of(of, &accumulation) {
        GroupOverflow::Pool => None,
        GroupOverflow::SaveByCount(place) | GroupOverflow::SaveBySum(place) => {
            Some(TopK { k: 0, by: place })
        }
    };
    let aggregates = accumulation.list.into_iter().zip(accumulation.values);
    let values = of.values.iter().map(|value| AggregatedValue {
        unit: Unit::None,
        ..*value
    });
    let mut pipeline = Pipeline {
        name: String::new(),
        values: values.collect(),
        aggregates: aggregates
            .map(|(one, value)| aggregated(one, value))
            .collect(),
        top_k,
        selection: ResultSelection::default(),
        ..of.clone()
    };
    pipeline
        .group
        .iter_mut()
        .for_each(|group| group.name = String::new());
    pipeline
        .profile
        .iter_mut()
        .for_each(|profile| profile.k = 0);
    let inputs = dataflow.inputs.iter().map(|input| {
        let rates = dataflow.rates().map(|(field, _)| field);
        let weights = input
            .columns
            .iter()
            .filter(|column| Some(**column) == rates);
        DataflowInput {
            columns: weights.copied().collect(),
            ..input.clone()
        }
    });
    Dataflow {
        inputs: inputs.collect(),
        filter: dataflow.filter.clone(),
        computed: computed(dataflow, &pipeline),
        pipelines: vec![pipeline],
        ..Dataflow::default()
    }
}

/// The simplest aggregate that reads an accumulator.
fn aggregated(one: AccumulatorSpec, value: Option<usize>) -> AggregateColumn {
    let aggregate = match one {
        AccumulatorSpec::Count => AggregateFunction::Count,
        AccumulatorSpec::Sum(_) => AggregateFunction::Sum,
        AccumulatorSpec::Extreme(_, ExtremeEnd::Min) => AggregateFunction::Min,
        AccumulatorSpec::Extreme(_, ExtremeEnd::Max) => AggregateFunction::Max,
        AccumulatorSpec::Spread(_) => AggregateFunction::Stddev,
        AccumulatorSpec::Histogram(..) => AggregateFunction::Hist,
        AccumulatorSpec::Distinct(of) => AggregateFunction::Distinct(of.column),
        AccumulatorSpec::Outcome(predicate) => AggregateFunction::Ratio(predicate),
    };
    AggregateColumn {
        aggregate,
        value: value.unwrap_or(0),
        name: None,
    }
}

/// Computed columns at their positions, without names. Columns that the pipeline does not read are null.
fn computed(dataflow: &Dataflow, pipeline: &Pipeline) -> Vec<ComputedField> {
    let mut all = dataflow.computed.clone();
    let mut needed = vec![false; all.len()];
    let mut read = |column: Column| {
        column
            .computed_place()
            .into_iter()
            .for_each(|place| needed[place] = true)
    };
    dataflow
        .filter
        .iter()
        .for_each(|filter| filter.columns(&mut read));
    pipeline.values.iter().for_each(|value| read(value.column));
    pipeline.group.iter().for_each(|group| read(group.column));
    for AggregateColumn { aggregate, .. } in &pipeline.aggregates {
        match aggregate {
            AggregateFunction::Distinct(column) => read(*column),
            AggregateFunction::Ratio(predicate) => predicate.columns(&mut read),
            _ => {}
        }
    }
    if let Some(profile) = &pipeline.profile {
        profile.columns().for_each(&mut read);
        profile
            .predicates()
            .for_each(|predicate| predicate.columns(&mut read));
    }
    // A computed column reads only columns before it.
    for place in (0..all.len()).rev() {
        if needed[place] {
            let mut read = |column: Column| {
                column
                    .computed_place()
                    .into_iter()
                    .for_each(|p| needed[p] = true)
            };
            all[place].expr.columns(&mut read);
        }
    }
    for (one, needed) in all.iter_mut().zip(&needed) {
        if !needed {
            one.expr = Expr::Null;
            one.field = Field::new("", DataType::U64, Unit::None, "");
        }
        one.field.name = "".into();
        one.field.doc = "".into();
        one.field.unit = Unit::None;
        one.text = String::new();
    }
    all.truncate(
        needed
            .iter()
            .rposition(|needed| *needed)
            .map_or(0, |last| last + 1),
    );
    all
}
