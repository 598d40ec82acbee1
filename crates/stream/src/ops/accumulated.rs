//! Descriptions of the accumulators of a pipeline. The engine derives its cells from them ([`super::aggregate`]),
//! other engines their columns ([`crate::cells`]).

use plan::{Aggregate, Aggregated, Column, Pipeline, Predicate, Total};
use tuple::DataType;

use crate::sketch::log_histogram::{BITS, FINE_BITS};

/// Minimum or maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

/// A column with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The column of the dataflow.
    pub column: Column,
    /// Its type.
    pub data_type: DataType,
}

/// The content of an accumulator. Null values are skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Accumulated {
    /// Number of tuples.
    Count,
    /// Number of values and their sum, exact for integers.
    Sum(Measured),
    /// The minimum or maximum value.
    Extreme(Measured, End),
    /// Variance. For integers: number of values, their sum, and the sum of their squares, all exact.
    Spread(Measured),
    /// Number of values per bucket, with 2^`bits` buckets per power of two; the minimum and maximum value.
    Histogram(Measured, u8),
    /// The set of distinct values.
    Distinct(Measured),
    /// Number of tuples for which the predicate is true, and for which it is not null.
    Outcome(Predicate),
}

impl Accumulated {
    /// The column of a set of distinct values.
    #[must_use]
    pub fn distinct(&self) -> Option<&Measured> {
        if let Accumulated::Distinct(of) = self { Some(of) } else { None }
    }
}

/// The accumulators of a pipeline without duplicates, and the accumulator of each aggregate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accumulation {
    /// The accumulators.
    pub list: Vec<Accumulated>,
    /// By accumulator: index of its value in the pipeline.
    pub values: Vec<Option<usize>>,
    /// By aggregate: index of its accumulator.
    pub place: Vec<usize>,
}

impl Accumulation {
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
    ) -> Accumulation {
        // Ends of an interval are bucket bounds, so sampling uses finer buckets; displayed buckets are the same with
        // and without sampling.
        let shows_buckets = |c: &Aggregated| c.aggregate.is_distribution();
        let is_fine = is_sampled && !pipeline.aggregates.iter().any(shows_buckets);
        let bits = if is_fine { FINE_BITS } else { BITS };
        let measured = |column: Column| Measured { column, data_type: data_type(column) };
        // For one value, quantiles, hist, and cdf share a histogram; avg and sum share a sum; rate and count share a
        // count. Accumulators with their own columns or predicates are not shared.
        let is_shared =
            |one: &Accumulated| !matches!(one, Accumulated::Distinct(_) | Accumulated::Outcome(_));
        let mut all = Accumulation::default();
        for Aggregated { aggregate, value, .. } in &pipeline.aggregates {
            let place = aggregate.takes_value().then_some(*value);
            let value =
                place.and_then(|place| pipeline.values.get(place)).map(|value| measured(value.column));
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
    aggregate: &Aggregate,
    value: Option<Measured>,
    bits: u8,
    measured: &dyn Fn(Column) -> Measured,
) -> Accumulated {
    let number = || match value {
        Some(value @ Measured { data_type: DataType::U64 | DataType::I64 | DataType::F64, .. }) => value,
        other => panic!("{aggregate:?} needs a number, not {other:?}"),
    };
    match aggregate {
        Aggregate::Count | Aggregate::Rate | Aggregate::Share(Total::Tuples) => Accumulated::Count,
        Aggregate::Sum | Aggregate::Avg | Aggregate::Throughput | Aggregate::Share(Total::Values) => {
            Accumulated::Sum(number())
        }
        Aggregate::Min => Accumulated::Extreme(number(), End::Min),
        Aggregate::Max => Accumulated::Extreme(number(), End::Max),
        Aggregate::Stddev => Accumulated::Spread(number()),
        Aggregate::Quantile(_) | Aggregate::Hist | Aggregate::Cdf => Accumulated::Histogram(number(), bits),
        Aggregate::Distinct(column) => Accumulated::Distinct(measured(*column)),
        Aggregate::Success(predicate) | Aggregate::Ratio(predicate) => {
            Accumulated::Outcome(predicate.clone())
        }
    }
}
