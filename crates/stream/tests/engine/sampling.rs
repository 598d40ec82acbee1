//! Coverage of 95 % confidence intervals: populations of flows with known totals, sampled many times.

use crate::tuples::{
    DELTA, N, PATH, Plain, Row, batch_with, column, dataflow, names, number, pipeline, rows_of,
    run, weighted,
};
use plan::{
    AggregateColumn, AggregateFunction, ComparisonOperator, Literal, Pipeline, Predicate,
    ShareTotal, TopK, Window,
};
use stream::{Engine, EngineConfig, EngineOutput, LossCount, LossStretch};

/// A seeded random generator.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let h = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^ (h >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Flows with several transactions each; response times within a flow are similar, and error rates differ between
/// flows.
fn population(flows: u64, tuples: f64, skew: f64, random: &mut Random) -> Vec<Row> {
    let mut rows = Vec::new();
    for flow in 0..flows {
        let n = 1 + (-tuples * (1.0 - random.uniform()).ln()) as usize;
        let pace = random.normal();
        let path = format!("/{}", (random.uniform().powi(2) * 8.0) as u64);
        let failing = random.uniform() * 0.2;
        for _ in 0..n {
            let time = 1e6 * (skew * (pace + random.normal())).exp();
            rows.push(Row {
                id: flow,
                n: Some(time as u64),
                delta: Some(-i64::from(random.uniform() < failing)),
                path: Some(path.clone()),
                ts_end: (random.uniform() * 1e9) as i64,
                ..Row::default()
            });
        }
    }
    rows
}

/// The flows in a sample with rate `p`.
fn sample(population: &[Row], p: f64, run: u64) -> Vec<Row> {
    sample_at(population, |_| p, run)
}

/// The same with a sampling rate per flow, which its tuples carry.
fn sample_at(population: &[Row], p: impl Fn(u64) -> f64, run: u64) -> Vec<Row> {
    let mut random = Random(run << 32);
    let mut last = None;
    let mut is_in = false;
    let mut rows = Vec::new();
    for row in population {
        if last != Some(row.id) {
            last = Some(row.id);
            is_in = random.uniform() < p(row.id);
        }
        if is_in {
            rows.push(Row {
                rate: Some(p(row.id)),
                ..row.clone()
            });
        }
    }
    rows
}

/// The same with Pareto-distributed flow lengths of this exponent: a few flows have most of the tuples. With `drift`,
/// long flows are slower.
fn heavy_tailed(flows: u64, exponent: f64, drift: f64, random: &mut Random) -> Vec<Row> {
    let mut rows = Vec::new();
    for flow in 0..flows {
        let n = ((1.0 - random.uniform()).powf(-1.0 / exponent)).min(1e6) as usize;
        let pace = random.normal() + drift * (n as f64).ln();
        let failing = random.uniform() * 0.2;
        for _ in 0..n {
            let time = 1e6 * (0.5 * (pace + random.normal())).exp();
            rows.push(Row {
                id: flow,
                n: Some(time as u64),
                delta: Some(-i64::from(random.uniform() < failing)),
                ts_end: (random.uniform() * 1e9) as i64,
                ..Row::default()
            });
        }
    }
    rows
}

fn aggregates() -> Pipeline {
    let ok = Predicate::Compare {
        column: column(DELTA),
        op: ComparisonOperator::Eq,
        literal: Literal::I64(0),
    };
    let all = vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Quantile(0.5),
        AggregateFunction::Quantile(0.95),
        AggregateFunction::Quantile(0.99),
        AggregateFunction::Success(ok),
        AggregateFunction::Stddev,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Distinct(column(N)),
    ];
    pipeline(Some(N), &[], all)
}

