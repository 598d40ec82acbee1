//! The program as a process: real files, exit codes, and output streams.

#[path = "cli/agents_at_random.rs"]
mod agents_at_random;
#[path = "cli/alerts.rs"]
mod alerts;
#[path = "cli/backup.rs"]
mod backup;
#[path = "cli/bus.rs"]
mod bus;
#[path = "cli/configuration.rs"]
mod configuration;
#[path = "cli/connections.rs"]
mod connections;
#[path = "cli/discover.rs"]
mod discover;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/faults/mod.rs"]
mod faults;
#[path = "cli/feedback.rs"]
mod feedback;
#[path = "cli/labels.rs"]
mod labels;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/over_tls.rs"]
mod over_tls;
#[path = "cli/package.rs"]
mod package;
#[path = "cli/past.rs"]
mod past;
#[path = "cli/recordings.rs"]
mod recordings;
#[path = "cli/remote.rs"]
mod remote;
#[path = "cli/resilience.rs"]
mod resilience;
#[path = "cli/security.rs"]
mod security;
#[path = "cli/service.rs"]
mod service;
#[path = "cli/shared_monitors.rs"]
mod shared_monitors;
#[path = "cli/simulate.rs"]
mod simulate;
#[path = "cli/stopped.rs"]
mod stopped;
#[path = "cli/upgrade.rs"]
mod upgrade;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};
use testkit::{SentPacket, TcpDialogue};
use wire::FlowSide;

const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Result of a run.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code().expect("ended by itself"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

fn run(args: &[&str]) -> Ran {
    Command::new(BINARY)
        .args(args)
        .current_dir(ROOT)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
        .into()
}

fn run_with_stdin(args: &[&str], input: &[u8]) -> Ran {
    let mut child = Command::new(BINARY)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input)
        .expect("the binary reads");
    child.wait_with_output().expect("it ends").into()
}

/// Checks the exit code, and words on standard error.
fn check(args: &[&str], code: i32, words: &[&str]) -> Ran {
    let ran = run(args);
    assert_eq!(ran.code, code, "{args:?}\n{}{}", ran.out, ran.err);
    for word in words {
        assert!(
            ran.err.contains(word),
            "{args:?}: no {word:?} in\n{}",
            ran.err
        );
    }
    ran
}

/// Temporary folder of a test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder for test files"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).expect("a test file is written");
        self.path(name)
    }

    /// `n` DNS-sized datagrams from a client to port 53, and the responses.
    fn capture(&self, name: &str, n: usize) -> String {
        self.file(name, &pcap(&datagrams(n)))
    }
}

fn datagrams(n: usize) -> Vec<SentPacket> {
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:53");
    for _ in 0..n / 2 {
        talk.datagram(FlowSide::A, b"question");
        talk.datagram(FlowSide::B, b"answer, which is longer");
    }
    talk.take()
}

fn pcap(sent: &[SentPacket]) -> Vec<u8> {
    pcap_bytes(sent, TimestampPrecision::Nanos, ByteOrder::Little)
}

