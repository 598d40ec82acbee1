//! Serialized partial results: at limits, with several sampling rates, and with malicious bytes.

mod secrets;
mod tree;

use plan::{AggregateFunction, Pipeline, ShareTotal, TopK, Window};
use proptest::prelude::*;
use stream::{Engine, EngineConfig, EngineCounters, MalformedPartial};

use crate::tuples::{
    DELTA, IP, N, OK, PATH, Plain, RATIO, Row, Way, batch_with, column, dataflow, pipeline,
    rows_of, weighted,
};

/// Rows of many groups and flows, each flow sampled at its own rate.
pub fn rows(n: u64, seed: u64, groups: u64) -> Vec<Row> {
    let mixed = |i: u64| {
        (seed + i)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            >> 20
    };
    let row = |i| Row {
        id: mixed(i) % 50,
        ts_end: (i + mixed(i) % 7) as i64,
        ip: (mixed(i) % 5 > 0).then(|| {
            let v4 = std::net::Ipv4Addr::new(10, 0, 0, (mixed(i + 9) % groups) as u8);
            if mixed(i) % 5 == 1 {
                [7; 16]
            } else {
                v4.to_ipv6_mapped().octets()
            }
        }),
        path: (mixed(i) % 11 > 0).then(|| format!("/{}é", mixed(i + 1) % groups)),
        n: (mixed(i) % 7 > 0).then(|| mixed(i + 2) >> (mixed(i) % 40)),
        delta: Some((mixed(i + 3) as i64 % 2000) - 1000),
        ratio: Some(mixed(i + 4) as f64 / 3e5 - 1e7),
        ok: [None, Some(true), Some(false)][(mixed(i + 5) % 3) as usize],
        rate: Some([0.1, 0.25, 1.0][(mixed(i) % 50 % 3) as usize]),
    };
    (0..n).map(row).collect()
}

pub fn everything() -> Vec<AggregateFunction> {
    let positive = plan::Predicate::Compare {
        column: column(DELTA),
        op: plan::ComparisonOperator::Ge,
        literal: plan::Literal::I64(0),
    };
    vec![
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Stddev,
        AggregateFunction::Rate,
        AggregateFunction::Distinct(column(N)),
        AggregateFunction::Quantile(0.9),
        AggregateFunction::Success(positive),
        AggregateFunction::Throughput,
    ]
}

/// Results and counters of three workers and a collecting engine.
pub fn collected(
    p: &Pipeline,
    config: &EngineConfig,
    is_weighted: bool,
    rows: &[Row],
    way: Way,
) -> (Vec<Vec<Plain>>, EngineCounters) {
    let flow = if is_weighted {
        weighted(vec![p.clone()])
    } else {
        dataflow(vec![p.clone()])
    };
    let mut workers = [0, 1, 2].map(|w| Engine::worker(&flow, way.config(config, w)));
    let mut engine = Engine::new(&flow, config.clone());
    let mut out = Vec::new();
    for rows in rows.chunks(40) {
        let watermark = rows.iter().map(|row| row.ts_end).max().unwrap_or(0);
        for (worker, w) in workers.iter_mut().zip(0..) {
            let share: Vec<Row> = rows.iter().filter(|r| r.id % 3 == w).cloned().collect();
            let input = &flow.inputs[0];
            worker.push(
                0,
                &batch_with(&input.schema, &input.columns, &share),
                &mut out,
            );
            worker
                .detach(watermark)
                .into_iter()
                .for_each(|part| way.bring(part, &mut engine));
        }
        engine.advance(watermark, &mut out);
    }
    workers
        .iter_mut()
        .for_each(|worker| way.bring(worker.detach_all(), &mut engine));
    engine.finish(&mut out);
    (rows_of(&out, Some(0)), engine.counters())
}

fn values() -> impl Strategy<Value = tuple::FieldId> {
    prop::sample::select(vec![N, DELTA, RATIO])
}

