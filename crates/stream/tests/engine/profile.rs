//! Compares workload profiles with results computed by a slow implementation: exact numbers are equal for any number of
//! workers, estimates are within their stated bounds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::tuples::{Plain, Way, column, pipeline, rows_of};
use plan::{
    Column, ComparisonOperator, Dataflow, DataflowInput, Literal, Pipeline, Predicate, ProfileSpec,
    Window,
};
use proptest::prelude::*;
use stream::{Engine, EngineConfig, EngineCounters, EngineOutput};
use tuple::{Batch, FieldId, Schema, TupleWriter, common};

tuple::fields! {
    PROCEDURE: Text, None, "procedure", "";
    STATUS: Text, None, "status", "";
    FILE: Text, None, "file_handle", "";
    OFFSET: U64, Bytes, "offset", "";
    COUNT: U64, Bytes, "count", "";
    MOVED: U64, Bytes, "result_count", "";
    TIME: I64, Nanoseconds, "response_time_ns", "";
    ALIGNED: Bool, None, "aligned", "";
    CHECKSUMS: Hashes, Id, "block_checksums", "";
}

const NEAR: u64 = 1;

/// One operation.
#[derive(Clone, Debug)]
struct Op {
    flow: u64,
    client: u8,
    ts: i64,
    procedure: &'static str,
    status: Option<&'static str>,
    file: Option<u8>,
    offset: u64,
    count: u64,
    moved: Option<u64>,
    time: Option<i64>,
    checksums: Vec<u64>,
}

impl Op {
    fn aligned(&self) -> bool {
        self.offset.is_multiple_of(512) && self.count.is_multiple_of(512)
    }

    /// 0 for reads, 1 for writes.
    fn kind(&self) -> Option<usize> {
        ["READ", "WRITE"]
            .iter()
            .position(|name| *name == self.procedure)
    }

    fn bytes(&self) -> u64 {
        self.kind().and(self.moved).unwrap_or(0)
    }
}

fn ops(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Op>> {
    let procedure = prop_oneof![4 => Just("READ"), 2 => Just("WRITE"), 1 => Just("GETATTR"), 1 => Just("LOOKUP")];
    let status = prop_oneof![8 => Just(Some("ok")), 1 => Just(Some("stale")), 1 => Just(None)];
    let op = (
        (
            0u64..6,
            0u8..3,
            procedure,
            status,
            prop::option::weighted(0.9, 0u8..5),
        ),
        (
            0u64..40,
            prop_oneof![Just(4096u64), Just(8192), Just(0), 1u64..20_000],
            any::<bool>(),
            0i64..2_000_000,
        ),
        prop::collection::vec(1u64..30, 0..4),
    );
    prop::collection::vec(op, n).prop_map(|list| {
        let op = |(
            i,
            ((flow, client, procedure, status, file), (place, count, cut, time), checksums),
        )| {
            let ok = status == Some("ok");
            Op {
                flow,
                client,
                ts: i as i64,
                procedure,
                status,
                file,
                offset: place * 4096,
                count,
                moved: ok.then_some(if cut { count / 2 } else { count }),
                time: status.map(|_| time),
                checksums: if ok { checksums } else { Vec::new() },
            }
        };
        list.into_iter().enumerate().map(op).collect()
    })
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::of_parser(
        "nfs",
        1,
        "test",
        FIELDS,
        Some(TIME),
        Some(FILE),
    ))
}

fn columns(with_rate: bool) -> Vec<FieldId> {
    let own = [
        PROCEDURE, STATUS, FILE, OFFSET, COUNT, MOVED, TIME, ALIGNED, CHECKSUMS,
    ];
    let common = [common::ID, common::CLIENT_IP, common::TS_END];
    common
        .into_iter()
        .chain(with_rate.then_some(common::SAMPLE_RATE))
        .chain(own)
        .collect()
}

