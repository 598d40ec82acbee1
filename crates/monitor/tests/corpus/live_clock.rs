//! `ts_end` of incomplete transactions: the same live, where the clock advances without packets, as in a file, and never in a window
//! that has been emitted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use capture::PacketBlock;
use monitor::{Monitor, MonitorConfig};
use parsers::registry;
use plan::{MonitorSpec, ParserUse};
use wire::CapturedPacket;

use crate::support::{EVERYWHERE, Row, captures, rows, without_packets};

const MS: i64 = 1_000_000;
/// Interval at which live capture ends an epoch.
const EPOCH: i64 = 20 * MS;
/// Lateness of the windows.
const LATENESS: i64 = 1_000 * MS;
/// Silence before the end of the live capture. During the first, all windows remain open; the second is longer than any wait for
/// missing bytes and shorter than the idle timeout.
const SILENCES: [i64; 2] = [500 * MS, 50_000 * MS];

const CASES: [(&str, &str); 11] = [
    ("dns.pcap", "dns"),
    ("http_mix.pcap", "http"),
    ("http_pipelined.pcap", "http"),
    ("http_short.pcap", "http"),
    ("mysql_sysbench_ps.pcap", "mysql_query"),
    ("mc_binary.pcap", "memcached"),
    ("mc_load.pcap", "memcached"),
    ("mysql_mix.pcap", "mysql_query"),
    ("nfs_lossy.pcap", "nfs"),
    ("redis_mix.pcap", "redis"),
    ("tls.pcap", "tls"),
];

type Packets = Vec<(Vec<u8>, CapturedPacket<'static>)>;

#[test]
fn rows_do_not_depend_on_the_clock() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (capture, parser) in CASES {
        let whole = std::fs::read(root.join("live-captures").join(capture))
            .expect("a capture of the corpus");
        let known = crate::support::run(&root.join("live-captures").join(capture), parser).rows;
        for (loss, seed) in [0.02, 0.15, 0.4]
            .into_iter()
            .flat_map(|loss| (0..5).map(move |seed| (loss, seed)))
        {
            let file = tempfile::Builder::new()
                .suffix(".pcap")
                .tempfile()
                .expect("a temporary file");
            std::fs::write(file.path(), without_packets(&whole, loss, seed))
                .expect("it can be written");
            let packets = packets(file.path());
            let of_file = by_content(crate::support::run(file.path(), parser).rows);
            for (phase, silence) in [0, 7 * MS, 13 * MS]
                .into_iter()
                .zip(SILENCES.into_iter().cycle())
            {
                let what = format!(
                    "{capture} without {loss}, seed {seed}, phase {phase}, silence {silence}"
                );
                let live_rows = live(parser, &packets, phase, silence);
                let live = by_content(live_rows.clone());
                let mut more = live_rows.into_iter().filter(|row| {
                    row["quality"] != "half" && !of_file.contains_key(&content(row.clone()).0)
                });
                let invented = more.find(|row| !is_known(row, &known));
                assert!(invented.is_none(), "{what}: {invented:?}");
                let last = packets
                    .iter()
                    .map(|(_, packet)| packet.ts.0)
                    .max()
                    .expect("packets");
                let differ_max = of_file.len() / if loss < 0.2 { 50 } else { 10 };
                let more_max = usize::from(loss >= 0.2);
                compare(
                    &what,
                    &of_file,
                    &live,
                    last + silence - LATENESS,
                    differ_max,
                    more_max,
                );
            }
        }
    }
}

/// Fields that depend on which packets were captured.
const OF_CAPTURE: [&str; 11] = [
    "block_checksums",
    "ts",
    "ts_end",
    "response_time_ns",
    "transfer_time_ns",
    "total_time_ns",
    "call_time_ns",
    "quality",
    "id",
    "retransmitted",
    "client_guessed",
];

/// Whether a row of the undamaged capture has all values of `row`.
fn is_known(row: &Row, known: &[Row]) -> bool {
    let values = || {
        row.iter()
            .filter(|(field, _)| !OF_CAPTURE.contains(&field.as_str()))
    };
    known
        .iter()
        .any(|known| values().all(|(field, value)| known.get(field) == Some(value)))
}

/// Incomplete rows may end at the start of the windows that were open at the end, `open_from`, instead.
/// `differ_max`: rows of the file that may differ; `more_max`: rows that only live capture may have.
fn compare(
    what: &str,
    of_file: &BTreeMap<String, i64>,
    live: &BTreeMap<String, i64>,
    open_from: i64,
    differ_max: usize,
    more_max: usize,
) {
    let is_same = |(row, end): &(&String, &i64)| {
        let is_incomplete =
            row.contains("\"quality\": \"half\"") || !row.contains("\"transfer_time_ns\":");
        let latest = if is_incomplete {
            *end.max(&&open_from)
        } else {
            *end
        };
        live.get(*row)
            .is_some_and(|live| (*end - EPOCH..=latest + EPOCH).contains(live))
    };
    // A file waits for the next packet of a connection, live capture for the clock. A packet between the two, such as one 136 ms
    // late, fills a gap of the file only, and what follows a gap may prove a message in one of the two only.
    let differ = of_file
        .iter()
        .filter(|row| !is_same(row))
        .collect::<Vec<_>>();
    assert!(
        differ.len() <= differ_max,
        "{what}: {} of {}: {differ:#?}",
        differ.len(),
        of_file.len()
    );
    assert!(
        live.len().abs_diff(of_file.len()) <= differ.len().max(more_max),
        "{what}: {} rows live",
        live.len()
    );
}

