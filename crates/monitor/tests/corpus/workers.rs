//! Results do not depend on the input format (mapped file, pcapng, gzip, Zstandard, a pipe that returns odd sizes), on
//! the number of workers, or on the run: rows in order, and all counters.

use std::time::Duration;

use capture::{PacketBlock, PacketRecord, PacketSource, SourceCounters, SourceError};
use monitor::job::JobConfig;
use monitor::{JobInput, MonitorJob, MonitorProgress, PacketAccounting};
use wire::Timestamp;

use crate::forms::Forms;
use crate::support::{EVERYWHERE, Row, captures, rows};

/// Queries over every capture: raw tuples of each kind, groups, rankings, windows of both kinds, a join, and filters.
const QUERIES: [&str; 12] = [
    "PARSE http",
    "PARSE mysql_query",
    "PARSE memcached PROCESS (diff-group: group=command) ORDER BY p99 DESC, (success), (ratio-share: of=(hit = true), w=1s)",
    "PARSE rpc",
    "PARSE dns",
    "PARSE tls",
    "PARSE flow",
    "PARSE tcp_conn_time, http PROCESS (diff-group: group=url), (top-k: k=5)",
    "PARSE packet PROCESS (group-count-sum: group=src_ip, w=1s), (distinct: value=dst_port, w=2s, slide=500ms), \
     (group-share-throughput-sum: group=src_ip, value=packet_bytes, ttl, w=2s, slide=1s) HAVING share_ttl < 90% \
     ORDER BY throughput_packet_bytes DESC LIMIT 3 ROWS",
    "PARSE tcp_pkt_size TO *:80 LIMIT 300p PROCESS (stddev), (quantile: q=0.1,0.9)",
    "PARSE http FROM * TO *:80 WHERE status >= 200 SAMPLE 0.5 PROCESS (diff-group: group=status), \
     (group-count-share-throughput-top-k: group=path, by=share_response_bytes, value=request_bytes, response_bytes) LIMIT 4 ROWS",
    "PARSE tcp_flow_key",
];

/// Queries whose results depend on detection times: ends of flows, windows, and a time limit.
const TIMELY: [&str; 5] = [
    "PARSE flow",
    "PARSE tcp_conn_time",
    "PARSE memcached",
    "PARSE packet PROCESS (group-count: group=src_ip, w=1s)",
    "PARSE flow LIMIT 3s PROCESS (group-count: group=reason, w=100ms)",
];

/// Complete result of a run.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    /// Rows in order of emission, by pipeline.
    results: Vec<(Option<usize>, Vec<Row>)>,
    accounting: PacketAccounting,
    seen: Option<(Timestamp, Timestamp)>,
    /// Packet and byte counters.
    source: [u64; 4],
    limit_reached: bool,
}

pub(crate) fn run(source: Box<dyn PacketSource>, query: &str, workers: usize) -> Answer {
    let query = query::check(query, &parsers::registry::schemas(), &()).expect("a sound query");
    let input = JobInput::Shared(source, workers);
    let mut job =
        MonitorJob::start(&planner::lower(&query), &JobConfig::default(), input).expect("threads");
    let mut out = Vec::new();
    while job.next(Duration::from_secs(60), &mut out) == MonitorProgress::Going {}
    let mut results: Vec<(Option<usize>, Vec<Row>)> = Vec::new();
    for output in out {
        match results.last_mut() {
            Some((pipeline, some)) if *pipeline == output.pipeline => {
                some.extend(rows(&output.batch))
            }
            _ => results.push((output.pipeline, rows(&output.batch))),
        }
    }
    let ended = job.end();
    assert!(ended.panics.is_empty(), "{:?}", ended.panics);
    assert!(ended.accounting.adds_up());
    let mut accounting = ended.accounting;
    let source = ended.source;
    // Each worker has its own maximum of held bytes.
    accounting.flows.held_bytes_peak = 0;
    let source = [
        source.packets,
        source.original_bytes,
        source.captured_bytes,
        source.truncated_packets,
    ];
    Answer {
        results,
        accounting,
        seen: ended.seen,
        source,
        limit_reached: ended.limit_reached,
    }
}

#[test]
fn as_many_workers_as_one_likes() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (i, capture) in captures(&root, EVERYWHERE).iter().enumerate() {
        for query in QUERIES {
            let open = || capture::open(std::slice::from_ref(capture));
            let workers = [2, 3, 5][i % 3];
            let what = format!("{query}, {workers} workers, {}", capture.display());
            assert_eq!(run(open(), query, 1), run(open(), query, workers), "{what}");
        }
    }
}

#[test]
fn rows_do_not_depend_on_the_input_method() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for capture in captures(
        &root,
        &[
            "found",
            "captures/memcached",
            "captures/tcp",
            "captures/ipfrag",
            "derived",
            "bench",
        ],
    ) {
        let forms = Forms::of(&capture);
        for query in TIMELY {
            let expected = run(forms.all()[0].1(), query, 1);
            for (form, open) in forms.all() {
                for workers in 1..=3 {
                    let what = format!("{query}, {form}, {workers} workers, {}", capture.display());
                    assert_eq!(run(open(), query, workers), expected, "{what}");
                }
            }
        }
    }
}

