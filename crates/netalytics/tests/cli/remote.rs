//! `query --server` as a process: its output equals that of one process over all packets, each row once, despite kills
//! of the server and itself; and its job ends with it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;

use super::service::{Server, counts, wait};
use super::{BINARY, Folder, ROOT, Ran, check, run};

/// A running `query --server`.
struct Terminal {
    child: Child,
    out: Option<ChildStdout>,
    err: JoinHandle<String>,
    job: String,
}

impl Terminal {
    /// Starts a query, and waits until its job exists.
    fn ask(server: &Server, query: &str, args: &[&str]) -> Terminal {
        let mut command = Command::new(BINARY);
        command
            .args([
                "query",
                query,
                "--server",
                &server.url,
                "--token-file",
                &server.token,
            ])
            .args(args);
        command
            .current_dir(ROOT)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut err = BufReader::new(child.stderr.take().expect("piped"));
        let mut first = String::new();
        err.read_line(&mut first).expect("text");
        let job = first
            .strip_prefix("job ")
            .and_then(|rest| rest.split([' ', ';']).next());
        let job = job.unwrap_or_else(|| panic!("no job: {first}")).to_owned();
        let err = std::thread::spawn(move || {
            let mut text = first;
            err.read_to_string(&mut text).expect("text");
            text
        });
        Terminal {
            out: child.stdout.take(),
            child,
            err,
            job,
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .expect("kill runs")
                .success()
        );
    }

    /// Output of the ended process.
    fn ended(mut self) -> Ran {
        let mut out = String::new();
        if let Some(mut from) = self.out.take() {
            from.read_to_string(&mut out).expect("text");
        }
        let code = self
            .child
            .wait()
            .expect("it ends")
            .code()
            .expect("by itself");
        Ran {
            code,
            out,
            err: self.err.join().expect("read"),
        }
    }

    /// Waits until the job's agents have seen this total number of packets.
    fn wait_for_packets(&self, server: &Server, packets: u64) {
        wait("agents see packets", || {
            let account = server.get(&format!("/api/v1/jobs/{}/agents", self.job));
            let agents = account["agents"].as_array().into_iter().flatten();
            let seen: u64 = agents
                .filter_map(|agent| agent["counters"]["packets"].as_u64())
                .sum();
            if seen >= packets {
                Ok(())
            } else {
                Err(account.to_string())
            }
        });
    }
}

fn rows(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect()
}

/// Waits for the end of a job; returns it.
fn wait_for_end(server: &Server, job: &str) -> Value {
    wait("the job ends", || {
        let job = server.get(&format!("/api/v1/jobs/{job}"));
        if job["state"] == "ended" {
            Ok(())
        } else {
            Err(job.to_string())
        }
    });
    server.get(&format!("/api/v1/jobs/{job}"))
}

#[test]
fn three_agents_answer_a_terminal_as_one_process() {
    const QUERY: &str =
        "PARSE http PROCESS (group-count: group=path), (diff-group: group=client_ip)";
    let folder = Folder::new();
    let summary = Folder::new();
    let server = Server::start(&folder);
    let _agents = server.agents(&folder, "1h");
    let whole = check(
        &[
            "query",
            QUERY,
            "-r",
            "captures/shop/in.pcap",
            "--format",
            "jsonl",
        ],
        0,
        &[],
    )
    .out;
    let summary = summary.path("summary.json");
    let terminal = Terminal::ask(
        &server,
        QUERY,
        &["--format", "jsonl", "--summary-json", &summary],
    );
    let packets = check(
        &[
            "query",
            "PARSE packet PROCESS (count)",
            "-r",
            "captures/shop/in.pcap",
        ],
        0,
        &[],
    )
    .out;
    let packets: Value = serde_json::from_str(&packets).expect("a row");
    terminal.wait_for_packets(&server, packets["count"].as_u64().expect("a count"));
    terminal.signal("-INT");
    let ran = terminal.ended();
    assert_eq!(ran.code, 0, "{}", ran.err);
    for words in [
        "on 3 agents (10.20.0.21, 10.20.0.22, 10.20.0.23)",
        "SIGINT",
        "ended: it was stopped",
        "agent 10.20.0.22  ",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    let of = |rows: Vec<Value>, processor: &str| -> Vec<Value> {
        rows.into_iter()
            .filter(|row| row["processor"] == processor)
            .collect()
    };
    let mine = rows(&ran.out);
    let whole = rows(&whole);
    assert_eq!(
        counts(&of(mine.clone(), "group-count")),
        counts(&of(whole.clone(), "group-count"))
    );
    // Each client is seen by one agent: results by client are equal to the last bit.
    let by_client = |rows: Vec<Value>| -> BTreeSet<String> {
        let text = |mut row: Value| {
            let row = row.as_object_mut().expect("an object");
            // Demonstrations use their own time.
            ["window_start", "window_end", "agents_missing"]
                .iter()
                .for_each(|name| drop(row.remove(*name)));
            serde_json::to_string(row).expect("text")
        };
        of(rows, "diff-group").into_iter().map(text).collect()
    };
    assert_eq!(by_client(mine), by_client(whole));
    let summary: Value =
        serde_json::from_slice(&std::fs::read(summary).expect("a summary")).expect("JSON");
    assert_eq!(
        (&summary["complete"], &summary["rows_lacking_agents"]),
        (&Value::from(true), &Value::from(0))
    );
    assert_eq!(
        summary["agents"].as_array().map(Vec::len),
        Some(3),
        "{summary}"
    );
}

#[test]
fn no_row_is_lost_or_printed_twice_when_the_server_is_killed() {
    let folder = Folder::new();
    let mut server = Server::start(&folder);
    let _agents = server.agents(&folder, "200ms");
    let mut terminal = Terminal::ask(&server, "PARSE http", &["--format", "jsonl"]);
    // Some rows before, some after.
    let mut out = BufReader::new(terminal.out.take().expect("piped"));
    let mut read = |n: usize| -> Vec<String> {
        let mut lines = vec![String::new(); n];
        lines.iter_mut().for_each(|line| {
            out.read_line(line).expect("text");
        });
        lines
    };
    let mut printed = read(300);
    server.start_again(&folder);
    printed.extend(read(600));
    terminal.signal("-TERM");
    let rest = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).expect("text");
        text
    });
    let job = terminal.job.clone();
    let ran = terminal.ended();
    assert!(ran.err.contains("ended: it was stopped"), "{}", ran.err);
    printed.extend(
        rest.join()
            .expect("read")
            .lines()
            .map(|line| format!("{line}\n")),
    );
    let kept = server.ask(&["jobs", "results", &job, "--format", "jsonl"]);
    let printed: String = printed.concat();
    assert!(
        printed == kept,
        "{} rows were printed, {} are kept",
        printed.lines().count(),
        kept.lines().count()
    );
}

