//! SINCE, UNTIL, and BASELINE: a dataflow restricted to a period, and a description of a query's period.

use plan::{Column, ComparisonOperator, Dataflow, Literal, Predicate, TimeBounds};
use query::{BaselinePeriod, CheckedQuery, PeriodMoment, TimePeriod};
use tuple::common;

use crate::query_text;
use crate::recording_plan::narrow;

/// Restricts a dataflow to tuples with `ts_end` within `bounds`.
pub(crate) fn within(mut dataflow: Dataflow, bounds: TimeBounds) -> Dataflow {
    let time = |input, op, ns| {
        let column = Column {
            input,
            field: common::TS_END,
        };
        Predicate::Compare {
            column,
            op,
            literal: Literal::I64(ns),
        }
    };
    let is_joined = dataflow.inputs.len() > 1;
    for (input, i) in dataflow.inputs.iter_mut().zip(0..) {
        // The time of a joined tuple is the maximum of its parts: all of them are before UNTIL, and at least one is
        // not before SINCE.
        let since = bounds
            .since_ns
            .filter(|_| !is_joined)
            .map(|ns| time(i, ComparisonOperator::Ge, ns));
        let until = bounds
            .until_ns
            .map(|ns| time(i, ComparisonOperator::Lt, ns));
        since
            .into_iter()
            .chain(until)
            .for_each(|part| narrow(input, part));
    }
    if let Some(ns) = bounds.since_ns.filter(|_| is_joined) {
        // After the join, `ts_end` of the first input is that of the joined tuple.
        let since = time(0, ComparisonOperator::Ge, ns);
        dataflow.filter = Some(match dataflow.filter.take() {
            Some(before) => Predicate::And(vec![before, since]),
            None => since,
        });
    }
    dataflow
}

/// Describes the query's periods, one line each; empty if there are none.
#[must_use]
pub fn explain_period(query: &CheckedQuery) -> String {
    let mut lines = Vec::new();
    if !query.period.is_open() {
        lines.push(format!("  {:<14}{}", "time", period(&query.period)));
    }
    match &query.baseline {
        Some(BaselinePeriod::Earlier(ns)) => {
            lines.push(format!(
                "  {:<14}the same, {} earlier",
                "baseline",
                query_text::duration(*ns)
            ));
        }
        Some(BaselinePeriod::Period(other)) => {
            lines.push(format!("  {:<14}{}", "baseline", period(other)))
        }
        None => {}
    }
    if lines.is_empty() {
        String::new()
    } else {
        format!("period\n{}\n", lines.join("\n"))
    }
}

fn period(period: &TimePeriod) -> String {
    let moment = |moment: PeriodMoment| match moment {
        PeriodMoment::At(ns) => query_text::instant(ns),
        PeriodMoment::BeforeEnd(ns) => format!("{} before the end", query_text::duration(ns)),
    };
    let since = period.since.map(|since| format!("from {}", moment(since)));
    let until = period
        .until
        .map(|until| format!("before {}", moment(until)));
    let both: Vec<String> = since.into_iter().chain(until).collect();
    format!("tuples complete {}", both.join(", "))
}