/// Share of runs in which the interval of each column covers the true value, and share in which both ends are finite.
fn coverage(population: &[Row], p: f64, runs: u64, names: &[&str]) -> Vec<(f64, f64)> {
    let flow = dataflow(vec![aggregates()]);
    let (truth, _) = run(&flow, EngineConfig::default(), population, 4096);
    let truth: Vec<f64> = names
        .iter()
        .map(|n| number(&truth, 0, n).expect("a number"))
        .collect();
    let mut hits = vec![(0.0, 0.0); names.len()];
    for i in 0..runs {
        let config = EngineConfig {
            sample: p,
            sample_seed: i + 1,
            ..EngineConfig::default()
        };
        let (out, _) = run(&flow, config, &sample(population, p, i + 1), 4096);
        for ((name, truth), hits) in names.iter().zip(&truth).zip(&mut hits) {
            let [low, high] = ["low", "high"].map(|end| number(&out, 0, &format!("{name}_{end}")));
            // The estimate of a quantile is off by up to the width of its bucket, and so is its interval.
            let covers =
                low.is_none_or(|low| low <= *truth) && high.is_none_or(|high| *truth <= high);
            hits.0 += f64::from(u8::from(covers)) / runs as f64;
            hits.1 += f64::from(u8::from(low.is_some() && high.is_some())) / runs as f64;
        }
    }
    hits
}

#[test]
fn intervals_have_the_stated_coverage() {
    let names = [
        "count",
        "sum_ns",
        "avg_ns",
        "p50_ns",
        "p99_ns",
        "success",
        "stddev_ns",
    ];
    let mut random = Random(42);
    for (flows, tuples, skew, p) in [
        (40_000u32, 2.0, 0.5, 0.01),
        (8000, 2.0, 0.5, 0.05),
        (4000, 2.0, 0.5, 0.1),
        (2000, 4.0, 0.3, 0.2),
        (800, 1.0, 0.5, 0.5),
        (10_000, 2.0, 0.3, 0.2),
        (4000, 2.0, 0.5, 0.5),
    ] {
        let population = population(flows.into(), tuples, skew, &mut random);
        for (name, (covers, closed)) in names.iter().zip(coverage(&population, p, 1000, &names)) {
            let found = format!(
                "{flows} flows × {tuples}, p = {p}: {name} covered {covers:.3}, closed {closed:.3}"
            );
            // Of 1,000 samples; an open end always covers.
            let least = if *name == "stddev_ns" { 0.9 } else { 0.93 };
            assert!(
                covers >= least && (covers <= 0.97 || closed < 0.9 || *name == "success"),
                "{found}"
            );
            let is_in_many_flows = p * f64::from(flows) >= 2000.0;
            let closes =
                !matches!(*name, "stddev_ns" | "p99_ns") || is_in_many_flows && *name == "p99_ns";
            // With a few hundred flows, some samples look as if a few flows dominated.
            let least = if is_in_many_flows { 0.93 } else { 0.8 };
            assert!(closed > if closes { least } else { -1.0 }, "{found}");
        }
    }
}

#[test]
fn a_few_flows_that_dominate_leave_ends_open() {
    let names = [
        "count",
        "sum_ns",
        "avg_ns",
        "p50_ns",
        "p95_ns",
        "p99_ns",
        "success",
        "stddev_ns",
    ];
    for (flows, exponent, drift, p) in [
        (300, 1.3, 0.0, 0.2),
        (3000, 1.3, 0.0, 0.2),
        (6000, 1.3, 0.3, 0.2),
        (2000, 1.6, 0.0, 0.2),
        (3000, 1.3, 0.0, 0.05),
    ] {
        let mut all = vec![(0.0, 0.0); names.len()];
        let populations = 20u32;
        for seed in 0..populations {
            let population =
                heavy_tailed(flows, exponent, drift, &mut Random(1000 + u64::from(seed)));
            for (all, one) in all.iter_mut().zip(coverage(&population, p, 50, &names)) {
                all.0 += one.0 / f64::from(populations);
                all.1 += one.1 / f64::from(populations);
            }
        }
        for (name, (covers, closed)) in names.iter().zip(all) {
            let found =
                format!("{flows} flows, exponent {exponent}, p = {p}: {name} covered {covers:.3}");
            assert!(
                covers >= 0.93 && closed < 0.3,
                "{found}, closed {closed:.3}"
            );
        }
    }
}

