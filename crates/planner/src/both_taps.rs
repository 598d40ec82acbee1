//! A query over both taps of a flow, as two plans: the tuples reported by each agent for the flows with an end at its
//! host, and the processing of these tuples after the join of both ends.

use std::sync::Arc;

use plan::{
    Column, ComparisonOperator, Dataflow, DataflowInput, Literal, Plan, Predicate, RawRows,
    SampleMode, TapSelection,
};
use tuple::{FieldId, TapColumns, TapEnd, common};

use crate::query_dataflow::all_of;

/// The two plans of a query over both taps.
#[derive(Clone, Debug)]
pub struct BothTaps {
    /// Tuples with the required columns: all of the server's end; of the client's end those that pass the conditions
    /// independent of the other end.
    pub agents: Arc<Plan>,
    /// The processing of joined tuples.
    pub joined: Arc<Plan>,
}

/// The two plans of a query over both taps; `None` for other queries.
///
/// # Errors
/// The reason that agents do not support the query.
pub fn both_taps(plan: &Plan) -> Result<Option<BothTaps>, &'static str> {
    let Some(parser) = plan
        .monitor
        .parsers
        .iter()
        .find(|parser| parser.reads_two_taps())
    else {
        return Ok(None);
    };
    let ([input], Some(taps)) = (&plan.dataflow.inputs[..], TapColumns::of(&parser.schema)) else {
        return Err("tap.… of several agents needs exactly one parser in PARSE");
    };
    if plan.monitor.taps != TapSelection::default() {
        return Err("tap.… needs both taps of a flow: omit TAPS");
    }
    if plan.monitor.sample == SampleMode::Auto {
        return Err(
            "SAMPLE auto is not supported with two taps, which would sample different flows: use a fixed share, as in SAMPLE 0.1",
        );
    }
    let (at_client, left) = divide(plan.dataflow.filter.as_ref(), taps);
    let columns = columns(input, taps);
    let mut agents = plan.clone();
    agents.monitor.taps = TapSelection::Ends;
    agents.monitor.parsers[0].columns.clone_from(&columns);
    agents.dataflow = Dataflow {
        inputs: vec![DataflowInput {
            schema: input.schema.clone(),
            columns,
            filter: None,
        }],
        filter: at_client.map(|condition| Predicate::Or(vec![is_of_server(taps), condition])),
        rows: RawRows::default(),
        ..Dataflow::default()
    };
    let mut joined = plan.clone();
    joined.dataflow.filter = left;
    Ok(Some(BothTaps {
        agents: Arc::new(agents),
        joined: Arc::new(joined),
    }))
}

/// Splits a condition into the part that one end can evaluate alone, and the rest.
fn divide(filter: Option<&Predicate>, taps: TapColumns) -> (Option<Predicate>, Option<Predicate>) {
    let parts = match filter {
        Some(Predicate::And(parts)) => parts.clone(),
        other => other.cloned().into_iter().collect(),
    };
    let is_of_one_end = |part: &Predicate| {
        let mut is_so = true;
        part.columns(&mut |column| {
            is_so &= column.computed_place().is_none() && !taps.any(&[column.field])
        });
        is_so
    };
    let (one, both): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_of_one_end);
    (all_of(one), all_of(both))
}

/// The required columns, those that identify requests, and the end of the tap.
fn columns(input: &DataflowInput, taps: TapColumns) -> Vec<FieldId> {
    let made = [taps.client_time, taps.server_time, taps.network_time];
    let mut columns: Vec<FieldId> = input
        .columns
        .iter()
        .copied()
        .filter(|id| !made.contains(id))
        .collect();
    columns.extend([
        common::CLIENT_IP,
        common::CLIENT_PORT,
        common::SERVER_IP,
        common::SERVER_PORT,
    ]);
    columns.extend([
        common::ID,
        common::TS,
        common::TS_END,
        taps.request,
        taps.seen,
    ]);
    columns.extend(input.schema.measure);
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn is_of_server(taps: TapColumns) -> Predicate {
    let column = Column {
        input: 0,
        field: taps.seen,
    };
    Predicate::Compare {
        column,
        op: ComparisonOperator::Eq,
        literal: Literal::Text(TapEnd::Server.word().into()),
    }
}
