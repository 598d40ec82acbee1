//! Converts a dataflow over packets to one over recorded tuples: decisions of the monitor by packet become decisions of the
//! dataflow by tuple.

use plan::{AddressMatch, Column, ComparisonOperator, Dataflow, DataflowInput, Literal, Predicate};
use query::CheckedQuery;
use tuple::{FieldId, common};

/// The dataflow with FROM, TO, and LIMIT (a time, counted from `first_ts`) as filters of its inputs.
pub(crate) fn recorded(
    mut dataflow: Dataflow,
    query: &CheckedQuery,
    first_ts: Option<i64>,
) -> Dataflow {
    let until = first_ts
        .zip(query.limit.nanos)
        .map(|(first, limit)| first.saturating_add(limit));
    for (input, i) in dataflow.inputs.iter_mut().zip(0..) {
        let column = |field| Column { input: i, field };
        let mut parts: Vec<Predicate> = Vec::new();
        parts.extend(any_of(
            &query.from,
            column(common::CLIENT_IP),
            column(common::CLIENT_PORT),
        ));
        parts.extend(any_of(
            &query.to,
            column(common::SERVER_IP),
            column(common::SERVER_PORT),
        ));
        parts.extend(until.map(|ns| Predicate::Compare {
            column: column(common::TS_END),
            op: ComparisonOperator::Le,
            literal: Literal::I64(ns),
        }));
        for part in parts {
            narrow(input, part);
        }
    }
    dataflow
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
