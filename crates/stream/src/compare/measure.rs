//! The measures required per slice to judge a result: sums, numbers of values, and histograms. They are pipeline
//! results computed by the engine.

use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, Column, ComputedField, Dataflow, Expr,
    Literal, Pipeline, Predicate, ResultSelection, ShareTotal,
};
use tuple::{DataType, Field, Unit};

/// Number of slices per period.
pub const SLICES: usize = 20;
/// Maximum groups of a slice; with more groups, no difference is judged.
pub const GROUPS_JUDGED_MAX: usize = 10_000;

/// The kind of a result and the column positions of its measures in the output of [`of_slices`]. Position 0 is always
/// the number of tuples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComparisonMeasure {
    /// A number of tuples.
    Count,
    /// A sum.
    Total { sum: usize },
    /// A mean: sum, proportion of non-null tuples, and standard deviation.
    Mean {
        sum: usize,
        known: usize,
        stddev: usize,
    },
    /// A proportion: number of tuples with a true condition, and number of tuples with a known one.
    Proportion { sum: usize, known: usize },
    /// A quantile: the histogram and the proportion below the quantile.
    Quantile { hist: usize, q: f64 },
    /// The group's proportion of all tuples.
    ShareOfTuples,
    /// The group's proportion of the sum of all values.
    ShareOfValues { sum: usize },
    /// A number without an estimate of its noise.
    Unjudged,
}

/// Returns the pipeline that computes the measures of a slice for the results of `pipeline`. Adds required columns to
/// `dataflow`.
pub fn of_slices(
    pipeline: &Pipeline,
    dataflow: &mut Dataflow,
) -> (Pipeline, Vec<ComparisonMeasure>) {
    let mut slices = Pipeline {
        aggregates: vec![AggregateFunction::Count.into()],
        top_k: None,
        groups_max: pipeline.groups_max.min(GROUPS_JUDGED_MAX),
        selection: ResultSelection::default(),
        ..pipeline.clone()
    };
    let measure = |aggregated: &AggregateColumn| match &aggregated.aggregate {
        AggregateFunction::Count | AggregateFunction::Rate => ComparisonMeasure::Count,
        AggregateFunction::Sum | AggregateFunction::Throughput => ComparisonMeasure::Total {
            sum: add(&mut slices, AggregateFunction::Sum, aggregated.value),
        },
        AggregateFunction::Avg => {
            let known = known(pipeline.values[aggregated.value].column);
            ComparisonMeasure::Mean {
                sum: add(&mut slices, AggregateFunction::Sum, aggregated.value),
                known: add(&mut slices, known, 0),
                stddev: add(&mut slices, AggregateFunction::Stddev, aggregated.value),
            }
        }
        AggregateFunction::Success(is_so) | AggregateFunction::Ratio(is_so) => {
            let column = one_or_nothing(is_so, dataflow);
            slices.values.push(AggregatedValue {
                column,
                unit: Unit::None,
            });
            let value = slices.values.len() - 1;
            ComparisonMeasure::Proportion {
                sum: add(&mut slices, AggregateFunction::Sum, value),
                known: add(&mut slices, known(column), 0),
            }
        }
        AggregateFunction::Quantile(q) => ComparisonMeasure::Quantile {
            hist: add(&mut slices, AggregateFunction::Hist, aggregated.value),
            q: *q,
        },
        AggregateFunction::Share(ShareTotal::Tuples) => ComparisonMeasure::ShareOfTuples,
        AggregateFunction::Share(ShareTotal::Values) => ComparisonMeasure::ShareOfValues {
            sum: add(&mut slices, AggregateFunction::Sum, aggregated.value),
        },
        _ => ComparisonMeasure::Unjudged,
    };
    let measures = pipeline.aggregates.iter().map(measure).collect();
    (slices, measures)
}

/// Returns the position of an aggregate, adding it if it is missing.
fn add(slices: &mut Pipeline, aggregate: AggregateFunction, value: usize) -> usize {
    let is_it = |a: &AggregateColumn| {
        a.aggregate == aggregate && (a.value == value || !aggregate.takes_value())
    };
    slices.aggregates.iter().position(is_it).unwrap_or_else(|| {
        slices.aggregates.push(AggregateColumn {
            aggregate,
            value,
            name: None,
        });
        slices.aggregates.len() - 1
    })
}

/// The proportion of tuples with a value.
fn known(column: Column) -> AggregateFunction {
    AggregateFunction::Ratio(Predicate::Not(Box::new(Predicate::IsNull(column))))
}

/// Adds a column with 1 where the condition is true, 0 where it is false, and null otherwise.
fn one_or_nothing(is_so: &Predicate, dataflow: &mut Dataflow) -> Column {
    let number = |n| Box::new(Expr::Literal(Literal::I64(n)));
    let is_false = Predicate::Not(Box::new(is_so.clone()));
    let unless = Expr::If(Box::new(is_false), number(0), Box::new(Expr::Null));
    dataflow.computed.push(ComputedField {
        field: Field::new(
            "condition",
            DataType::I64,
            Unit::None,
            "whether a condition is true",
        ),
        text: "condition".into(),
        expr: Expr::If(Box::new(is_so.clone()), number(1), Box::new(unless)),
    });
    Column::computed(dataflow.computed.len() - 1)
}
