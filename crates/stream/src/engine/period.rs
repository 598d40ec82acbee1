//! The period of a dataflow, derived from its predicates on `ts_end`.

use plan::{ComparisonOperator, Dataflow, Literal, Predicate};
use tuple::common;

/// First and last nanosecond of tuples that pass.
pub fn of(dataflow: &Dataflow) -> (i64, i64) {
    let mut period = (i64::MIN, i64::MAX);
    let filters = dataflow
        .inputs
        .iter()
        .filter_map(|input| input.filter.as_ref());
    filters
        .chain(&dataflow.filter)
        .for_each(|predicate| narrow(&mut period, predicate));
    period
}

fn narrow(period: &mut (i64, i64), predicate: &Predicate) {
    match predicate {
        Predicate::And(parts) => parts.iter().for_each(|part| narrow(period, part)),
        Predicate::Compare {
            column,
            op,
            literal: Literal::I64(ns),
        } if column.field == common::TS_END && column.computed_place().is_none() => {
            let (first, last) = match op {
                ComparisonOperator::Lt => (i64::MIN, ns.saturating_sub(1)),
                ComparisonOperator::Le => (i64::MIN, *ns),
                ComparisonOperator::Gt => (ns.saturating_add(1), i64::MAX),
                ComparisonOperator::Ge => (*ns, i64::MAX),
                ComparisonOperator::Eq | ComparisonOperator::Ne => return,
            };
            *period = (period.0.max(first), period.1.min(last));
        }
        _ => {}
    }
}