pub fn pipelines() -> impl Strategy<Value = Pipeline> {
    let group = prop::sample::subsequence(vec![IP, PATH, N, DELTA, RATIO, OK], 0..=3);
    let window = prop::option::of((1i64..80, 1i64..80));
    let top_k = prop::option::of(0usize..8);
    (values(), group, window, top_k, any::<bool>(), 1usize..40).prop_map(
        |(value, group, window, top_k, has_shares, groups_max)| {
            let mut all = everything();
            if has_shares {
                all.extend([
                    AggregateFunction::Share(ShareTotal::Tuples),
                    AggregateFunction::Share(ShareTotal::Values),
                    AggregateFunction::Cdf,
                ]);
            }
            let window = window.map(|(size, slide)| Window {
                size_ns: size.max(slide),
                slide_ns: size.min(slide),
                lateness_ns: 8,
            });
            // Ranked by a count, a sum, or a mean.
            let top_k = top_k.map(|k| TopK { k, by: k % 3 });
            Pipeline {
                window,
                top_k,
                groups_max,
                ..pipeline(Some(value), &group, all)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With overflow, sampling, sliding windows, and estimated distinct counts, the rows equal those of parts attached
    /// without serialization.
    #[test]
    fn sent_parts_are_attached_parts(
        p in pipelines(), n in 0u64..500, seed in any::<u32>(), groups in 1u64..200, sampling in 0u8..3,
        exact in 2usize..100, wide in any::<bool>(),
    ) {
        let rows = rows(n, seed.into(), groups);
        let sample = if sampling == 1 { 0.2 } else { 1.0 };
        let p = Pipeline { groups_max: if wide { 100_000 } else { p.groups_max }, ..p };
        let config = EngineConfig { sample, distinct_exact_max: exact, ..EngineConfig::default() };
        let attached = collected(&p, &config, sampling == 2, &rows, Way::Attached);
        prop_assert_eq!(collected(&p, &config, sampling == 2, &rows, Way::Sent), attached);
    }

    /// Modified bytes are rejected, or decode to values that can be used and encoded again.
    #[test]
    fn any_bytes_do_no_harm(
        p in pipelines(), n in 0u64..60, seed in any::<u32>(), groups in 1u64..50, sampling in 0u8..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 0..6),
    ) {
        let sample = if sampling == 1 { 0.2 } else { 1.0 };
        let flow = if sampling == 2 { weighted(vec![p.clone()]) } else { dataflow(vec![p]) };
        let config = EngineConfig { sample, distinct_exact_max: 8, window_bytes_max: 1 << 20, ..EngineConfig::default() };
        let mut worker = Engine::worker(&flow, config.clone());
        let input = &flow.inputs[0];
        worker.push(0, &batch_with(&input.schema, &input.columns, &rows(n, seed.into(), groups)), &mut Vec::new());
        let mut bytes = worker.detach_all().encode();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at + 1),
                _ => bytes.insert(at, byte),
            }
        }
        let mut engine = Engine::new(&flow, config);
        if let Ok(part) = engine.decode_partial(&bytes) {
            let again = part.encode();
            prop_assert_eq!(engine.decode_partial(&again).expect("it was encoded").encode(), again);
            engine.attach(part);
            engine.attach(engine.decode_partial(&bytes).expect("as before"));
            let mut out = Vec::new();
            engine.make_room(&mut out);
            engine.finish(&mut out);
        }
    }
}

#[test]
fn rejected_partial_results_state_a_reason() {
    let counts = pipeline(None, &[PATH], vec![AggregateFunction::Count]);
    let encoded = |p: &Pipeline, config: &EngineConfig| {
        let flow = dataflow(vec![p.clone()]);
        let mut worker = Engine::worker(&flow, config.clone());
        let input = &flow.inputs[0];
        worker.push(
            0,
            &batch_with(&input.schema, &input.columns, &rows(50, 1, 10)),
            &mut Vec::new(),
        );
        worker.detach_all().encode()
    };
    let config = EngineConfig::default();
    let engine = Engine::new(&dataflow(vec![counts.clone()]), config.clone());
    let refused = |bytes: &[u8]| engine.decode_partial(bytes).expect_err("it is not its");
    let bytes = encoded(&counts, &config);
    assert_eq!(refused(&[]), MalformedPartial::Short);
    assert_eq!(refused(&[9, 0]), MalformedPartial::Version(9));
    for len in 1..bytes.len() {
        assert_eq!(refused(&bytes[..len]), MalformedPartial::Short, "{len}");
    }
    assert_eq!(
        refused(&[&bytes[..], &[0]].concat()),
        MalformedPartial::Invalid("its length")
    );
    for (p, config, what) in [
        (
            pipeline(None, &[PATH, N], vec![AggregateFunction::Count]),
            config.clone(),
            None,
        ),
        (
            pipeline(None, &[N], vec![AggregateFunction::Count]),
            config.clone(),
            Some("the type of a key"),
        ),
        (
            pipeline(Some(N), &[PATH], vec![AggregateFunction::Sum]),
            config.clone(),
            Some("the aggregates"),
        ),
        (
            counts.clone(),
            EngineConfig {
                sample: 0.5,
                ..config.clone()
            },
            Some("the sampling rate"),
        ),
    ] {
        match (refused(&encoded(&p, &config)), what) {
            (MalformedPartial::OtherDataflow(found), Some(what)) => assert_eq!(found, what),
            (found, what) => assert_eq!(what, None, "{found:?}"),
        }
    }
}

/// A short part that claims large contents stays within the memory limit.
#[test]
fn claimed_lengths_are_checked_before_allocation() {
    let flow = weighted(vec![pipeline(Some(N), &[N], everything())]);
    let config = EngineConfig::default();
    let mut worker = Engine::worker(&flow, config.clone());
    let input = &flow.inputs[0];
    // A group per row, and 32 replicates of 11 accumulators per group.
    let rows: Vec<Row> = (0..20_000)
        .map(|n| Row {
            id: n,
            n: Some(n),
            ..Row::default()
        })
        .collect();
    worker.push(
        0,
        &batch_with(&input.schema, &input.columns, &rows),
        &mut Vec::new(),
    );
    let bytes = worker.detach_all().encode();
    assert!(
        Engine::new(&flow, config.clone())
            .decode_partial(&bytes)
            .is_ok()
    );
    let less = EngineConfig {
        window_bytes_max: 1 << 20,
        ..config
    };
    let refused = Engine::new(&flow, less).decode_partial(&bytes);
    assert_eq!(
        refused.expect_err("it takes more"),
        MalformedPartial::TooLarge
    );
}