fn batch(ops: &[Op], rate: Option<f64>) -> Batch {
    let mut w = TupleWriter::new(schema(), &columns(rate.is_some()));
    for op in ops {
        w.u64(common::ID, op.flow);
        w.i64(common::TS_END, op.ts);
        let mut ip = [0; 16];
        ip[10] = 255;
        ip[11] = 255;
        ip[12] = 10;
        ip[15] = op.client;
        w.ip(common::CLIENT_IP, &ip);
        rate.iter()
            .for_each(|rate| w.f64(common::SAMPLE_RATE, *rate));
        w.text(PROCEDURE, op.procedure.as_bytes());
        op.status.iter().for_each(|s| w.text(STATUS, s.as_bytes()));
        op.file
            .iter()
            .for_each(|f| w.text(FILE, format!("file{f}").as_bytes()));
        op.time.iter().for_each(|t| w.i64(TIME, *t));
        if op.kind().is_some() {
            w.u64(OFFSET, op.offset);
            w.u64(COUNT, op.count);
            op.moved.iter().for_each(|m| w.u64(MOVED, *m));
            w.bool(ALIGNED, op.aligned());
            w.hashes(CHECKSUMS, &op.checksums);
        }
        w.end_row();
    }
    w.finish()
}

fn dataflow(window_ns: Option<i64>, groups_max: usize, k: usize, with_rate: bool) -> Dataflow {
    let is = |field, text: &str| Predicate::Compare {
        column: column(field),
        op: ComparisonOperator::Eq,
        literal: Literal::Text(text.into()),
    };
    let profile = ProfileSpec {
        operation: column(PROCEDURE),
        reads: is(PROCEDURE, "READ"),
        writes: is(PROCEDURE, "WRITE"),
        success: Some(is(STATUS, "ok")),
        status: Some(column(STATUS)),
        response_time: Some(column(TIME)),
        read_bytes: Some(column(MOVED)),
        write_bytes: Some(column(MOVED)),
        size: Some(column(COUNT)),
        offset: Some(column(OFFSET)),
        file: Some(column(FILE)),
        aligned: Some(column(ALIGNED)),
        checksums: Some(column(CHECKSUMS)),
        object: Some(column(FILE)),
        client: Column {
            input: 0,
            field: common::CLIENT_IP,
        },
        k,
        near: NEAR,
    };
    let window = window_ns.map(|size_ns| Window {
        size_ns,
        slide_ns: size_ns,
        lateness_ns: 0,
    });
    let pipeline = Pipeline {
        window,
        groups_max,
        profile: Some(profile),
        ..pipeline(None, &[], Vec::new())
    };
    let input = DataflowInput {
        schema: schema(),
        columns: columns(with_rate),
        filter: None,
    };
    Dataflow {
        inputs: vec![input],
        filter: None,
        pipelines: vec![pipeline],
        ..Dataflow::default()
    }
}

/// Runs one engine with `chunk` operations per batch.
fn alone(
    flow: &Dataflow,
    config: &EngineConfig,
    ops: &[Op],
    chunk: usize,
    rate: Option<f64>,
) -> (Vec<EngineOutput>, EngineCounters) {
    let mut engine = Engine::new(flow, config.clone());
    let mut out = Vec::new();
    for ops in ops.chunks(chunk) {
        engine.push(0, &batch(ops, rate), &mut out);
        engine.advance(ops.last().map_or(0, |op| op.ts), &mut out);
    }
    engine.finish(&mut out);
    (out, engine.counters())
}

/// Runs several workers, each with its own flows, and a collecting engine.
fn together(
    flow: &Dataflow,
    config: &EngineConfig,
    ops: &[Op],
    chunk: usize,
    workers: u64,
) -> Vec<EngineOutput> {
    let out = brought(flow, config, ops, chunk, (workers, Way::Attached));
    let sent = brought(flow, config, ops, chunk, (workers, Way::Sent));
    let cells = brought(flow, config, ops, chunk, (workers, Way::Cells));
    for other in [sent, cells] {
        assert_eq!(rows_of(&other, Some(0)), rows_of(&out, Some(0)));
    }
    out
}

