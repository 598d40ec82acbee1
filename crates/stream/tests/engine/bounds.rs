//! Behavior at memory limits: pools, Space-Saving, sketches, and windows closed early.

mod rankings;

use std::collections::{BTreeMap, HashSet};

use crate::tuples::{
    DELTA, N, PATH, Plain, RATIO, Row, batch_of, column, dataflow, number, pipeline, rows_of, run,
};
use plan::{
    AggregateFunction, Column, ComparisonOperator, Literal, Pipeline, Predicate, ResultSelection,
    ShareTotal, SortDirection, SortKey, TopK, Window,
};
use proptest::prelude::*;
use stream::{Engine, EngineConfig, OTHER};

/// A seeded random generator.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn get(path: &str, n: u64, ts_end: i64) -> Row {
    Row {
        path: Some(path.into()),
        n: Some(n),
        delta: Some(n as i64),
        ts_end,
        id: n,
        ..Row::default()
    }
}

fn u64_of(cell: &Plain) -> u64 {
    match cell {
        Plain::U64(v) => *v,
        Plain::I64(v) => *v as u64,
        other => panic!("{other:?}"),
    }
}

/// Skewed rows: a few heavy paths and a long tail; returns the true total of each path by `weight`.
fn skewed(seed: u64, n: usize, weight: fn(u64) -> u64) -> (Vec<Row>, BTreeMap<String, u64>) {
    let mut random = Random(seed);
    let mut truth = BTreeMap::new();
    let rows = (0..n).map(|i| {
        let path = match random.next(3) {
            0 => format!("/tail/{}", random.next(2000)),
            _ => format!("/{}", random.next(8) * random.next(8) / 4),
        };
        let value = random.next(50);
        *truth.entry(path.clone()).or_insert(0) += weight(value);
        get(&path, value, i as i64 % 40)
    });
    (rows.collect(), truth)
}

#[test]
fn groups_without_room_are_pooled_and_totals_add_up() {
    let mut p = pipeline(
        Some(N),
        &[PATH, RATIO],
        vec![AggregateFunction::Count, AggregateFunction::Sum],
    );
    p.groups_max = 70;
    let rows: Vec<Row> = (0..1000u64)
        .map(|i| get(&format!("/{}", i % 100), i, 0))
        .collect();
    let (out, counters) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 64);
    let lines = rows_of(&out, Some(0));
    assert_eq!(lines.len(), 71);
    assert_eq!(lines.iter().map(|l| u64_of(&l[2])).sum::<u64>(), 1000);
    assert_eq!(
        lines.iter().map(|l| u64_of(&l[3])).sum::<u64>(),
        (0..1000).sum::<u64>()
    );
    let (pool, listed) = lines.split_last().expect("rows");
    assert_eq!(pool[..2], [Plain::Text(OTHER.into()), Plain::Null]);
    assert_eq!(pool[4..], [Plain::Bool(true), Plain::Null]);
    assert!(
        listed
            .iter()
            .all(|l| l[2] == Plain::U64(10) && l[4] == Plain::Bool(false))
    );
    assert_eq!(counters.groups_overflowed, 300);
}

