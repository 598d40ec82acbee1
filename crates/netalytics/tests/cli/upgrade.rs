//! Rolling upgrade: a recorded session of an earlier version is replayed to this version's server and agent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use link::{Frame, FrameDecoder};
use serde_json::Value;

use super::service::{counts, wait};
use super::tls_server::Heard;
use super::{BINARY, Folder, check, run};

const SESSION: &str = include_str!("session-56da62b.txt");
/// Query of the recorded job.
const QUERY: &str = "PARSE http PROCESS (group-count: group=path)";
const CLIENT: &str = "10.20.0.21";
/// Offset of the kind in a recorded frame (`link::Frame`).
const KIND_AT: usize = 4;
const HELLO: u8 = 3;
const WELCOME: u8 = 4;
const DESIRED: u8 = 9;
const RENEW: u8 = 12;
const GRANTED: u8 = 13;
const ACK: u8 = 14;
/// Timeout.
const PATIENCE: Duration = Duration::from_secs(60);

/// Recorded events, in order.
enum Step {
    /// The server's data before the first frame.
    Head(Vec<u8>),
    Agent(Vec<u8>),
    Server(Vec<u8>),
    /// A request to the server's API.
    Asked(String),
}

fn steps() -> Vec<Step> {
    let bytes = |hex: &str| -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        digits
            .map(|two| {
                u8::from_str_radix(std::str::from_utf8(two).expect("text"), 16).expect("hex")
            })
            .collect()
    };
    let step = |line: &str| match line.split_once(' ').expect("two words") {
        ("server-head", hex) => Step::Head(bytes(hex)),
        ("agent", hex) => Step::Agent(bytes(hex)),
        ("server", hex) => Step::Server(bytes(hex)),
        ("asked", what) => Step::Asked(what.to_owned()),
        other => panic!("{other:?}"),
    };
    SESSION
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(step)
        .collect()
}

/// One end of a connection that receives frames.
struct Line {
    stream: TcpStream,
    decoder: FrameDecoder,
    heard: Vec<Frame>,
    /// Kinds of frames received while waiting for another.
    early: Vec<u8>,
}