/// Two requests and their responses, 1 ms and 3 ms after them.
fn http() -> Vec<u8> {
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    talk.acks = false;
    talk.step_ns = 1_000_000;
    talk.handshake();
    talk.client()
        .send(b"GET /fast?x=1 HTTP/1.1\r\nHost: shop\r\n\r\n");
    talk.server()
        .send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    talk.client()
        .send(b"GET /slow HTTP/1.1\r\nHost: shop\r\n\r\n");
    talk.advance(2_000_000);
    talk.server()
        .send(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
    talk.close();
    pcap(talk.sent())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

const PACKETS: &str = "PARSE packet";
const SHOP: &str = "captures/shop/in.pcap";

#[test]
fn nothing_asked_is_an_introduction() {
    let ran = check(&[], 0, &[]);
    assert!(
        ran.out.contains("netalytics query ") && ran.err.is_empty(),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_wrong_query_is_shown_with_carets() {
    let ran = check(
        &[
            "query",
            "PARSE htp FROM * WHERE statsu = 1 PROCESS (grp)",
            "-r",
            "x.pcap",
        ],
        2,
        &["  PARSE htp FROM", "^^^", "did you mean", "grp"],
    );
    assert!(
        ran.err.matches("error:").count() >= 2,
        "all errors at once\n{}",
        ran.err
    );
    assert!(ran.out.is_empty());
    check(&["explain", "PARSE"], 2, &["^"]);
    check(
        &[
            "explain",
            "PARSE packet",
            "--server",
            "http://192.0.2.1:7979",
        ],
        2,
        &["without TLS (https://)"],
    );
    check(
        &["jobs", "--server", "http://netalytics.example"],
        2,
        &["without TLS (https://)"],
    );
    for verb in ["query", "compare", "check"] {
        let assert: &[&str] = if verb == "check" {
            &["--assert", "rows > 0"]
        } else {
            &[]
        };
        let args = [
            &[
                verb,
                PACKETS,
                "--server",
                "http://127.0.0.1:1",
                "--label",
                "role=web",
            ],
            assert,
        ]
        .concat();
        check(&args, 2, &["--server", "cannot be used with", "--label"]);
    }
}

#[test]
fn wrong_flags_are_named() {
    check(&["query", PACKETS], 2, &["-r FILE", "-i IFACE"]);
    check(&["query", "-r", "x.pcap"], 2, &["QUERY"]);
    check(
        &["query", PACKETS, "-r", "x.pcap", "--workers", "0"],
        2,
        &["auto, or a number"],
    );
    check(
        &["query", PACKETS, "-r", "x.pcap", "--format", "xml"],
        2,
        &["table", "jsonl", "csv"],
    );
    check(&["query", PACKETS, "-r", "-", "-"], 2, &["once only"]);
    check(
        &["query", PACKETS, "-r", "x.pcap", "--tcp-idle", "5"],
        2,
        &["90s"],
    );
    check(
        &["query", PACKETS, "-r", "x.pcap", "-f", "y.nq"],
        2,
        &["cannot be used with"],
    );
    check(
        &["query", PACKETS, "-r", "x.pcap", "--summary-json", "-"],
        2,
        &["requires a file"],
    );
    check(&["parsers", "htpp"], 2, &["no parser", "http"]);
    check(&["nonsense"], 2, &["nonsense"]);
}

#[test]
fn inputs_that_are_no_captures_are_one_clear_line_each() {
    let folder = Folder::new();
    let png = folder.file("picture.pcap", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0");
    let empty = folder.file("empty.pcap", b"");
    let missing = folder.path("missing.pcap");
    for path in [&png, &empty, &missing, &folder.path("")] {
        let ran = check(&["query", PACKETS, "-q", "-r", path], 1, &[path]);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert!(
            ran.err.starts_with("error: ") && ran.out.is_empty(),
            "{}",
            ran.err
        );
    }
    let good = folder.capture("good.pcap", 4);
    let ran = check(
        &["query", PACKETS, "-r", &missing, &good, &png],
        1,
        &["missing.pcap", "picture.pcap"],
    );
    assert_eq!(
        ran.out.lines().count(),
        4,
        "the good one is read all the same"
    );
}

#[test]
fn what_came_before_a_cut_is_kept() {
    let folder = Folder::new();
    let whole = pcap(&datagrams(10));
    let cut = folder.file("cut.pcap", &whole[..whole.len() - 5]);
    let ran = check(&["query", PACKETS, "-r", &cut], 1, &["cut.pcap: byte "]);
    assert_eq!(ran.out.lines().count(), 9);
}

#[test]
fn captures_come_by_every_road() {
    let folder = Folder::new();
    let bytes = pcap(&datagrams(6));
    let plain = check(
        &["query", PACKETS, "-r", &folder.file("a.pcap", &bytes)],
        0,
        &[],
    );
    assert_eq!(plain.out.lines().count(), 6);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).expect("a Vec takes every byte");
    let gzip = gzip.finish().expect("a Vec takes every byte");
    let packed = check(
        &["query", PACKETS, "-r", &folder.file("a.pcap.gz", &gzip)],
        0,
        &[],
    );
    assert_eq!(packed.out, plain.out);
    for input in [&bytes, &gzip] {
        let piped = run_with_stdin(&["query", PACKETS, "-r", "-"], input);
        assert_eq!(
            (piped.code, piped.out),
            (0, plain.out.clone()),
            "{}",
            piped.err
        );
    }
}

#[test]
fn the_query_comes_from_a_file_too() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let query = folder.file("q.nq", b"PARSE packet\nPROCESS (count)\n");
    let ran = check(&["query", "-f", &query, "-r", &capture], 0, &[]);
    assert_eq!(lines(&ran.out)[0]["count"], 4, "{}", ran.out);
    check(
        &["query", "-f", &folder.path("none.nq"), "-r", &capture],
        1,
        &["none.nq"],
    );
}

#[test]
fn a_full_disk_is_reported_once() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 2000);
    for format in ["jsonl", "csv", "table"] {
        let args = ["query", PACKETS, "-q", "-r", &capture, "--format", format];
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full exists on Linux");
        let output = Command::new(BINARY)
            .args(args)
            .stdout(full)
            .output()
            .expect("the binary runs");
        let ran = Ran::from(output);
        assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{}", ran.err);
        assert!(
            ran.err
                .contains("standard output; it is incomplete: No space left"),
            "{}",
            ran.err
        );
        let ran = check(
            &[&args[..], &["-o", "/dev/full"]].concat(),
            1,
            &["/dev/full; it is incomplete"],
        );
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
    let output = Command::new(BINARY)
        .arg("parsers")
        .stdout(
            File::options()
                .write(true)
                .open("/dev/full")
                .expect("/dev/full exists on Linux"),
        )
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    // Messages that cannot be written are ignored.
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full exists on Linux");
    let output = Command::new(BINARY)
        .args(["query", PACKETS, "-v", "-r", &capture])
        .stderr(full)
        .output();
    assert_eq!(output.expect("the binary runs").status.code(), Some(0));
}

#[test]
fn a_closed_pipe_is_no_error() {
    for args in [
        &["query", PACKETS, "-r", "-"][..],
        &["query", PACKETS, "-r", "-", "--format", "table"],
    ] {
        let mut child = Command::new(BINARY)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        drop(child.stdout.take());
        // The child may end before it has read everything.
        let _ = child
            .stdin
            .take()
            .expect("piped")
            .write_all(&pcap(&datagrams(4000)));
        let mut err = String::new();
        child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut err)
            .expect("text");
        assert_eq!(
            (child.wait().expect("it ends").code(), err.as_str()),
            (Some(0), "")
        );
    }
}

#[test]
fn output_goes_where_it_is_told() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let out = folder.path("out.jsonl");
    let ran = check(&["query", PACKETS, "-r", &capture, "-o", &out], 0, &[]);
    assert!(ran.out.is_empty());
    assert_eq!(
        fs::read_to_string(&out).expect("written").lines().count(),
        4
    );
    let dash = check(&["query", PACKETS, "-r", &capture, "-o", "-"], 0, &[]);
    assert_eq!(dash.out.lines().count(), 4);
    check(
        &[
            "query",
            PACKETS,
            "-r",
            &capture,
            "-o",
            &folder.path("no/such/out"),
        ],
        1,
        &["cannot write", "no/such/out"],
    );
    check(
        &["query", PACKETS, "-r", &capture, "-o", &folder.path("")],
        1,
        &["cannot write"],
    );
}