#[test]
fn jobs_end_with_their_terminal() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let _agents = server.agents(&folder, "200ms");
    let query = "PARSE http PROCESS (count: w=1s)";
    let killed = Terminal::ask(&server, query, &["--lease", "3s"]);
    let closed = Terminal::ask(&server, query, &["--lease", "1h"]);
    let mut killed = killed;
    let mut closed = closed;
    let first = |terminal: &mut Terminal| {
        let mut line = String::new();
        let mut out = BufReader::new(terminal.out.take().expect("piped"));
        out.read_line(&mut line).expect("text");
        assert!(line.contains("\"count\""), "{line}");
        out
    };
    let out = first(&mut killed);
    // The lease is renewed: the job outlives the lease's duration.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(
        server.get(&format!("/api/v1/jobs/{}", killed.job))["state"],
        "running"
    );
    killed
        .child
        .kill()
        .and_then(|()| killed.child.wait())
        .expect("killed");
    let ended = wait_for_end(&server, &killed.job);
    assert_eq!(ended["outcome"], "abandoned", "{ended}");
    drop((out, first(&mut closed)));
    let job = closed.job.clone();
    let ran = closed.ended();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(wait_for_end(&server, &job)["outcome"], "stopped");
    // The second Ctrl-C ends it immediately; the job is stopped nevertheless.
    let twice = Terminal::ask(&server, query, &["--lease", "1h"]);
    let job = twice.job.clone();
    twice.signal("-INT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let _ = Command::new("kill")
        .args(["-INT", &twice.child.id().to_string()])
        .status();
    drop(twice.err.join());
    assert_eq!(wait_for_end(&server, &job)["outcome"], "stopped");
}

#[test]
fn limit_in_rows_ends_all_agents() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let _agents = server.agents(&folder, "200ms");
    let terminal = Terminal::ask(&server, "PARSE http LIMIT 700 ROWS", &["--format", "csv"]);
    let job = terminal.job.clone();
    let ran = terminal.ended();
    assert_eq!((ran.code, ran.out.lines().count()), (0, 701), "{}", ran.err);
    assert_eq!(wait_for_end(&server, &job)["outcome"], "limit");
}

#[test]
fn a_limit_in_packets_counts_for_all_agents_together() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let _agents = server.agents(&folder, "1h");
    let count = |out: &str| rows(out)[0]["count"].as_u64().expect("a count");
    for limit in [1, 2, 7, 500, 1234] {
        let query = format!("PARSE packet LIMIT {limit}p PROCESS (count)");
        let terminal = Terminal::ask(&server, &query, &["--format", "jsonl"]);
        let job = terminal.job.clone();
        let ran = terminal.ended();
        assert_eq!((ran.code, count(&ran.out)), (0, limit), "{}", ran.err);
        assert_eq!(
            wait_for_end(&server, &job)["reason"],
            "it reached its packet limit"
        );
    }
    // More than exist: all.
    let all = count(
        &check(
            &[
                "query",
                "PARSE packet PROCESS (count)",
                "-r",
                "captures/shop/in.pcap",
            ],
            0,
            &[],
        )
        .out,
    );
    let query = format!("PARSE packet LIMIT {}p PROCESS (count)", all + 1);
    let terminal = Terminal::ask(&server, &query, &["--format", "jsonl"]);
    terminal.wait_for_packets(&server, all);
    terminal.signal("-INT");
    let ran = terminal.ended();
    assert_eq!((ran.code, count(&ran.out)), (0, all), "{}", ran.err);
}