#[test]
fn a_selection_of_groups_is_approximate_where_some_are_pooled() {
    let rows: Vec<Row> = (0..100u64)
        .map(|i| get(&format!("/{i:02}"), i, 0))
        .collect();
    let marks = |groups_max: usize| {
        let mut p = Pipeline {
            groups_max,
            ..pipeline(None, &[PATH], vec![AggregateFunction::Count])
        };
        let column = of_results(&p, "count");
        let order_by = vec![SortKey {
            column,
            direction: SortDirection::Descending,
        }];
        p.selection = ResultSelection {
            order_by,
            rows_max: Some(3),
            ..ResultSelection::default()
        };
        let (out, _) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 64);
        rows_of(&out, Some(0))
            .iter()
            .map(|line| line[2].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(marks(100), vec![Plain::Bool(false); 3]);
    // The heaviest group may be in the pool, which is also a row.
    assert_eq!(marks(70), vec![Plain::Bool(true); 4]);
}

#[test]
fn sliding_windows_mark_partly_counted_groups() {
    let mut p = pipeline(None, &[PATH], vec![AggregateFunction::Count]);
    p.window = Some(Window {
        size_ns: 20,
        slide_ns: 10,
        lateness_ns: 0,
    });
    p.groups_max = 64;
    // The first pane has 64 groups and pools /a; the second has /a and 63 others.
    let mut rows: Vec<Row> = (0..64).map(|i| get(&format!("/{i:02}"), 0, 0)).collect();
    rows.extend([
        get("/a", 0, 1),
        get("/a", 0, 11),
        get("/a", 0, 12),
        get("/00", 0, 13),
    ]);
    let (out, _) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 500);
    let lines = rows_of(&out, Some(0));
    let window = |start: i64| lines.iter().filter(move |l| l[0] == Plain::I64(start));
    let a = window(0)
        .find(|l| l[2] == Plain::Text("/a".into()))
        .expect("listed in the second pane");
    assert_eq!(a[3..], [Plain::U64(2), Plain::Bool(true), Plain::Null]);
    let zero = window(0)
        .find(|l| l[2] == Plain::Text("/00".into()))
        .expect("listed in both");
    assert_eq!(zero[3..], [Plain::U64(2), Plain::Bool(false), Plain::Null]);
    assert_eq!(window(0).map(|l| u64_of(&l[3])).sum::<u64>(), 68);
    let a = window(10)
        .find(|l| l[2] == Plain::Text("/a".into()))
        .expect("listed");
    assert_eq!(a[3..], [Plain::U64(2), Plain::Bool(false), Plain::Null]);
}

#[test]
fn distinct_is_exact_then_within_its_bound() {
    let p = pipeline(None, &[PATH], vec![AggregateFunction::Distinct(column(N))]);
    let rows: Vec<Row> = (0..60_000u64)
        .map(|i| {
            if i % 6 == 0 {
                get("/few", i % 1024, 0)
            } else {
                get("/many", i * i, 0)
            }
        })
        .collect();
    let many: HashSet<u64> = rows
        .iter()
        .filter(|r| r.path.as_deref() == Some("/many"))
        .filter_map(|r| r.n)
        .collect();
    let few: HashSet<u64> = rows
        .iter()
        .filter(|r| r.path.as_deref() == Some("/few"))
        .filter_map(|r| r.n)
        .collect();
    let (out, _) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 4096);
    let lines = rows_of(&out, Some(0));
    assert_eq!(
        lines[0][1..],
        [
            Plain::U64(few.len() as u64),
            Plain::Bool(false),
            Plain::Null
        ]
    );
    let estimate = u64_of(&lines[1][1]) as f64;
    let Plain::F64(error) = &lines[1][3] else {
        panic!("a bound")
    };
    assert!(
        *error < 0.02 && (estimate / many.len() as f64 - 1.0).abs() < 2.0 * error,
        "{estimate} {error}"
    );
}

#[test]
fn sketches_shrink_before_they_outgrow_their_bytes() {
    let p = pipeline(
        Some(N),
        &[PATH],
        vec![
            AggregateFunction::Distinct(column(N)),
            AggregateFunction::Quantile(0.5),
        ],
    );
    let mut random = Random(11);
    let rows: Vec<Row> = (0..40_000)
        .map(|i| get(&format!("/{}", i % 20), random.next(1 << 24), 0))
        .collect();
    let config = EngineConfig {
        sketch_bytes_max: 40_000,
        ..EngineConfig::default()
    };
    let (out, counters) = run(&dataflow(vec![p]), config, &rows, 1000);
    assert!(counters.sketches_coarsened >= 2);
    for line in rows_of(&out, Some(0)) {
        let Plain::Text(path) = &line[0] else {
            panic!("a path")
        };
        let mut values: Vec<u64> = rows
            .iter()
            .filter(|r| r.path.as_deref() == Some(path))
            .filter_map(|r| r.n)
            .collect();
        values.sort_unstable();
        let Plain::F64(median) = &line[2] else {
            panic!("a bound")
        };
        let Plain::F64(error) = &line[4] else {
            panic!("a bound")
        };
        assert_eq!(line[3], Plain::Bool(true));
        assert!((median / values[999] as f64 - 1.0).abs() <= *error);
        values.dedup();
        assert!((u64_of(&line[1]) as f64 / values.len() as f64 - 1.0).abs() <= 2.0 * error);
    }
}

