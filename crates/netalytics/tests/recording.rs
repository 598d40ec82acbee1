//! Recordings: the same answers over a capture and its recording, kills of the recording program, and other readers of
//! Parquet (docs/recording.md, whose examples are run here).

#[path = "recording/ends.rs"]
mod ends;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const SHOP: &str = "captures/shop/in.pcap";

/// Result of a run.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn run(args: &[&str]) -> Ran {
    let output = Command::new(BINARY)
        .args(args)
        .current_dir(ROOT)
        .stdin(Stdio::null())
        .output();
    let output = output.expect("the binary runs");
    Ran {
        code: output.status.code().expect("ended by itself"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
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

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for test files")
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

fn summary(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(file).expect("a summary")).expect("JSON")
}

/// Checks that a query over a recording (`recorded`) returns the rows over the capture.
fn same_answer(capture: &str, recorded: &str, queries: &[&str]) {
    let folder = folder();
    let recording = path(&folder, "recording");
    let record = [
        "record",
        recorded,
        "-r",
        capture,
        "-o",
        &recording,
        "--rotate",
        "300ms",
        "--no-redact",
    ];
    check(&record, 0, &["recorded"]);
    for query in queries {
        for workers in ["1", "3"] {
            let over_packets = check(
                &["query", query, "-r", capture, "--workers", workers],
                0,
                &[],
            )
            .out;
            let over_tuples =
                check(&["query", query, "-r", &recording], 0, &["recorded tuples"]).out;
            let over_tuples = comparable(&over_tuples);
            let over_packets = comparable(&over_packets);
            assert_eq!(over_tuples, over_packets, "{capture}: {query}");
        }
    }
}

/// A recording has the amount of a loss, but not its window.
fn comparable(rows: &str) -> Vec<&str> {
    let without_loss = |line: &'_ str| line.rfind(",\"lost\":").unwrap_or(line.len());
    let comparable = |line| {
        if str::contains(line, "\"window_start\"") {
            &line[..without_loss(line)]
        } else {
            line
        }
    };
    rows.lines().map(comparable).collect()
}

#[test]
fn the_same_answer_over_a_capture_and_over_its_recording() {
    same_answer(
        SHOP,
        "PARSE http",
        &[
            "PARSE http",
            "PARSE http WHERE status >= 300",
            "PARSE http WHERE path like '/product%' and response_time_ns > 1000000",
            "PARSE http TO *:80 PROCESS (diff-group: group=url_template)",
            "PARSE http FROM 10.0.0.0/8 PROCESS (group-count: group=client_ip)",
            "PARSE http FROM 192.0.2.0/24 PROCESS (group-count: group=client_ip)",
            "PARSE http PROCESS (group-avg-top-k: group=url, k=5, w=1s), (group-quantile: group=host, q=0.5,0.99)",
            "PARSE http PROCESS (group-rate: group=status, w=2s, slide=500ms)",
            "PARSE http PROCESS (group-success: group=url_template, w=1s), (group-distinct: group=host, value=client_ip)",
            "PARSE http PROCESS (group-stddev: group=path), (group-hist: group=path), (group-cdf: group=path)",
            "PARSE http PROCESS (diff-group: group=path, w=500ms, lateness=0s)",
            "PARSE http PROCESS (count-avg: w=10ms)",
            "PARSE http PROCESS (count-rate: w=10ms, slide=2ms)",
        ],
    );
    same_answer(
        SHOP,
        "PARSE mysql_query",
        &[
            "PARSE mysql_query",
            "PARSE mysql_query WHERE error_code != 0",
            "PARSE mysql_query PROCESS (top-k: k=3)",
        ],
    );
    same_answer(
        SHOP,
        "PARSE packet",
        &[
            "PARSE packet TO *:80",
            "PARSE packet PROCESS (group-sum-top-k: group=src_ip, k=10)",
        ],
    );
    same_answer(
        SHOP,
        "PARSE tcp_conn_time, http_get",
        &[
            "PARSE tcp_conn_time, http_get",
            "PARSE tcp_conn_time, http_get WHERE status = 200 and event = 'end'",
            "PARSE tcp_conn_time, http_get TO *:80 PROCESS (diff-group: group=get)",
            "PARSE tcp_conn_time, http_get PROCESS (group-count: group=url, w=1s)",
        ],
    );
}

/// Tuples in linked tables.
#[test]
fn the_same_answer_over_linked_tables() {
    let Some(data) = testkit::corpus() else {
        return;
    };
    let captures =
        ["live-captures/nfs.pcap.gz", "live-captures/nfs_lossy.pcap"].map(|name| data.join(name));
    for capture in captures {
        let capture = capture.to_str().expect("UTF-8");
        for parser in ["nfs", "rpc"] {
            let queries = [
                "",
                "WHERE procedure = 'WRITE' and offset > 100000",
                "WHERE block_checksums like '%-%'",
                "PROCESS (diff-group: group=procedure)",
                "PROCESS (group-count: group=client_ip, status, w=1s)",
                "PROCESS (group-sum: group=file_handle, value=result_count)",
                "PROCESS (workload-profile)",
                "PROCESS (workload-profile: key=path, w=1s)",
            ];
            let queries = queries.map(|query| format!("PARSE {parser} {query}"));
            same_answer(
                capture,
                &format!("PARSE {parser}"),
                &queries.each_ref().map(String::as_str),
            );
        }
    }
}

/// Without checksums there are three tables, and queries show the existing columns.
#[test]
fn check_sums_may_be_left_out() {
    let Some(data) = testkit::corpus() else {
        return;
    };
    let nfs = data.join("live-captures/nfs.pcap.gz");
    let folder = folder();
    let nfs = nfs.display().to_string();
    let recording = path(&folder, "recording");
    let off = ["--checksums", "off"];
    let record = [
        "record",
        "PARSE nfs",
        "-r",
        &nfs,
        "-o",
        &recording,
        "--no-redact",
    ];
    check(&[&record[..], &off].concat(), 0, &[]);
    let mut tables: Vec<_> = fs::read_dir(&recording)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    tables.sort();
    assert_eq!(tables, ["network", "nfs", "rpc"]);
    let over_packets = check(&["query", "PARSE nfs", "-r", &nfs, off[0], off[1]], 0, &[]).out;
    let query = ["query", "PARSE nfs", "-r", &recording];
    assert_eq!(check(&query, 0, &[]).out, over_packets);
    assert_eq!(
        check(&[&query[..], &off].concat(), 0, &[]).out,
        over_packets
    );
    let reads = "PARSE nfs WHERE block_checksums is not null";
    check(
        &["query", reads, "-r", &recording],
        2,
        &["recorded with --checksums off"],
    );
    check(
        &["query", "PARSE rpc", "-r", &recording],
        2,
        &["no tuples of rpc", "it has: nfs"],
    );
}

/// Two tables, recorded one after the other, are joined by `id`.
#[test]
fn tables_are_joined() {
    let folder = folder();
    let recording = path(&folder, "recording");
    for parser in ["PARSE tcp_conn_time", "PARSE http_get"] {
        check(
            &[
                "record",
                parser,
                "-r",
                SHOP,
                "-o",
                &recording,
                "--no-redact",
            ],
            0,
            &[],
        );
    }
    let query = "PARSE tcp_conn_time, http_get TO *:80 PROCESS (diff-group: group=get)";
    assert_eq!(
        check(&["query", query, "-r", &recording], 0, &[]).out,
        check(&["query", query, "-r", SHOP], 0, &[]).out
    );
}

/// Captures with damage, losses and wrong clocks.
#[test]
fn other_captures() {
    let Some(data) = testkit::corpus() else {
        return;
    };
    let data = data.join("captures/http");
    for name in [
        "ppa-http_espn.pcapng",
        "wswiki-http_redirects.pcapng",
        "suricata-http-gap-double.pcap",
    ] {
        let capture = data.join(name);
        same_answer(
            capture.to_str().expect("UTF-8"),
            "PARSE http",
            &[
                "PARSE http",
                "PARSE http PROCESS (diff-group: group=host, w=1s), (top-k: k=3)",
                "PARSE http PROCESS (group-count: group=quality)",
            ],
        );
    }
}

#[test]
fn a_sampled_recording_is_scaled() {
    let folder = folder();
    let recording = path(&folder, "recording");
    check(
        &[
            "record",
            "PARSE http SAMPLE 0.5",
            "-r",
            SHOP,
            "-o",
            &recording,
        ],
        0,
        &[],
    );
    let process = "PROCESS (diff-group: group=url_template)";
    let sampled = format!("PARSE http SAMPLE 0.5 {process}");
    let over_packets = check(&["query", &sampled, "-r", SHOP], 0, &[]).out;
    for query in [&sampled, &format!("PARSE http {process}")] {
        assert_eq!(
            check(&["query", query, "-r", &recording], 0, &[]).out,
            over_packets
        );
    }
    let other = format!("PARSE http SAMPLE 0.1 {process}");
    check(&["query", &other, "-r", &recording], 2, &["SAMPLE"]);
}

/// Capture loss also widens the intervals over the recording.
#[test]
fn a_sampled_recording_of_a_lossy_capture() {
    let folder = folder();
    let lossy = path(&folder, "lossy.pcap");
    let recording = path(&folder, "recording");
    let whole = fs::read(Path::new(ROOT).join(SHOP)).expect("a capture");
    let (header, mut rest) = whole.split_at(24);
    let mut kept = header.to_vec();
    let mut n = 0;
    while let Some(len) = rest.get(8..12) {
        let (packet, behind) =
            rest.split_at(16 + u32::from_le_bytes(len.try_into().expect("four bytes")) as usize);
        rest = behind;
        n += 1;
        if n % 12 != 0 {
            kept.extend(packet);
        }
    }
    fs::write(&lossy, kept).expect("written");
    check(
        &[
            "record",
            "PARSE http SAMPLE 0.7",
            "-r",
            &lossy,
            "-o",
            &recording,
        ],
        0,
        &[],
    );
    let query = "PARSE http SAMPLE 0.7 PROCESS (group-count: group=url_template)";
    let over_packets = check(&["query", query, "-r", &lossy], 0, &[]).out;
    assert!(over_packets.contains("count_high"));
    assert_eq!(
        check(&["query", query, "-r", &recording], 0, &[]).out,
        over_packets
    );
}

#[test]
fn unanswerable_queries_are_rejected() {
    let folder = folder();
    let recording = path(&folder, "recording");
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", &recording],
        0,
        &[],
    );
    let r = ["-r", recording.as_str()];
    for (query, words) in [
        (
            "PARSE mysql_query",
            &["no tuples of mysql_query", "it has: http"][..],
        ),
        ("PARSE http, mysql_query", &["no tuples of mysql_query"]),
        ("PARSE http LIMIT 100p", &["LIMIT counts packets", "90s"]),
        ("PARSE http SAMPLE 0.1", &["SAMPLE"]),
    ] {
        check(&["query", query, r[0], r[1]], 2, words);
    }
    check(&["query", "PARSE http", r[0], r[1], SHOP], 2, &["not both"]);
    check(
        &["query", "PARSE http", r[0], r[1], "-w", "x.pcapng"],
        2,
        &["does not have"],
    );
    check(
        &["record", "PARSE http", r[0], r[1], "-o", "x"],
        2,
        &["record reads captures"],
    );
    check(
        &["query", "PARSE http", "-r", folder.path().to_str().unwrap()],
        1,
        &["no recording"],
    );
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", SHOP],
        2,
        &["not a folder"],
    );
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", "/proc/nothing"],
        1,
        &["cannot record"],
    );
}