/// A source whose blocks end after the given numbers of packets, in turn. Its length is unknown, so that each of its
/// blocks becomes a chunk that one worker reads.
struct SplitSource {
    source: Box<dyn PacketSource>,
    block: PacketBlock,
    from: usize,
    counters: SourceCounters,
    lengths: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl SplitSource {
    fn new(source: Box<dyn PacketSource>, lengths: Vec<usize>) -> Box<SplitSource> {
        Box::new(SplitSource {
            source,
            block: PacketBlock::default(),
            from: 0,
            counters: SourceCounters::default(),
            lengths: lengths.into_iter().cycle(),
        })
    }
}

impl PacketSource for SplitSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        while self.from == self.block.len() {
            self.from = 0;
            if !self.source.next_block(&mut self.block) {
                return false;
            }
        }
        let length = self.lengths.next().expect("a cycle");
        let to = self.block.len().min(self.from + length);
        for record in &self.block.records()[self.from..to] {
            self.counters.packets += 1;
            self.counters.original_bytes += u64::from(record.original_len);
            self.counters.captured_bytes += u64::from(record.len);
            self.counters.truncated_packets += u64::from(record.original_len > record.len);
            let buffer = block.add_buffer(self.block.buffer(record.buffer));
            block.push(PacketRecord { buffer, ..*record });
        }
        self.from = to;
        true
    }

    fn errors(&self) -> &[SourceError] {
        self.source.errors()
    }

    fn counters(&self) -> SourceCounters {
        self.counters
    }
}

/// Chunks that workers read in turn may end after any packet: complete, damaged, fragmented, and reordered ones.
#[test]
fn chunks_may_end_after_any_packet() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let small = captures(&root, &["found", "captures/ipfrag", "captures/tcp"])
        .into_iter()
        .filter(|path| path.metadata().is_ok_and(|file| file.len() < 16 << 10));
    for (i, capture) in small.enumerate() {
        let open = || capture::open(std::slice::from_ref(&capture));
        let query = TIMELY[i % TIMELY.len()];
        let expected = run(open(), query, 1);
        let packets = expected.source[0] as usize;
        let at_every_packet = (1..packets).map(|n| vec![n, usize::MAX >> 1]);
        let others = [vec![1], vec![2, 1, 7]];
        for lengths in at_every_packet.chain(others) {
            for workers in [2, 3, 8] {
                let what = format!(
                    "{query}, {lengths:?}, {workers} workers, {}",
                    capture.display()
                );
                let source = SplitSource::new(open(), lengths.clone());
                assert_eq!(run(source, query, workers), expected, "{what}");
            }
        }
    }
}

/// Packets whose times jump by 194 days and back: results are the same in every run with threads.
#[test]
fn every_time() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for name in ["found/workers_time_jumps.pcap", "found/jump.pcap"] {
        let capture = root.join(name);
        for query in TIMELY {
            let expected = run(capture::open(std::slice::from_ref(&capture)), query, 1);
            for time in 0..20 {
                let found = run(capture::open(std::slice::from_ref(&capture)), query, 2);
                assert_eq!(found, expected, "{query}, {name}, time {time}");
            }
        }
    }
}

/// Losses reported by a file apply to the same windows in every format.
#[test]
fn losses_that_files_tell() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let forms = Forms::with_losses(&root.join("live-captures/http_mix.pcap"), 5);
    let query = "PARSE packet PROCESS (count: w=100ms, lateness=0s)";
    let expected = run(forms.all()[0].1(), query, 1);
    let rows = expected.results.iter().flat_map(|(_, rows)| rows);
    let lost: Vec<f64> = rows
        .filter_map(|row| row.get("lost")?.parse().ok())
        .collect();
    // Five per fifty packets.
    assert!(
        lost.len() > 10 && lost.iter().all(|lost| (lost - 5.0 / 55.0).abs() < 0.03),
        "{lost:?}"
    );
    for (form, open) in forms.all() {
        for workers in 1..=3 {
            assert_eq!(
                run(open(), query, workers),
                expected,
                "{form}, {workers} workers"
            );
        }
    }
}

/// Names at the start of a file are known before the first row, with any number of workers.
#[test]
fn names_come_before_rows() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let forms = Forms::with_losses(&root.join("live-captures/http_mix.pcap"), 5);
    let query = "PARSE packet PROCESS (count: w=100ms, lateness=0s)";
    for (form, open) in forms.all() {
        for workers in 1..=3 {
            let query =
                query::check(query, &parsers::registry::schemas(), &()).expect("a sound query");
            let input = JobInput::Shared(open(), workers);
            let mut job = MonitorJob::start(&planner::lower(&query), &JobConfig::default(), input)
                .expect("threads");
            let mut out = Vec::new();
            while out.is_empty()
                && job.next(Duration::from_secs(60), &mut out) == MonitorProgress::Going
            {
            }
            let names: Vec<_> = job
                .names()
                .iter()
                .map(|(ip, name)| (ip.to_string(), &name[..]))
                .collect();
            assert_eq!(
                names,
                [("10.77.0.2".into(), "s")],
                "{form}, {workers} workers"
            );
            let _ = job.end();
        }
    }
}