#[test]
fn an_input_is_never_overwritten() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let before = fs::read(&capture).expect("readable");
    let link = folder.path("link");
    std::os::unix::fs::symlink(&capture, &link).expect("a link");
    check(
        &["query", PACKETS, "-r", &capture, "-o", &capture],
        2,
        &["is an input"],
    );
    check(
        &["query", PACKETS, "-r", &capture, "-o", &link],
        2,
        &["is an input"],
    );
    check(
        &["query", PACKETS, "-r", &capture, "--summary-json", &capture],
        2,
        &["is an input"],
    );
    assert_eq!(fs::read(&capture).expect("readable"), before);
}

#[test]
fn formats() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let query = "PARSE packet PROCESS (group-count: group=src_ip)";
    let jsonl = check(&["query", query, "-r", &capture], 0, &[]);
    let rows = lines(&jsonl.out);
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["processor"], &rows[0]["count"]),
        (&Value::from("group-count"), &Value::from(2))
    );
    let csv = check(&["query", query, "-r", &capture, "--format", "csv"], 0, &[]);
    assert_eq!(csv.out.lines().count(), 3, "{}", csv.out);
    let table = check(
        &["query", query, "-r", &capture, "--format", "table"],
        0,
        &[],
    );
    assert!(
        table.out.contains("10.0.0.1") && table.out.contains("───"),
        "{}",
        table.out
    );
}