#[test]
fn shares_and_throughputs_of_groups_lie_within_their_intervals() {
    let second = 1_000_000_000;
    let window = Some(Window {
        size_ns: second,
        slide_ns: second,
        lateness_ns: 0,
    });
    let flow = dataflow(vec![Pipeline {
        window,
        ..pipeline(Some(N), &[PATH], parts_of_totals())
    }]);
    let mut random = Random(48);
    for (flows, p) in [(4000, 0.1), (1000, 0.5), (60, 0.2)] {
        let population = population(flows, 2.0, 0.5, &mut random);
        let (truth, _) = run(&flow, EngineConfig::default(), &population, 4096);
        let paths = |out: &[EngineOutput]| {
            rows_of(out, Some(0))
                .into_iter()
                .map(|line| line[2].clone())
        };
        let mut hits = [0; 3];
        let mut all = 0;
        for i in 0..200 {
            let config = EngineConfig {
                sample: p,
                sample_seed: i + 1,
                ..EngineConfig::default()
            };
            let (out, _) = run(&flow, config, &sample(&population, p, i + 1), 4096);
            for (row, path) in paths(&out).enumerate() {
                let true_row = paths(&truth)
                    .position(|p| p == path)
                    .expect("of the population");
                for (hits, name) in hits
                    .iter_mut()
                    .zip(["throughput_ns", "share", "share_n_ns"])
                {
                    let truth = number(&truth, true_row, name).expect("a number");
                    let [low, high] =
                        ["low", "high"].map(|end| number(&out, row, &format!("{name}_{end}")));
                    *hits += u32::from(
                        low.is_none_or(|l| l <= truth) && high.is_none_or(|h| truth <= h),
                    );
                }
                all += 1;
            }
        }
        for hits in hits {
            let covered = f64::from(hits) / f64::from(all);
            assert!(covered >= 0.93, "{flows} flows, p = {p}: {covered:.3}");
        }
    }
}

#[test]
fn capture_losses_widen_the_intervals_of_totals() {
    let population = population(5000, 2.0, 0.3, &mut Random(7));
    let rows = sample(&population, 0.2, 1);
    let flow = dataflow(vec![aggregates()]);
    let [whole, lossy] = [0.0, 0.05].map(|loss| {
        let mut engine = Engine::new(
            &flow,
            EngineConfig {
                sample: 0.2,
                ..EngineConfig::default()
            },
        );
        let mut out = Vec::new();
        engine.push(
            0,
            &batch_with(&flow.inputs[0].schema, &flow.inputs[0].columns, &rows),
            &mut out,
        );
        engine.set_capture_loss(loss);
        engine.finish(&mut out);
        out
    });
    for name in ["count", "sum_ns"] {
        let of = |out: &[_], end| number(out, 0, &format!("{name}{end}")).expect("a number");
        let factor = of(&lossy, "_high") / of(&whole, "_high");
        assert!((factor - 1.0 / 0.9).abs() < 1e-9, "{name} {factor}");
        assert_eq!(
            (of(&lossy, "_low"), of(&lossy, "")),
            (of(&whole, "_low"), of(&whole, ""))
        );
    }
}

