//! Compares the engine with a simple, slow one: rows in vectors, sorted maps, and a check of every window.

mod cases;
mod generators;
mod model;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::tuples::{
    DELTA, IP, N, OK, PATH, Plain, RATIO, Row, Way, are_alike, batch_of, batch_with, column,
    dataflow, pipeline, plain, rows_of, run,
};
use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, CaseSensitivity, Column,
    ComparisonOperator, Dataflow, Literal, Pipeline, Predicate, RegexPattern, ResultSelection,
    ShareTotal, SortDirection, SortKey, TopK, Window, result,
};
use proptest::prelude::*;
use stream::{Engine, EngineConfig, EngineCounters};
use tuple::{DataType, FieldId, common};

use generators::{pipelines, predicates, rows, steps, windowed};
use model::{as_f64, slow, truth, value};

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<Row>),
    Advance(i64),
}

/// Runs both engines and compares them; also workers with a share of the flows each, whose rows must equal those of one
/// engine.
fn check(p: &Pipeline, steps: &[Step]) {
    let flow = dataflow(vec![p.clone()]);
    let (expected, late) = slow(p, steps);
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Push(rows) => engine.push(0, &batch_of(&flow.inputs[0].schema, rows), &mut out),
            Step::Advance(watermark) => engine.advance(*watermark, &mut out),
        }
    }
    engine.finish(&mut out);
    let got = rows_of(&out, Some(0));
    assert_eq!(
        got.len(),
        expected.len(),
        "{p:?}\ngot {got:?}\nexpected {expected:?}"
    );
    let sent = by_workers(&flow, steps, Way::Sent);
    let (cells, _) = by_workers(&flow, steps, Way::Cells);
    let (by_workers, counters) = by_workers(&flow, steps, Way::Attached);
    assert_eq!(sent, (by_workers.clone(), counters), "{p:?}");
    assert!(
        are_alike(&cells, &by_workers),
        "{cells:?} is not {by_workers:?}\n{p:?}"
    );
    let is_of = |c: &AggregateColumn, field| {
        p.values
            .get(c.value)
            .is_some_and(|v| v.column.field == field)
    };
    if p.aggregates
        .iter()
        .any(|c| c.aggregate == AggregateFunction::Stddev && is_of(c, RATIO))
    {
        assert_eq!(by_workers.len(), got.len());
    } else {
        assert_eq!(by_workers, got, "{p:?}");
    }
    assert_eq!(counters, engine.counters());
    let all = steps.iter().flat_map(|s| {
        if let Step::Push(rows) = s {
            &rows[..]
        } else {
            &[]
        }
    });
    let of_row = |r| p.values.iter().map(move |v| value(r, v.column.field));
    let values = all.flat_map(of_row).filter(|v| *v != Plain::Null);
    let largest = values.map(|v| as_f64(&v).abs()).fold(0.0, f64::max);
    let first = expected.first().map_or(0, |l| l.len() - p.aggregates.len());
    for (got, expected) in got.iter().zip(&expected) {
        assert_eq!(got[..first], expected[..first], "{p:?}");
        for ((c, got), expected) in p
            .aggregates
            .iter()
            .zip(&got[first..])
            .zip(&expected[first..])
        {
            assert!(
                agree(&c.aggregate, got, expected, largest),
                "{c:?}: {got:?} is not {expected:?}\n{p:?}"
            );
        }
    }
    let counters = engine.counters();
    assert_eq!(counters.tuples_late, late);
    let rows: u64 = steps
        .iter()
        .map(|s| {
            if let Step::Push(rows) = s {
                rows.len() as u64
            } else {
                0
            }
        })
        .sum();
    assert_eq!(counters.tuples_in, rows);
}