#[test]
fn names_of_hosts() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let hosts = folder.file("hosts", b"# ours\n10.0.0.2 resolver dns\n");
    let bad = folder.file("bad", b"10.0.0.2 resolver\nnonsense here\n");
    let query = "PARSE packet TO resolver:53 PROCESS (group-count: group=server_ip)";
    let with = |extra: &[&str]| {
        check(
            &[&["query", query, "-r", &capture, "--hosts", &hosts], extra].concat(),
            0,
            &[],
        )
        .out
    };
    assert!(with(&["--format", "table"]).contains("resolver"));
    assert!(!with(&["--format", "table", "--no-resolve"]).contains("resolver"));
    assert_eq!(lines(&with(&[]))[0]["server_ip"], "10.0.0.2");
    check(&["query", query, "-r", &capture], 2, &["resolver", "^"]);
    check(
        &["query", query, "-r", &capture, "--hosts", &bad],
        2,
        &["bad:2: \"nonsense\" is not an IP address"],
    );
    check(
        &[
            "query",
            query,
            "-r",
            &capture,
            "--hosts",
            &folder.path("none"),
        ],
        1,
        &["cannot read"],
    );
}

#[test]
fn the_summary_accounts_for_every_packet() {
    let folder = Folder::new();
    let mut sent = datagrams(20);
    let mut other = TcpDialogue::new("10.9.9.9:1", "10.8.8.8:2");
    other.datagram(FlowSide::A, b"not asked for");
    sent.extend(other.take());
    let mut bytes = pcap(&sent);
    // An ARP frame at the end: counted, not decoded.
    bytes.extend([0, 0, 0, 0x70, 0, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0]);
    bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6]);
    let capture = folder.file("a.pcap", &bytes);
    let json = folder.path("summary.json");
    let ran = check(
        &[
            "query",
            "PARSE packet TO *:53",
            "-r",
            &capture,
            "--summary-json",
            &json,
        ],
        0,
        &["packets", "22"],
    );
    assert_eq!(ran.out.lines().count(), 20);
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("written")).expect("JSON");
    let packets = &summary["packets"];
    let count = |value: &Value| match value {
        Value::Object(causes) => causes.values().map(|n| n.as_u64().expect("a count")).sum(),
        n => n.as_u64().expect("a count"),
    };
    let parts: u64 = [
        "parsed",
        "filtered",
        "sampled_out",
        "dropped",
        "undecodable",
    ]
    .iter()
    .map(|p| count(&packets[p]))
    .sum();
    assert_eq!((count(&packets["received"]), parts), (22, 22), "{packets}");
    assert_eq!(
        (&packets["undecodable"]["not_ip"], &packets["adds_up"]),
        (&Value::from(1), &Value::from(true))
    );
    assert_eq!(
        (&summary["rows"], &summary["complete"]),
        (&Value::from(20), &Value::from(true))
    );
    let quiet = check(&["query", PACKETS, "-q", "-r", &capture], 0, &[]);
    assert!(quiet.err.is_empty(), "{}", quiet.err);
}

#[test]
fn messages_that_are_asked_for() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    check(
        &["query", "PARSE packet SAMPLE auto", "-v", "-r", &capture],
        0,
        &["SAMPLE auto", "live input"],
    );
    check(
        &["query", PACKETS, "--progress", "always", "-r", &capture],
        0,
        &["read "],
    );
    check(
        &["query", "PARSE packet LIMIT 2p", "-r", &capture],
        0,
        &["LIMIT reached"],
    );
}

#[test]
fn response_times_end_to_end() {
    let folder = Folder::new();
    let capture = folder.file("http.pcap", &http());
    let ran = check(&["query", "PARSE http", "-r", &capture], 0, &[]);
    let rows: Vec<_> = lines(&ran.out)
        .iter()
        .map(|r| {
            (
                r["url"].clone(),
                r["status"].clone(),
                r["response_time_ns"].clone(),
                r["quality"].clone(),
            )
        })
        .collect();
    let row = |url: &str, status: u64, ns: u64| {
        (url.into(), status.into(), ns.into(), Value::from("exact"))
    };
    assert_eq!(
        rows,
        [
            row("shop/fast?x=1", 200, 1_000_000),
            row("shop/slow", 500, 3_000_000)
        ]
    );
    let ran = check(
        &[
            "query",
            "PARSE http PROCESS (diff-group: group=path)",
            "-r",
            &capture,
            "--format",
            "table",
        ],
        0,
        &[],
    );
    assert!(
        ran.out.contains("1.00 ms") && ran.out.contains("3.00 ms"),
        "{}",
        ran.out
    );
}

