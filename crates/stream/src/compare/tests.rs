//! Comparisons of generated tuples with a fixed seed: bursts of requests, each burst fast or slow as a whole, so that
//! tuples are strongly correlated. Without a change, about one verdict in twenty is a false positive; real changes
//! are detected.

use std::sync::Arc;

use plan::{
    AggregateColumn, AggregateFunction, AggregatedValue, Column, Dataflow, DataflowInput, GroupBy,
    Pipeline, Predicate, ResultSelection, TimeBounds,
};
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit, common};

use super::{ComparisonSide, PeriodComparison, SLICES};
use crate::EngineConfig;

const SECOND: i64 = 1_000_000_000;
/// Length of a period.
const PERIOD: i64 = 60 * SECOND;

/// A random generator with reproducible numbers (splitmix64).
struct SplitMix64(u64);

impl SplitMix64 {
    /// A number in [0, 1).
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }
}

/// Parameters of generated traffic.
#[derive(Clone, Copy)]
struct BurstTraffic {
    bursts_per_second: f64,
    /// Average number of requests per burst.
    burst: f64,
    time_ns: f64,
    failing: f64,
}

const STEADY: BurstTraffic = BurstTraffic {
    bursts_per_second: 4.0,
    burst: 6.0,
    time_ns: 5e6,
    failing: 0.05,
};

fn schema() -> Arc<Schema> {
    let own = [
        Field::new("page", DataType::Text, Unit::None, ""),
        Field::new("time_ns", DataType::I64, Unit::Nanoseconds, ""),
        Field::new("failed", DataType::Bool, Unit::None, ""),
    ];
    Arc::new(Schema::of_parser("web", 1, "", &own, None, None))
}

fn column(name: &str) -> Column {
    Column {
        input: 0,
        field: schema().find(name).expect("a field"),
    }
}

fn dataflow() -> Dataflow {
    let failed = Predicate::Compare {
        column: column("failed"),
        op: plan::ComparisonOperator::Eq,
        literal: plan::Literal::Bool(true),
    };
    let aggregates = [
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Quantile(0.5),
        AggregateFunction::Quantile(0.95),
        AggregateFunction::Ratio(failed),
        AggregateFunction::Max,
    ];
    let pipeline = Pipeline {
        name: "group".into(),
        values: vec![AggregatedValue {
            column: column("time_ns"),
            unit: Unit::Nanoseconds,
        }],
        value_required: false,
        group: vec![GroupBy {
            column: column("page"),
            name: "page".into(),
        }],
        aggregates: aggregates.into_iter().map(AggregateColumn::from).collect(),
        top_k: None,
        window: None,
        groups_max: 1000,
        selection: ResultSelection::default(),
        profile: None,
    };
    let columns = vec![
        common::TS_END,
        column("page").field,
        column("time_ns").field,
        column("failed").field,
    ];
    let input = DataflowInput {
        schema: schema(),
        columns,
        filter: None,
    };
    Dataflow {
        inputs: vec![input],
        pipelines: vec![pipeline],
        ..Dataflow::default()
    }
}

/// Generates requests for `page` starting at `since`.
fn tuples(random: &mut SplitMix64, page: &str, traffic: BurstTraffic, since: i64) -> Batch {
    let schema = schema();
    let mut writer = TupleWriter::new(schema.clone(), &dataflow().inputs[0].columns);
    let mut at = since as f64;
    let end = (since + PERIOD) as f64;
    loop {
        at += random.exponential(SECOND as f64 / traffic.bursts_per_second);
        if at >= end {
            return writer.finish();
        }
        let slow = random.exponential(1.0);
        let unlucky = random.share() < 0.2;
        let mut time = at;
        while time < end {
            writer.i64(common::TS_END, time as i64);
            writer.text(column("page").field, page.as_bytes());
            writer.i64(
                column("time_ns").field,
                (traffic.time_ns * (0.5 + slow) * (0.5 + random.share())) as i64,
            );
            let failing = if unlucky {
                3.0 * traffic.failing
            } else {
                0.5 * traffic.failing
            };
            writer.bool(column("failed").field, random.share() < failing);
            writer.end_row();
            if random.share() < 1.0 / traffic.burst {
                break;
            }
            time += random.exponential(0.02 * SECOND as f64);
        }
    }
}

fn bounds(since: i64) -> TimeBounds {
    TimeBounds {
        since_ns: Some(since),
        until_ns: Some(since + PERIOD),
    }
}

