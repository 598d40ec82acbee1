//! Descriptions of the accumulators of a pipeline. The engine derives its cells from them ([`super::aggregate`]),
//! other engines their columns ([`crate::cells`]).

use plan::{AggregateColumn, AggregateFunction, Column, Pipeline, Predicate, ShareTotal};
use tuple::DataType;

use crate::sketch::log_histogram::{BITS, FINE_BITS};

/// Minimum or maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtremeEnd {
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

/// A column with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredColumn {
    /// The column of the dataflow.
    pub column: Column,
    /// Type of the value.
    pub data_type: DataType,
}

/// The content of an accumulator. Null values are skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum AccumulatorSpec {
    /// Number of tuples.
    Count,
    /// Number of values and their sum, exact for integers.
    Sum(MeasuredColumn),
    /// The minimum or maximum value.
    Extreme(MeasuredColumn, ExtremeEnd),
    /// Variance. For integers: number of values, their sum, and the sum of their squares, all exact.
    Spread(MeasuredColumn),
    /// Number of values per bucket, with 2^`bits` buckets per power of two; the minimum and maximum value.
    Histogram(MeasuredColumn, u8),
    /// The set of distinct values.
    Distinct(MeasuredColumn),
    /// Number of tuples for which the predicate is true, and for which it is not null.
    Outcome(Predicate),
}

impl AccumulatorSpec {
    /// The column of a set of distinct values.
    #[must_use]
    pub fn distinct(&self) -> Option<&MeasuredColumn> {
        if let AccumulatorSpec::Distinct(of) = self {
            Some(of)
        } else {
            None
        }
    }
}

/// The accumulators of a pipeline without duplicates, and the accumulator of each aggregate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccumulatorPlan {
    /// The accumulators.
    pub list: Vec<AccumulatorSpec>,
    /// By accumulator: index of its value in the pipeline.
    pub values: Vec<Option<usize>>,
    /// By aggregate: index of its accumulator.
    pub place: Vec<usize>,
}

impl AccumulatorPlan {
    /// The accumulators required by a pipeline. `is_sampled`: the tuples are from a sample of flows. `data_type`
    /// returns the type of a column.
    ///
    /// # Panics
    /// If an aggregate requires a numeric value and has none; the planner rejects these.
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        is_sampled: bool,
        data_type: &dyn Fn(Column) -> DataType,
    ) -> AccumulatorPlan {
        // Ends of an interval are bucket bounds, so sampling uses finer buckets; displayed buckets are the same with
        // and without sampling.
        let shows_buckets = |c: &AggregateColumn| c.aggregate.is_distribution();
        let is_fine = is_sampled && !pipeline.aggregates.iter().any(shows_buckets);
        let bits = if is_fine { FINE_BITS } else { BITS };
        let measured = |column: Column| MeasuredColumn {
            column,
            data_type: data_type(column),
        };
        // For one value, quantiles, hist, and cdf share a histogram; avg and sum share a sum; rate and count share a
        // count. Accumulators with their own columns or predicates are not shared.
        let is_shared = |one: &AccumulatorSpec| {
            !matches!(
                one,
                AccumulatorSpec::Distinct(_) | AccumulatorSpec::Outcome(_)
            )
        };
        let mut all = AccumulatorPlan::default();
        for AggregateColumn {
            aggregate, value, ..
        } in &pipeline.aggregates
        {
            let place = aggregate.takes_value().then_some(*value);
            let value = place
                .and_then(|place| pipeline.values.get(place))
                .map(|value| measured(value.column));
            let one = accumulated(aggregate, value, bits, &measured);
            let mut known = all.list.iter().zip(&all.values);
            match known.position(|(known, of)| is_shared(&one) && *known == one && *of == place) {
                Some(known) => all.place.push(known),
                None => {
                    all.place.push(all.list.len());
                    all.list.push(one);
                    all.values.push(place);
                }
            }
        }
        all
    }
}

fn accumulated(
    aggregate: &AggregateFunction,
    value: Option<MeasuredColumn>,
    bits: u8,
    measured: &dyn Fn(Column) -> MeasuredColumn,
) -> AccumulatorSpec {
    let number = || match value {
        Some(
            value @ MeasuredColumn {
                data_type: DataType::U64 | DataType::I64 | DataType::F64,
                ..
            },
        ) => value,
        other => panic!("{aggregate:?} needs a number, not {other:?}"),
    };
    match aggregate {
        AggregateFunction::Count
        | AggregateFunction::Rate
        | AggregateFunction::Share(ShareTotal::Tuples) => AccumulatorSpec::Count,
        AggregateFunction::Sum
        | AggregateFunction::Avg
        | AggregateFunction::Throughput
        | AggregateFunction::Share(ShareTotal::Values) => AccumulatorSpec::Sum(number()),
        AggregateFunction::Min => AccumulatorSpec::Extreme(number(), ExtremeEnd::Min),
        AggregateFunction::Max => AccumulatorSpec::Extreme(number(), ExtremeEnd::Max),
        AggregateFunction::Stddev => AccumulatorSpec::Spread(number()),
        AggregateFunction::Quantile(_) | AggregateFunction::Hist | AggregateFunction::Cdf => {
            AccumulatorSpec::Histogram(number(), bits)
        }
        AggregateFunction::Distinct(column) => AccumulatorSpec::Distinct(measured(*column)),
        AggregateFunction::Success(predicate) | AggregateFunction::Ratio(predicate) => {
            AccumulatorSpec::Outcome(predicate.clone())
        }
    }
}
