//! Converts a plan to one that outputs tuples for later queries, as publishers do.

use plan::{Column, Dataflow, DataflowInput, Plan, RawRows};
use tuple::{FieldId, common};

/// The plan without processors, and dataflows that output the tuples of each input separately: with all columns, unless
/// SELECT names some. Conditions over several inputs are left to the join.
#[must_use]
pub fn published_tuples(plan: &Plan) -> (Plan, Vec<Dataflow>) {
    let Plan {
        query,
        monitor,
        dataflow,
    } = plan.clone();
    let has_selection = dataflow.pipelines.is_empty() && dataflow.rows.select.is_some();
    let inputs: Vec<DataflowInput> = dataflow
        .inputs
        .into_iter()
        .map(|input| whole(input, has_selection))
        .collect();
    let mut monitor = monitor;
    for (parser, input) in monitor.parsers.iter_mut().zip(&inputs) {
        parser.columns.clone_from(&input.columns);
    }
    let pipelines = Vec::new();
    let rows = RawRows::default();
    if inputs.len() < 2 {
        let dataflow = Dataflow {
            inputs,
            filter: dataflow.filter,
            pipelines,
            computed: dataflow.computed,
            rows,
        };
        return (
            Plan {
                query,
                monitor,
                dataflow: dataflow.clone(),
            },
            vec![dataflow],
        );
    }
    let alone = |input: &DataflowInput| {
        let filter = input
            .filter
            .as_ref()
            .map(|filter| filter.renamed(&|column| Column { input: 0, ..column }));
        Dataflow {
            inputs: vec![DataflowInput {
                filter,
                ..input.clone()
            }],
            ..Dataflow::default()
        }
    };
    let each = inputs.iter().map(alone).collect();
    (
        Plan {
            query,
            monitor,
            dataflow: Dataflow {
                inputs,
                ..Dataflow::default()
            },
        },
        each,
    )
}

/// An input with all columns, or with those of SELECT and the ones by which readers sort and scale.
fn whole(input: DataflowInput, has_selection: bool) -> DataflowInput {
    let mut columns: Vec<FieldId> = input.columns;
    if has_selection {
        columns.extend([common::ID, common::TS, common::TS_END, common::SAMPLE_RATE])
    } else {
        columns.extend(input.schema.ids())
    }
    columns.sort_unstable();
    columns.dedup();
    DataflowInput { columns, ..input }
}
