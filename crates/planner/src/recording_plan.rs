//! Converts a plan for packets to one for recorded tuples: decisions of the monitor by packet become decisions of the
//! dataflow by tuple.

use plan::{AddressMatch, Column, ComparisonOperator, DataflowInput, Literal, Plan, Predicate};
use tuple::{FieldId, common};

/// The plan with FROM, TO, LIMIT (a time, counted from the start of its span or from the recording's first packet at
/// `first_ts`), and span as filters of its inputs.
#[must_use]
pub fn recorded(plan: &Plan, first_ts: Option<i64>) -> Plan {
    let mut plan = plan.clone();
    let span = plan.monitor.span;
    let first = span.start_ns.or(first_ts);
    let until = first.zip(plan.monitor.limit.nanos).map(|(first, limit)| first.saturating_add(limit));
    let bounds = [
        (until, ComparisonOperator::Le),
        (span.start_ns, ComparisonOperator::Ge),
        (span.end_ns, ComparisonOperator::Lt),
    ];
    for (i, input) in plan.dataflow.inputs.iter_mut().enumerate() {
        let column = |field| Column { input: i as u16, field };
        let mut parts: Vec<Predicate> = Vec::new();
        parts.extend(any_of(&plan.monitor.clients, column(common::CLIENT_IP), column(common::CLIENT_PORT)));
        parts.extend(any_of(&plan.monitor.servers, column(common::SERVER_IP), column(common::SERVER_PORT)));
        parts.extend(bounds.iter().filter_map(|(ns, op)| {
            let column = column(common::TS_END);
            let literal = Literal::I64((*ns)?);
            Some(Predicate::Compare { column, op: *op, literal })
        }));
        for part in parts {
            narrow(input, part);
        }
    }
    for (parser, input) in plan.monitor.parsers.iter_mut().zip(&plan.dataflow.inputs) {
        parser.columns = input.columns.clone();
    }
    plan
}

/// A condition for an endpoint that matches an entry of the list; `None` if any matches.
fn any_of(list: &[AddressMatch], ip: Column, port: Column) -> Option<Predicate> {
    let matches = |wanted: &AddressMatch| {
        let net = wanted.net.map(|(net, prefix)| Predicate::Compare {
            column: ip,
            op: ComparisonOperator::Eq,
            literal: Literal::Net(net, prefix),
        });
        let number = wanted.port.map(|n| Predicate::Compare {
            column: port,
            op: ComparisonOperator::Eq,
            literal: Literal::U64(n.into()),
        });
        Predicate::And(net.into_iter().chain(number).collect())
    };
    (!list.is_empty()).then(|| Predicate::Or(list.iter().map(matches).collect()))
}

/// Adds a condition and its columns to an input.
pub(crate) fn narrow(input: &mut DataflowInput, by: Predicate) {
    let mut columns: Vec<FieldId> = Vec::new();
    by.columns(&mut |column| columns.push(column.field));
    input.columns.extend(columns);
    input.columns.sort_unstable();
    input.columns.dedup();
    input.filter = Some(match input.filter.take() {
        Some(before) => Predicate::And(vec![before, by]),
        None => by,
    });
}
