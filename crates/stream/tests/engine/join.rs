//! Compares joins with a nested loop; limits of joins.

use std::sync::Arc;

use crate::tuples::{N, PATH, Plain, Row, batch_of, cell, input, names, pipeline, rows_of};
use plan::{
    AggregateFunction, AggregatedValue, Column, ComparisonOperator, Dataflow, DataflowInput,
    Literal, Pipeline, Predicate,
};
use proptest::prelude::*;
use stream::{Engine, EngineConfig};
use tuple::{Schema, common};

fn flow(inputs: &[&'static str]) -> Dataflow {
    Dataflow {
        inputs: inputs.iter().map(|n| input(n)).collect(),
        filter: None,
        pipelines: Vec::new(),
        ..Dataflow::default()
    }
}

fn push(
    engine: &mut Engine,
    flow: &Dataflow,
    input: usize,
    rows: &[Row],
    out: &mut Vec<stream::EngineOutput>,
) {
    engine.push(input, &batch_of(&flow.inputs[input].schema, rows), out);
}

fn row(id: u64, ts_end: i64, n: u64) -> Row {
    Row {
        id,
        ts_end,
        n: Some(n),
        path: Some(format!("p{n}")),
        ..Row::default()
    }
}

proptest! {
    #[test]
    fn equals_a_nested_loop(
        inputs in 2usize..4,
        pushed in prop::collection::vec((0usize..3, prop::collection::vec((0u64..4, -50i64..50), 0..6)), 0..10),
    ) {
        let flow = flow(&["a", "b", "c"][..inputs]);
        let mut engine = Engine::new(&flow, EngineConfig::default());
        let mut out = Vec::new();
        let mut all: Vec<Vec<Row>> = vec![Vec::new(); inputs];
        let mut n = 0;
        for (i, rows) in pushed {
            let rows: Vec<Row> = rows.into_iter().map(|(id, ts)| { n += 1; row(id, ts, n) }).collect();
            push(&mut engine, &flow, i % inputs, &rows, &mut out);
            all[i % inputs].extend(rows);
        }
        let mut expected: Vec<Vec<(u64, i64, u64)>> = vec![Vec::new()];
        for rows in &all {
            let longer = expected.iter().flat_map(|line| rows.iter().map(|r| {
                let mut line = line.clone();
                line.push((r.id, r.ts_end, r.n.expect("set")));
                line
            }));
            expected = longer.filter(|line| line.iter().all(|p| p.0 == line[0].0)).collect();
        }
        let mut got = Vec::new();
        for batch in out.iter().map(|o| &o.batch) {
            let at = |name: &str, row| cell(batch, batch.schema().find(name).expect("a joined column"), row);
            for row in 0..batch.rows() {
                let times = ["ts_end", "b.ts_end", "c.ts_end"][..inputs].iter().map(|n| at(n, row));
                let ns = ["n_ns", "b.n_ns", "c.n_ns"][..inputs].iter().map(|n| at(n, row));
                got.push((at("id", row), times.collect::<Vec<_>>(), ns.collect::<Vec<_>>()));
            }
        }
        let mut expected: Vec<_> = expected.into_iter().map(|line| {
            let latest = line.iter().map(|p| p.1).max().expect("two parts at least");
            let times = line.iter().enumerate().map(|(i, p)| Plain::I64(if i == 0 { latest } else { p.1 })).collect::<Vec<_>>();
            (Plain::U64(line[0].0), times, line.iter().map(|p| Plain::U64(p.2)).collect::<Vec<_>>())
        }).collect();
        let order = |a: &(Plain, Vec<Plain>, Vec<Plain>), b: &(Plain, Vec<Plain>, Vec<Plain>)| a.partial_cmp(b).expect("no NaN");
        got.sort_by(order);
        expected.sort_by(order);
        prop_assert_eq!(engine.counters().tuples_joined, got.len() as u64);
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn columns_are_named_after_their_parser_where_names_clash() {
    let flow = flow(&["http", "sql"]);
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    push(&mut engine, &flow, 0, &[row(1, 5, 10)], &mut out);
    push(&mut engine, &flow, 1, &[row(1, 4, 11)], &mut out);
    assert_eq!(
        names(&out[0].batch),
        [
            "id",
            "client_ip",
            "ts_end",
            "path",
            "n_ns",
            "delta",
            "ratio",
            "ok",
            "sql.ts_end",
            "sql.path",
            "sql.n_ns",
            "sql.delta",
            "sql.ratio",
            "sql.ok",
        ]
    );
}

#[test]
fn pipelines_and_predicates_read_columns_of_any_input() {
    let mut flow = flow(&["http", "sql"]);
    let of_sql = |field| Column { input: 1, field };
    let mut by_path = pipeline(None, &[PATH], vec![AggregateFunction::Sum]);
    by_path.values = vec![AggregatedValue {
        column: of_sql(N),
        unit: tuple::Unit::None,
    }];
    flow.filter = Some(Predicate::Compare {
        column: of_sql(N),
        op: ComparisonOperator::Gt,
        literal: Literal::U64(20),
    });
    flow.pipelines = vec![Pipeline {
        window: None,
        ..by_path
    }];
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    push(
        &mut engine,
        &flow,
        0,
        &[row(1, 1, 1), row(2, 1, 2)],
        &mut out,
    );
    push(
        &mut engine,
        &flow,
        1,
        &[row(1, 2, 21), row(1, 2, 30), row(2, 3, 20), row(3, 1, 99)],
        &mut out,
    );
    engine.finish(&mut out);
    let rows = rows_of(&out, Some(0));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0][..2], [Plain::Text("p1".into()), Plain::U64(51)]);
    assert_eq!(engine.counters().tuples_filtered, 1);
}

#[test]
fn idle_flows_leave() {
    let flow = flow(&["a", "b"]);
    let mut engine = Engine::new(
        &flow,
        EngineConfig {
            join_idle_ns: 100,
            ..EngineConfig::default()
        },
    );
    let mut out = Vec::new();
    push(
        &mut engine,
        &flow,
        0,
        &[row(1, 0, 1), row(2, 0, 2), row(1, 50, 3)],
        &mut out,
    );
    engine.advance(100, &mut out);
    assert_eq!(engine.counters().join_expired, 0);
    engine.advance(101, &mut out);
    assert_eq!(engine.counters().join_expired, 1);
    push(
        &mut engine,
        &flow,
        1,
        &[row(1, 120, 4), row(2, 120, 5)],
        &mut out,
    );
    assert_eq!(engine.counters().tuples_joined, 2);
    engine.advance(i64::MAX, &mut out);
    assert_eq!(engine.counters().join_expired, 5);
    push(&mut engine, &flow, 0, &[row(1, 130, 6)], &mut out);
    assert_eq!(engine.counters().tuples_joined, 2);
}

#[test]
fn waiting_rows_are_bounded_and_the_oldest_flow_is_evicted() {
    let flow = flow(&["a", "b"]);
    for config in [
        EngineConfig {
            join_rows_max: 10,
            ..EngineConfig::default()
        },
        EngineConfig {
            join_bytes_max: 4200,
            ..EngineConfig::default()
        },
        EngineConfig {
            join_rows_max: 0,
            ..EngineConfig::default()
        },
    ] {
        let holds = if config.join_rows_max == 0 { 0 } else { 10 };
        let mut engine = Engine::new(&flow, config);
        let mut out = Vec::new();
        for id in 0..1000 {
            push(&mut engine, &flow, 0, &[row(id, id as i64, 1)], &mut out);
        }
        let dropped = engine.counters().join_dropped;
        assert!(
            dropped >= 1000 - holds - 4 && dropped <= 1000 - holds + 4,
            "{dropped}"
        );
        push(
            &mut engine,
            &flow,
            1,
            &[row(999, 2000, 1), row(0, 2000, 1)],
            &mut out,
        );
        assert_eq!(engine.counters().tuples_joined, u64::from(holds > 0));
    }
}

#[test]
fn tuples_without_an_id_join_nothing() {
    let flow = flow(&["a", "b"]);
    let schema: Arc<Schema> = flow.inputs[0].schema.clone();
    let mut writer = tuple::TupleWriter::new(schema, &crate::tuples::COLUMNS);
    writer.i64(common::TS_END, 1);
    writer.end_row();
    let mut engine = Engine::new(&flow, EngineConfig::default());
    engine.push(0, &writer.finish(), &mut Vec::new());
    assert_eq!(engine.counters().join_dropped, 1);
}

#[test]
fn inputs_are_filtered_before_they_wait() {
    let mut flow = flow(&["a", "b"]);
    let ends = Predicate::Compare {
        column: Column { input: 0, field: N },
        op: ComparisonOperator::Eq,
        literal: Literal::U64(7),
    };
    flow.inputs[0] = DataflowInput {
        filter: Some(ends),
        ..flow.inputs[0].clone()
    };
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    push(
        &mut engine,
        &flow,
        0,
        &[row(1, 1, 7), row(1, 1, 8)],
        &mut out,
    );
    push(&mut engine, &flow, 1, &[row(1, 1, 1)], &mut out);
    assert_eq!(rows_of(&out, None).len(), 1);
    assert_eq!(engine.counters().tuples_filtered, 1);
}
