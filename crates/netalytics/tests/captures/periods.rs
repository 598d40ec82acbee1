//! SINCE and UNTIL select exactly the tuples with `ts_end` inside, over packets and recordings; row groups outside are
//! not read; inputs without a past or end are reported.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const SHOP: &str = "captures/shop/in.pcap";

fn run(args: &[&str], code: i32) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let out = text(output.stdout);
    let err = text(output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}{err}");
    (out, err)
}

fn rows(query: &str, input: &str) -> Vec<Value> {
    let (out, _) = run(&["query", query, "-q", "-r", input, "--format", "jsonl"], 0);
    out.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn record(folder: &Path, query: &str, more: &[&str]) -> String {
    let recording = folder.join("recording").to_str().expect("UTF-8").to_owned();
    run(
        &[
            &[
                "record",
                query,
                "-q",
                "-r",
                SHOP,
                "-o",
                &recording,
                "--no-redact",
            ],
            more,
        ]
        .concat(),
        0,
    );
    recording
}

/// Formats nanoseconds since 1970 as a time of the language.
fn instant(ns: i64) -> String {
    // 2026-11-21T00:00:00Z, the day of the capture.
    let second_of_day = ns / 1_000_000_000 - 1_795_219_200;
    let h = second_of_day / 3600;
    let m = second_of_day / 60 % 60;
    let s = second_of_day % 60;
    format!(
        "'2026-11-21T{h:02}:{m:02}:{s:02}.{:09}Z'",
        ns % 1_000_000_000
    )
}

#[test]
fn rows_are_those_within_the_period() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = record(folder.path(), "PARSE http", &[]);
    let all = rows("PARSE http", SHOP);
    let end = rows("PARSE packet", SHOP)
        .iter()
        .filter_map(|r| r["ts"].as_i64())
        .max()
        .expect("packets");
    let a_tuples = all[90]["ts_end"].as_i64().expect("a time");
    let ms = 1_000_000;
    for (clauses, inside) in [
        (format!("SINCE {}", instant(a_tuples)), a_tuples..i64::MAX),
        (format!("UNTIL {}", instant(a_tuples)), i64::MIN..a_tuples),
        ("SINCE 300ms".into(), end - 300 * ms..i64::MAX),
        (
            "SINCE '900ms ago' UNTIL 250ms".into(),
            end - 900 * ms..end - 250 * ms,
        ),
        (
            format!("SINCE {} UNTIL 100ms", instant(a_tuples)),
            a_tuples..end - 100 * ms,
        ),
        ("SINCE 1d".into(), i64::MIN..i64::MAX),
    ] {
        let want: Vec<&Value> = all
            .iter()
            .filter(|row| inside.contains(&row["ts_end"].as_i64().expect("a time")))
            .collect();
        assert!(want.len() > 10, "{clauses}: {}", want.len());
        for input in [SHOP, &recording] {
            let found = rows(&format!("PARSE http {clauses}"), input);
            assert_eq!(
                found.iter().collect::<Vec<_>>(),
                want,
                "{clauses} over {input}"
            );
            let count = rows(&format!("PARSE http PROCESS (count) {clauses}"), input);
            assert_eq!(
                count[0]["count"].as_u64(),
                Some(want.len() as u64),
                "{clauses} over {input}"
            );
        }
    }
}

/// The time of a joined tuple is the latest of its parts.
#[test]
fn joined_tuples_have_one_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let query = "PARSE tcp_conn_time, http_get";
    let recording = record(folder.path(), query, &[]);
    let all = rows(query, SHOP);
    let times: Vec<i64> = all
        .iter()
        .map(|row| row["ts_end"].as_i64().expect("a time"))
        .collect();
    let least = times.iter().min().expect("tuples");
    let most = times.iter().max().expect("tuples");
    let middle = least + (most - least) / 2;
    let since = times.iter().filter(|time| **time >= middle).count();
    assert!(
        since > 0 && since < times.len(),
        "{since} of {}",
        times.len()
    );
    for (clause, want) in [("SINCE", since), ("UNTIL", times.len() - since)] {
        for input in [SHOP, &recording] {
            assert_eq!(
                rows(&format!("{query} {clause} {}", instant(middle)), input).len(),
                want,
                "{clause} {input}"
            );
        }
    }
}

#[test]
fn row_groups_outside_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = record(folder.path(), "PARSE http", &["--rotate", "1s"]);
    let summary = folder.path().join("summary.json");
    let read = |query: &str| {
        run(
            &[
                "query",
                query,
                "-r",
                &recording,
                "--summary-json",
                summary.to_str().expect("UTF-8"),
            ],
            0,
        );
        let text = fs::read_to_string(&summary).expect("a summary");
        let summary: Value = serde_json::from_str(&text).expect("JSON");
        summary["replayed"]["rows"]
            .as_u64()
            .unwrap_or_else(|| panic!("{summary}"))
    };
    let all = read("PARSE http");
    let some = read("PARSE http SINCE 200ms");
    assert!(some < all, "{some} of {all} rows were read");
}

#[test]
fn impossible_periods_are_rejected() {
    let says = |args: &[&str], words: &str| {
        let (_, err) = run(&[&["query"], args].concat(), 2);
        assert!(err.contains(words), "{args:?}: {err}");
    };
    says(&["PARSE http SINCE 1h", "-r", "-"], "read the input twice");
    says(
        &["PARSE http SINCE 1h UNTIL '2020-01-01'", "-r", SHOP],
        "the period of SINCE and UNTIL is empty",
    );
    says(
        &["PARSE http SINCE '2h'", "-i", "lo"],
        "SINCE and BASELINE need captures or recordings",
    );
    says(
        &["PARSE http UNTIL 2h", "-i", "lo"],
        "UNTIL of a live capture must be a time",
    );
    says(
        &["PARSE http UNTIL '2020-01-01'", "-i", "lo"],
        "UNTIL is in the past",
    );
}
