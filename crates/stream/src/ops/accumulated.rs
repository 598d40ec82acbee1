//! What is accumulated of the tuples of a group, as a plain description: the engine makes its cells by it ([`super::aggregate`]), other engines
//! their columns ([`crate::cells`]).

use plan::{Aggregate, Aggregated, Column, Pipeline, Predicate, Total};
use tuple::DataType;

use crate::sketch::log_histogram::{BITS, FINE_BITS};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The least.
    Min,
    /// The largest.
    Max,
}

/// A column, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The column of the dataflow.
    pub column: Column,
    /// Its type.
    pub data_type: DataType,
}

/// What an accumulator holds. Null values take no part.
#[derive(Clone, Debug, PartialEq)]
pub enum Accumulated {
    /// How many tuples.
    Count,
    /// How many values, and their sum: of whole numbers exactly.
    Sum(Measured),
    /// The least or the largest value.
    Extreme(Measured, End),
    /// How far values are from their mean: of whole numbers their number, their sum and the sum of their squares, exactly.
    Spread(Measured),
    /// How many values are in each bucket, 2^`bits` of them to a power of two; and the least and the largest value.
    Histogram(Measured, u8),
    /// Which different values.
    Distinct(Measured),
    /// For how many tuples the predicate is true, and for how many true or false.
    Outcome(Predicate),
}

impl Accumulated {
    /// The column whose different values it is of.
    #[must_use]
    pub fn distinct(&self) -> Option<&Measured> {
        if let Accumulated::Distinct(of) = self { Some(of) } else { None }
    }
}

/// The accumulators of a pipeline, each once, and who reads which.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accumulation {
    /// The accumulators.
    pub list: Vec<Accumulated>,
    /// By accumulator: of which of the pipeline's values it is.
    pub values: Vec<Option<usize>>,
    /// By aggregate: the place of what it reads.
    pub place: Vec<usize>,
}

impl Accumulation {
    /// What a pipeline needs; `is_sampled`: its tuples are those of a sample of flows. `data_type` says what a column holds.
    ///
    /// # Panics
    /// When an aggregate needs a value and there is none, or it is not a number: the planner's bug.
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        is_sampled: bool,
        data_type: &dyn Fn(Column) -> DataType,
    ) -> Accumulation {
        // The ends of an interval are those of buckets; but buckets that are shown are the same with a sample.
        let shows_buckets = |c: &Aggregated| c.aggregate.is_distribution();
        let is_fine = is_sampled && !pipeline.aggregates.iter().any(shows_buckets);
        let bits = if is_fine { FINE_BITS } else { BITS };
        let measured = |column: Column| Measured { column, data_type: data_type(column) };
        // Of one value quantiles, hist and cdf read one histogram; avg and sum one sum; rate and count one count. Of columns
        // and predicates of their own nothing is shared.
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
