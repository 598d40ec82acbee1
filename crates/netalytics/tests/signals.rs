//! Signals: several end signals within milliseconds lose nothing, an output whose reader has stopped is abandoned with
//! an error, SIGUSR1 prints statistics, and a signal ends every busy command within a second.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};

const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");

/// Time limit after a signal: wall time if idle, CPU time if busy. Builds without optimization, on busy machines, have
/// more than the guaranteed second.
const WITHIN: Duration = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 });
/// Time limit after a signal if the reader of the output has stopped: two seconds, and as much for a busy machine.
const ABANDONED_WITHIN: Duration = Duration::from_secs(4);
/// Timeout of everything else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records of `n` datagrams from different hosts, starting at number `first`.
fn datagrams(first: u32, n: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in first..first + n {
        let mut frame = [0; 42];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..26].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame[26..30]
            .copy_from_slice(&(0x0a00_0000 | i.wrapping_mul(2_654_435_761) >> 8).to_be_bytes());
        frame[30..34].copy_from_slice(&[10, 1, 0, 1]);
        frame[34..42].copy_from_slice(&[0x80, i as u8, 0, 53, 0, 8, 0, 0]);
        let times = [1_700_000_000 + i / 100_000, i % 100_000 * 10_000];
        let lengths = [frame.len() as u32; 2];
        times
            .iter()
            .chain(&lengths)
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

fn head() -> Vec<u8> {
    pcap_bytes(&[], TimestampPrecision::Nanos, ByteOrder::Little)
}

/// A running program, and the text of its standard error read so far.
struct Running {
    child: Child,
    err: BufReader<ChildStderr>,
    said: String,
}

impl Running {
    fn start(args: &[&str]) -> Running {
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let err = BufReader::new(child.stderr.take().expect("piped"));
        Running {
            child,
            err,
            said: String::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.child
            .stdin
            .as_mut()
            .expect("piped")
            .write_all(bytes)
            .expect("it reads");
    }

    /// Feeds the program until it ends.
    fn feed_for_ever(&mut self) {
        let mut input = self.child.stdin.take().expect("piped");
        thread::spawn(move || {
            let mut first = 0;
            let _ = input.write_all(&head());
            while input.write_all(&datagrams(first, 1000)).is_ok() {
                first += 1000;
            }
        });
    }

    /// Reads its standard error until a line matches.
    fn wait_for(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let mut line = String::new();
            let read = self.err.read_line(&mut line).expect("text");
            assert!(read > 0, "it ended:\n{}", self.said);
            self.said.push_str(&line);
            if is_it(&line) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    fn ended_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < time {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// CPU time used so far.
    fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Duration::from_millis(ticks * 10))
    }

    /// Like [`LabProcess::ended_within`], in CPU time, independent of other programs.
    fn ended_within_cpu(&mut self, time: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        let before = self.cpu().unwrap_or_default();
        while self
            .cpu()
            .is_none_or(|now| now.saturating_sub(before) < time)
            && began.elapsed() < PATIENCE
        {
            if let Some(status) = self.ended_within(Duration::from_millis(20)) {
                return Some(status);
            }
        }
        None
    }

    /// Discards standard output from now on.
    fn drain(&mut self) {
        let mut out = self.child.stdout.take().expect("piped");
        thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    }

    fn output(&mut self) -> String {
        let mut text = String::new();
        self.child
            .stdout
            .take()
            .expect("piped")
            .read_to_string(&mut text)
            .expect("text");
        text
    }

    fn rest_of_errors(&mut self) -> String {
        self.err.read_to_string(&mut self.said).expect("text");
        std::mem::take(&mut self.said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The child may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

/// As sent by `timeout`, and by a shell whose terminal is closed.
#[test]
fn several_signals_within_milliseconds_lose_nothing() {
    let query = "PARSE packet PROCESS (group-count: group=dst_port, w=1h)";
    for names in [
        ["TERM", "TERM"],
        ["HUP", "HUP"],
        ["INT", "INT"],
        ["TERM", "INT"],
        ["HUP", "TERM"],
    ] {
        let mut run = Running::start(&[
            "query", query, "-r", "-", "--stats", "20ms", "--format", "csv",
        ]);
        run.feed(&head());
        run.feed(&datagrams(0, 1000));
        // The program has started to read, and then has read everything.
        run.wait_for(|line| line.contains("packets/s") && !line.contains(": 0 packets/s"));
        run.wait_for(|line| line.contains(": 0 packets/s"));
        names.iter().for_each(|name| run.signal(name));
        let status = run
            .ended_within(WITHIN)
            .unwrap_or_else(|| panic!("{names:?}: it goes on"));
        assert_eq!(
            status.code(),
            Some(0),
            "{names:?}: {}",
            run.rest_of_errors()
        );
        let rows = run.output();
        assert!(rows.contains(",1000"), "{names:?}: {rows}");
    }
}

/// The output is not read: a late SIGINT ends the program at once.
#[test]
fn a_late_interrupt_abandons_the_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = many(&folder);
    let args = ["query", "PARSE packet", "-r", &capture, "-q"];
    let mut run = Running::start(&args);
    thread::sleep(Duration::from_millis(500));
    ["TERM", "INT"].iter().for_each(|name| run.signal(name));
    thread::sleep(Duration::from_millis(1100));
    ["TERM", "HUP", "TERM"]
        .iter()
        .for_each(|name| run.signal(name));
    thread::sleep(Duration::from_millis(200));
    assert!(run.is_running(), "it waits for its reader");
    run.signal("INT");
    let status = run.ended_within(WITHIN).expect("it is abandoned");
    assert_eq!(status.signal(), Some(2));

    // A SIGINT within a second of the first signal does not end the run; it ends when its output has been read.
    let mut run = Running::start(&args);
    thread::sleep(Duration::from_millis(500));
    ["TERM", "INT"].iter().for_each(|name| run.signal(name));
    let rows = run.output();
    let status = run.ended_within(WITHIN).expect("it ends");
    assert_eq!(status.code(), Some(1), "{}", run.rest_of_errors());
    assert!(
        rows.ends_with('\n') && rows.lines().count() < 400_000,
        "it is cut behind a row"
    );
}

/// A reader that has stopped, before a signal: rows and packets are abandoned with an error, and other output is complete.
#[test]
fn a_reader_that_has_stopped_is_abandoned_after_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = many(&folder);
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let kept = path("kept.pcapng");
    let text = path("rows.csv");
    let rows = "cannot write the result to standard output; it is incomplete: after the end signal";
    let packets = "cannot write all packets to -: after the end signal";
    let commands: [(&[&str], &str); 4] = [
        (&["query", "PARSE packet", "--format", "csv"], rows),
        (&["query", "PARSE packet", "-w", &kept], rows),
        (&["query", "PARSE packet", "-o", &text, "-w", "-"], packets),
        (
            &["query", "PARSE packet ORDER BY src_ip LIMIT 100000 ROWS"],
            rows,
        ),
    ];
    let outcomes = commands.map(|(args, message)| {
        let capture = capture.clone();
        let name = if message == rows { "TERM" } else { "INT" };
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        thread::spawn(move || {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let mut run = Running::start(&[&args[..], &["-r", &capture]].concat());
            // The program writes until the pipe is full: then its CPU time does not grow.
            let mut before = None;
            while before.is_none() || run.cpu() != before {
                before = run.cpu();
                thread::sleep(Duration::from_secs(1));
            }
            run.signal(name);
            let began = Instant::now();
            let status = run.ended_within(PATIENCE);
            let took = began.elapsed();
            // A program that goes on keeps its standard error open.
            let _ = run.child.kill();
            let errors = run.rest_of_errors();
            let what = format!("{args:?}: {took:?}, {status:?}: {errors}");
            assert!(took < ABANDONED_WITHIN, "{what}");
            assert_eq!(status.and_then(|status| status.code()), Some(1), "{what}");
            assert!(errors.contains(message), "{what}");
        })
    });
    for outcome in outcomes {
        outcome.join().expect("as expected");
    }
    let kept = capture::open(&[folder.path().join("kept.pcapng")]);
    assert!(kept.errors().is_empty());
    let rows = std::fs::read_to_string(text).expect("readable");
    assert!(rows.ends_with('\n') && rows.lines().count() > 100);
}

#[test]
fn statistics_on_request() {
    let query = "PARSE packet PROCESS (group-count: group=dst_port)";
    for command in [
        &["query", query, "--workers", "2"][..],
        &["overview"],
        &["record", query, "-o"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = folder.path().join("recording");
        let mut args = command.to_vec();
        if command.last() == Some(&"-o") {
            args.push(recording.to_str().expect("UTF-8"));
        }
        args.extend(["-r", "-"]);
        let mut run = Running::start(&args);
        run.feed(&head());
        run.feed(&datagrams(0, 1000));
        // Repeated, because statistics are not available before it has started.
        let (end, ended) = mpsc::channel::<()>();
        let pid = run.child.id();
        let asking = thread::spawn(move || {
            while ended.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
                ["USR2", "USR1"].iter().for_each(|name| signal(pid, name));
            }
        });
        let line = run.wait_for(|line| line.starts_with("worker"));
        drop(end);
        asking.join().expect("it asks");
        assert!(
            line.starts_with("worker 0: ") && line.contains("packets/s"),
            "{command:?}: {line}"
        );
        run.drain();
        run.child.stdin.take();
        assert_eq!(
            run.ended_within(PATIENCE).and_then(|status| status.code()),
            Some(0),
            "{command:?}"
        );
    }
}

/// A large capture.
fn many(folder: &TempDir) -> String {
    let path = folder.path().join("many.pcap");
    let mut file = File::create(&path).expect("a file");
    file.write_all(&head()).expect("written");
    (0..400).for_each(|i| file.write_all(&datagrams(i * 1000, 1000)).expect("written"));
    path.to_str().expect("UTF-8").to_owned()
}

/// Input that keeps a command busy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Input {
    /// Endless standard input with packets.
    Endless,
    /// Endless standard input without data.
    Silent,
    /// A large file.
    File,
}

#[test]
fn a_signal_ends_every_command_within_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = many(&folder);
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let recording = path("recording");
    let recorded = Command::new(BINARY)
        .args([
            "record",
            "PARSE packet",
            "-q",
            "-r",
            &capture,
            "-o",
            &recording,
        ])
        .status();
    assert!(recorded.expect("it runs").success());
    let grouped = "PARSE packet PROCESS (group-count: group=(src_ip, src_port))";
    let sorted = "PARSE packet ORDER BY src_ip LIMIT 100000 ROWS";
    let by_time = "PARSE packet PROCESS (group-count: group=src_ip, w=100ms)";
    let flows = "PARSE flow";
    let commands: &[&[&str]] = &[
        &["query", "PARSE packet"],
        &["query", grouped],
        &["query", by_time],
        &["query", sorted],
        &["query", flows, "--active-timeout", "1s"],
        &["query", "PARSE dns", "-w", "KEPT"],
        &["record", "PARSE packet", "-o", "KEPT"],
        &["report", "-o", "KEPT"],
        &["check", grouped, "--assert", "count >= 0"],
        &["overview"],
        &["map"],
        &["follow", "0000000000000001"],
    ];
    let mut failed = Vec::new();
    for (n, command) in commands.iter().enumerate() {
        for (m, input) in [Input::Endless, Input::Silent, Input::File]
            .into_iter()
            .enumerate()
        {
            let name = ["TERM", "INT"][(n + m) % 2];
            let kept = path(&format!("kept-{n}-{name}-{input:?}"));
            let mut args: Vec<&str> = command
                .iter()
                .map(|arg| if *arg == "KEPT" { &kept } else { *arg })
                .collect();
            args.extend(["-r", if input == Input::File { &capture } else { "-" }]);
            failed.extend(outcome(&args, input, name));
        }
    }
    for query in ["PARSE packet", grouped, sorted] {
        failed.extend(outcome(
            &["query", query, "-r", &recording],
            Input::File,
            "TERM",
        ));
    }
    let compared = ["compare", grouped, "-r", &capture, "-b", &capture];
    failed.extend(outcome(&compared, Input::File, "TERM"));
    failed.extend(outcome(
        &[
            "query",
            "PARSE http SELECT tap.network_time",
            "-r",
            &capture,
            "--server-tap",
            &capture,
        ],
        Input::File,
        "TERM",
    ));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Error in the reaction of a command to a signal, if any.
fn outcome(args: &[&str], input: Input, name: &str) -> Option<String> {
    let mut run = Running::start(args);
    run.drain();
    match input {
        Input::Endless => run.feed_for_ever(),
        Input::Silent => run.feed(&[head(), datagrams(0, 100)].concat()),
        Input::File => {}
    }
    thread::sleep(Duration::from_millis(if input == Input::File {
        400
    } else {
        600
    }));
    let was_running = run.is_running();
    if was_running {
        run.signal(name);
    }
    let began = Instant::now();
    let status = match input {
        Input::Silent => run.ended_within(WITHIN),
        Input::Endless | Input::File => run.ended_within_cpu(WITHIN),
    };
    let what = format!("{} {args:?} {input:?} {name}", began.elapsed().as_millis());
    match status {
        None => Some(format!("{what}: it goes on")),
        // A large file: a program that has not started to read has nothing to print.
        Some(status) if status.signal().is_some() && input == Input::File => None,
        Some(status) if status.code().is_none() => Some(format!("{what}: {status}")),
        Some(status) if status.code() == Some(2) || (!was_running && input != Input::File) => {
            Some(format!("{what}: {status}: {}", run.rest_of_errors()))
        }
        Some(_) => None,
    }
}

/// An agent whose server does not respond. The service reloads its certificate at SIGHUP, which ends an agent.
#[test]
fn a_signal_ends_the_service_and_an_agent() {
    for name in ["TERM", "INT"] {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let data = data.to_str().expect("UTF-8");
        let mut serve = Running::start(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
        serve.wait_for(|line| line.contains("serving on"));
        ["USR1", "USR2"]
            .iter()
            .for_each(|other| serve.signal(other));
        serve.signal(name);
        serve.signal(name);
        assert_eq!(
            serve.ended_within(WITHIN).and_then(|status| status.code()),
            Some(0),
            "serve, {name}"
        );
    }
    for name in ["TERM", "INT", "HUP"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        std::fs::write(path("token"), "token").expect("written");
        let mut agent = Running::start(&[
            "agent",
            "--server",
            "http://127.0.0.1:9",
            "--token-file",
            &path("token"),
            "--folder",
            &path("agent"),
        ]);
        agent.wait_for(|line| line.contains("Ctrl-C ends it"));
        ["USR1", "USR2", name, name]
            .iter()
            .for_each(|name| agent.signal(name));
        let status = agent.ended_within(WITHIN).and_then(|status| status.code());
        assert_eq!(status, Some(0), "{name}: {}", agent.rest_of_errors());
    }
}

/// Sends the signal to a program that is running; `what` it does.
fn must_end(run: &mut Running, name: &str, what: &str) {
    let was_running = run.is_running();
    run.signal(name);
    let ended = run.ended_within(WITHIN);
    assert!(ended.is_some(), "{what} {name}: it goes on");
    assert!(
        was_running,
        "{what} {name}: it had ended: {ended:?} {}",
        run.rest_of_errors()
    );
}

/// A monitor and an aggregator without an order, and with a part of one.
#[test]
fn a_signal_ends_monitors_and_aggregators() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/shop/in.pcap");
    let commands: &[(&[&str], &[u8])] = &[
        (&["monitor", "-r", demo], b""),
        (&["monitor", "--demo", demo], &[64, 0, 0, 0, 1]),
        (&["aggregator"], b""),
        (&["aggregator"], &[64, 0, 0, 0, b'{']),
    ];
    for (args, input) in commands {
        for name in ["TERM", "INT", "HUP"] {
            let mut run = Running::start(args);
            run.drain();
            run.feed(input);
            thread::sleep(Duration::from_millis(600));
            must_end(&mut run, name, &format!("{args:?} {input:?}"));
        }
    }
}

/// A publisher whose broker accepts connections and never answers, while input arrives and while it does not.
#[test]
fn a_signal_ends_a_publisher() {
    let broker = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let kafka = broker.local_addr().expect("an address").to_string();
    for (n, name) in ["TERM", "INT", "HUP"].into_iter().enumerate() {
        for input in [Input::Endless, Input::Silent] {
            let query = [
                "PARSE packet",
                "PARSE packet PROCESS (group-count: group=dst_port, w=1s)",
            ][n % 2];
            let mut run = Running::start(&["publish", query, "-r", "-", "--kafka", &kafka]);
            run.drain();
            match input {
                Input::Endless => run.feed_for_ever(),
                _ => run.feed(&[head(), datagrams(0, 100)].concat()),
            }
            thread::sleep(Duration::from_millis(600));
            must_end(&mut run, name, &format!("{query} {input:?}"));
        }
    }
}