/// The verdict columns: name and value for the page.
fn compare(own: &Batch, baseline: &Batch) -> Vec<(String, Option<bool>)> {
    let mut comparison = PeriodComparison::new(
        &dataflow(),
        &EngineConfig::default(),
        bounds(PERIOD),
        bounds(0),
        0.95,
    );
    comparison.push(ComparisonSide::Own, own);
    comparison.push(ComparisonSide::Baseline, baseline);
    let mut said = Vec::new();
    comparison.finish(&mut |_, batch| {
        assert_eq!(batch.rows(), 1);
        for id in batch.schema().ids() {
            let name = batch.schema().field(id).name.to_string();
            if let Some(what) = name.strip_prefix("differs_") {
                let verdict = batch
                    .column(id)
                    .filter(|_| !arrow_array::Array::is_null(batch.bool(id), 0));
                said.push((what.to_owned(), verdict.map(|_| batch.bool(id).value(0))));
            }
        }
    });
    said
}

/// The number of runs in which each column differs, by name.
fn differing(runs: u64, before: BurstTraffic, after: BurstTraffic) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = Vec::new();
    for run in 0..runs {
        let mut random = SplitMix64(run.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let baseline = tuples(&mut random, "/", before, 0);
        let own = tuples(&mut random, "/", after, PERIOD);
        for (i, (name, verdict)) in compare(&own, &baseline).into_iter().enumerate() {
            if counts.len() <= i {
                counts.push((name, 0));
            }
            counts[i].1 += u64::from(verdict == Some(true));
        }
    }
    counts
}

#[test]
fn about_one_in_twenty_is_a_false_alarm() {
    const RUNS: u64 = 400;
    let counts = differing(RUNS, STEADY, STEADY);
    let judged: Vec<_> = counts.iter().filter(|(name, _)| name != "max").collect();
    for (name, count) in &judged {
        let share = *count as f64 / RUNS as f64;
        assert!(
            (0.005..=0.085).contains(&share),
            "{name}: {share} of {counts:?}"
        );
    }
    let all: u64 = judged.iter().map(|(_, count)| count).sum();
    let share = all as f64 / (RUNS * judged.len() as u64) as f64;
    assert!((0.02..=0.065).contains(&share), "{share}: {counts:?}");
}

#[test]
fn differences_are_found() {
    let found = |after: BurstTraffic, names: &[&str]| {
        const RUNS: u64 = 40;
        for (name, count) in differing(RUNS, STEADY, after) {
            if names.contains(&name.as_str()) {
                assert!(count >= RUNS * 8 / 10, "{name}: {count} of {RUNS}");
            }
        }
    };
    found(
        BurstTraffic {
            time_ns: 1.5 * STEADY.time_ns,
            ..STEADY
        },
        &["avg", "p50"],
    );
    found(
        BurstTraffic {
            bursts_per_second: 1.6 * STEADY.bursts_per_second,
            ..STEADY
        },
        &["count", "sum"],
    );
    found(
        BurstTraffic {
            failing: 3.0 * STEADY.failing,
            ..STEADY
        },
        &["ratio"],
    );
}

#[test]
fn numbers_are_those_of_each_period_and_outside_is_left_out() {
    let mut random = SplitMix64(1);
    let before = tuples(&mut random, "/", STEADY, 0);
    let after = tuples(
        &mut random,
        "/",
        BurstTraffic {
            bursts_per_second: 8.0,
            ..STEADY
        },
        PERIOD,
    );
    let gone = tuples(&mut random, "/gone", STEADY, 0);
    let mut comparison = PeriodComparison::new(
        &dataflow(),
        &EngineConfig::default(),
        bounds(PERIOD),
        bounds(0),
        0.95,
    );
    for side in [ComparisonSide::Own, ComparisonSide::Baseline] {
        for batch in [&before, &after, &gone] {
            comparison.push(side, batch);
        }
    }
    let mut rows = Vec::new();
    comparison.finish(&mut |_, batch| rows.push(batch));
    let [batch] = &rows[..] else {
        panic!("{} batches", rows.len())
    };
    let schema = batch.schema();
    let id = |name: &str| schema.find(name).unwrap_or_else(|| panic!("{name}"));
    let pages: Vec<_> = batch
        .text(id("page"))
        .iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    assert_eq!(pages, ["/", "/gone"]);
    let own = batch.u64(id("count"));
    let other = batch.u64(id("baseline_count"));
    assert_eq!(
        (own.value(0), other.value(0)),
        (after.rows() as u64, before.rows() as u64)
    );
    assert!(arrow_array::Array::is_null(own, 1));
    assert_eq!(other.value(1), gone.rows() as u64);
    let difference = batch.i64(id("difference_count")).value(0);
    assert_eq!(difference, after.rows() as i64 - before.rows() as i64);
    let ratio = batch.f64(id("ratio_count")).value(0);
    assert!((ratio - after.rows() as f64 / before.rows() as f64).abs() < 1e-12);
    let differs = batch.bool(id("differs_count"));
    assert!(
        differs.value(0) && differs.value(1),
        "twice as many, and none at all"
    );
    assert!(
        arrow_array::Array::is_null(batch.bool(id("differs_max")), 0),
        "the largest is not judged"
    );
    assert_eq!(FieldId(0), id("page"));
    assert_eq!(SLICES, 20);
}