#[test]
fn few_flows_get_open_intervals_not_wrong_ones() {
    let names = [
        "count",
        "sum_ns",
        "avg_ns",
        "p50_ns",
        "p99_ns",
        "success",
        "stddev_ns",
        "min_ns",
        "max_ns",
        "distinct",
    ];
    let mut random = Random(43);
    for (flows, tuples, skew, p) in [
        (50, 1.0, 0.5, 0.1),
        (100, 0.5, 0.5, 0.1),
        (300, 50.0, 0.5, 0.1),
        (64, 50.0, 0.3, 0.05),
        (64, 50.0, 0.3, 0.2),
        (64, 50.0, 0.3, 0.5),
    ] {
        let population = population(flows, tuples, skew, &mut random);
        for (name, (covers, closed)) in names.iter().zip(coverage(&population, p, 400, &names)) {
            let found = format!(
                "{flows} flows × {tuples}, p = {p}: {name} covered {covers:.3}, closed {closed:.3}"
            );
            assert!(
                covers >= if *name == "success" { 0.92 } else { 0.93 },
                "{found}"
            );
            // With so few flows, quantiles have no interval, and other columns often have one end only.
            assert!(closed < 0.1 || !name.starts_with('p'), "{found}");
        }
    }
}

#[test]
fn ranks_lie_within_their_bounds() {
    let p = Pipeline {
        top_k: Some(TopK { k: 4, by: 0 }),
        ..pipeline(Some(N), &[PATH], vec![AggregateFunction::Count])
    };
    let flow = dataflow(vec![p]);
    let population = population(2000, 2.0, 0.5, &mut Random(44));
    let all = Pipeline {
        top_k: Some(TopK { k: 100, by: 0 }),
        ..flow.pipelines[0].clone()
    };
    let truth = rows_of(
        &run(
            &dataflow(vec![all]),
            EngineConfig::default(),
            &population,
            4096,
        )
        .0,
        Some(0),
    );
    let mut hits = 0;
    let mut rows = 0;
    for i in 0..200 {
        let (out, _) = run(
            &flow,
            EngineConfig {
                sample: 0.1,
                ..EngineConfig::default()
            },
            &sample(&population, 0.1, i + 1),
            4096,
        );
        for line in rows_of(&out, Some(0)) {
            let Plain::U64(low) = &line[2] else {
                panic!("ranks are closed")
            };
            let Plain::U64(high) = &line[3] else {
                panic!("ranks are closed")
            };
            let rank = truth.iter().position(|t| t[0] == line[0]).expect("known") as u64 + 1;
            hits += u64::from((*low..=*high).contains(&rank));
            rows += 1;
        }
    }
    assert!(hits as f64 >= 0.95 * f64::from(rows), "{hits} of {rows}");
}

#[test]
fn a_sample_is_scaled_and_every_aggregate_has_its_ends() {
    let mut p = aggregates();
    p.aggregates.extend(
        [
            AggregateFunction::Hist,
            AggregateFunction::Cdf,
            AggregateFunction::Rate,
        ]
        .map(AggregateColumn::from),
    );
    let rows: Vec<Row> = (0..200)
        .map(|id| Row {
            id,
            ts_end: id as i64,
            n: Some(5 + id % 2),
            ..Row::default()
        })
        .collect();
    let (out, _) = run(
        &dataflow(vec![p.clone()]),
        EngineConfig {
            sample: 0.5,
            ..EngineConfig::default()
        },
        &rows,
        64,
    );
    assert_eq!(number(&out, 0, "count"), Some(400.0));
    assert_eq!(number(&out, 0, "sum_ns"), Some(2200.0));
    assert_eq!(number(&out, 0, "avg_ns"), Some(5.5));
    assert_eq!(number(&out, 0, "distinct"), Some(2.0));
    let schema = out[0].batch.schema();
    for field in schema
        .fields
        .iter()
        .filter(|f| !f.name.ends_with("_low") && !f.name.ends_with("_high"))
    {
        let has_ends = !matches!(&*field.name, "approximate" | "error_bound" | "lost");
        assert_eq!(
            schema.find(&format!("{}_low", field.name)).is_some(),
            has_ends,
            "{}",
            field.name
        );
        assert_eq!(
            schema.find(&format!("{}_high", field.name)).is_some(),
            has_ends,
            "{}",
            field.name
        );
    }
    let text = |name| {
        out[0]
            .batch
            .text(schema.find(name).expect("a column"))
            .value(0)
            .to_string()
    };
    assert_eq!(text("hist_ns"), "[[5,200],[6,200]]");
    assert_eq!(text("cdf_ns"), "[[5,0.5],[6,1]]");
    assert!(text("hist_ns_low").starts_with("[[5,1") && text("hist_ns_high").starts_with("[[5,2"));
    assert!(text("cdf_ns_low").starts_with("[[5,0.4") && text("cdf_ns_high").ends_with(",1]]"));
}