/// LIMIT's time starts at the recording's first packet.
#[test]
fn limit_is_by_time() {
    let folder = folder();
    let recording = path(&folder, "recording");
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", &recording],
        0,
        &[],
    );
    let all = check(&["query", "PARSE http", "-r", &recording], 0, &[]).out;
    let rows = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let first =
        rows(&check(&["query", "PARSE packet LIMIT 1p", "-r", SHOP], 0, &[]).out)[0]["ts"].as_i64();
    let end = first.expect("a time") + 500_000_000;
    let want: Vec<Value> = rows(&all)
        .into_iter()
        .filter(|r| r["ts_end"].as_i64() <= Some(end))
        .collect();
    let got = rows(
        &check(
            &["query", "PARSE http LIMIT 500ms", "-r", &recording],
            0,
            &[],
        )
        .out,
    );
    assert!(!want.is_empty() && want.len() < rows(&all).len());
    assert_eq!(got, want);
}

#[test]
fn results_of_processors_are_tables() {
    let folder = folder();
    let recording = path(&folder, "recording");
    let query = "PARSE http PROCESS (diff-group: group=path, w=1s), (top-k: k=3), (top-k: k=5)";
    check(&["record", query, "-r", SHOP, "-o", &recording], 0, &[]);
    let mut tables: Vec<_> = fs::read_dir(&recording)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    tables.sort();
    assert_eq!(tables, ["diff-group", "top-k", "top-k#2"]);
    check(
        &["query", "PARSE http", "-r", &recording],
        2,
        &["no tuples of http"],
    );
    let file = path(&folder, "one.parquet");
    check(
        &[
            "query",
            "PARSE http",
            "-r",
            SHOP,
            "--format",
            "parquet",
            "-o",
            &file,
        ],
        0,
        &[],
    );
    assert_eq!(&fs::read(&file).unwrap()[..4], b"PAR1");
    check(
        &[
            "query", query, "-r", SHOP, "--format", "parquet", "-o", &file,
        ],
        2,
        &["holds one result"],
    );
}