#[test]
fn what_there_is_can_be_listed() {
    let parsers = check(&["parsers"], 0, &[]);
    let processors = check(&["processors"], 0, &[]);
    assert!(
        parsers.out.contains("http") && parsers.out.contains("url"),
        "{}",
        parsers.out
    );
    assert!(
        processors.out.contains("top-k") && processors.out.contains("PARSE"),
        "{}",
        processors.out
    );
    let rows = lines(&check(&["parsers", "http", "--format", "jsonl"], 0, &[]).out);
    let url = rows
        .iter()
        .find(|r| r["field"] == "url")
        .expect("http has a url");
    assert_eq!(
        (&url["parser"], &url["type"]),
        (&Value::from("http"), &Value::from("text"))
    );
    assert!(
        check(&["processors", "--format", "csv"], 0, &[])
            .out
            .starts_with("block,")
    );
    let plan = check(
        &["explain", "PARSE http TO *:80 PROCESS (top-k: k=3)"],
        0,
        &[],
    );
    assert!(plan.out.contains("http"), "{}", plan.out);
}

#[test]
fn help_completions_and_manual() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = check(&["completions", shell], 0, &[]).out;
        assert!(script.contains("summary-json"), "{shell}");
    }
    let page = check(&["man"], 0, &[]).out;
    assert!(page.contains(".TH netalytics 1"), "{page}");
    for word in [
        "NETALYTICS QUERY",
        "NETALYTICS PARSERS",
        "EXIT STATUS",
        "EXAMPLES",
        "summary\\-json",
    ] {
        assert!(page.contains(word), "no {word} in the manual page");
    }
    assert!(check(&["--version"], 0, &[]).out.starts_with("netalytics "));
    for verb in [
        "query",
        "explain",
        "parsers",
        "processors",
        "interfaces",
        "completions",
        "man",
    ] {
        assert!(
            check(&[verb, "--help"], 0, &[]).out.contains("Usage:"),
            "{verb}"
        );
    }
}

#[test]
fn habits() {
    let json = [
        "query",
        "PARSE http PROCESS (count)",
        "-r",
        SHOP,
        "--json",
        "-q",
    ];
    let counted = |args: &[&str]| {
        let ran = check(args, 0, &[]);
        lines(&ran.out)[0]["count"].as_u64().expect("a count")
    };
    // nginx has logged 221 requests. Those of one client, by three kinds of filters.
    let all = counted(&json);
    let log =
        fs::read_to_string(format!("{ROOT}/captures/shop/nginx-access.log")).expect("the log");
    assert_eq!(all, log.lines().count() as u64);
    let filter = "tcp port 80 and host 10.20.0.22";
    let of_client = counted(&[&json[..], &["--capture-filter", filter]].concat());
    assert!((1..all).contains(&of_client), "{of_client}");
    let words: Vec<&str> = filter.split(' ').collect();
    assert_eq!(
        counted(&[&["query", "-r", SHOP][..], &words, &json[1..2], &["--json"]].concat()),
        of_client
    );
    assert_eq!(
        counted(&[&json[..2], &words, &json[2..]].concat()),
        of_client
    );
    let packets = counted(&[
        "query",
        "PARSE packet PROCESS (count)",
        "-r",
        SHOP,
        "-c",
        "100",
        "--json",
    ]);
    assert_eq!(packets, 100);
    assert!(
        check(&["help", "query"], 0, &[])
            .out
            .contains("CAP_NET_RAW")
    );
    let plain = check(
        &["query", "PARSE htp", "-r", SHOP],
        2,
        &["error: unknown parser"],
    );
    let colored = check(
        &["--color=always", "query", "PARSE htp", "-r", SHOP],
        2,
        &["\x1b[1;31merror:\x1b[0m"],
    );
    assert_eq!(
        colored.err.replace("\x1b[1;31m", "").replace("\x1b[0m", ""),
        plain.err
    );
    for wrong in [
        &["query", "--nonsense"][..],
        &["query"],
        &["record", "PARSE http", "-r", SHOP],
        &["nonsense"],
    ] {
        let err = check(wrong, 2, &[]).err;
        assert!(
            err.starts_with("error: ") && err.lines().count() <= 4 && !err.contains("Usage"),
            "{err}"
        );
    }
}

