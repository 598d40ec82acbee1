//! Promised times of future cells are kept in any order of events.

use std::collections::BTreeSet;

use plan::{AggregateFunction, Pipeline, Window};
use proptest::prelude::*;
use stream::{Engine, EngineConfig};

use crate::tuples::cells::{Value, place, rows};
use crate::tuples::{PATH, Row, batch_of, dataflow, pipeline};

/// An operation of a worker.
#[derive(Clone, Debug)]
enum Step {
    /// Tuples with these times arrive.
    Push(Vec<i64>),
    /// Event time advances to this time, or stays if it is already later.
    Detach(i64),
    /// Open windows are sent.
    Open,
}

fn times(unit: i64) -> impl Strategy<Value = i64> {
    (-40i64..120, -3i64..3).prop_map(move |(time, off)| time * unit + off)
}

fn steps(unit: i64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => prop::collection::vec(times(unit), 1..6).prop_map(Step::Push),
        2 => times(unit).prop_map(Step::Detach),
        1 => Just(Step::Open),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_cell_precedes_the_promise(
        steps in prop_oneof![steps(1_000_000), steps(300_000)],
        window in prop::option::of((1i64..30, 1i64..30, 0i64..20)), part_of_ms in any::<bool>(),
        panes_max in prop::sample::select(vec![2usize, 8192]),
    ) {
        let unit = if part_of_ms { 700_001 } else { 1_000_000 };
        let window = window.map(|(size, slide, lateness)| Window {
            size_ns: size.max(slide) * unit, slide_ns: size.min(slide) * unit, lateness_ns: lateness * 500_000,
        });
        let flow = dataflow(vec![Pipeline { window, ..pipeline(None, &[PATH], vec![AggregateFunction::Count]) }]);
        let mut worker = Engine::worker(&flow, EngineConfig { panes_max, ..EngineConfig::default() });
        let table = worker.cell_table(0).clone();
        let et = place(&table, "et_ms");
        let wm = place(&table, "wm_ms");
        let mut watermark = -100_000_000;
        let mut promised = i64::MIN;
        let mut counted = 0;
        let mut pushed = 0;
        // Tuples that arrive later than allowed: sliding windows still accept them.
        let mut late = BTreeSet::new();
        let mut check = |worker: &Engine, late: &BTreeSet<i64>, part: Option<stream::PartialResult>, watermark: i64| {
            let batches = part.map_or(Vec::new(), |part| worker.cells(&part, watermark).remove(0));
            let mut before = promised;
            for row in rows(&table, &batches) {
                let Value::Long(et_ms) = &row[et] else { panic!("{row:?}") };
                let Value::Long(wm_ms) = &row[wm] else { panic!("{row:?}") };
                assert!(*et_ms > before || late.contains(et_ms), "{et_ms} after {before} was promised");
                before = before.max(*wm_ms);
                if let Value::Long(n) = row[place(&table, "tuples")] { counted += n as u64 }
            }
            // The promise in a row is not beyond that of its batch.
            let now = worker.promise_ms(0, watermark);
            assert!(before <= now.max(promised), "{before} is beyond {now}");
            promised = now.max(promised);
            promised
        };
        let mut told = i64::MIN;
        for step in steps {
            match step {
                Step::Push(times) => {
                    pushed += times.len() as u64;
                    if let Some(pane_ns) = table.pane_ns {
                        let begins = times.iter().map(|time| (time.div_euclid(pane_ns) * pane_ns).div_euclid(1_000_000));
                        late.extend(begins.filter(|et_ms| *et_ms <= told));
                    }
                    let row = |ts_end| Row { ts_end, path: Some(format!("{}", ts_end % 3)), ..Row::default() };
                    let tuples: Vec<Row> = times.into_iter().map(row).collect();
                    worker.push(0, &batch_of(&flow.inputs[0].schema, &tuples), &mut Vec::new());
                }
                Step::Detach(time) => {
                    watermark = time.max(watermark);
                    let part = worker.detach(watermark);
                    told = check(&worker, &late, part, watermark);
                }
                Step::Open => {
                    let part = worker.detach_open();
                    told = check(&worker, &late, part, watermark);
                }
            }
        }
        let part = worker.detach_all();
        let dropped = worker.counters().tuples_late;
        check(&worker, &late, Some(part), watermark);
        prop_assert!(counted <= pushed && pushed - counted >= dropped);
    }
}

/// A tumbling window of one second with half a second of lateness.
#[test]
fn promised_time_is_the_end_of_the_last_closed_window() {
    let second = 1_000_000_000;
    let window = Window {
        size_ns: second,
        slide_ns: second,
        lateness_ns: second / 2,
    };
    let flow = dataflow(vec![Pipeline {
        window: Some(window),
        ..pipeline(None, &[], vec![AggregateFunction::Count])
    }]);
    let worker = Engine::worker(&flow, EngineConfig::default());
    for (watermark_ms, promise) in [
        (1499, -1),
        (1500, 999),
        (2499, 999),
        (2500, 1999),
        (-501, -2001),
    ] {
        assert_eq!(
            worker.promise_ms(0, watermark_ms * 1_000_000),
            promise,
            "{watermark_ms}"
        );
    }
}

/// Windows of ten seconds, one per second: the promise does not wait for the other windows that contain the same
/// second.
#[test]
fn windows_that_slide_wait_for_their_own_end_only() {
    let second = 1_000_000_000;
    let window = Window {
        size_ns: 10 * second,
        slide_ns: second,
        lateness_ns: second,
    };
    let flow = dataflow(vec![Pipeline {
        window: Some(window),
        ..pipeline(None, &[], vec![AggregateFunction::Count])
    }]);
    let worker = Engine::worker(&flow, EngineConfig::default());
    for (watermark_s, promise) in [(11, 9999), (12, 10_999), (100, 98_999)] {
        assert_eq!(
            worker.promise_ms(0, watermark_s * second),
            promise,
            "{watermark_s}"
        );
    }
}

/// If panes exceeded the limit and were sent early, later tuples of their windows create a new pane, which is sent with
/// its windows.
#[test]
fn late_tuples_of_evicted_panes_are_sent_before_the_promise() {
    let ms = 1_000_000;
    let window = Window {
        size_ns: 6 * ms,
        slide_ns: 2 * ms,
        lateness_ns: 0,
    };
    let flow = dataflow(vec![Pipeline {
        window: Some(window),
        ..pipeline(None, &[], vec![AggregateFunction::Count])
    }]);
    let mut worker = Engine::worker(
        &flow,
        EngineConfig {
            panes_max: 2,
            ..EngineConfig::default()
        },
    );
    for time in [20, 24, 28, 18, 26, 22, 21] {
        let tuples = [Row {
            ts_end: time * ms,
            ..Row::default()
        }];
        worker.push(
            0,
            &batch_of(&flow.inputs[0].schema, &tuples),
            &mut Vec::new(),
        );
    }
    assert_eq!(worker.counters().windows_forced, 3);
    let table = worker.cell_table(0).clone();
    let part = worker.detach(23 * ms).expect("panes that are over");
    let told = rows(&table, &worker.cells(&part, 23 * ms).remove(0));
    let sum: i64 = told
        .iter()
        .map(|row| {
            if let Value::Long(n) = row[place(&table, "tuples")] {
                n
            } else {
                0
            }
        })
        .sum();
    assert_eq!(
        (worker.promise_ms(0, 23 * ms), sum),
        (21, 4),
        "18, 20, 22 and the one that came for 20 again"
    );
}
