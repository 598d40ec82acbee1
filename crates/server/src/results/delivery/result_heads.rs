//! Descriptions of a job's results, sent to other programs before the first row.

use plan::Plan;
use sinks::{EmptyReason, ResultHead};

use crate::store::sqlite::KeptResult;

/// Descriptions of a plan's stored results.
pub fn heads(plan: &Plan, results: &[KeptResult]) -> Vec<ResultHead> {
    let parsers: Vec<String> = plan
        .dataflow
        .inputs
        .iter()
        .map(|input| input.schema.name.to_string())
        .collect();
    let head = |result: &KeptResult| {
        let pipeline = plan.dataflow.pipelines.get(result.place);
        ResultHead {
            processor: result.processor.clone(),
            columns: result
                .columns
                .iter()
                .map(|column| column.name.clone())
                .collect(),
            keys: result.keys,
            slide_ns: pipeline
                .and_then(|pipeline| pipeline.window)
                .map(|window| window.slide_ns),
            empty: if pipeline.is_some_and(|pipeline| pipeline.selection.having.is_some()) {
                EmptyReason::NoneChosen
            } else {
                EmptyReason::NoTuples
            },
            parsers: parsers.clone(),
        }
    };
    results.iter().map(head).collect()
}