/// Runs the same steps on three workers whose parts are attached in a varying order.
fn by_workers(flow: &Dataflow, steps: &[Step], way: Way) -> (Vec<Vec<Plain>>, EngineCounters) {
    let mut workers =
        [0, 1, 2].map(|w| Engine::worker(flow, way.config(&EngineConfig::default(), w)));
    let mut engine = Engine::new(flow, EngineConfig::default());
    let mut out = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Push(rows) => {
                for (w, worker) in workers.iter_mut().enumerate() {
                    let share: Vec<Row> = rows
                        .iter()
                        .filter(|r| r.id % 3 == w as u64)
                        .cloned()
                        .collect();
                    worker.push(0, &batch_of(&flow.inputs[0].schema, &share), &mut out);
                }
            }
            Step::Advance(watermark) => {
                workers.rotate_left(i % 3);
                let parts = workers.iter_mut().filter_map(|w| w.detach(*watermark));
                parts.for_each(|part| way.bring(part, &mut engine));
                workers.rotate_right(i % 3);
                engine.advance(*watermark, &mut out);
            }
        }
    }
    workers
        .iter_mut()
        .rev()
        .for_each(|w| way.bring(w.detach_all(), &mut engine));
    engine.finish(&mut out);
    (rows_of(&out, Some(0)), engine.counters())
}

fn agree(aggregate: &AggregateFunction, got: &Plain, expected: &Plain, largest: f64) -> bool {
    match (aggregate, got, expected) {
        (AggregateFunction::Quantile(_), Plain::F64(a), Plain::F64(b)) => {
            (a - b).abs() <= b.abs() / 128.0 + 1e-9
        }
        // Deviations of large numbers are small differences of rounded numbers.
        (AggregateFunction::Stddev, Plain::F64(a), Plain::F64(b)) => {
            (a - b).abs() <= 1e-9 * b.abs() + 1e-14 * largest
        }
        (_, Plain::F64(a), Plain::F64(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1e-3),
        (AggregateFunction::Hist, Plain::Text(text), Plain::U64(n)) => {
            let pairs = text.trim_matches(|c| c == '[' || c == ']').split("],[");
            pairs
                .map(|p| {
                    p.split(',')
                        .nth(1)
                        .expect("a pair")
                        .parse::<u64>()
                        .expect("a count")
                })
                .sum::<u64>()
                == *n
        }
        (AggregateFunction::Cdf, Plain::Text(text), Plain::U64(_)) => text.ends_with(",1]]"),
        _ => got == expected,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn filters_equal_the_definition(predicate in predicates(), rows in rows(40, (0i64..5).boxed()), at_input in any::<bool>()) {
        let mut flow = dataflow(Vec::new());
        *(if at_input { &mut flow.inputs[0].filter } else { &mut flow.filter }) = Some(predicate.clone());
        let (out, counters) = run(&flow, EngineConfig::default(), &rows, 7);
        let kept: Vec<Row> = rows.iter().filter(|r| truth(&predicate, r) == Some(true)).cloned().collect();
        prop_assert_eq!(rows_of(&out, None), plain(&batch_of(&flow.inputs[0].schema, &kept)));
        prop_assert_eq!(counters.tuples_filtered, (rows.len() - kept.len()) as u64);
    }

    #[test]
    fn aggregates_of_groups_equal_the_definition(p in pipelines(), rows in prop::collection::vec(rows(60, (0i64..1 << 40).boxed()), 1..4)) {
        check(&p, &rows.into_iter().map(Step::Push).collect::<Vec<_>>());
    }

    #[test]
    fn windows_equal_the_definition(
        p in pipelines(), size in 1i64..40, slide in 1i64..40, lateness in 0i64..20, tumbling in any::<bool>(),
        steps in steps((-120i64..120).boxed()),
    ) {
        let slide_ns = if tumbling { size } else { slide.min(size) };
        check(&windowed(p, Window { size_ns: size, slide_ns, lateness_ns: lateness }), &steps);
    }

    #[test]
    fn windows_at_the_ends_of_time(
        p in pipelines(), size in (1i64 << 60)..i64::MAX, parts in 1i64..4,
        steps in steps(prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), Just(0)].boxed()),
    ) {
        check(&windowed(p, Window { size_ns: size, slide_ns: size / parts, lateness_ns: 0 }), &steps);
    }
}
