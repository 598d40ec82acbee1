//! Partial results as rows: the results equal those of one engine over all tuples, whether the rows are merged by
//! another engine or not, in any order, or derived from tuples by definition.

mod hostile;
mod of_tuples;
mod promise;

use plan::{AggregateFunction, Pipeline, Window};
use proptest::prelude::*;
use stream::cells::CellOrigin;
use stream::{Engine, EngineConfig};

use crate::partial::{pipelines, rows};
use crate::tuples::cells::{Rows, Value, batch, merge, place, rows as rows_in, shuffle};
use crate::tuples::{
    IP, N, PATH, Plain, RATIO, Row, are_alike, batch_with, bring_rows, column, dataflow, pipeline,
    rows_of, run, weighted,
};

/// Processing of cells between the workers and the collecting engine.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    /// Equal keys are merged.
    merged: bool,
    /// Seed of the order of the cells.
    seed: u64,
    /// Rows per batch.
    batch: usize,
}

impl Between {
    /// Passes rows to an engine.
    pub fn bring(self, rows: &Rows, origin: CellOrigin, to: &mut Engine) {
        let table = to.cell_table(0).clone();
        let mut rows = if self.merged {
            merge(&table, rows)
        } else {
            rows.clone()
        };
        shuffle(&mut rows, self.seed);
        for rows in rows.chunks(self.batch) {
            bring_rows(&batch(&table, origin, rows), 0, to);
        }
    }
}

fn betweens() -> impl Strategy<Value = Between> {
    (
        any::<bool>(),
        any::<u64>(),
        prop::sample::select(vec![3, 40, 1 << 20]),
    )
        .prop_map(|(merged, seed, batch)| Between {
            merged,
            seed,
            batch,
        })
}

/// Rows of workers that detach at watermarks and between them.
fn cells_of(
    flow: &plan::Dataflow,
    config: &EngineConfig,
    rows: &[Row],
    workers: u64,
    deltas: bool,
) -> Rows {
    let mut all: Vec<Engine> = (0..workers)
        .map(|w| {
            Engine::worker(
                flow,
                EngineConfig {
                    seed: config.seed ^ (w + 1) << 40,
                    ..config.clone()
                },
            )
        })
        .collect();
    let table = all[0].cell_table(0).clone();
    let mut told = Rows::new();
    for rows in rows.chunks(40) {
        let watermark = rows.iter().map(|row| row.ts_end).max().unwrap_or(0);
        for (worker, w) in all.iter_mut().zip(0..) {
            let share: Vec<Row> = rows
                .iter()
                .filter(|r| r.id % workers == w)
                .cloned()
                .collect();
            let input = &flow.inputs[0];
            worker.push(
                0,
                &batch_with(&input.schema, &input.columns, &share),
                &mut Vec::new(),
            );
            let mut parts: Vec<_> = worker.detach(watermark).into_iter().collect();
            parts.extend(if deltas { worker.detach_open() } else { None });
            parts
                .iter()
                .for_each(|part| told.extend(rows_in(&table, &worker.cells(part, watermark)[0])));
        }
    }
    for worker in &mut all {
        let part = worker.detach_all();
        told.extend(rows_in(&table, &worker.cells(&part, i64::MAX)[0]));
    }
    told
}

/// The results from cells.
fn finished(
    flow: &plan::Dataflow,
    config: &EngineConfig,
    bring: impl FnOnce(&mut Engine),
) -> Vec<Vec<Plain>> {
    let mut engine = Engine::new(flow, config.clone());
    let mut out = Vec::new();
    bring(&mut engine);
    engine.finish(&mut out);
    rows_of(&out, Some(0))
}

/// Sampling of the tuples: none, one rate, or a rate per tuple.
pub fn flow_of(p: &Pipeline, sampling: u8, exact: usize) -> (plan::Dataflow, EngineConfig) {
    let flow = if sampling == 2 {
        weighted(vec![p.clone()])
    } else {
        dataflow(vec![p.clone()])
    };
    let sample = if sampling == 1 { 0.2 } else { 1.0 };
    (
        flow,
        EngineConfig {
            sample,
            distinct_exact_max: exact,
            ..EngineConfig::default()
        },
    )
}