fn brought(
    flow: &Dataflow,
    config: &EngineConfig,
    ops: &[Op],
    chunk: usize,
    (workers, way): (u64, Way),
) -> Vec<EngineOutput> {
    let mut all: Vec<Engine> = (0..workers)
        .map(|n| Engine::worker(flow, way.config(config, n)))
        .collect();
    let mut collector = Engine::new(flow, config.clone());
    let mut out = Vec::new();
    for ops in ops.chunks(chunk) {
        let watermark = ops.last().map_or(0, |op| op.ts);
        for (worker, n) in all.iter_mut().zip(0..) {
            let mine: Vec<Op> = ops
                .iter()
                .filter(|op| op.flow % workers == n)
                .cloned()
                .collect();
            worker.push(0, &batch(&mine, None), &mut out);
            // Open windows are also sent in parts if no list is limited; with limited lists, the errors of the parts
            // would add up.
            let is_exact = flow.pipelines[0].groups_max >= 1000;
            let delta = if way == Way::Sent && is_exact {
                worker.detach_open()
            } else {
                None
            };
            delta
                .into_iter()
                .for_each(|part| way.bring(part, &mut collector));
            worker
                .detach(watermark)
                .into_iter()
                .for_each(|part| way.bring(part, &mut collector));
        }
        collector.advance(watermark, &mut out);
    }
    all.iter_mut()
        .for_each(|worker| way.bring(worker.detach_all(), &mut collector));
    collector.finish(&mut out);
    assert_eq!(collector.counters().tuples_late, 0);
    out
}

/// Section and key.
type Key = (String, String);

/// A row of a report: count, bytes, share, error share, quantiles, approximate flag, and bound.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    count: u64,
    bytes: Option<u64>,
    share: Option<f64>,
    error_share: Option<f64>,
    times: Vec<Option<f64>>,
    approximate: bool,
    bound: Option<f64>,
}

/// The rows of every window, by its start.
fn report(out: &[EngineOutput]) -> BTreeMap<i64, Vec<(Key, Row)>> {
    let mut windows: BTreeMap<i64, Vec<(Key, Row)>> = BTreeMap::new();
    for mut cells in rows_of(out, Some(0)) {
        let start = match cells[0] {
            Plain::I64(start) => {
                cells.drain(..2);
                start
            }
            _ => 0,
        };
        let text = |cell: &Plain| match cell {
            Plain::Text(text) => text.clone(),
            other => panic!("{other:?} is no text"),
        };
        let real = |cell: &Plain| match cell {
            Plain::F64(v) => Some(*v),
            _ => None,
        };
        let whole = |cell: &Plain| match cell {
            Plain::U64(v) => Some(*v),
            _ => None,
        };
        let row = Row {
            count: whole(&cells[2]).expect("every row has a count"),
            share: real(&cells[4]),
            bytes: whole(&cells[5]),
            error_share: real(&cells[7]),
            times: cells[8..12].iter().map(real).collect(),
            approximate: cells[12] == Plain::Bool(true),
            bound: real(&cells[13]),
        };
        windows
            .entry(start)
            .or_default()
            .push(((text(&cells[0]), text(&cells[1])), row));
    }
    windows
}

/// The access pattern of every operation, determined from the previous operation.
fn patterns(ops: &[Op]) -> Vec<Option<&'static str>> {
    let mut ends: HashMap<(u64, u8, usize), u64> = HashMap::new();
    let pattern = |op: &Op| {
        let kind = op.kind()?;
        let file = op.file?;
        let moved = op.moved?;
        let end = ends.insert((op.flow, file, kind), op.offset + moved);
        Some(match end {
            None => "first",
            Some(end) if op.offset.abs_diff(end) <= NEAR * op.count => "sequential",
            Some(_) => "random",
        })
    };
    ops.iter().map(pattern).collect()
}