fn parts_of_totals() -> Vec<AggregateFunction> {
    vec![
        AggregateFunction::Throughput,
        AggregateFunction::Share(ShareTotal::Tuples),
        AggregateFunction::Share(ShareTotal::Values),
    ]
}

/// Every aggregate in groups, and a ranking.
fn all_of_groups() -> Vec<Pipeline> {
    let mut p = aggregates();
    p.aggregates.extend(
        [
            AggregateFunction::Hist,
            AggregateFunction::Cdf,
            AggregateFunction::Rate,
        ]
        .map(AggregateColumn::from),
    );
    let by_path = Pipeline {
        aggregates: p.aggregates,
        ..pipeline(Some(N), &[PATH], Vec::new())
    };
    let ranked = Pipeline {
        top_k: Some(TopK { k: 4, by: 1 }),
        ..by_path.clone()
    };
    let saved = Pipeline {
        groups_max: 3,
        ..ranked.clone()
    };
    let mut parts = by_path.clone();
    parts
        .aggregates
        .extend(parts_of_totals().into_iter().map(AggregateColumn::from));
    vec![by_path, ranked, saved, parts]
}

#[test]
fn tuples_of_one_rate_are_a_sample_of_that_rate() {
    let population = population(500, 2.0, 0.5, &mut Random(45));
    for p in [0.3, 0.1, 1.0] {
        let rows = sample(&population, p, 1);
        let config = EngineConfig {
            sample: p,
            ..EngineConfig::default()
        };
        for pipeline in all_of_groups() {
            let is_saved = pipeline.groups_max < 100;
            let (by_rate, _) = run(
                &weighted(vec![pipeline.clone()]),
                EngineConfig::default(),
                &rows,
                300,
            );
            let (fixed, _) = run(&dataflow(vec![pipeline]), config.clone(), &rows, 300);
            // Weights are counted in fractions of a tuple.
            let off = if is_saved { 1e-9 } else { 0.0 };
            assert_eq!(by_rate[0].batch.rows(), fixed[0].batch.rows());
            for name in names(&fixed[0].batch) {
                for row in 0..fixed[0].batch.rows() {
                    let [a, b] = [&by_rate, &fixed].map(|out| number(out, row, &name));
                    let is_same = a
                        .zip(b)
                        .map_or(a == b, |(a, b)| (a - b).abs() <= off * b.abs().max(1e9));
                    assert!(is_same, "{name} at {p}: {a:?} is not {b:?}");
                }
            }
        }
    }
}

