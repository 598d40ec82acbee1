//! Live, the clock advances between packets and after the last one. The rows equal those of a file with the same packets, whatever is
//! missing. A response whose loss shows before the input ends is over with a packet; what is open then ends with the input.

use std::collections::BTreeMap;
use std::path::Path;

use capture::Block;
use monitor::{Config, Monitor};
use parsers::registry;
use plan::{MonitorSpec, ParserUse};
use wire::Captured;

use crate::support::{Row, rows, without_packets};

const MS: i64 = 1_000_000;
/// How often live capture ends an epoch.
const EPOCH: i64 = 20 * MS;
/// Longer than any missing byte is waited for, shorter than a connection may be idle.
const SILENCE: i64 = 60_000 * MS;

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

#[test]
fn rows_do_not_depend_on_the_clock() {
    let Some(root) = testkit::corpus() else { return };
    for (capture, parser) in CASES {
        let whole = std::fs::read(root.join("live-captures").join(capture)).expect("a capture of the corpus");
        for (loss, seed) in
            [0.02, 0.15, 0.4].into_iter().flat_map(|loss| (0..5).map(move |seed| (loss, seed)))
        {
            let file = tempfile::Builder::new().suffix(".pcap").tempfile().expect("a temporary file");
            std::fs::write(file.path(), without_packets(&whole, loss, seed)).expect("it can be written");
            let what = format!("{capture} without {loss}, seed {seed}");
            check(&what, file.path(), parser);
        }
    }
}

fn check(what: &str, file: &Path, parser: &str) {
    let mut source = capture::open(&[file.to_owned()]);
    let (mut block, mut packets) = (Block::default(), Vec::new());
    while source.next_block(&mut block) {
        packets.extend(
            block.packets().map(|captured| (captured.bytes.to_vec(), Captured { bytes: &[], ..captured })),
        );
    }
    let last = packets.iter().map(|(_, packet)| packet.ts).max().expect("packets");
    let of_file = sorted(crate::support::run(file, parser).rows);
    for phase in [0, 7 * MS, 13 * MS] {
        let live = sorted(live(parser, &packets, phase));
        // A file waits for the next packet of a connection, live capture for the clock: what comes in between may fill a gap, or not.
        let differ = of_file.keys().filter(|row| !live.contains_key(*row)).collect::<Vec<_>>();
        assert!(differ.len() * 50 <= of_file.len(), "{what}: not live: {differ:#?}");
        assert!(live.len().abs_diff(of_file.len()) <= differ.len(), "{what}: {} rows live", live.len());
        for (row, end) in of_file.iter().filter(|(_, end)| **end < last.0) {
            let live_end = live.get(row).unwrap_or(end);
            assert!(
                end.abs_diff(*live_end) <= EPOCH as u64,
                "{what}: {end} in the file, {live_end} live: {row}"
            );
        }
    }
}

/// The rows of the packets, received by a clock that goes on after the last one.
fn live(parser: &str, packets: &[(Vec<u8>, Captured<'_>)], phase: i64) -> Vec<Row> {
    let schema = registry::find(parser).expect("a parser").schema;
    let parsers = vec![ParserUse::all_columns(std::sync::Arc::new(schema()))];
    let mut monitor = Monitor::new(&MonitorSpec { parsers, ..MonitorSpec::default() }, Config::default());
    let mut batches = Vec::new();
    let mut clock = packets[0].1.ts.plus(phase);
    let mut packets = packets.iter().map(|(bytes, packet)| Captured { bytes, ..*packet }).peekable();
    let mut silent_until = None;
    while silent_until.is_none_or(|until| clock < until) {
        let epoch = std::iter::from_fn(|| packets.next_if(|packet| packet.ts <= clock));
        let _ = monitor.on_block(epoch, Some(clock), &mut batches);
        if packets.peek().is_none() {
            silent_until.get_or_insert(clock.plus(SILENCE));
        }
        clock = clock.plus(EPOCH);
    }
    monitor.finish(&mut batches);
    batches.iter().flat_map(|(_, batch)| rows(batch)).collect()
}

/// The rows as text, with their ends; 0 for requests without a response.
fn sorted(rows: Vec<Row>) -> BTreeMap<String, i64> {
    let row_and_end = |mut row: Row| {
        let end = row.remove("ts_end").expect("every row ends").parse().expect("a number");
        let is_answered = row["quality"] != "half";
        let end = if is_answered { end } else { 0 };
        (format!("{:?}", row.into_iter().collect::<BTreeMap<_, _>>()), end)
    };
    rows.into_iter().map(row_and_end).collect()
}
