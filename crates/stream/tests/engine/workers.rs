//! Workers, in addition to the comparison with the reference: individual epochs, and joins.

use crate::tuples::{N, PATH, Plain, Row, batch_of, column, dataflow, input, pipeline, rows_of};
use plan::{AggregateFunction, Dataflow, Pipeline, TopK, Window};
use proptest::prelude::*;
use stream::{Engine, EngineConfig, EngineOutput, EngineSet, PartialResult};

#[test]
fn parts_travel_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<PartialResult>();
    is_send::<Engine>();
    is_send::<EngineOutput>();
}

fn rows(n: u64, seed: u64) -> Vec<Row> {
    let mixed = |i: u64| (seed + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let row = |i| Row {
        id: mixed(i) % 50,
        // Nearly sorted.
        ts_end: (i + mixed(i) % 7) as i64,
        path: Some(format!("/{}", mixed(i + 1) % 13)),
        n: Some(mixed(i + 2)),
        ..Row::default()
    };
    (0..n).map(row).collect()
}

fn windowed(slide_ns: i64) -> Pipeline {
    let all = vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Stddev,
        AggregateFunction::Quantile(0.9),
        AggregateFunction::Distinct(column(N)),
    ];
    let window = Some(Window {
        size_ns: 60,
        slide_ns,
        lateness_ns: 8,
    });
    Pipeline {
        window,
        top_k: Some(TopK { k: 5, by: 1 }),
        ..pipeline(Some(N), &[PATH], all)
    }
}

/// Pushes rows that belong to one flow each; join inputs receive every row.
fn push(engine: &mut Engine, flow: &Dataflow, rows: &[Row], out: &mut Vec<EngineOutput>) {
    for (i, input) in flow.inputs.iter().enumerate() {
        engine.push(i, &batch_of(&input.schema, rows), out);
    }
}

fn alone(flow: &Dataflow, rows: &[Row]) -> Vec<Vec<Plain>> {
    let mut engine = Engine::new(flow, EngineConfig::default());
    let mut out = Vec::new();
    push(&mut engine, flow, rows, &mut out);
    engine.finish(&mut out);
    rows_of(&out, Some(0))
}

/// Every worker detaches after `epochs[w]` of its own rows, at its own watermark.
fn together(flow: &Dataflow, rows: &[Row], epochs: &[usize]) -> Vec<Vec<Plain>> {
    let shares = (0..epochs.len() as u64).map(|w| {
        rows.iter()
            .filter(|r| r.id % epochs.len() as u64 == w)
            .cloned()
            .collect::<Vec<Row>>()
    });
    let mut collector = Engine::new(flow, EngineConfig::default());
    let mut out = Vec::new();
    let mut workers: Vec<(Engine, Vec<Row>, i64)> = shares
        .map(|share| {
            (
                Engine::worker(flow, EngineConfig::default()),
                share,
                i64::MIN,
            )
        })
        .collect();
    while workers.iter().any(|(_, share, _)| !share.is_empty()) {
        for ((worker, share, watermark), epoch) in workers.iter_mut().zip(epochs) {
            let now: Vec<Row> = share.drain(..share.len().min(*epoch)).collect();
            push(worker, flow, &now, &mut out);
            *watermark = now
                .iter()
                .map(|r| r.ts_end)
                .max()
                .map_or(i64::MAX, |last| last.max(*watermark));
            worker
                .detach(*watermark)
                .into_iter()
                .for_each(|part| collector.attach(part));
        }
        let least = workers
            .iter()
            .map(|(_, _, watermark)| *watermark)
            .min()
            .expect("a worker");
        collector.advance(least, &mut out);
    }
    workers
        .iter_mut()
        .for_each(|(worker, ..)| collector.attach(worker.detach_all()));
    collector.finish(&mut out);
    assert_eq!(collector.counters().tuples_late, 0);
    rows_of(&out, Some(0))
}