#[test]
fn the_version_says_what_was_built() {
    let long = check(&["--version"], 0, &[]).out;
    for word in [
        "target:",
        "libpcap",
        "af-packet",
        "recording 1",
        "summary 1",
    ] {
        assert!(long.contains(word), "no {word} in {long}");
    }
    assert_eq!(check(&["-V"], 0, &[]).out.lines().count(), 1);
}

/// Guaranteed by docs/compatibility.md: a column of a schema's version exists as long as the version.
#[test]
fn columns_stay() {
    let rows = lines(&check(&["parsers", "--json"], 0, &[]).out);
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let there: std::collections::HashSet<_> = rows
        .iter()
        .map(|row| ["parser", "field", "type", "unit"].map(|key| text(row, key)))
        .collect();
    let promised = include_str!("columns-1.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let promised: Vec<Vec<&str>> = promised.map(|line| line.split('\t').collect()).collect();
    assert!(promised.len() > 300);
    for line in promised {
        let column = [0, 1, 2, 3].map(|i| line[i].to_owned());
        let version = parsers::registry::schemas()
            .iter()
            .find(|s| *s.name == *line[0])
            .map_or(0, |s| s.version);
        assert!(
            version > 1 || there.contains(&column),
            "{column:?} is promised, and gone"
        );
    }
}

/// The pages' commands in order, in a temporary folder per page.
#[test]
fn the_commands_of_the_pages_run() {
    let bin = Path::new(BINARY)
        .parent()
        .expect("in a folder")
        .display()
        .to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    for (page, least) in [("tutorial", 8), ("coming-from-tcpdump-tshark-zeek", 1)] {
        let text = fs::read_to_string(format!("{ROOT}/docs/{page}.md")).expect("the page");
        let folder = Folder::new();
        let captures = Path::new(ROOT)
            .canonicalize()
            .expect("it is there")
            .join("captures");
        std::os::unix::fs::symlink(captures, folder.path("captures")).expect("a link");
        let blocks: Vec<&str> = text
            .split("```sh\n")
            .skip(1)
            .filter_map(|b| b.split("```").next())
            .collect();
        assert!(blocks.len() >= least, "{page}: {} blocks", blocks.len());
        for block in blocks {
            let mut command = Command::new("sh");
            command
                .args(["-ec", block])
                .current_dir(folder.0.path())
                .env("PATH", &path);
            let ran = Ran::from(command.stdin(Stdio::null()).output().expect("a shell"));
            assert!(
                ran.code == 0 && !ran.out.is_empty(),
                "{page}: {block}\n{}{}",
                ran.out,
                ran.err
            );
        }
    }
}

/// The commands in the help, verbatim.
#[test]
fn the_examples_in_the_help_work() {
    let root = Path::new(ROOT);
    assert!(
        root.join("captures/shop/in.pcap").is_file(),
        "the capture of the examples comes with the source"
    );
    let bin: PathBuf = Path::new(BINARY).parent().expect("in a folder").into();
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut tried = 0;
    for args in [
        &[][..],
        &["query", "--help"],
        &["parsers", "--help"],
        &["processors", "--help"],
        &["explain", "--help"],
    ] {
        let help = check(args, 0, &[]).out.replace("\n  ", "\n");
        let examples = help
            .lines()
            .map(str::trim)
            .filter(|l| l.starts_with("netalytics ") && !l.contains(" --help"));
        // Those with a network interface are tested in live.rs, those with a server in cli/remote.rs, those with a
        // network file in cli/explain.rs.
        let elsewhere = |l: &&str| {
            ["monday", "slow.nq", " -i ", " --server", "network.toml"]
                .iter()
                .any(|word| l.contains(word))
        };
        for example in examples.filter(|l| !elsewhere(l)) {
            let output = Command::new("sh")
                .args(["-c", example])
                .current_dir(root)
                .env("PATH", &path)
                .output()
                .expect("a shell");
            let ran = Ran::from(output);
            assert!(
                ran.code == 0 && ran.out.lines().count() > 1,
                "{example}\n{}{}",
                ran.out,
                ran.err
            );
            tried += 1;
        }
    }
    assert!(tried >= 8, "{tried} examples found");
}

/// A pcapng file: the shop's first packets, followed by a name resolution block for the server.
fn pcapng_with_names() -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        let len = (padded as u32 + 12).to_le_bytes();
        let mut block = [
            &kind.to_le_bytes(),
            &len,
            body,
            &vec![0; padded - body.len()],
        ]
        .concat();
        block.extend(len);
        block
    };
    let mut file = block(
        0x0a0d_0d0a,
        &[
            &0x1a2b_3c4d_u32.to_le_bytes()[..],
            &[1, 0, 0, 0],
            &[0xff; 8],
        ]
        .concat(),
    );
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 4, 0]));
    let shop = fs::read(Path::new(ROOT).join("captures/shop/in.pcap")).expect("the recording");
    let mut rest = &shop[24..];
    for _ in 0..200 {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
        let micros = u64::from(word(0)) * 1_000_000 + u64::from(word(4));
        let len = word(8);
        let head: Vec<u8> = [0, (micros >> 32) as u32, micros as u32, len, word(12)]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        file.extend(block(6, &[&head, &rest[16..16 + len as usize]].concat()));
        rest = &rest[16 + len as usize..];
    }
    file.extend(block(
        4,
        &[
            &[1, 0, 13, 0, 10, 20, 0, 10][..],
            b"shop-web\0\0\0\0",
            &[0; 4],
        ]
        .concat(),
    ));
    file
}

