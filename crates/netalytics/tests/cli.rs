//! The program as a process: real files, exit codes, and output streams.

#[path = "cli/agents_at_random.rs"]
mod agents_at_random;
#[path = "cli/alerts.rs"]
mod alerts;
#[path = "cli/backup.rs"]
mod backup;
#[path = "cli/bus.rs"]
mod bus;
#[path = "cli/certificates.rs"]
mod certificates;
#[path = "cli/configuration.rs"]
mod configuration;
#[path = "cli/connections.rs"]
mod connections;
#[path = "cli/discover.rs"]
mod discover;
#[path = "cli/encrypted.rs"]
mod encrypted;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/exporters.rs"]
mod exporters;
#[path = "cli/faults/mod.rs"]
mod faults;
#[path = "cli/feedback.rs"]
mod feedback;
#[path = "cli/host_names.rs"]
mod host_names;
#[path = "cli/inputs.rs"]
mod inputs;
#[path = "cli/labels.rs"]
mod labels;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/outputs.rs"]
mod outputs;
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
#[path = "cli/tls_server.rs"]
mod tls_server;
#[path = "cli/upgrade.rs"]
mod upgrade;
#[path = "cli/usage.rs"]
mod usage;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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
    let mut child = piped(args);
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input)
        .expect("the binary reads");
    child.wait_with_output().expect("it ends").into()
}

/// A process whose input and output are pipes.
fn piped(args: &[&str]) -> Child {
    Command::new(BINARY)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
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
            address: address.expect("the listening address"),
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
fn server_answers_and_ends_gracefully() {
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
        (&["jobs", "show", "7"], 1, "job 7 does not exist"),
        (
            &["jobs", "results", "7", "--format", "csv"],
            1,
            "job 7 does not exist",
        ),
        (&["jobs", "stop", "7"], 1, "job 7 does not exist"),
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
