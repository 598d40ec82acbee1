//! A query over both taps of a flow, as two plans: what each agent tells of the flows that it is at one end of, and what is done with
//! these tuples when both ends' are joined.

use std::sync::Arc;

use plan::{Column, Compare, Dataflow, Input, Literal, Plan, Predicate, RawRows, Sample, Taps};
use tuple::{FieldId, TapColumns, TapEnd, common};

use crate::lower::all_of;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct BothTaps {
    /// Tuples with the columns needed: all of the server's end; of the client's end those that pass the conditions that
    /// do not depend on the other end.
    pub agents: Arc<Plan>,
    /// What is left to be done with joined tuples.
    pub joined: Arc<Plan>,
}

/// The two plans of a query that asks for both taps; `None`: it does not.
///
/// # Errors
/// Why agents cannot be asked for that.
pub fn both_taps(plan: &Plan) -> Result<Option<BothTaps>, &'static str> {
    let Some(parser) = plan.monitor.parsers.iter().find(|parser| parser.reads_two_taps()) else {
        return Ok(None);
    };
    let ([input], Some(taps)) = (&plan.dataflow.inputs[..], TapColumns::of(&parser.schema)) else {
        return Err("tap.… of several agents goes with one parser: leave the others out of PARSE");
    };
    if plan.monitor.taps != Taps::default() {
        return Err("tap.… needs both taps of a flow, and TAPS asks for others: leave TAPS out");
    }
    if plan.monitor.sample == Sample::Auto {
        return Err(
            "SAMPLE auto is not supported with two taps, which would sample different flows: use a fixed share, as in SAMPLE 0.1",
        );
    }
    let (at_client, left) = divide(plan.dataflow.filter.as_ref(), taps);
    let columns = columns(input, taps);
    let mut agents = plan.clone();
    agents.monitor.taps = Taps::Ends;
    agents.monitor.parsers[0].columns.clone_from(&columns);
    agents.dataflow = Dataflow {
        inputs: vec![Input { schema: input.schema.clone(), columns, filter: None }],
        filter: at_client.map(|condition| Predicate::Or(vec![is_of_server(taps), condition])),
        rows: RawRows::default(),
        ..Dataflow::default()
    };
    let mut joined = plan.clone();
    joined.dataflow.filter = left;
    Ok(Some(BothTaps { agents: Arc::new(agents), joined: Arc::new(joined) }))
}

/// What one end alone can tell of a condition, and the rest.
fn divide(filter: Option<&Predicate>, taps: TapColumns) -> (Option<Predicate>, Option<Predicate>) {
    let parts = match filter {
        Some(Predicate::And(parts)) => parts.clone(),
        other => other.cloned().into_iter().collect(),
    };
    let is_of_one_end = |part: &Predicate| {
        let mut is_so = true;
        part.columns(&mut |column| is_so &= column.computed_place().is_none() && !taps.any(&[column.field]));
        is_so
    };
    let (one, both): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_of_one_end);
    (all_of(one), all_of(both))
}

/// The columns needed, those that identify requests, and the end that captured them.
fn columns(input: &Input, taps: TapColumns) -> Vec<FieldId> {
    let made = [taps.client_time, taps.server_time, taps.network_time];
    let mut columns: Vec<FieldId> = input.columns.iter().copied().filter(|id| !made.contains(id)).collect();
    columns.extend([common::CLIENT_IP, common::CLIENT_PORT, common::SERVER_IP, common::SERVER_PORT]);
    columns.extend([common::ID, common::TS, common::TS_END, taps.request, taps.seen]);
    columns.extend(input.schema.measure);
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn is_of_server(taps: TapColumns) -> Predicate {
    let column = Column { input: 0, field: taps.seen };
    Predicate::Compare { column, op: Compare::Eq, literal: Literal::Text(TapEnd::Server.word().into()) }
}