/// Counts and bytes of everything that is exact below the limits.
fn truth(ops: &[(&Op, Option<&'static str>)]) -> BTreeMap<Key, (u64, Option<u64>)> {
    let mut rows: BTreeMap<Key, (u64, Option<u64>)> = BTreeMap::new();
    let mut add = |section: &str, key: &str, count: u64, bytes: Option<u64>| {
        let (n, sum) = rows
            .entry((section.to_owned(), key.to_owned()))
            .or_insert((0, bytes.map(|_| 0)));
        *n += count;
        *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes);
    };
    let mut blocks = HashSet::new();
    let mut seen: [(u64, HashSet<u64>); 3] = Default::default();
    for (op, pattern) in ops {
        let bytes = Some(op.bytes());
        add("operations", op.procedure, 1, bytes);
        add(
            "mix",
            op.kind().map_or("other", |kind| ["read", "write"][kind]),
            1,
            bytes,
        );
        if op.status == Some("stale") {
            add("errors", &format!("{} stale", op.procedure), 1, None);
        }
        for (section, key) in op
            .file
            .map(|f| ("file_handle", format!("file{f}")))
            .into_iter()
            .chain([("client_ip", format!("10.0.0.{}", op.client))])
        {
            add(&format!("{section} by operations"), &key, 1, bytes);
            if op.bytes() > 0 {
                add(&format!("{section} by bytes"), &key, 1, bytes);
            }
        }
        let Some(kind) = op.kind() else { continue };
        let name = ["read", "write"][kind];
        let class = if op.count == 0 {
            0
        } else {
            op.count.next_power_of_two()
        };
        add(&format!("{name} size"), &class.to_string(), 1, bytes);
        add("misaligned", name, u64::from(!op.aligned()), None);
        pattern
            .iter()
            .for_each(|pattern| add(&format!("{name} pattern"), pattern, 1, bytes));
        if *pattern == Some("random") && kind == 0 && op.bytes() > 0 {
            let last = (op.offset + op.bytes() - 1) / 4096;
            blocks.extend((op.offset / 4096..=last).map(|block| (op.file, block)));
        }
        for which in [kind, 2] {
            seen[which].0 += op.checksums.len() as u64;
            seen[which].1.extend(&op.checksums);
        }
    }
    if !blocks.is_empty() {
        add(
            "working set",
            "random reads",
            blocks.len() as u64,
            Some(blocks.len() as u64 * 4096),
        );
    }
    for (key, (n, different)) in ["read", "write", "both"]
        .iter()
        .zip(seen)
        .filter(|(_, (n, _))| *n > 0)
    {
        add("duplicate blocks", key, n - different.len() as u64, None);
    }
    rows
}

proptest! {
    #[test]
    fn exact_parts_are_equal_for_any_number_of_workers(
        ops in ops(1..300), chunk in 1usize..80, workers in 1u64..4, window in prop::option::of(20i64..200),
    ) {
        let flow = dataflow(window, 1000, 1000, false);
        let (out, counters) = alone(&flow, &EngineConfig::default(), &ops, chunk, None);
        prop_assert_eq!(counters.tuples_late, 0);
        let report_alone = report(&out);
        prop_assert_eq!(&report(&together(&flow, &EngineConfig::default(), &ops, chunk, workers)), &report_alone);

        let mut expected: BTreeMap<i64, Vec<(&Op, Option<&'static str>)>> = BTreeMap::new();
        for (op, pattern) in ops.iter().zip(patterns(&ops)) {
            expected.entry(window.map_or(0, |w| op.ts / w * w)).or_default().push((op, pattern));
        }
        prop_assert_eq!(report_alone.len(), expected.len());
        for (start, rows) in report_alone {
            let ops = &expected[&start];
            let counted: BTreeMap<Key, (u64, Option<u64>)> =
                rows.iter().map(|(key, row)| (key.clone(), (row.count, row.bytes))).collect();
            prop_assert_eq!(counted, truth(ops));
            prop_assert!(rows.iter().all(|(_, row)| !row.approximate && row.bound.is_none()));
            for ((section, key), row) in rows.iter().filter(|((section, _), _)| section == "operations") {
                let mine: Vec<&Op> = ops.iter().map(|(op, _)| *op).filter(|op| op.procedure == key).collect();
                let failed = mine.iter().filter(|op| op.status == Some("stale")).count();
                prop_assert_eq!(row.error_share, Some(failed as f64 / mine.len() as f64), "{}", section);
                let mut times: Vec<i64> = mine.iter().filter_map(|op| op.time).collect();
                times.sort_unstable();
                for (q, shown) in [0.5, 0.9, 0.99, 0.999].iter().zip(&row.times) {
                    let rank = (q * times.len() as f64).ceil() as usize;
                    let exact = times.get(rank.max(1) - 1).map(|t| *t as f64);
                    let near = |a: f64, b: f64| (a - b).abs() <= b / 128.0;
                    prop_assert!(shown.is_some() == exact.is_some());
                    prop_assert!(shown.zip(exact).is_none_or(|(a, b)| near(a, b)), "{shown:?} {exact:?}");
                }
            }
            for ((_, key), row) in rows.iter().filter(|((section, _), _)| section == "errors") {
                let name = key.split(' ').next().expect("an operation's name");
                let of = ops.iter().filter(|(op, _)| op.procedure == name).count();
                prop_assert_eq!(row.share, Some(row.count as f64 / of as f64));
            }
            for section in ["operations", "mix", "read pattern", "write pattern", "read size", "write size"] {
                let shares: Vec<f64> =
                    rows.iter().filter(|(key, _)| key.0 == section).filter_map(|(_, row)| row.share).collect();
                prop_assert!(shares.is_empty() || (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn short_lists_are_within_their_bounds(ops in ops(1..300), workers in 1u64..4, places in 1usize..4) {
        let flow = dataflow(None, places, 1000, false);
        let all: Vec<(&Op, Option<&'static str>)> = ops.iter().map(|op| (op, None)).collect();
        let truth = truth(&all);
        let rows = report(&together(&flow, &EngineConfig::default(), &ops, 50, workers)).remove(&0).expect("one window");
        for (key, row) in rows.iter().filter(|(key, _)| key.0.contains(" by ")) {
            let (count, bytes) = truth[key];
            let (exact, shown) = if key.0.ends_with("bytes") { (bytes, row.bytes) } else { (Some(count), Some(row.count)) };
            let exact = exact.expect("it has bytes");
            let shown = shown.expect("it has bytes");
            let bound = if row.approximate { row.bound.expect("a bound") } else { 0.0 };
            prop_assert!(exact <= shown && (shown - exact) as f64 <= bound, "{key:?}: {exact} {row:?}");
        }
        prop_assert!(rows.iter().filter(|(key, _)| key.0 == "file_handle by bytes").count() <= places);
    }

    #[test]
    fn samples_are_scaled(ops in ops(1..200), by_tuple in any::<bool>()) {
        let config = EngineConfig { sample: if by_tuple { 1.0 } else { 0.25 }, ..EngineConfig::default() };
        let (out, _) = alone(&dataflow(None, 1000, 1000, by_tuple), &config, &ops, 64, by_tuple.then_some(0.25));
        let sampled = report(&out).remove(&0).expect("one window");
        let (out, _) = alone(&dataflow(None, 1000, 1000, false), &EngineConfig::default(), &ops, 64, None);
        let whole = report(&out).remove(&0).expect("one window");
        prop_assert_eq!(sampled.len(), whole.len());
        for ((key, sampled), (other, whole)) in sampled.iter().zip(&whole) {
            prop_assert_eq!(key, other);
            // Counts of distinct contents are those of the sample.
            let factor = if matches!(key.0.as_str(), "working set" | "duplicate blocks") { 1 } else { 4 };
            prop_assert_eq!(sampled.count, factor * whole.count);
            prop_assert_eq!(sampled.bytes, whole.bytes.map(|b| factor * b));
            prop_assert_eq!(sampled.share, whole.share);
        }
    }
}

/// Reads of one file on one flow at these offsets.
fn reads(offsets: impl Iterator<Item = u64>) -> Vec<Op> {
    let op = |(i, offset): (usize, u64)| Op {
        flow: i as u64 % 7,
        client: 1,
        ts: i as i64,
        procedure: "READ",
        status: Some("ok"),
        file: Some(1),
        offset,
        count: 4096,
        moved: Some(4096),
        time: Some(1),
        checksums: vec![1 + offset % 9_973, 1 + offset % 5_003],
    };
    offsets.enumerate().map(op).collect()
}

/// Offsets of blocks spread over a file.
fn scattered(n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 30_000 * 65_536)
}

#[test]
fn estimates_are_within_twice_their_stated_bounds() {
    let ops = reads(scattered(40_000));
    let all: Vec<_> = ops.iter().zip(patterns(&ops)).collect();
    let truth = truth(&all);
    for workers in [1, 3] {
        let out = together(
            &dataflow(None, 1000, 10, false),
            &EngineConfig::default(),
            &ops,
            512,
            workers,
        );
        let rows: HashMap<Key, Row> = report(&out)
            .remove(&0)
            .expect("one window")
            .into_iter()
            .collect();
        let check = |section: &str, key: &str, of: fn(&Row) -> f64, exact: f64, scale: f64| {
            let row = &rows[&(section.to_owned(), key.to_owned())];
            let bound = row.bound.expect("an estimate has an error");
            assert!(row.approximate && bound < 0.02, "{row:?}");
            assert!(
                (of(row) - exact).abs() <= 2.0 * bound * scale,
                "{section}: {exact} is not near {row:?}"
            );
        };
        let blocks = truth[&("working set".into(), "random reads".into())].0 as f64;
        check(
            "working set",
            "random reads",
            |row| row.count as f64,
            blocks,
            blocks,
        );
        let duplicates = truth[&("duplicate blocks".into(), "read".into())].0 as f64;
        let share = duplicates / (2.0 * ops.len() as f64);
        check(
            "duplicate blocks",
            "read",
            |row| row.share.expect("a share"),
            share,
            1.0,
        );
    }
}

#[test]
fn memory_is_bounded_and_losses_are_counted() {
    let mut ops = reads(scattered(1000));
    ops.iter_mut().zip(0..).for_each(|(op, n)| op.flow = n);
    let config = EngineConfig {
        positions_max: 100,
        ..EngineConfig::default()
    };
    let (out, counters) = alone(&dataflow(None, 5, 10, false), &config, &ops, 64, None);
    assert!(
        (900..1000).contains(&counters.positions_forgotten),
        "{counters:?}"
    );
    assert!(
        report(&out)[&0]
            .iter()
            .any(|(key, row)| key.1 == "first" && row.count == 1000 && row.approximate)
    );

    // An operation that claims to have read the maximum size.
    let mut ops = reads([0, 1 << 40].into_iter());
    for op in &mut ops {
        op.flow = 1;
        op.moved = Some(u64::MAX);
    }
    let (out, counters) = alone(
        &dataflow(None, 5, 10, false),
        &EngineConfig::default(),
        &ops,
        64,
        None,
    );
    assert!(counters.blocks_skipped > 1 << 40);
    let rows = &report(&out)[&0];
    assert!(
        rows.iter()
            .any(|(key, row)| key.0 == "mix" && row.bytes == Some(u64::MAX)),
        "{rows:?}"
    );
}

#[test]
fn windows_close_once() {
    let flow = dataflow(Some(10), 5, 10, false);
    let mut engine = Engine::new(&flow, EngineConfig::default());
    let mut out = Vec::new();
    let ops = reads([0, 4096, 8192].into_iter());
    engine.push(0, &batch(&ops, None), &mut out);
    engine.advance(9, &mut out);
    assert!(out.is_empty());
    engine.advance(10, &mut out);
    assert_eq!(report(&out).len(), 1);
    engine.push(0, &batch(&ops, None), &mut out);
    engine.finish(&mut out);
    assert_eq!(report(&out).len(), 1);
    assert_eq!(engine.counters().tuples_late, 3);
}

#[test]
fn empty_input_has_no_rows() {
    let (out, _) = alone(
        &dataflow(None, 5, 10, false),
        &EngineConfig::default(),
        &[],
        64,
        None,
    );
    assert!(report(&out).is_empty());
}
