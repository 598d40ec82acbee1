//! Limits that take effect are counted, and the rows that they may have changed are marked, with any number of workers.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use monitor::job::JobConfig;
use monitor::{JobInput, MonitorJob, MonitorOutcome, MonitorProgress};
use stream::EngineOutput;
use testkit::packet::{SentPacket, tcp_info};
use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};
use wire::Timestamp;
use wire::packet::TcpFlags;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;
const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Connection `n`: a request at `at`, and its response after `later` ns.
fn exchange(n: u16, at: i64, later: i64) -> Vec<SentPacket> {
    let ends = (
        SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 40_000)),
        SocketAddr::from(([10, 9, 0, 1], 80)),
    );
    let mut sent = Vec::new();
    let mut say = |offset: i64, is_client: bool, tcp, payload: &[u8]| {
        let ends = if is_client { ends } else { (ends.1, ends.0) };
        sent.push(SentPacket::tcp(
            Timestamp(START + at + offset),
            ends,
            tcp,
            payload,
        ));
    };
    let syn = TcpFlags::SYN;
    let ack = TcpFlags::ACK;
    say(0, true, tcp_info(100, 0, syn), b"");
    say(1000, false, tcp_info(500, 101, syn | ack), b"");
    say(2000, true, tcp_info(101, 501, ack), b"");
    say(3000, true, tcp_info(101, 501, ack), GET);
    say(later, false, tcp_info(501, 101 + GET.len() as u32, ack), OK);
    say(
        later + 1000,
        true,
        tcp_info(101 + GET.len() as u32, 501 + OK.len() as u32, ack),
        b"",
    );
    sent
}

/// The same with a response whose second segment is lost, so that later segments wait for it.
fn with_a_hole(n: u16, at: i64) -> Vec<SentPacket> {
    let mut sent = exchange(n, at, 1_000_000);
    sent.truncate(4);
    let client = sent[0].src;
    let server = sent[0].dst;
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n";
    let mut say = |offset: i64, seq: u32, payload: &[u8]| {
        let tcp = tcp_info(seq, 101 + GET.len() as u32, TcpFlags::ACK);
        sent.push(SentPacket::tcp(
            Timestamp(START + at + offset),
            (server, client),
            tcp,
            payload,
        ));
    };
    say(1_000_000, 501, head);
    (2..200u32).for_each(|i| {
        say(
            1_000_000 + i64::from(i),
            501 + head.len() as u32 + i * 1000,
            &[b'x'; 1000],
        )
    });
    sent
}

fn run(
    query: &str,
    config: &JobConfig,
    connections: Vec<Vec<SentPacket>>,
    workers: usize,
) -> (Vec<EngineOutput>, MonitorOutcome) {
    let mut sent: Vec<SentPacket> = connections.into_iter().flatten().collect();
    sent.sort_by_key(|sent| sent.ts);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("in.pcap");
    fs::write(
        &path,
        pcap_bytes(&sent, TimestampPrecision::Nanos, ByteOrder::Little),
    )
    .expect("a file");
    let query = query::check(query, &parsers::registry::schemas(), &()).expect("a sound query");
    let input = JobInput::Shared(capture::open(&[path]), workers);
    let mut job = MonitorJob::start(&planner::lower(&query), config, input).expect("threads");
    let mut out = Vec::new();
    while job.next(Duration::from_secs(60), &mut out) == MonitorProgress::Going {}
    let ended = job.end();
    assert!(
        ended.panics.is_empty() && ended.accounting.adds_up(),
        "{:?}",
        ended.panics
    );
    (out, ended)
}

/// Per row: start of its window in seconds, and whether it is approximate.
fn marks(out: &[EngineOutput]) -> Vec<(Option<i64>, bool)> {
    let of_batch = |output: &EngineOutput| {
        let batch = &output.batch;
        let column = |name| batch.schema().find(name);
        let start = |row: usize| {
            column("window_start").map(|id| (batch.i64(id).value(row) - START) / SECOND)
        };
        let mark = |row: usize| {
            batch
                .bool(column("approximate").expect("a column"))
                .value(row)
        };
        (0..batch.rows())
            .map(|row| (start(row), mark(row)))
            .collect::<Vec<_>>()
    };
    out.iter().flat_map(of_batch).collect()
}