#[test]
fn damaged_files_are_reported_and_the_rest_is_read() {
    let folder = folder();
    let recording = path(&folder, "recording");
    check(
        &[
            "record",
            "PARSE http",
            "-r",
            SHOP,
            "-o",
            &recording,
            "--rotate",
            "300ms",
        ],
        0,
        &[],
    );
    let whole = check(&["query", "PARSE http", "-r", &recording], 0, &[])
        .out
        .lines()
        .count();
    let second = format!("{recording}/http/http-000002.parquet");
    fs::write(&second, b"PAR1 and nothing that it promises PAR1").expect("written");
    let ran = check(
        &["query", "PARSE http", "-r", &recording],
        1,
        &["http-000002.parquet", "damaged"],
    );
    let rest = ran.out.lines().count();
    assert!(rest > 0 && rest < whole, "{rest} of {whole}");
}

/// Admitted packets are written unchanged: other programs and this one read them.
#[test]
fn packets_are_kept() {
    let folder = folder();
    let kept = path(&folder, "web.pcapng");
    let json = path(&folder, "summary.json");
    let query = "PARSE http TO *:80";
    for workers in ["1", "3"] {
        check(
            &[
                "query",
                query,
                "-r",
                SHOP,
                "-w",
                &kept,
                "--summary-json",
                &json,
                "--workers",
                workers,
            ],
            0,
            &["packets kept"],
        );
        let summary = summary(&json);
        assert_eq!(
            summary["packets_kept"]["packets"],
            summary["packets"]["parsed"]
        );
        let again = check(&["query", query, "-r", &kept], 0, &[]).out;
        assert_eq!(again, check(&["query", query, "-r", SHOP], 0, &[]).out);
        let packets = |file: &str, query| check(&["query", query, "-r", file], 0, &[]).out;
        assert_eq!(
            packets(&kept, "PARSE packet"),
            packets(SHOP, query.replace("http", "packet").as_str())
        );
    }
    let whole = path(&folder, "whole.pcapng");
    fs::copy(&kept, &whole).expect("copied");
    check(
        &[
            "record",
            query,
            "-r",
            SHOP,
            "-o",
            &path(&folder, "r"),
            "-w",
            &kept,
            "--rotate",
            "300ms",
        ],
        0,
        &[],
    );
    assert!(folder.path().join("web-000002.pcapng").is_file());
    let tcpdump = |args: &str| {
        let script = format!("PATH=$PATH:/usr/sbin tcpdump -n {args} | wc -l");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(ROOT)
            .output()
            .expect("a shell");
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse::<usize>()
            .expect("a number")
    };
    assert_eq!(
        tcpdump(&format!("-r - < {whole}")),
        tcpdump(&format!("-r - tcp port 80 < {SHOP}"))
    );
    check(
        &["query", query, "-r", SHOP, "-w", SHOP],
        2,
        &["is an input"],
    );
    testkit::require!("capinfos");
    let output = Command::new("capinfos")
        .args(["-M", "-c", "-E", &whole])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("ether"), "{text}");
}

