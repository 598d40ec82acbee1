//! Threads whose parts reach the collecting engine through their process, and deltas of open windows: the rows equal
//! those without either.

use plan::Pipeline;
use proptest::prelude::*;
use stream::{Engine, EngineConfig, EngineOutput};

use super::{RATIO, pipelines, rows};
use crate::tuples::{Plain, Row, Way, batch_of, column, dataflow, rows_of};

/// Engines between the threads and the collecting engine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    Nothing,
    /// Number of processes.
    Processes(usize),
}

const THREADS: usize = 5;

/// An engine and its watermark.
struct Node {
    engine: Engine,
    watermark: i64,
}

/// Threads that progress at different rates; `chance` determines the order of steps and the threads that send deltas.
fn collected(
    p: &Pipeline,
    config: &EngineConfig,
    rows: &[Row],
    between: Between,
    deltas: bool,
    chance: &[u8],
) -> Vec<Vec<Plain>> {
    let flow = dataflow(vec![p.clone()]);
    let worker = |n| Node {
        engine: Engine::worker(&flow, Way::Sent.config(config, n)),
        watermark: i64::MIN,
    };
    let mut threads: Vec<Node> = (0..THREADS as u64).map(worker).collect();
    let processes = if let Between::Processes(n) = between {
        n
    } else {
        0
    };
    let mut processes: Vec<Node> = (10..10 + processes as u64).map(worker).collect();
    let mut server = Engine::new(&flow, config.clone());
    let mut out = Vec::new();
    let mut chances = chance.iter().cycle();
    let mut is = |n: u8| chances.next().is_some_and(|c| c % n == 0);
    for rows in rows.chunks(30) {
        let now = rows.iter().map(|row| row.ts_end).max().unwrap_or(0);
        for (t, thread) in threads.iter_mut().enumerate() {
            let share: Vec<Row> = rows
                .iter()
                .filter(|r| r.id as usize % THREADS == t)
                .cloned()
                .collect();
            thread
                .engine
                .push(0, &batch_of(&flow.inputs[0].schema, &share), &mut out);
            let mut parts = Vec::new();
            if is(2) {
                thread.watermark = thread.watermark.max(now);
                parts.extend(thread.engine.detach(now));
            }
            // Drawn even without deltas, so that the random sequence is the same.
            if is(3) && deltas {
                parts.extend(thread.engine.detach_open());
            }
            let n = processes.len();
            let to = if n == 0 {
                &mut server
            } else {
                &mut processes[t % n].engine
            };
            parts.into_iter().for_each(|part| Way::Sent.bring(part, to));
        }
        let n = processes.len();
        for (i, process) in processes.iter_mut().enumerate() {
            process.engine.make_room(&mut out);
            process.watermark = threads
                .iter()
                .skip(i)
                .step_by(n)
                .map(|t| t.watermark)
                .min()
                .unwrap_or(now);
            let mut parts: Vec<_> = process
                .engine
                .detach(process.watermark)
                .into_iter()
                .collect();
            if deltas {
                parts.extend(process.engine.detach_open());
            }
            parts
                .into_iter()
                .for_each(|part| Way::Sent.bring(part, &mut server));
        }
        let least = threads
            .iter()
            .map(|thread| thread.watermark)
            .min()
            .unwrap_or(now);
        server.advance(least, &mut out);
    }
    for (t, mut thread) in threads.into_iter().enumerate() {
        let n = processes.len();
        let to = if n == 0 {
            &mut server
        } else {
            &mut processes[t % n].engine
        };
        Way::Sent.bring(thread.engine.detach_all(), to);
    }
    processes
        .iter_mut()
        .for_each(|process| Way::Sent.bring(process.engine.detach_all(), &mut server));
    server.finish(&mut out);
    assert_eq!(server.counters().tuples_late, 0);
    assert_eq!(server.counters().tuples_in, rows.len() as u64);
    rows_of(&out as &[EngineOutput], Some(0))
}

/// Checks equality; real numbers may differ by the order of summation.
fn assert_close(got: &[Vec<Plain>], expected: &[Vec<Plain>], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
        match (got, expected) {
            // Deviations of numbers up to ten million.
            (Plain::F64(a), Plain::F64(b)) => {
                assert!(
                    (a - b).abs() <= 1e-9 * b.abs().max(1.0),
                    "{what}: {a} is not {b}"
                );
            }
            _ => assert_eq!(got, expected, "{what}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn trees_and_deltas_change_no_row(
        p in pipelines(), n in 0u64..500, seed in any::<u32>(), groups in 1u64..60, sampled in any::<bool>(),
        processes in 1usize..4, chance in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let is_real = p.values[0].column == column(RATIO);
        // Equal means may differ in their last digits.
        let top_k = p.top_k.filter(|_| !is_real);
        let p = Pipeline { groups_max: 100_000, top_k, ..p };
        let rows = rows(n, seed.into(), groups);
        let config = EngineConfig { sample: if sampled { 0.3 } else { 1.0 }, distinct_exact_max: 20, ..EngineConfig::default() };
        let of = |between, deltas| collected(&p, &config, &rows, between, deltas, &chance);
        let flat = of(Between::Nothing, false);
        assert_close(&of(Between::Processes(processes), false), &flat, "tree");
        assert_close(&of(Between::Nothing, true), &flat, "deltas");
        assert_close(&of(Between::Processes(processes), true), &flat, "tree with deltas");
    }
}

/// An overflowed pane stays with its worker until its window ends.
#[test]
fn overflowed_panes_send_no_deltas() {
    let p = Pipeline {
        groups_max: 20,
        window: Some(plan::Window {
            size_ns: 100,
            slide_ns: 100,
            lateness_ns: 0,
        }),
        ..crate::tuples::pipeline(
            None,
            &[crate::tuples::PATH],
            vec![plan::AggregateFunction::Count],
        )
    };
    let flow = dataflow(vec![p]);
    let mut worker = Engine::worker(&flow, EngineConfig::default());
    let push = |worker: &mut Engine, n: u64, groups: u64| {
        let rows = rows(n, 3, groups);
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|row| Row {
                ts_end: row.ts_end.min(99),
                ..row
            })
            .collect();
        worker.push(0, &batch_of(&flow.inputs[0].schema, &rows), &mut Vec::new());
    };
    push(&mut worker, 90, 10);
    assert!(worker.detach_open().is_some());
    assert!(worker.detach_open().is_none(), "it has left");
    push(&mut worker, 90, 1000);
    assert!(worker.detach_open().is_none(), "it overflowed");
    assert!(worker.detach(100).is_some());
}
