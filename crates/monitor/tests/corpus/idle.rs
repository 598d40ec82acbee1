//! Connections that are silent for longer than the idle timeout, such as those of connection pools: later transactions
//! are parsed as without the pause, and end with their last byte.

use std::time::Duration;

use monitor::job::JobConfig;
use monitor::{JobInput, MonitorJob, MonitorProgress};
use testkit::{ByteOrder, TcpDialogue, TimestampPrecision, XdrWriter, mysql, pcap_bytes};

use crate::support::{Row, rows, run, written};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

/// A protocol: parser, port, connection setup, and the `n`th request with its response.
struct Speech {
    parser: &'static str,
    port: u16,
    begin: fn(&mut TcpDialogue),
    ask: fn(usize) -> Vec<u8>,
    answer: fn(usize) -> Vec<u8>,
}

const SPEECHES: [Speech; 5] = [
    Speech {
        parser: "http",
        port: 80,
        begin: |_| {},
        ask: |n| format!("GET /a{n} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes(),
        answer: |n| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
                3 + n % 2,
                &"abcd"[..3 + n % 2]
            )
            .into_bytes()
        },
    },
    Speech {
        parser: "redis",
        port: 6379,
        begin: |_| {},
        ask: |n| format!("*2\r\n$3\r\nGET\r\n$4\r\nk{:03}\r\n", n % 1000).into_bytes(),
        answer: |_| b"$3\r\nfoo\r\n".to_vec(),
    },
    Speech {
        parser: "memcached",
        port: 11211,
        begin: |_| {},
        ask: |n| format!("get k{n}\r\n").into_bytes(),
        answer: |n| format!("VALUE k{n} 0 3\r\nabc\r\nEND\r\n").into_bytes(),
    },
    Speech {
        parser: "mysql_query",
        port: 3306,
        begin: |talk| {
            const PLAIN: u32 = 0x828d;
            talk.server().send(&mysql::greeting(PLAIN));
            let mut login = PLAIN.to_le_bytes().to_vec();
            login.extend([0, 0, 0, 1, 45]);
            login.extend([0; 23]);
            login.extend(b"app\0\x02pwshop\0");
            talk.client().send(&mysql::packet(1, login));
            talk.server().send(&mysql::packet(2, [0, 0, 0, 2, 0, 0, 0]));
        },
        ask: |n| mysql::packet(0, format!("\x03UPDATE t SET a={n}")),
        answer: |_| mysql::packet(1, [0, 1, 0, 2, 0, 0, 0]),
    },
    Speech {
        parser: "rpc",
        port: 2049,
        begin: |_| {},
        ask: |n| {
            XdrWriter::default()
                .words(&[n as u32, 0, 2, 100_003, 3, 0, 0, 0, 0, 0])
                .record()
        },
        answer: |n| {
            XdrWriter::default()
                .words(&[n as u32, 1, 0, 0, 0, 0])
                .record()
        },
    },
];

impl Speech {
    /// `n` requests, each answered after 2 ms, `gap` apart; with a handshake if `whole`.
    fn talk(&self, n: usize, gap: i64, whole: bool) -> TcpDialogue {
        let mut talk = TcpDialogue::new("10.0.0.1:40000", &format!("10.0.0.2:{}", self.port));
        talk.handshake();
        (self.begin)(&mut talk);
        if !whole {
            talk.take();
        }
        for i in 0..n {
            talk.advance(gap);
            talk.client().send(&(self.ask)(i));
            talk.advance(2 * MS);
            talk.server().send(&(self.answer)(i));
        }
        talk
    }
}

fn file(talk: &TcpDialogue) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(".pcap")
        .tempfile()
        .expect("a temporary file");
    let bytes = pcap_bytes(talk.sent(), TimestampPrecision::Nanos, ByteOrder::Little);
    std::fs::write(file.path(), bytes).expect("it can be written");
    file
}

fn number(row: &Row, name: &str) -> i64 {
    row[name]
        .parse()
        .unwrap_or_else(|_| panic!("{name} is a number: {row:?}"))
}

/// Every transaction lasts 2 ms, from the first request byte to the last response byte.
fn check_times(what: &str, rows: &[Row]) {
    for row in rows {
        let lasted = number(row, "ts_end") - number(row, "ts");
        assert!(
            (2 * MS..3 * MS).contains(&lasted),
            "{what}: {lasted} ns: {row:?}"
        );
    }
}