#[test]
fn excess_panes_close_the_oldest_windows() {
    let mut p = pipeline(None, &[], vec![AggregateFunction::Count]);
    p.window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    let rows: Vec<Row> = (0..1000).map(|i| get("/", 0, i * 10)).collect();
    let (out, counters) = run(
        &dataflow(vec![p]),
        EngineConfig {
            panes_max: 8,
            ..EngineConfig::default()
        },
        &rows,
        100,
    );
    assert_eq!(rows_of(&out, Some(0)).len(), 1000);
    assert_eq!(counters.windows_forced, 992);
    assert_eq!(counters.tuples_late, 0);
}

#[test]
fn total_state_of_workers_is_bounded() {
    let ranking = |p: Pipeline| Pipeline {
        top_k: Some(TopK { k: 5, by: 0 }),
        ..p
    };
    let pooled = pipeline(
        Some(N),
        &[PATH],
        vec![AggregateFunction::Count, AggregateFunction::Sum],
    );
    for p in [pooled.clone(), ranking(pooled)] {
        let p = Pipeline {
            groups_max: 100,
            ..p
        };
        let flow = dataflow(vec![p.clone()]);
        for config in [
            EngineConfig::default(),
            EngineConfig {
                key_bytes_max: 500,
                ..EngineConfig::default()
            },
        ] {
            let mut engine = Engine::new(&flow, config.clone());
            let mut out = Vec::new();
            for w in 0..4u64 {
                let mut worker = Engine::worker(&flow, config.clone());
                let rows: Vec<Row> = (0..400)
                    .map(|i| get(&format!("/{}", (i % 80) * (w + 1)), i, 0))
                    .collect();
                worker.push(0, &batch_of(&flow.inputs[0].schema, &rows), &mut out);
                engine.attach(worker.detach_all());
            }
            engine.finish(&mut out);
            let lines = rows_of(&out, Some(0));
            assert!(engine.counters().groups_overflowed > 0);
            if p.top_k.is_none() {
                assert!(lines.len() <= 101);
                assert_eq!(lines.iter().map(|l| u64_of(&l[1])).sum::<u64>(), 1600);
                continue;
            }
            // All four pipelines request multiples of 12 below 80.
            for line in &lines {
                let Plain::Text(path) = &line[0] else {
                    continue;
                };
                let Plain::F64(error) = &line[5] else {
                    continue;
                };
                let key: u64 = path[1..].parse().expect("a number");
                let truth: u64 = (1..=4)
                    .filter(|w| key.is_multiple_of(*w) && key / w < 80)
                    .map(|_| 5)
                    .sum();
                let count = u64_of(&line[2]);
                assert!(
                    truth <= count && count - *error as u64 <= truth,
                    "{line:?}, not {truth}"
                );
            }
        }
    }
}