impl Line {
    /// After the HTTP head.
    fn of(mut stream: TcpStream) -> Line {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        assert!(
            head.starts_with("GET ") || head.starts_with("HTTP/1.1 101"),
            "{head}"
        );
        Line {
            stream,
            decoder: FrameDecoder::default(),
            heard: Vec::new(),
            early: Vec::new(),
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it is heard");
    }

    /// Receives until a frame satisfies `is_it`.
    fn hear(&mut self, is_it: impl Fn(&Frame) -> bool) {
        let mut bytes = [0; 4096];
        loop {
            while let Some(incoming) = self.decoder.next().expect("frames") {
                let found = is_it(&incoming.frame);
                let kind = incoming.frame.kind();
                self.heard.push(incoming.frame);
                if found {
                    return;
                }
                self.early.push(kind);
            }
            let n = self.stream.read(&mut bytes).expect("something is said");
            assert!(n > 0, "it has hung up after {:?}", self.heard.last());
            self.decoder.push(&bytes[..n]);
        }
    }

    fn hear_kind(&mut self, kind: u8) {
        match self.early.iter().position(|early| *early == kind) {
            Some(at) => drop(self.early.remove(at)),
            None => self.hear(|frame| frame.kind() == kind),
        }
    }
}

/// Packets replayed by the recorded agent.
fn part(folder: &Folder) -> String {
    let part = folder.path("part.pcap");
    let query = format!("PARSE packet FROM {CLIENT} PROCESS (count)");
    check(
        &["query", &query, "-r", "captures/shop/in.pcap", "-w", &part],
        0,
        &[],
    );
    part
}

#[test]
fn an_agent_of_the_version_before_is_understood() {
    let folder = Folder::new();
    let data = folder.path("server");
    let server = Heard::start(
        &[BINARY],
        &["serve", "--data", &data, "--listen", "127.0.0.1:0"],
    );
    let line = server.says("serving on http://");
    let url = line
        .trim_start_matches("serving on ")
        .split(';')
        .next()
        .unwrap_or_default()
        .to_owned();
    let ask = |args: &[&str]| -> Vec<Value> {
        let token = format!("{data}/admin.token");
        let ran = run(&[
            args,
            &[
                "--server",
                &url,
                "--token-file",
                &token,
                "--format",
                "jsonl",
            ],
        ]
        .concat());
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        ran.out
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    };
    let token = run(&[
        "tokens",
        "create",
        "old",
        "--role",
        "agent",
        "--server",
        &url,
        "--token-file",
        &format!("{data}/admin.token"),
    ]);
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it exists");
    let head = format!(
        "GET /api/v1/agent HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: netalytics/1\r\nauthorization: Bearer {}\r\n\r\n",
        token.out.trim()
    );
    stream.write_all(head.as_bytes()).expect("it is heard");
    let mut line = Line::of(stream);
    for step in steps() {
        match step {
            Step::Agent(frame) => line.say(&frame),
            // The number of acknowledgments depends on commits.
            Step::Server(frame) if [WELCOME, DESIRED, GRANTED].contains(&frame[KIND_AT]) => {
                line.hear_kind(frame[KIND_AT])
            }
            Step::Asked(what) if what == "start" => {
                drop(ask(&["jobs", "start", QUERY, "--standing"]))
            }
            Step::Asked(_) => {
                // When it was stopped, the recorded server knew that the agent was working; this server has to know it,
                // too.
                wait("the agent is at it", || {
                    match &ask(&["jobs", "show", "1"])[0] {
                        job if job["agents"][0]["counters"]["packets"].is_number() => Ok(()),
                        job => Err(job.to_string()),
                    }
                });
                ask(&["jobs", "stop", "1"]);
            }
            Step::Server(_) | Step::Head(_) => {}
        }
    }
    wait("the job ends", || match &ask(&["jobs", "show", "1"])[0] {
        job if job["state"] == "ended" => Ok(()),
        job => Err(job.to_string()),
    });
    let whole = QUERY.replace("http", &format!("http FROM {CLIENT}"));
    let whole = check(
        &[
            "query",
            &whole,
            "-r",
            "captures/shop/in.pcap",
            "--format",
            "jsonl",
        ],
        0,
        &[],
    )
    .out;
    let whole: Vec<Value> = whole
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    assert!(!whole.is_empty());
    assert_eq!(counts(&ask(&["jobs", "results", "1"])), counts(&whole));
}

/// The server's frame adapted to this agent: its incarnation replaces the recorded one, and replies refer to its last
/// request.
fn said_to(agent: &Line, recorded: &[u8; 8], frame: &[u8]) -> Vec<u8> {
    let asked = agent.heard.iter().rev().find_map(|frame| {
        if let Frame::Renew(renew) = frame {
            Some(renew)
        } else {
            None
        }
    });
    let boot = agent.heard.iter().find_map(|frame| {
        if let Frame::Hello(hello) = frame {
            Some(hello.boot)
        } else {
            None
        }
    });
    let mut frame = frame.to_vec();
    if let (GRANTED, Some(asked)) = (frame[KIND_AT], asked) {
        // Both start with the agent's clock of the request: field 1, a varint.
        let number = |body: &[u8]| {
            1 + body[1..]
                .iter()
                .position(|byte| byte & 0x80 == 0)
                .expect("a number's end")
                + 1
        };
        let rest = frame.split_off(KIND_AT + 1);
        frame.push(rest[0]);
        frame.extend(varint(asked.asked_ns));
        frame.extend_from_slice(&rest[number(&rest)..]);
        let length = u32::try_from(frame.len() - KIND_AT).expect("small");
        frame[..KIND_AT].copy_from_slice(&length.to_be_bytes());
    }
    if let (Some(at), Some(boot)) = (frame.windows(8).position(|bytes| bytes == recorded), boot) {
        frame[at..at + 8].copy_from_slice(&boot.to_le_bytes());
    }
    frame
}

/// A varint of protocol buffers: seven bits per byte, lowest first.
fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n > 0x7f {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

#[test]
fn a_server_of_the_version_before_is_understood() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let token = folder.file("token", b"nl_0");
    let own = folder.path("own");
    let part = part(&folder);
    let agent = [
        "agent",
        "-v",
        "--server",
        &url,
        "--token-file",
        &token,
        "--name",
        "old",
        "--folder",
        &own,
    ];
    let agent = Heard::start(
        &[BINARY],
        &[&agent[..], &["--demo", &part, "--demo-pause", "1h"]].concat(),
    );
    let mut line = Line::of(listener.accept().expect("it dials").0);
    let requests = check(
        &[
            "query",
            "PARSE http PROCESS (count)",
            "-r",
            &part,
            "--format",
            "jsonl",
        ],
        0,
        &[],
    )
    .out;
    let requests: Value = serde_json::from_str(requests.trim()).expect("a row");
    let requests = requests["count"].as_u64().expect("a count");
    let mut recorded = [0; 8];
    let is_last = |frame: &Frame| matches!(frame, Frame::DataRecord(data) if data.is_last);
    for step in steps() {
        match step {
            Step::Head(head) => line.say(&head),
            Step::Agent(frame) => match frame[KIND_AT] {
                HELLO => {
                    // Field 4, eight bytes.
                    let at = frame.windows(4).position(|bytes| bytes == b"old!").expect("its name") + 4;
                    recorded.copy_from_slice(&frame[at..at + 8]);
                    line.hear_kind(HELLO);
                }
                RENEW => line.hear_kind(RENEW),
                _ => {}
            },
            // The agent sends other records at other times; all are acknowledged.
            Step::Server(frame) if frame[KIND_AT] == ACK => {}
            Step::Server(frame) => {
                let frame = said_to(&line, &recorded, &frame);
                line.say(&frame);
            }
            Step::Asked(what) if what == "stop" => line.hear(
                |frame| matches!(frame, Frame::DataRecord(data) if data.counters.get("tuples") == Some(&requests)),
            ),
            Step::Asked(_) => {}
        }
    }
    line.hear(is_last);
    agent.says("job 1: started");
    agent.says("job 1: ended");
    let tuples = line.heard.iter().map(|frame| {
        if let Frame::DataRecord(data) = frame {
            data.tuples
        } else {
            0
        }
    });
    assert_eq!(tuples.sum::<u64>(), requests);
}