/// docs/recording.md: its commands and Python code, run in order in one folder.
#[test]
fn the_examples_of_the_documentation_run() {
    let text =
        fs::read_to_string(Path::new(ROOT).join("docs/recording.md")).expect("the documentation");
    let folder = folder();
    let bin = Path::new(BINARY)
        .parent()
        .expect("in a folder")
        .display()
        .to_string();
    let python = python();
    let root = Path::new(ROOT).canonicalize().expect("it exists");
    std::os::unix::fs::symlink(root.join("captures"), folder.path().join("captures"))
        .expect("a link");
    let data = testkit::corpus();
    if let Some(data) = &data {
        let nfs = data.join("live-captures/nfs.pcap.gz");
        std::os::unix::fs::symlink(nfs, folder.path().join("nfs.pcap.gz")).expect("a link");
    }
    let mut tried = (0, 0);
    for block in text.split("\n```").collect::<Vec<_>>().chunks(2) {
        let [_, block] = block else { continue };
        let (kind, code) = block.split_once('\n').expect("a block has lines");
        if code.contains("nfs") && data.is_none() {
            continue;
        }
        let (program, flag) = match (kind, &python) {
            ("sh", _) => (Path::new("sh"), "-ec"),
            ("python", Some(python)) => (python.as_path(), "-c"),
            _ => continue,
        };
        tried = if kind == "sh" {
            (tried.0 + 1, tried.1)
        } else {
            (tried.0, tried.1 + 1)
        };
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        let output = command
            .args([flag, code])
            .current_dir(folder.path())
            .env("PATH", path)
            .output()
            .expect("it starts");
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{code}\n{out}{err}");
    }
    assert!(
        tried.0 >= 3 && (tried.1 >= 3 || python.is_none()),
        "{tried:?} examples found"
    );
}

/// Parquet readers used by the examples.
const READERS: &str = "duckdb==2.0.0 pandas==3.1.1 pyarrow==26.0.1 polars==2.1.0 numpy==2.4.6";

/// A Python with these Parquet readers, installed once under target/.
fn python() -> Option<PathBuf> {
    testkit::programs::python(Path::new(env!("CARGO_TARGET_TMPDIR")), "readers", READERS)
}
