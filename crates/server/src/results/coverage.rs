//! Effect of missing agents on rows. The captured share of the traffic is unknown, so intervals of totals have no upper
//! bound, as if the capture had lost nearly everything.

use arrow_array::new_null_array;
use plan::result::{IntervalMode, ResultColumn, places, shown};
use plan::{AggregateFunction, Dataflow, Pipeline, SampleMode};
use tuple::{Batch, FieldId};

/// Columns with the upper bounds of totals in a result; empty if it has no intervals.
pub fn upper_ends(dataflow: &Dataflow, result: usize, sample: SampleMode) -> Vec<FieldId> {
    match dataflow
        .pipelines
        .get(result)
        .filter(|pipeline| sample != SampleMode::All && pipeline.profile.is_none())
    {
        Some(pipeline) => of_totals(pipeline),
        None => Vec::new(),
    }
}

fn of_totals(pipeline: &Pipeline) -> Vec<FieldId> {
    let is_total = |shown: &ResultColumn| match shown {
        ResultColumn::Aggregate(place) => matches!(
            pipeline.aggregates[*place].aggregate,
            AggregateFunction::Count
                | AggregateFunction::Rate
                | AggregateFunction::Sum
                | AggregateFunction::Throughput
                | AggregateFunction::Hist
        ),
        _ => false,
    };
    // A value is followed by the lower and upper bound of its interval.
    let columns = shown(pipeline)
        .into_iter()
        .zip(places(pipeline, IntervalMode::Shown));
    columns
        .filter(|(shown, _)| is_total(shown))
        .map(|(_, place)| FieldId(place.0 + 2))
        .collect()
}

/// The rows with these columns set to null.
pub fn without(batch: &Batch, columns: &[FieldId]) -> Batch {
    if columns.is_empty() {
        return batch.clone();
    }
    let column = |id: FieldId| {
        let array = batch.column(id)?;
        Some(if columns.contains(&id) {
            new_null_array(array.data_type(), batch.rows())
        } else {
            array.clone()
        })
    };
    Batch::new(
        batch.schema().clone(),
        batch.rows(),
        batch.schema().ids().map(column).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upper bounds removed from a query's first result.
    fn lost(query: &str) -> Vec<String> {
        let schemas = parsers::registry::schemas();
        let plan = planner::lower(&query::check(query, &schemas, &()).expect("a query"));
        let sample = if let SampleMode::Fraction(share) = plan.monitor.sample {
            share
        } else {
            1.0
        };
        let engine = stream::Engine::new(
            &plan.dataflow,
            stream::EngineConfig {
                sample,
                ..stream::EngineConfig::default()
            },
        );
        let schema = engine.result_schema(0);
        let columns = upper_ends(&plan.dataflow, 0, plan.monitor.sample);
        columns
            .into_iter()
            .map(|id| schema.field(id).name.to_string())
            .collect()
    }

    #[test]
    fn totals_lose_their_upper_ends_and_nothing_else_does() {
        for (query, expected) in [
            ("PARSE http SAMPLE 0.5 PROCESS (count)", &["count_high"][..]),
            (
                "PARSE http SAMPLE 0.5 PROCESS (group-count-avg: group=url, w=1s)",
                &["count_high"],
            ),
            (
                "PARSE http SAMPLE 0.5 PROCESS (top-k: k=3)",
                &["count_high"],
            ),
            ("PARSE http SAMPLE 0.5 PROCESS (quantile: q=0.9)", &[]),
            (
                "PARSE http SAMPLE 0.5 PROCESS (success-rate)",
                &["rate_high"],
            ),
            // Without sampling, rows have no intervals.
            ("PARSE http PROCESS (count)", &[]),
        ] {
            assert_eq!(lost(query), expected, "{query}");
        }
    }
}