/// Pipelines whose groups fit into memory. Deviations of real numbers have no cells, and means that are equal may
/// differ in their last digits.
pub fn roomy() -> impl Strategy<Value = Pipeline> {
    (pipelines(), any::<bool>(), any::<bool>()).prop_map(|(mut p, whole, required)| {
        let is_real = p.values[0].column == column(RATIO);
        p.top_k = p.top_k.filter(|_| !is_real);
        if is_real && !whole {
            p.aggregates
                .retain(|one| one.aggregate != AggregateFunction::Stddev);
        }
        Pipeline {
            groups_max: 100_000,
            value_required: required,
            ..p
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn merged_cells_equal_the_engine(
        p in roomy(), n in 0u64..300, seed in any::<u32>(), groups in 1u64..60, sampling in 0u8..3,
        exact in prop::sample::select(vec![2usize, 1000]), workers in 1u64..4, deltas in any::<bool>(), between in betweens(),
    ) {
        let rows = rows(n, seed.into(), groups);
        let (flow, config) = flow_of(&p, sampling, exact);
        let told = cells_of(&flow, &config, &rows, workers, deltas);
        let got = finished(&flow, &config, |engine| between.bring(&told, CellOrigin::Merged, engine));
        let alone = rows_of(&run(&flow, config, &rows, 64).0, Some(0));
        prop_assert!(are_alike(&got, &alone), "{:#?}\nis not\n{:#?}", got, alone);
    }
}

/// Whole panes of groups that exceeded the limit: nothing is lost, and the rows are marked as approximate.
#[test]
fn overflowed_panes_are_whole() {
    let window = Some(Window {
        size_ns: 100,
        slide_ns: 100,
        lateness_ns: 8,
    });
    for slide in [100, 50] {
        let window = window.map(|window| Window {
            slide_ns: slide,
            ..window
        });
        let counts = vec![AggregateFunction::Count, AggregateFunction::Sum];
        let p = Pipeline {
            groups_max: 10,
            window,
            ..pipeline(Some(N), &[PATH], counts)
        };
        let (flow, config) = flow_of(&p, 0, 1000);
        let rows = rows(400, 3, 100);
        let told = cells_of(&flow, &config, &rows, 2, false);
        let whole = place(Engine::new(&flow, config.clone()).cell_table(0), "whole");
        assert!(told.iter().any(|row| row[whole] != Value::Null));
        for merged in [false, true] {
            let between = Between {
                merged,
                seed: 7,
                batch: 50,
            };
            let mut out = Vec::new();
            let mut engine = Engine::new(&flow, config.clone());
            between.bring(&told, CellOrigin::Merged, &mut engine);
            engine.finish(&mut out);
            let mut counted = 0;
            for output in &out {
                let of = |name| output.batch.schema().find(name).expect(name);
                let counts = output.batch.u64(of("count"));
                counted += counts.values().iter().sum::<u64>();
                assert!(
                    (0..output.batch.rows())
                        .any(|row| output.batch.bool(of("approximate")).value(row))
                );
            }
            assert_eq!(counted, rows.len() as u64 * (100 / slide as u64));
        }
    }
}

/// Bit-identical state of several workers that has no row encoding is merged into one row, which counts for all of
/// them.
#[test]
fn equal_whole_panes_are_merged_and_count() {
    let p = pipeline(
        Some(RATIO),
        &[PATH],
        vec![AggregateFunction::Stddev, AggregateFunction::Count],
    );
    let (flow, config) = flow_of(&p, 0, 1000);
    let values = [1.5, 2.5, 4.0].map(|ratio| Row {
        ratio: Some(ratio),
        ..Row::default()
    });
    let all: Vec<Row> = (0..3)
        .flat_map(|id| values.clone().map(|row| Row { id, ..row }))
        .collect();
    let told = cells_of(&flow, &config, &all, 3, false);
    let table = Engine::new(&flow, config.clone()).cell_table(0).clone();
    assert_eq!((told.len(), merge(&table, &told).len()), (3, 1));
    let between = Between {
        merged: true,
        seed: 1,
        batch: 10,
    };
    let got = finished(&flow, &config, |engine| {
        between.bring(&told, CellOrigin::Merged, engine)
    });
    let alone = rows_of(&run(&flow, config, &all, 64).0, Some(0));
    assert!(are_alike(&got, &alone), "{got:?} is not {alone:?}");
}

/// A bucket is the first of one worker's histogram and the last of another's, with overlapping values.
#[test]
fn buckets_may_be_first_and_last() {
    let p = pipeline(
        Some(N),
        &[PATH],
        vec![
            AggregateFunction::Quantile(0.0),
            AggregateFunction::Quantile(0.5),
            AggregateFunction::Hist,
        ],
    );
    let (flow, config) = flow_of(&p, 0, 1000);
    let of = |id, n| Row {
        id,
        n: Some(n),
        ..Row::default()
    };
    let all = [of(0, 100_050), of(0, 9_000_000), of(1, 10), of(1, 100_001)];
    let told = cells_of(&flow, &config, &all, 2, false);
    let merged = merge(Engine::new(&flow, config.clone()).cell_table(0), &told);
    assert!(merged.len() < told.len(), "they share a bucket");
    let alone = rows_of(&run(&flow, config.clone(), &all, 64).0, Some(0));
    for merged in [false, true] {
        let between = Between {
            merged,
            seed: 3,
            batch: 10,
        };
        let got = finished(&flow, &config, |engine| {
            between.bring(&told, CellOrigin::Merged, engine)
        });
        assert!(are_alike(&got, &alone), "{got:?} is not {alone:?}");
    }
}

/// Sums of squares that exceed another engine's 38 digits.
#[test]
fn long_sums_are_whole() {
    let p = pipeline(
        Some(N),
        &[PATH],
        vec![AggregateFunction::Stddev, AggregateFunction::Sum],
    );
    let (flow, config) = flow_of(&p, 0, 1000);
    for (n, is_whole) in [(u64::MAX, true), (1 << 60, true), (1 << 50, false)] {
        let all: Vec<Row> = (0..4)
            .map(|id| Row {
                id,
                n: Some(n - id % 3),
                ..Row::default()
            })
            .collect();
        let told = cells_of(&flow, &config, &all, 2, false);
        let whole = place(Engine::new(&flow, config.clone()).cell_table(0), "whole");
        assert_eq!(
            told.iter().all(|row| row[whole] != Value::Null),
            is_whole,
            "{n}"
        );
        let between = Between {
            merged: true,
            seed: 1,
            batch: 10,
        };
        let got = finished(&flow, &config, |engine| {
            between.bring(&told, CellOrigin::Merged, engine)
        });
        assert!(
            are_alike(
                &got,
                &rows_of(&run(&flow, config.clone(), &all, 64).0, Some(0))
            ),
            "{n}"
        );
    }
}

/// Many groups with many entries are sent in batches of bounded size.
#[test]
fn batches_are_bounded() {
    let all = vec![
        AggregateFunction::Distinct(column(N)),
        AggregateFunction::Quantile(0.5),
    ];
    let (flow, config) = flow_of(&pipeline(Some(N), &[PATH, IP], all), 0, 1000);
    let rows: Vec<Row> = (0..60_000)
        .map(|i| Row {
            id: i,
            path: Some(format!("{}", i % 70)),
            n: Some(i),
            ..Row::default()
        })
        .collect();
    let mut worker = Engine::worker(&flow, config);
    worker.push(
        0,
        &batch_with(&flow.inputs[0].schema, &flow.inputs[0].columns, &rows),
        &mut Vec::new(),
    );
    let part = worker.detach_all();
    let batches = worker.cells(&part, 0).remove(0);
    let lens: Vec<usize> = batches.iter().map(|batch| batch.num_rows()).collect();
    assert!(
        lens.len() > 1 && lens.iter().all(|rows| (1..=1 << 16).contains(rows)),
        "{lens:?}"
    );
    let from_cells = finished(&flow, &EngineConfig::default(), |engine| {
        batches
            .iter()
            .for_each(|batch| bring_rows(batch, 0, engine));
    });
    assert_eq!(
        from_cells,
        rows_of(
            &run(&flow, EngineConfig::default(), &rows, 1 << 16).0,
            Some(0)
        )
    );
}

/// The fingerprint of cells covers everything that affects their meaning, and excludes names and presentation.
#[test]
fn fingerprints_tell_meanings_apart() {
    let named = |name: &str, aggregates: Vec<AggregateFunction>| {
        let mut p = pipeline(Some(N), &[PATH], aggregates);
        p.name = name.into();
        p.group[0].name = name.into();
        p.aggregates[0].name = Some(name.into());
        p
    };
    let print = |p: &Pipeline| {
        let flow = dataflow(vec![p.clone()]);
        stream::cells::fingerprint(&flow, 0, &EngineConfig::default(), &[])
    };
    let plain = named(
        "a",
        vec![AggregateFunction::Quantile(0.5), AggregateFunction::Avg],
    );
    // Fixed for this encoding; a different value means a different format, with different topics.
    assert_eq!(print(&plain), "75498d65d577e813");
    assert_eq!(
        print(&named(
            "b",
            vec![AggregateFunction::Quantile(0.9), AggregateFunction::Sum]
        )),
        print(&plain)
    );
    // Restricted to the second of its window, and unrestricted.
    let by_second = named(
        "a",
        vec![
            AggregateFunction::Quantile(0.5),
            AggregateFunction::Throughput,
        ],
    );
    let windowed = |p: &Pipeline| Pipeline {
        window: Some(Window {
            size_ns: 10,
            slide_ns: 10,
            lateness_ns: 0,
        }),
        ..p.clone()
    };
    assert_eq!(print(&windowed(&by_second)), print(&windowed(&plain)));
    let mut shown = plain.clone();
    shown.selection.rows_max = Some(3);
    shown.top_k = Some(plan::TopK { k: 3, by: 1 });
    assert_eq!(print(&shown), print(&plain));
    let window = Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    };
    let others = [
        by_second,
        named("a", vec![AggregateFunction::Quantile(0.5)]),
        Pipeline {
            value_required: true,
            ..plain.clone()
        },
        Pipeline {
            window: Some(window),
            ..plain.clone()
        },
        Pipeline {
            window: Some(Window {
                lateness_ns: 1,
                ..window
            }),
            ..plain.clone()
        },
        Pipeline {
            window: Some(Window {
                slide_ns: 5,
                ..window
            }),
            ..plain.clone()
        },
        pipeline(
            Some(N),
            &[IP],
            vec![AggregateFunction::Quantile(0.5), AggregateFunction::Avg],
        ),
        pipeline(
            Some(RATIO),
            &[PATH],
            vec![AggregateFunction::Quantile(0.5), AggregateFunction::Avg],
        ),
        Pipeline {
            groups_max: 7,
            ..plain.clone()
        },
    ];
    let mut prints: Vec<String> = others.iter().map(print).chain([print(&plain)]).collect();
    let flow = dataflow(vec![plain.clone()]);
    let halves = EngineConfig {
        sample: 0.5,
        ..EngineConfig::default()
    };
    prints.push(stream::cells::fingerprint(&flow, 0, &halves, &[]));
    prints.push(stream::cells::fingerprint(
        &flow,
        0,
        &EngineConfig::default(),
        b"client 10.0.0.1",
    ));
    prints.push(stream::cells::fingerprint(
        &weighted(vec![plain.clone()]),
        0,
        &EngineConfig::default(),
        &[],
    ));
    let n = prints.len();
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), n);
}