#[test]
fn similar_rates_have_similar_results() {
    let population = population(2000, 2.0, 0.5, &mut Random(46));
    let rows = sample(&population, 0.25, 1);
    let mixed = |n: u64| -> Vec<Row> {
        let rate = |id: u64| Some(0.25 * (1.0 + (id % n) as f64 * 1e-13));
        rows.iter()
            .map(|r| Row {
                rate: rate(r.id),
                ..r.clone()
            })
            .collect()
    };
    let of = |flow: &plan::Dataflow, rows: &[Row]| run(flow, EngineConfig::default(), rows, 300);
    // A pane distinguishes 64 rates.
    let cases = all_of_groups()
        .into_iter()
        .take(2)
        .flat_map(|pipeline| [(pipeline.clone(), 3), (pipeline, 90)]);
    for (pipeline, n) in cases {
        let flow = weighted(vec![pipeline]);
        let (one, _) = of(&flow, &rows);
        let (several, counters) = of(&flow, &mixed(n));
        assert_eq!(counters.rates_merged > 0, n > 64);
        for name in names(&one[0].batch) {
            for row in 0..one[0].batch.rows() {
                let [a, b] = [&one, &several].map(|out| number(out, row, &name));
                let is_near = a
                    .zip(b)
                    .map_or(a == b, |(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(1.0));
                assert!(is_near, "{name}: {a:?} is not {b:?}");
            }
        }
        let text = |out: &[stream::EngineOutput], name: &str| {
            let batch = &out[0].batch;
            batch
                .text(batch.schema().find(name).expect("a column"))
                .value(0)
                .to_string()
        };
        assert_eq!(text(&one, "hist_ns"), text(&several, "hist_ns"));
    }
}

#[test]
fn intervals_cover_when_rates_differ() {
    let names = ["count", "sum_ns", "avg_ns", "p99_ns", "p50_ns", "success"];
    let population = population(3000, 2.0, 0.5, &mut Random(47));
    let (truth, _) = run(
        &dataflow(vec![aggregates()]),
        EngineConfig::default(),
        &population,
        4096,
    );
    let flow = weighted(vec![aggregates()]);
    let rate = |id: u64| if id < 1500 { 0.08 } else { 0.4 };
    let config = |run| EngineConfig {
        sample_seed: run,
        ..EngineConfig::default()
    };
    let mut hits = [0u32; 6];
    let mut sums = [0.0; 6];
    let runs = 300;
    for i in 0..runs {
        let (out, _) = run(&flow, config(i), &sample_at(&population, rate, i + 1), 4096);
        for (at, name) in names.iter().enumerate() {
            let truth = number(&truth, 0, name).expect("a number");
            let [low, high] = ["low", "high"].map(|end| number(&out, 0, &format!("{name}_{end}")));
            hits[at] += u32::from(
                low.is_none_or(|low| low <= truth) && high.is_none_or(|high| truth <= high),
            );
            sums[at] += number(&out, 0, name).expect("a number") / truth / runs as f64;
        }
    }
    for ((name, hits), mean) in names.iter().zip(hits).zip(sums) {
        let covers = f64::from(hits) / runs as f64;
        assert!(covers >= 0.93, "{name} covered {covers:.3}");
        assert!(
            (mean - 1.0).abs() < 0.03,
            "{name} is {mean:.3} of the truth"
        );
    }
}

#[test]
fn windows_report_the_loss_of_their_own_traffic() {
    let mut p = aggregates();
    p.window = Some(Window {
        size_ns: 10,
        slide_ns: 10,
        lateness_ns: 0,
    });
    let whole = Pipeline {
        window: None,
        ..p.clone()
    };
    let flow = dataflow(vec![p, whole]);
    let rows: Vec<Row> = (0..40)
        .map(|id| Row {
            id,
            ts_end: id as i64,
            ..Row::default()
        })
        .collect();
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    for (rows, lost) in rows.chunks(10).zip([0, 30, 0, 10]) {
        let end = rows[9].ts_end + 1;
        engine.push(
            0,
            &batch_with(&flow.inputs[0].schema, &flow.inputs[0].columns, rows),
            &mut out,
        );
        let packets = LossCount {
            seen: 100 - lost,
            lost,
        };
        let bytes = LossCount {
            seen: 1000,
            lost: lost * 2,
        };
        engine.add_loss(LossStretch {
            from_ns: end - 9,
            to_ns: end - 1,
            packets,
            bytes,
        });
        engine.advance(end, &mut out);
    }
    engine.finish(&mut out);
    let lost = |output: &EngineOutput| number(std::slice::from_ref(output), 0, "lost");
    let of = |pipeline| {
        out.iter()
            .filter(|o| o.pipeline == Some(pipeline))
            .map(lost)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(0), [None, Some(0.3), None, Some(0.1)]);
    assert_eq!(of(1), [Some(0.1)], "40 of 400");
}