#[test]
fn a_worker_sets_panes_aside_instead_of_emitting() {
    let mut p = pipeline(None, &[], vec![AggregateFunction::Count]);
    p.window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    let flow = dataflow(vec![p]);
    let config = EngineConfig {
        panes_max: 8,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(&flow, config.clone());
    let mut worker = Engine::worker(&flow, config);
    let rows: Vec<Row> = (0..1000).map(|i| get("/", 0, i * 10)).collect();
    let mut out = Vec::new();
    worker.push(0, &batch_of(&flow.inputs[0].schema, &rows), &mut out);
    assert!(out.is_empty());
    assert_eq!(worker.counters().windows_forced, 992);
    engine.attach(worker.detach(i64::MIN).expect("the saved value"));
    engine.attach(worker.detach_all());
    engine.advance(i64::MIN, &mut out);
    assert_eq!(rows_of(&out, Some(0)).len(), 992);
    engine.finish(&mut out);
    assert_eq!(rows_of(&out, Some(0)).len(), 1000);
}

proptest! {
    /// With any limits, nothing is lost: counts add up to the number of accepted tuples.
    #[test]
    fn tuples_are_pooled_late_or_counted(
        rows in prop::collection::vec((0u64..300, -60i64..60), 1..400), groups_max in 0usize..90, panes_max in 1usize..9,
        slide in 1i64..30,
    ) {
        let mut p = pipeline(Some(N), &[PATH], vec![AggregateFunction::Count]);
        p.window = Some(Window { size_ns: slide, slide_ns: slide, lateness_ns: 5 });
        p.groups_max = groups_max;
        let rows: Vec<Row> = rows.into_iter().map(|(path, ts)| get(&format!("/{path}"), path, ts)).collect();
        let (out, counters) = run(&dataflow(vec![p]), EngineConfig { panes_max, ..EngineConfig::default() }, &rows, 50);
        let counted: u64 = rows_of(&out, Some(0)).iter().map(|l| u64_of(&l[3])).sum();
        prop_assert_eq!(counted + counters.tuples_late, rows.len() as u64);
    }
}

#[test]
fn rates_are_per_second_of_the_window_or_of_the_run() {
    let mut p = pipeline(None, &[], vec![AggregateFunction::Rate]);
    let rows: Vec<Row> = (0..11).map(|i| get("/", 0, i * 500_000_000)).collect();
    let (out, _) = run(
        &dataflow(vec![p.clone()]),
        EngineConfig::default(),
        &rows,
        100,
    );
    assert_eq!(number(&out, 0, "rate"), Some(11.0 / 5.0));
    p.window = Some(Window {
        size_ns: 10_000_000_000,
        slide_ns: 10_000_000_000,
        lateness_ns: 0,
    });
    let (out, _) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 100);
    assert_eq!(number(&out, 0, "rate"), Some(1.1));
}

#[test]
fn oversized_windows_close_early() {
    let mut p = pipeline(
        Some(N),
        &[PATH],
        vec![AggregateFunction::Count, AggregateFunction::Quantile(0.5)],
    );
    p.window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 1_000_000,
    });
    let rows: Vec<Row> = (0..2000i64).map(|i| get("/", 1, i * 10)).collect();
    // A window takes a few kilobytes.
    for (window_bytes_max, forced) in [(1 << 30, false), (1 << 20, true)] {
        let config = EngineConfig {
            window_bytes_max,
            ..EngineConfig::default()
        };
        let (out, counters) = run(&dataflow(vec![p.clone()]), config, &rows, 100);
        assert_eq!(rows_of(&out, Some(0)).len(), 2000);
        assert_eq!(counters.windows_forced > 1000, forced, "{counters:?}");
    }
}

#[test]
fn single_oversized_window_pools_groups() {
    let mut p = pipeline(Some(N), &[PATH], vec![AggregateFunction::Count]);
    p.groups_max = 1_000_000;
    let rows: Vec<Row> = (0..50_000u64)
        .map(|i| get(&format!("/{i}"), i, 0))
        .collect();
    let config = EngineConfig {
        window_bytes_max: 1 << 20,
        ..EngineConfig::default()
    };
    let (out, counters) = run(&dataflow(vec![p]), config, &rows, 4096);
    let lines = rows_of(&out, Some(0));
    assert!((1000..20_000).contains(&lines.len()), "{}", lines.len());
    assert_eq!(lines.iter().map(|l| u64_of(&l[1])).sum::<u64>(), 50_000);
    assert_eq!(
        counters.groups_overflowed,
        50_000 - (lines.len() as u64 - 1)
    );
}

fn of_results(p: &Pipeline, name: &str) -> Column {
    let field = |c: Column| crate::tuples::schema("t").field(c.field).clone();
    let schema = plan::result::schema(p, plan::result::IntervalMode::None, &field);
    Column {
        input: 0,
        field: schema.find(name).expect("a column"),
    }
}