#[test]
fn idle_connections_are_read_on() {
    for (speech, gap) in SPEECHES
        .iter()
        .flat_map(|s| [310, 900, 36_000].map(|gap| (s, gap * SECOND)))
    {
        let what = format!("{} after {} s", speech.parser, gap / SECOND);
        let talk = speech.talk(5, gap, true);
        let run = run(file(&talk).path(), speech.parser);
        let rows: Vec<Row> = run
            .rows
            .into_iter()
            .filter(|row| row.get("command").is_none_or(|c| c != "login"))
            .collect();
        assert_eq!(rows.len(), 5, "{what}: {rows:#?}");
        assert!(
            rows.iter().all(|row| row["quality"] == "exact"),
            "{what}: {rows:#?}"
        );
        assert!(
            rows.iter()
                .all(|row| row["client_port"] == "40000" && row["client_guessed"] == "false"),
            "{what}"
        );
        check_times(&what, &rows);
        assert!(run.accounting.flows.connections_resumed >= 4, "{what}");
    }
}

/// The client of a connection that was joined late shows only after some requests that it waits for responses.
#[test]
fn transactions_end_before_the_packet_that_reveals_it() {
    for speech in &SPEECHES {
        for gap in [100, 310] {
            let what = format!("{} every {gap} s", speech.parser);
            let rows = run(
                file(&speech.talk(6, gap * SECOND, false)).path(),
                speech.parser,
            )
            .rows;
            assert_eq!(rows.len(), 6, "{what}: {rows:#?}");
            assert!(
                rows.iter().all(|row| row["quality"] != "half"),
                "{what}: {rows:#?}"
            );
            check_times(&what, &rows);
        }
    }
}

#[test]
fn a_keep_alive_connection() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let rows = run(&root.join("found/http_idle_310s.pcap"), "http").rows;
    let paths: Vec<&str> = rows.iter().map(|row| &row["path"][..]).collect();
    assert_eq!(paths, ["/a0", "/a1", "/a2", "/a3"]);
    assert!(rows.iter().all(|row| row["quality"] == "exact"));
    check_times("http_idle_310s", &rows);
}

/// Requests that are long idle fall into the windows of their last bytes, with any number of workers.
#[test]
fn windows_contain_the_transactions_that_ended_in_them() {
    let mut sent = Vec::new();
    for n in 0..40 {
        let mut talk = TcpDialogue::new(&format!("10.0.{n}.1:40000"), "10.0.0.2:80");
        talk.handshake();
        for i in 0..20 {
            talk.client().send(&(SPEECHES[0].ask)(i));
            talk.advance(2 * MS);
            talk.server().send(&(SPEECHES[0].answer)(i));
            talk.advance(310 * SECOND + n * SECOND);
        }
        sent.extend(talk.take());
    }
    sent.sort_by_key(|sent| sent.ts);
    let file = written(&sent);
    let mut first = None;
    for workers in [1, 2, 3, 8] {
        let counts = windows(file.path(), workers);
        assert_eq!(
            counts.iter().map(|(_, count)| count).sum::<i64>(),
            800,
            "{workers} workers"
        );
        // All clients send one request in the first minute and none in the next four.
        assert_eq!(counts[0].1, 40, "{workers} workers: {counts:?}");
        assert_eq!(
            *first.get_or_insert(counts.clone()),
            counts,
            "{workers} workers"
        );
    }
}

fn windows(path: &std::path::Path, workers: usize) -> Vec<(i64, i64)> {
    let query = query::check(
        "PARSE http PROCESS (count: w=60s)",
        &parsers::registry::schemas(),
        &(),
    );
    let input = JobInput::Shared(capture::open(&[path.to_owned()]), workers);
    let plan = planner::lower(&query.expect("a sound query"));
    let mut job = MonitorJob::start(&plan, &JobConfig::default(), input).expect("threads");
    let mut out = Vec::new();
    while job.next(Duration::from_secs(60), &mut out) == MonitorProgress::Going {}
    let _ = job.end();
    let rows = out.iter().flat_map(|output| rows(&output.batch));
    rows.map(|row| (number(&row, "window_start"), number(&row, "count")))
        .filter(|(_, n)| *n > 0)
        .collect()
}