/// Several dataflows in one, with workers: the rows of each equal those of the dataflow alone.
#[test]
fn dataflows_beside_each_other_do_not_meet() {
    let joined = Dataflow {
        inputs: vec![input("a"), input("b")],
        pipelines: vec![windowed(60)],
        ..dataflow(vec![])
    };
    let flows = [
        dataflow(vec![windowed(15), windowed(60)]),
        joined,
        dataflow(vec![windowed(30)]),
    ];
    let rows = rows(400, 7);
    let mut collector = EngineSet::new(&flows, &EngineConfig::default());
    let mut out = Vec::new();
    for n in 0..3 {
        let mut worker = EngineSet::worker(&flows, &EngineConfig::default());
        let share: Vec<Row> = rows.iter().filter(|row| row.id % 3 == n).cloned().collect();
        let inputs = flows.iter().flat_map(|flow| &flow.inputs);
        for (i, input) in inputs.enumerate() {
            worker.push(i, &batch_of(&input.schema, &share), &mut out);
        }
        // The first sends its result as rows.
        match (n, worker.detach_all()) {
            (0, part) => {
                for (pipeline, batches) in worker.cells(&part, i64::MAX).iter().enumerate() {
                    for batch in batches {
                        let read = collector
                            .partials_of_cells(pipeline, batch)
                            .expect("they are its own");
                        collector.attach(read);
                    }
                }
            }
            (_, part) => collector.attach(part),
        }
    }
    collector.finish(&mut out);
    let mut place = 0;
    for flow in &flows {
        let mut engine = Engine::new(flow, EngineConfig::default());
        let mut alone = Vec::new();
        push(&mut engine, flow, &rows, &mut alone);
        engine.finish(&mut alone);
        for i in 0..flow.pipelines.len() {
            assert_eq!(
                rows_of(&out, Some(place)),
                rows_of(&alone, Some(i)),
                "result {place}"
            );
            place += 1;
        }
    }
    assert_eq!(place, 4);
}

proptest! {
    #[test]
    fn each_worker_has_its_own_epochs(
        n in 0u64..600, seed in any::<u32>(), epochs in prop::collection::vec(1usize..70, 1..5), slides in any::<bool>(),
    ) {
        let flow = dataflow(vec![windowed(if slides { 15 } else { 60 })]);
        let rows = rows(n, seed.into());
        prop_assert_eq!(together(&flow, &rows, &epochs), alone(&flow, &rows));
    }

    #[test]
    fn a_flow_is_joined_within_its_worker(n in 0u64..120, seed in any::<u32>(), workers in 1usize..5) {
        let p = Pipeline { window: None, top_k: None, ..windowed(60) };
        let flow = Dataflow { inputs: vec![input("a"), input("b")], filter: None, pipelines: vec![p], ..Dataflow::default() };
        let rows = rows(n, seed.into());
        prop_assert_eq!(together(&flow, &rows, &vec![1000; workers]), alone(&flow, &rows));
    }
}

/// The snapshot of open windows, including workers' parts, equals the rows that the end would emit, and taking it
/// changes nothing.
#[test]
fn open_windows_equal_the_rows_of_an_immediate_end() {
    for window in [
        None,
        Some(Window {
            size_ns: 1000,
            slide_ns: 1000,
            lateness_ns: 8,
        }),
    ] {
        let selection = plan::ResultSelection {
            rows_max: Some(3),
            ..plan::ResultSelection::default()
        };
        let flow = dataflow(vec![Pipeline {
            window,
            selection,
            ..windowed(60)
        }]);
        let rows = rows(300, 7);
        let config = EngineConfig::default();
        let mut collector = Engine::new(&flow, config.clone());
        let mut out = Vec::new();
        let mut workers = [
            Engine::worker(&flow, config.clone()),
            Engine::worker(&flow, config),
        ];
        for (w, worker) in workers.iter_mut().enumerate() {
            let share: Vec<Row> = rows
                .iter()
                .filter(|r| r.id % 2 == w as u64)
                .cloned()
                .collect();
            push(worker, &flow, &share, &mut out);
            worker
                .detach(200)
                .into_iter()
                .for_each(|part| collector.attach(part));
        }
        let peeks = workers
            .each_ref()
            .map(|worker| worker.peek(1 << 20).expect("it is little"));
        assert!(workers[0].peek(10).is_none(), "there is a bound");
        let mut open = Vec::new();
        let counters = collector.counters();
        for _ in 0..2 {
            open.clear();
            collector.open_rows(&peeks.each_ref(), &mut open);
        }
        assert_eq!(collector.counters(), counters);
        workers
            .iter_mut()
            .for_each(|worker| collector.attach(worker.detach_all()));
        collector.finish(&mut out);
        assert_eq!(rows_of(&open, Some(0)), rows_of(&out, Some(0)));
        assert_eq!(rows_of(&out, Some(0)), alone(&flow, &rows));
    }
}
