//! Known worst-case inputs of each kind, under a system limit of 1.5 times `--memory-max`, beyond which the program is
//! killed. Losses by limits must be in the summary.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::SentPacket;
use testkit::packet::tcp_info;
use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};
use wire::Timestamp;
use wire::packet::TcpFlags;

const MEMORY_MIB: usize = 128;

/// Summary of a run under the limit.
fn run(args: &[&str], capture: &Path, workers: usize) -> Value {
    let summary = tempfile::NamedTempFile::new().expect("a file for the summary");
    let kib = MEMORY_MIB * 1024 * 3 / 2;
    let ran = Command::new("sh")
        .args([
            "-c",
            &format!("ulimit -d {kib} && exec \"$@\""),
            "sh",
            env!("CARGO_BIN_EXE_netalytics"),
        ])
        .args(args)
        .args([
            "--memory-max",
            &format!("{MEMORY_MIB}M"),
            "--workers",
            &workers.to_string(),
        ])
        .args([
            "-q".as_ref(),
            "--summary-json".as_ref(),
            summary.path().as_os_str(),
        ])
        .args(["-r".as_ref(), capture.as_os_str()])
        .stdout(Stdio::null())
        .output()
        .expect("the binary runs");
    let words = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{args:?} with {workers} workers: {words}"
    );
    serde_json::from_str(&fs::read_to_string(summary.path()).expect("a summary")).expect("JSON")
}

/// Runs a query over a capture with one and two workers: checks the number of rows, if given, and that this counter is
/// positive.
fn check(query: &str, capture: &Path, rows: Option<u64>, counter: &str) {
    for workers in [1, 2] {
        let summary = run(&["query", query], capture, workers);
        let said = |pointer: &str| {
            summary
                .pointer(pointer)
                .and_then(Value::as_u64)
                .expect("a number")
        };
        assert!(
            rows.is_none_or(|rows| said("/rows") == rows),
            "{query}: {} rows",
            said("/rows")
        );
        assert!(
            said(counter) > 0,
            "{query} with {workers} workers: {counter}\n{summary:#}"
        );
        assert_eq!(said("/memory/max"), (MEMORY_MIB as u64) << 20);
    }
}

/// A generated capture.
struct Capture {
    sent: Vec<SentPacket>,
    ts: i64,
    step_ns: i64,
}

impl Capture {
    fn new(step_ns: i64) -> Capture {
        Capture {
            sent: Vec::new(),
            ts: 1_000_000_000_000_000_000,
            step_ns,
        }
    }

    fn segment(
        &mut self,
        ends: (SocketAddr, SocketAddr),
        (seq, ack): (u32, u32),
        flags: TcpFlags,
        payload: &[u8],
    ) {
        self.ts += self.step_ns;
        self.sent.push(SentPacket::tcp(
            Timestamp(self.ts),
            ends,
            tcp_info(seq, ack, flags),
            payload,
        ));
    }

    /// Both endpoints of a connection.
    fn ends(flow: usize) -> (SocketAddr, SocketAddr) {
        let [_, a, b, c] = (flow as u32).to_be_bytes();
        (
            ([10, a, b, c], 10_000).into(),
            ([10, 255, 255, 254], 80).into(),
        )
    }

    fn open(&mut self, flow: usize) {
        let (client, server) = Capture::ends(flow);
        self.segment((client, server), (0, 0), TcpFlags::SYN, b"");
        self.segment((server, client), (0, 1), TcpFlags::SYN | TcpFlags::ACK, b"");
    }

    fn write(&self, folder: &Path) -> std::path::PathBuf {
        let path = folder.join("in.pcap");
        fs::write(
            &path,
            pcap_bytes(&self.sent, TimestampPrecision::Nanos, ByteOrder::Little),
        )
        .expect("a capture is written");
        path
    }
}

/// Pipelined requests without responses, in few flows.
fn pipelined(flows: usize, requests: usize) -> Capture {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
    let mut capture = Capture::new(1000);
    for flow in 0..flows {
        capture.open(flow);
        let mut seq = 1;
        for payload in REQUEST.repeat(requests).chunks(1448) {
            capture.segment(
                Capture::ends(flow),
                (seq, 1),
                TcpFlags::ACK | TcpFlags::PSH,
                payload,
            );
            seq += payload.len() as u32;
        }
    }
    capture
}

/// A capture of `requests` requests with responses, each for another page, in `flows` flows.
fn answered(flows: usize, requests: usize, step_ns: i64) -> Capture {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let mut capture = Capture::new(step_ns);
    let mut positions = vec![None; flows];
    for n in 0..requests {
        let flow = n % flows;
        let (client, server) = Capture::ends(flow);
        if positions[flow].is_none() {
            capture.open(flow);
        }
        let (mut seq, mut ack) = positions[flow].unwrap_or((1, 1));
        let request = format!("GET /page-{n} HTTP/1.1\r\nHost: a\r\n\r\n");
        let flags = TcpFlags::ACK | TcpFlags::PSH;
        capture.segment((client, server), (seq, ack), flags, request.as_bytes());
        seq += request.len() as u32;
        capture.segment((server, client), (ack, seq), flags, RESPONSE);
        ack += RESPONSE.len() as u32;
        positions[flow] = Some((seq, ack));
    }
    capture
}

#[test]
fn rows_of_one_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = pipelined(4, 200_000).write(folder.path());
    check("PARSE http", &capture, Some(800_000), "/epochs_cut");
    let to = folder.path().join("recording");
    let summary = run(
        &["record", "PARSE http", "-o", to.to_str().expect("UTF-8")],
        &capture,
        2,
    );
    assert_eq!(
        summary.pointer("/recorded/rows").and_then(Value::as_u64),
        Some(800_000)
    );
}

#[test]
fn open_windows() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = answered(50, 100_000, 1000).write(folder.path());
    check(
        "PARSE http PROCESS (diff-group: group=url, w=1us)",
        &capture,
        None,
        "/stream/windows_forced",
    );
    check(
        "PARSE http PROCESS (workload-profile: w=100us)",
        &capture,
        None,
        "/stream/windows_forced",
    );
}

#[test]
fn windows_that_overlap() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = answered(10, 1000, 2000).write(folder.path());
    check(
        "PARSE http PROCESS (group-count: group=url, w=1ms, slide=1us)",
        &capture,
        Some(1_000_000),
        "/rows",
    );
}

#[test]
fn groups_and_joins() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = answered(60_000, 180_000, 1000).write(folder.path());
    check(
        "PARSE http PROCESS (diff-group: group=url)",
        &capture,
        None,
        "/stream/groups_overflowed",
    );
    check(
        "PARSE tcp_conn_time, http",
        &capture,
        None,
        "/stream/join_dropped",
    );
}

#[test]
fn too_many_processors_are_rejected() {
    let processors = vec!["(count)"; 7000].join(", ");
    let ran = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(["explain", "-f", "-"])
        .stdin(Stdio::from({
            let mut file = tempfile::tempfile().expect("a file");
            std::io::Write::write_all(
                &mut file,
                format!("PARSE http PROCESS {processors}").as_bytes(),
            )
            .expect("written");
            std::io::Seek::rewind(&mut file).expect("rewound");
            file
        }))
        .output()
        .expect("the binary runs");
    assert_eq!(ran.status.code(), Some(2));
    let words = String::from_utf8_lossy(&ran.stderr);
    assert!(
        words.contains("more than 100 processors in one query"),
        "{words}"
    );
}