/// `n` connections that are open at the same time.
fn many(n: u16, at: i64) -> impl Iterator<Item = Vec<SentPacket>> {
    (1..=n).map(move |i| exchange(i, at + i64::from(i) * 10_000, SECOND / 2))
}

/// A query over packets: without a limit, no row is marked and nothing is counted; with the limit, all rows are.
fn check(
    query: &str,
    limit: impl Fn(&mut JobConfig),
    packets: &dyn Fn() -> Vec<Vec<SentPacket>>,
    count: fn(&MonitorOutcome) -> u64,
) {
    for workers in [1, 3] {
        let mut config = JobConfig::default();
        let (out, ended) = run(query, &config, packets(), workers);
        assert_eq!(
            (marks(&out), count(&ended)),
            (vec![(None, false)], 0),
            "{query}, {workers} workers"
        );
        limit(&mut config);
        let (out, ended) = run(query, &config, packets(), workers);
        assert_eq!(marks(&out), [(None, true)], "{query}, {workers} workers");
        assert!(count(&ended) > 0, "{query}, {workers} workers");
    }
}

#[test]
fn every_limit_marks_the_rows_of_a_run() {
    let evicted = |ended: &MonitorOutcome| {
        ended
            .accounting
            .flows
            .closed_for(flow::CloseReason::Evicted)
    };
    check(
        "PARSE http PROCESS (count)",
        |config| config.monitor.flow.room = flow::FlowBudget::of_flows(60),
        &|| many(300, 0).collect(),
        evicted,
    );
    check(
        "PARSE flow PROCESS (count)",
        |config| config.monitor.flow.room = flow::FlowBudget::of_flows(60),
        &|| many(300, 0).collect(),
        evicted,
    );
    check(
        "PARSE http PROCESS (count)",
        |config| config.monitor.flow.held_bytes_max = 12_000,
        &|| vec![with_a_hole(1, 0), exchange(2, 0, 1_000_000)],
        |ended| ended.accounting.flows.held_overflows,
    );
    check(
        "PARSE tcp_conn_time, http PROCESS (count)",
        |config| config.stream.join_rows_max = 6,
        &|| many(100, 0).collect(),
        |ended| ended.stream.join_dropped,
    );
}

#[test]
fn windows_outside_of_the_time_of_a_limit_are_not_marked() {
    let query = "PARSE http PROCESS (group-count: group=method, w=1s)";
    for workers in [1, 3] {
        let mut config = JobConfig::default();
        config.monitor.flow.room = flow::FlowBudget::of_flows(60);
        config.monitor.flow.tcp_idle_ns = 60 * SECOND;
        let mut connections = vec![exchange(1000, SECOND / 2, 1_000_000)];
        connections.extend(many(300, 10 * SECOND));
        connections.push(exchange(1001, 40 * SECOND, 1_000_000));
        // The table is still full at this connection; afterward idle flows have expired.
        connections.push(exchange(1002, 90 * SECOND, 1_000_000));
        connections.push(exchange(1003, 200 * SECOND, 1_000_000));
        let (out, _) = run(query, &config, connections, workers);
        let found = marks(&out);
        let of = |at| {
            found
                .iter()
                .filter(|(start, _)| *start == Some(at))
                .map(|mark| mark.1)
                .collect::<Vec<_>>()
        };
        assert!(
            !of(10).is_empty() && of(10).iter().all(|mark| *mark),
            "{found:?}"
        );
        // Workers share the limit. In its earlier windows, a worker that lags finds the table filled by flows of a
        // worker that is ahead; a file this small fits into one block, so any worker can lag by the whole file.
        if workers == 1 {
            assert_eq!(
                (of(0), of(40), of(200)),
                (vec![false], vec![true], vec![false]),
                "{found:?}"
            );
        }
    }
}
