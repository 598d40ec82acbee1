//! A plan for packets as one for tuples that were recorded: what the monitor would have decided by packets, the
//! dataflow decides by tuples.

use plan::{AddressMatch, Column, Compare, Input, Literal, Plan, Predicate};
use tuple::{FieldId, common};

/// The plan with FROM, TO, LIMIT (a time, from the recording's first packet at `first_ts` on, or from the start of its span) and span
/// as filters of its inputs.
#[must_use]
pub fn recorded(plan: &Plan, first_ts: Option<i64>) -> Plan {
    let mut plan = plan.clone();
    let span = plan.monitor.span;
    let first = span.start_ns.or(first_ts);
    let until = first.zip(plan.monitor.limit.nanos).map(|(first, limit)| first.saturating_add(limit));
    let bounds = [(until, Compare::Le), (span.start_ns, Compare::Ge), (span.end_ns, Compare::Lt)];
    for (i, input) in plan.dataflow.inputs.iter_mut().enumerate() {
        let column = |field| Column { input: i as u16, field };
        let mut parts: Vec<Predicate> = Vec::new();
        parts.extend(any_of(&plan.monitor.clients, column(common::CLIENT_IP), column(common::CLIENT_PORT)));
        parts.extend(any_of(&plan.monitor.servers, column(common::SERVER_IP), column(common::SERVER_PORT)));
        parts.extend(bounds.iter().filter_map(|(ns, op)| {
            let (column, literal) = (column(common::TS_END), Literal::I64((*ns)?));
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

/// An end's address and port match one of the list; `None` when any does.
fn any_of(list: &[AddressMatch], ip: Column, port: Column) -> Option<Predicate> {
    let matches = |wanted: &AddressMatch| {
        let net = wanted.net.map(|(net, prefix)| Predicate::Compare {
            column: ip,
            op: Compare::Eq,
            literal: Literal::Net(net, prefix),
        });
        let number = wanted.port.map(|n| Predicate::Compare {
            column: port,
            op: Compare::Eq,
            literal: Literal::U64(n.into()),
        });
        Predicate::And(net.into_iter().chain(number).collect())
    };
    (!list.is_empty()).then(|| Predicate::Or(list.iter().map(matches).collect()))
}

/// Adds a condition to an input, and the columns that it reads.
pub(crate) fn narrow(input: &mut Input, by: Predicate) {
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
