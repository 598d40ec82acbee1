//! Windows and sums whose results are known.

use super::*;

#[test]
fn jumps_of_years_cost_nothing() {
    let mut p = pipeline(None, &[], vec![AggregateFunction::Count]);
    p.window = Some(Window {
        size_ns: 1000,
        slide_ns: 1,
        lateness_ns: 0,
    });
    let at = |ts_end| {
        Step::Push(vec![Row {
            ts_end,
            ..Row::default()
        }])
    };
    let year = 365 * 86_400 * 1_000_000_000;
    check(
        &p,
        &[
            at(0),
            Step::Advance(5),
            Step::Advance(50 * year),
            at(50 * year),
            at(-year),
            Step::Advance(i64::MAX),
            at(0),
        ],
    );
    check(&p, &[at(i64::MIN), at(i64::MAX)]);
}

#[test]
fn windows_without_a_tuple_have_rows_where_there_are_no_groups() {
    let row = |ts_end| Row {
        ts_end,
        ..Row::default()
    };
    let window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    let rows = |group: &[FieldId], times: [i64; 3]| {
        let p = Pipeline {
            window,
            ..pipeline(
                Some(N),
                group,
                vec![AggregateFunction::Count, AggregateFunction::Max],
            )
        };
        let (out, counters) = run(
            &dataflow(vec![p]),
            EngineConfig::default(),
            &times.map(row),
            1,
        );
        (rows_of(&out, Some(0)), counters.empty_windows_skipped)
    };
    let (all, skipped) = rows(&[], [3, 14, 45]);
    let line = |start: i64, n: u64| {
        [
            Plain::I64(start),
            Plain::I64(start + 10),
            Plain::U64(n),
            Plain::Null,
        ]
    };
    let expected = [
        line(0, 1),
        line(10, 1),
        line(20, 0),
        line(30, 0),
        line(40, 1),
    ];
    assert_eq!(
        (all.iter().map(|row| &row[..4]).collect::<Vec<_>>(), skipped),
        (expected.iter().map(|l| &l[..]).collect(), 0)
    );
    assert_eq!(
        (
            rows(&[PATH], [3, 14, 45]).0.len(),
            rows(&[PATH], [3, 14, 45]).1
        ),
        (3, 0)
    );
    // The maximum number of windows, and one more.
    assert_eq!(
        (
            rows(&[], [0, 10, 10_020]).0.len(),
            rows(&[], [0, 10, 10_020]).1
        ),
        (1003, 0)
    );
    assert_eq!(
        (
            rows(&[], [0, 10, 10_030]).0.len(),
            rows(&[], [0, 10, 10_030]).1
        ),
        (1003, 1)
    );
}

/// Counts of windows of ten seconds as the clock advances to these times, each with or without a tuple of that time.
fn counts_over(filter: Option<Predicate>, clock: &[(i64, bool)]) -> Vec<(i64, u64)> {
    let window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    let mut flow = dataflow(vec![Pipeline {
        window,
        ..pipeline(None, &[], vec![AggregateFunction::Count])
    }]);
    flow.filter = filter;
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    engine.begin_run(clock[0].0);
    for (now, has_tuple) in clock {
        let rows: Vec<Row> = has_tuple
            .then(|| Row {
                ts_end: *now,
                ..Row::default()
            })
            .into_iter()
            .collect();
        engine.push(
            0,
            &batch_with(&flow.inputs[0].schema, &flow.inputs[0].columns, &rows),
            &mut out,
        );
        engine.advance(*now, &mut out);
        engine.pass(*now, &mut out);
    }
    engine.finish(&mut out);
    let line = |row: &Vec<Plain>| match (&row[0], &row[2]) {
        (Plain::I64(start), Plain::U64(n)) => (*start, *n),
        other => panic!("{other:?}"),
    };
    rows_of(&out, Some(0)).iter().map(line).collect()
}

#[test]
fn silence_is_zero_as_far_as_the_clock_has_come() {
    let expected = [(0, 0), (10, 0), (20, 1), (30, 0), (40, 1), (50, 0), (60, 0)];
    let clock = [(5, false), (25, true), (45, true), (57, false), (61, false)];
    assert_eq!(counts_over(None, &clock), expected);
    // The clock advances in more steps, or in one.
    let steps: Vec<(i64, bool)> = (5..=61).map(|now| (now, now == 25 || now == 45)).collect();
    assert_eq!(counts_over(None, &steps), expected);
    assert_eq!(counts_over(None, &[(5, false), (61, false)]).len(), 7);
    // Within the requested period.
    let at = |op, ns| Predicate::Compare {
        column: column(common::TS_END),
        op,
        literal: Literal::I64(ns),
    };
    let period = Predicate::And(vec![
        at(ComparisonOperator::Ge, 20),
        at(ComparisonOperator::Lt, 50),
    ]);
    assert_eq!(
        counts_over(Some(period), &clock),
        [(20, 1), (30, 0), (40, 1)]
    );
    // A window that would start exactly at the end has not started.
    assert_eq!(
        counts_over(None, &[(35, false), (36, true), (50, false)]),
        [(30, 1), (40, 0)]
    );
}

#[test]
fn nothing_in_nothing_out_but_the_total_of_nothing() {
    let all = vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Quantile(0.5),
        AggregateFunction::Hist,
        AggregateFunction::Rate,
    ];
    check(&pipeline(Some(N), &[], all.clone()), &[]);
    check(
        &pipeline(Some(N), &[], all.clone()),
        &[Step::Push(Vec::new()), Step::Push(vec![Row::default()])],
    );
    check(&pipeline(Some(N), &[PATH], all.clone()), &[]);
    let mut windowed = pipeline(Some(N), &[], all);
    windowed.window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    check(&windowed, &[Step::Advance(100)]);
}

#[test]
fn sums_saturate_and_are_marked() {
    let rows: Vec<Row> = (0..3)
        .map(|_| Row {
            n: Some(u64::MAX),
            delta: Some(i64::MIN),
            ..Row::default()
        })
        .collect();
    for value in [N, DELTA] {
        let p = pipeline(
            Some(value),
            &[],
            vec![AggregateFunction::Sum, AggregateFunction::Avg],
        );
        check(&p, &[Step::Push(rows.clone())]);
        let (out, counters) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 10);
        assert_eq!(rows_of(&out, Some(0))[0][2], Plain::Bool(true));
        assert_eq!(counters.sums_saturated, 1);
    }
}

#[test]
fn long_sliding_windows_equal_the_definition() {
    let mut p = pipeline(
        Some(N),
        &[PATH],
        vec![
            AggregateFunction::Count,
            AggregateFunction::Sum,
            AggregateFunction::Max,
            AggregateFunction::Quantile(0.5),
        ],
    );
    p.window = Some(Window {
        size_ns: 120,
        slide_ns: 3,
        lateness_ns: 10,
    });
    for keys in [3, 1000] {
        let rows = |chunk: i64| -> Vec<Row> {
            let row = |i: i64| {
                let mixed = (chunk * 40 + i).wrapping_mul(0x5851_f42d_4c95_7f2d) as u64 >> 33;
                let ts_end = chunk * 40 + i - (mixed % 25) as i64;
                Row {
                    ts_end,
                    path: Some(format!("/{}", mixed % keys)),
                    n: Some(mixed),
                    ..Row::default()
                }
            };
            (0..40).map(row).collect()
        };
        let steps = (0..12).flat_map(|c| [Step::Push(rows(c)), Step::Advance(c * 40)]);
        check(&p, &steps.collect::<Vec<_>>());
    }
}