#[test]
fn incomplete_rows_are_never_late() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut captures_checked = 0;
    let mut halves = 0;
    for path in captures(&root, EVERYWHERE) {
        let packets = packets(&path);
        if !packets.is_sorted_by_key(|(_, packet)| packet.ts) {
            continue;
        }
        captures_checked += 1;
        let mut monitor = monitor(&[
            "http",
            "mysql_query",
            "memcached",
            "redis",
            "nfs",
            "dns",
            "tls",
        ]);
        let mut batches = Vec::new();
        let mut promised = i64::MIN;
        for epoch in packets.chunks(64).map(Some).chain([None]) {
            match epoch {
                None => monitor.finish(&mut batches),
                Some(epoch) => {
                    let epoch = epoch
                        .iter()
                        .map(|(bytes, packet)| CapturedPacket { bytes, ..*packet });
                    let _ = monitor.on_block(epoch, None, &mut batches);
                    monitor.end_epoch(&mut batches);
                }
            }
            for row in batches.drain(..).flat_map(|(_, batch)| rows(&batch)) {
                let end: i64 = row["ts_end"].parse().expect("a number");
                let is_half = row["quality"] == "half";
                halves += u64::from(is_half);
                assert!(
                    !is_half || end >= promised.saturating_sub(LATENESS),
                    "{}: {end} < {promised}: {row:?}",
                    path.display()
                );
            }
            promised = monitor.clock().0;
        }
    }
    assert!(
        captures_checked > 100 && halves > 500,
        "{captures_checked} captures, {halves} halves"
    );
}

fn packets(file: &Path) -> Packets {
    let mut source = capture::open(&[file.to_owned()]);
    let mut block = PacketBlock::default();
    let mut packets = Vec::new();
    while source.next_block(&mut block) {
        packets.extend(block.packets().map(|captured| {
            let CapturedPacket {
                ts,
                link_type,
                original_len,
                ..
            } = captured;
            (
                captured.bytes.to_vec(),
                CapturedPacket {
                    ts,
                    link_type,
                    original_len,
                    bytes: &[],
                },
            )
        }));
    }
    packets
}

fn monitor(parsers: &[&str]) -> Monitor {
    let schema = |name: &&str| Arc::new((registry::find(name).expect("a parser").schema)());
    let parsers = parsers
        .iter()
        .map(|name| ParserUse::all_columns(schema(name)))
        .collect();
    let mut monitor = Monitor::new(
        &MonitorSpec {
            parsers,
            ..MonitorSpec::default()
        },
        MonitorConfig::default(),
    );
    monitor.set_lateness(LATENESS);
    monitor
}

/// The rows of the packets, received by a clock that continues after the last one.
fn live(parser: &str, packets: &Packets, phase: i64, silence: i64) -> Vec<Row> {
    let mut monitor = monitor(&[parser]);
    let mut batches = Vec::new();
    let last = packets
        .iter()
        .map(|(_, packet)| packet.ts)
        .max()
        .expect("packets");
    let mut clock = packets[0].1.ts.plus(phase);
    let mut packets = packets
        .iter()
        .map(|(bytes, packet)| CapturedPacket { bytes, ..*packet })
        .peekable();
    while clock < last.plus(silence) {
        let epoch = std::iter::from_fn(|| packets.next_if(|packet| packet.ts <= clock));
        let _ = monitor.on_block(epoch, Some(clock), &mut batches);
        monitor.end_epoch(&mut batches);
        clock = clock.plus(EPOCH);
    }
    monitor.finish(&mut batches);
    let rows: Vec<Row> = batches.iter().flat_map(|(_, batch)| rows(batch)).collect();
    for row in rows.iter().filter(|row| is_complete(row)) {
        assert!(
            row["ts_end"].parse::<i64>().expect("a number") <= last.0,
            "after the last packet: {row:?}"
        );
    }
    rows
}

/// Whether the request and all of its response were seen.
fn is_complete(row: &Row) -> bool {
    row["quality"] != "half" && row.contains_key("transfer_time_ns")
}

/// The rows as text without `ts_end`, with `ts_end`.
fn by_content(rows: Vec<Row>) -> BTreeMap<String, i64> {
    rows.into_iter().map(content).collect()
}

/// The row as text without `ts_end`, and `ts_end`.
fn content(mut row: Row) -> (String, i64) {
    let end = row
        .remove("ts_end")
        .expect("every row has it")
        .parse()
        .expect("a number");
    (
        format!("{:?}", row.into_iter().collect::<BTreeMap<_, _>>()),
        end,
    )
}