#[test]
fn shares_are_of_all_groups_also_of_those_that_found_no_room() {
    let shares = [
        AggregateFunction::Count,
        AggregateFunction::Share(ShareTotal::Tuples),
        AggregateFunction::Share(ShareTotal::Values),
    ];
    let all = Pipeline {
        groups_max: 20,
        ..pipeline(Some(N), &[PATH], shares.to_vec())
    };
    let ranked = Pipeline {
        top_k: Some(TopK { k: 5, by: 0 }),
        ..all.clone()
    };
    let (rows, truth) = skewed(11, 5000, |n| n);
    let total: u64 = truth.values().sum();
    for p in [all, ranked] {
        let (out, counters) = run(
            &dataflow(vec![p.clone()]),
            EngineConfig::default(),
            &rows,
            100,
        );
        assert!(counters.groups_overflowed > 0);
        let lines = rows_of(&out, Some(0));
        let mut counts = 0.0;
        let mut values = 0.0;
        for line in &lines {
            let Plain::F64(share) = &line[line.len() - 4] else {
                panic!("shares")
            };
            let Plain::F64(of_values) = &line[line.len() - 3] else {
                panic!("shares")
            };
            assert_eq!(*share, u64_of(&line[line.len() - 5]) as f64 / 5000.0);
            counts += share;
            values += of_values;
            match &line[0] {
                Plain::Text(path) if path != stream::OTHER => {
                    assert_eq!(*of_values, truth[path] as f64 / total as f64, "{path}");
                    assert_eq!(line[line.len() - 2], Plain::Bool(p.top_k.is_some()));
                }
                _ => assert_eq!(line[line.len() - 2], Plain::Bool(true)),
            }
        }
        let is_all = (counts - 1.0).abs() < 1e-9 && (values - 1.0).abs() < 1e-9;
        assert_eq!(is_all, p.top_k.is_none(), "{counts} {values}");
    }
}

#[test]
fn overflow_row_is_last_in_any_order() {
    let mut p = Pipeline {
        groups_max: 20,
        ..pipeline(None, &[PATH], vec![AggregateFunction::Count])
    };
    let count = of_results(&p, "count");
    let path = of_results(&p, "path");
    p.selection = ResultSelection {
        having: Some(Predicate::Compare {
            column: count,
            op: ComparisonOperator::Lt,
            literal: Literal::U64(1 << 40),
        }),
        order_by: vec![
            SortKey {
                column: count,
                direction: SortDirection::Descending,
            },
            SortKey {
                column: path,
                direction: SortDirection::Descending,
            },
        ],
        rows_max: Some(3),
        computed: Vec::new(),
    };
    let (rows, _) = skewed(12, 5000, |n| n);
    let (out, counters) = run(&dataflow(vec![p]), EngineConfig::default(), &rows, 100);
    let lines = rows_of(&out, Some(0));
    assert_eq!(lines.len(), 4);
    assert!(
        lines[..3]
            .windows(2)
            .all(|w| u64_of(&w[0][1]) >= u64_of(&w[1][1]))
    );
    assert_eq!(lines[3][0], Plain::Text(stream::OTHER.into()));
    assert!(counters.rows_filtered == 0 && counters.rows_beyond_limit > 10);
}

#[test]
fn many_rows_are_sorted_holding_few() {
    let mut p = pipeline(
        Some(N),
        &[PATH],
        vec![AggregateFunction::Count, AggregateFunction::Max],
    );
    let by = |p: &Pipeline, name| SortKey {
        column: of_results(p, name),
        direction: SortDirection::Descending,
    };
    p.selection.order_by = vec![by(&p, "count"), by(&p, "max_ns")];
    let mut random = Random(13);
    let rows: Vec<Row> = (0..60_000)
        .map(|_| Row {
            path: Some(random.next(40_000).to_string()),
            n: Some(random.next(50)),
            ..Row::default()
        })
        .collect();
    let of = |p: &Pipeline| {
        run(
            &dataflow(vec![p.clone()]),
            EngineConfig::default(),
            &rows,
            4096,
        )
    };
    let (all, nothing_left_out) = of(&p);
    let all = rows_of(&all, Some(0));
    assert_eq!(nothing_left_out.rows_beyond_limit, 0);
    for rows_max in [0, 1, 7, 3000] {
        p.selection.rows_max = Some(rows_max);
        let (few, counters) = of(&p);
        assert_eq!(rows_of(&few, Some(0)), all[..rows_max]);
        assert_eq!(counters.rows_beyond_limit, (all.len() - rows_max) as u64);
    }
}