#[test]
fn names_of_the_capture_itself_work_in_queries_and_tables() {
    let folder = Folder::new();
    let capture = folder.0.path().join("named.pcapng");
    fs::write(&capture, pcapng_with_names()).expect("a file in a temporary folder");
    let capture = capture.to_str().expect("text");
    let query = "PARSE http TO shop-web:80 PROCESS (group-count: group=server_ip)";
    let ran = check(
        &["query", query, "-r", capture, "--format", "table"],
        0,
        &[],
    );
    assert!(ran.out.contains("shop-web"), "{}", ran.out);
    let ran = check(
        &["query", query, "-r", capture, "--format", "jsonl"],
        0,
        &[],
    );
    assert!(ran.out.contains("10.20.0.10"), "{}", ran.out);
    check(
        &["query", "PARSE http TO shop-wob:80", "-r", capture],
        2,
        &["shop-wob", "did you mean `shop-web`"],
    );
}

/// A server, ended on drop.
struct Serving {
    process: std::process::Child,
    address: String,
}

impl Serving {
    fn start(data: &Path) -> Serving {
        use std::io::{BufRead, BufReader};
        let mut process = Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stderr.take().expect("its messages")).lines();
        let address = lines.map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("serving on ")?;
            rest.split(';').next().map(str::to_owned)
        });
        Serving {
            process,
            address: address.expect("it says where it listens"),
        }
    }

    /// Runs a command as the admin: exit code, standard output, standard error.
    fn ask(&self, data: &Path, args: &[&str]) -> (Option<i32>, String, String) {
        let token = data.join("admin.token");
        let ran = Command::new(BINARY)
            .args(args)
            .args(["--server", &self.address, "--token-file"])
            .arg(token)
            .output()
            .expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_is_asked_and_ends_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut server = Serving::start(&data);
    for (args, code, words) in [
        (&["jobs"][..], 0, "state"),
        (&["agents"], 0, "connected"),
        (
            &["jobs", "start", "PARSE http PROCESS (rate)"],
            1,
            "no agent is connected",
        ),
        (
            &["jobs", "start", "PARSE htp PROCESS (rate)"],
            2,
            "did you mean `http`",
        ),
        (&["jobs", "show", "7"], 1, "there is no job 7"),
        (
            &["jobs", "results", "7", "--format", "csv"],
            1,
            "there is no job 7",
        ),
        (&["jobs", "stop", "7"], 1, "there is no job 7"),
    ] {
        let (found, printed, said) = server.ask(&data, args);
        assert_eq!(found, Some(code), "{args:?}: {printed}{said}");
        assert!(
            format!("{printed}{said}").contains(words),
            "{args:?}: {printed}{said}"
        );
    }
    let second = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .output();
    let second = second.expect("it runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another netalytics serve"));
    let copy = folder.path().join("copy");
    let backup = |to: &Path| {
        let ran = Command::new(BINARY)
            .args(["serve", "backup"])
            .arg(to)
            .arg("--data")
            .arg(&data)
            .output();
        ran.expect("it runs").status.code()
    };
    assert_eq!((backup(&copy), backup(&copy)), (Some(0), Some(1)));
    let ended = Command::new("kill")
        .args(["-TERM", &server.process.id().to_string()])
        .status();
    assert!(ended.expect("kill runs").success());
    assert_eq!(server.process.wait().expect("it ends").code(), Some(0));
}