#[test]
fn missing_interfaces_are_rejected_with_a_reason() {
    const ALL: &str = "PARSE packet PROCESS (count)";
    let folder = Folder::new();
    let server = Server::start(&folder);
    let _agents = server.agents(&folder, "1h");
    for (args, words) in [
        (
            &["-i", "eth9"][..],
            "10.20.0.22: this host has no interface eth9; it has demo",
        ),
        (&["-i", "demo", "tcp prot 80"], "10.20.0.22: "),
    ] {
        let ran = Terminal::ask(&server, ALL, args).ended();
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.err);
        for words in ["no agent could run the job: ", words, "agent 10.20.0.23  "] {
            assert!(ran.err.contains(words), "{words}: {}", ran.err);
        }
    }
    // Filtered as locally, and the job shows its filter.
    let filter = "tcp port 3306";
    let here = check(
        &[
            "query",
            ALL,
            "-r",
            "captures/shop/in.pcap",
            "--capture-filter",
            filter,
        ],
        0,
        &[],
    )
    .out;
    let here = rows(&here)[0]["count"].as_u64().expect("a count");
    let terminal = Terminal::ask(&server, ALL, &["-i", "de*", filter]);
    let job = server.get(&format!("/api/v1/jobs/{}", terminal.job));
    assert_eq!(
        (&job["interfaces"][0], &job["capture_filter"]),
        (&"de*".into(), &filter.into())
    );
    terminal.wait_for_packets(&server, here);
    terminal.signal("-INT");
    let ran = terminal.ended();
    assert_eq!(rows(&ran.out)[0]["count"], here, "{}", ran.err);
    // `jobs start` fails with the reasons, and so does the job.
    let words = server.refuses(&[
        "jobs",
        "start",
        ALL,
        "-i",
        "eth9",
        "--capture-filter",
        "udp",
    ]);
    assert!(
        words.contains("no agent could run the job: ") && words.contains("no interface eth9"),
        "{words}"
    );
    let number = words
        .split_once("job ")
        .and_then(|(_, rest)| rest.split(' ').next())
        .expect("a number");
    let failed = wait_for_end(&server, number);
    assert_eq!(
        (&failed["outcome"], &failed["capture_filter"]),
        (&"failed".into(), &"udp".into())
    );
}

#[test]
fn remote_errors_equal_local_ones() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let ask = |query: &str, args: &[&str]| -> Ran {
        run(&[
            &[
                "query",
                query,
                "--server",
                &server.url,
                "--token-file",
                &server.token,
            ],
            args,
        ]
        .concat())
    };
    for query in [
        "PARSE htp PROCESS (rate)",
        "PARSE http\nWHERE statu = 5 PROCESS (top-k: k=x)",
    ] {
        let there = ask(query, &[]);
        let here = run(&["query", query, "-r", "captures/shop/in.pcap"]);
        assert_eq!((there.code, there.err), (2, here.err), "{query}");
    }
    let none = ask("PARSE http PROCESS (rate)", &["--on", "role=web"]);
    assert_eq!(none.code, 1, "{}", none.err);
    assert!(
        none.err
            .contains("no connected agent has the labels role=web"),
        "{}",
        none.err
    );
    let wrong = folder.file("wrong.token", b"nts_wrong");
    let unknown = run(&[
        "query",
        "PARSE http",
        "--server",
        &server.url,
        "--token-file",
        &wrong,
    ]);
    assert_eq!(unknown.code, 2, "{}", unknown.err);
    assert!(
        unknown.err.contains("the token does not exist"),
        "{}",
        unknown.err
    );
    for (args, words) in [
        (
            &["-w", "x.pcapng"][..],
            "--write is not supported with --server",
        ),
        (&["-r", "captures/shop/in.pcap"], "cannot be used with"),
        (&["--on", "role"], "LABEL=VALUE"),
    ] {
        let wrong = ask("PARSE http PROCESS (rate)", args);
        assert_eq!(wrong.code, 2, "{args:?}: {}", wrong.err);
        assert!(wrong.err.contains(words), "{args:?}: {}", wrong.err);
    }
    let gone = run(&[
        "query",
        "PARSE http",
        "--server",
        "http://127.0.0.1:9",
        "--token-file",
        &server.token,
    ]);
    assert_eq!(gone.code, 1, "{}", gone.err);
    assert!(
        gone.err.contains("cannot query http://127.0.0.1:9"),
        "{}",
        gone.err
    );
}
