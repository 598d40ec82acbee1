//! Translates a checked query to a plan: the dataflow of the query, adapted to the requirements of a run
//! ([`PlanOptions`]), and the monitors that fill its columns. No later code modifies a plan.

use std::sync::Arc;

use plan::{Dataflow, DataflowInput, MonitorSpec, ParserUse, Plan, QueryLimit, TimeSpan};
use query::CheckedQuery;
use tuple::{AgentOrigin, FieldId, common};

use crate::options::{PlanInput, PlanOptions, PlanOutput};
use crate::period::within;
use crate::query_dataflow::{dataflow, rate_column};
use crate::recording_plan::recorded;

/// The plan of a query over packets, without options.
#[must_use]
pub fn lower(query: &CheckedQuery) -> Plan {
    lower_with(query, &PlanOptions::default())
}

/// The plan of a query for a run with these options.
#[must_use]
pub fn lower_with(query: &CheckedQuery, options: &PlanOptions) -> Plan {
    let mut dataflow = within(dataflow(query), options.bounds);
    if let PlanInput::Tuples { first_ts } = options.input {
        dataflow = recorded(dataflow, query, first_ts);
    }
    dataflow = dataflow.with_groups_max(options.groups_max);
    let mut added = options.columns.clone();
    match &options.output {
        PlanOutput::Results => {}
        PlanOutput::Recording(origin) => {
            dataflow.rows.select = None;
            if dataflow.pipelines.is_empty() {
                added.extend(add_origin(&mut dataflow, origin));
                // Readers scale each flow by its rate.
                added.extend(rate_column(query));
            }
        }
        PlanOutput::Comparison => {
            dataflow = dataflow.tuples();
            if options.input == PlanInput::Packets {
                // Tuples of workers are sorted by these.
                added.extend([common::ID, common::TS, common::TS_END]);
            }
        }
    }
    dataflow.pipelines.extend(options.pipelines.iter().cloned());
    if let Some(field) = options.omitted
        && !options.reads(query, field)
    {
        for input in &mut dataflow.inputs {
            let omitted = input.schema.find(field);
            input.columns.retain(|column| Some(*column) != omitted);
        }
    }
    if let Some(input) = dataflow.inputs.first_mut() {
        add_columns(input, &added);
    }
    let parsers = dataflow.inputs.iter().map(|i| ParserUse {
        schema: i.schema.clone(),
        columns: i.columns.clone(),
    });
    let monitor = MonitorSpec {
        parsers: parsers.collect(),
        clients: query.from.clone(),
        servers: query.to.clone(),
        limit: QueryLimit {
            packets: least(query.limit.packets, options.limit.packets),
            nanos: least(query.limit.nanos, options.limit.nanos),
        },
        span: TimeSpan::default(),
        sample: query.sample,
        goal: query.goal,
        sample_seed: options.sample_seed,
        taps: query.taps,
    };
    Plan {
        query: query.text.clone(),
        monitor,
        dataflow,
    }
}

fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

fn add_columns(input: &mut DataflowInput, columns: &[FieldId]) {
    input.columns.extend(columns);
    input.columns.sort_unstable();
    input.columns.dedup();
}

/// Adds fields for the origin of tuples to the schema of the first input; returns all fields for the origin.
fn add_origin(dataflow: &mut Dataflow, origin: &AgentOrigin) -> Vec<FieldId> {
    let Some(input) = dataflow.inputs.first_mut() else {
        return Vec::new();
    };
    let schema = Arc::make_mut(&mut input.schema);
    origin.columns().for_each(|name| schema.add_member(&name));
    schema.origin_columns().map(|(id, _)| id).collect()
}
