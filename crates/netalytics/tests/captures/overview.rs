//! `netalytics overview`: its screen for the shop, its numbers compared with those of separate queries, and a result
//! for every capture of the corpus.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{ByteOrder, TcpDialogue, TimestampPrecision, pcap_bytes};
use wire::packet::TcpFlags;

use crate::{run, text};

fn document(capture: &str) -> Value {
    let output = run(&["overview", "-r", capture, "--format", "json"]);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{capture}: {e}: {}", text(&output.stderr)))
}

fn rows(query: &str, capture: &str) -> Vec<Value> {
    let output = run(&["-q", "query", query, "-r", capture, "--format", "jsonl"]);
    text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

#[test]
fn the_screen_of_the_shop() {
    let expected =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/shop/expected-overview.txt");
    let output = run(&["overview", "-r", "captures/shop/in.pcap"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let got = text(&output.stdout);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&expected, &got).expect("the expected screen can be written");
    }
    assert_eq!(got, std::fs::read_to_string(&expected).unwrap_or_default());
    let lists = got.split("ASK NEXT").next().expect("there is a beginning");
    assert!(
        lists.lines().all(|line| line.chars().count() <= 80),
        "{lists}"
    );
    assert!(got.lines().count() <= 40, "{got}");
}

/// Suggested queries are valid commands.
#[test]
fn its_advice_can_be_pasted() {
    let next = document("captures/shop/in.pcap")["next"].clone();
    let next: Vec<&str> = next
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(next.len(), 3, "{next:?}");
    for query in next {
        assert!(!rows(query, "captures/shop/in.pcap").is_empty(), "{query}");
    }
}

/// 30 of 300 connects, one second apart, lose their SYN and wait for its retransmission.
#[test]
fn a_lost_syn_is_a_slow_connect() {
    const SECOND: i64 = 1_000_000_000;
    let mut sent = Vec::new();
    for n in 0..300u16 {
        let mut talk = TcpDialogue::new(&format!("10.0.0.1:{}", 20_000 + n), "10.0.0.2:80");
        talk.advance(i64::from(n) * SECOND);
        talk.client().syn();
        if n % 10 == 0 {
            talk.advance(SECOND);
            talk.client().segment(-1, TcpFlags::SYN, b"");
        }
        talk.server().syn_ack();
        talk.client().ack();
        sent.extend(talk.take());
    }
    sent.sort_by_key(|one| one.ts);
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("connects.pcap");
    std::fs::write(
        &capture,
        pcap_bytes(&sent, TimestampPrecision::Nanos, ByteOrder::Little),
    )
    .expect("it is written");
    let capture = capture.to_str().expect("UTF-8");
    let overview = document(capture);
    let delayed = &overview["connects_delayed"];
    assert_eq!(
        (&delayed[0]["server_port"], &delayed[0]["connections"]),
        (&80.into(), &30.into()),
        "{overview}"
    );
    assert!(
        delayed[0]["longest_ns"]
            .as_f64()
            .is_some_and(|ns| (1e9..1.1e9).contains(&ns)),
        "{delayed}"
    );
    assert_eq!(overview["talkers"][0]["retransmissions"], 30);
    let screen = text(&run(&["overview", "-r", capture]).stdout);
    assert!(screen.contains("SLOW CONNECTS"), "{screen}");
}

#[test]
fn its_numbers_are_those_of_its_queries() {
    let mut captures = vec![PathBuf::from("captures/shop/in.pcap")];
    if let Some(root) = testkit::corpus() {
        let more = [
            "bench/mixed_live.pcap.gz",
            "live-captures/nfs.pcap.gz",
            "captures/mixed/mercury-emix.pcap.gz",
        ];
        captures.extend(more.iter().map(|name| root.join(name)));
    }
    for capture in captures {
        check_numbers(&capture.to_string_lossy());
    }
}

/// The column that identifies a request in a list, and the request.
fn key_of(item: &Value) -> (&String, &Value) {
    let fields = item.as_object().expect("an object");
    fields.iter().nth(1).expect("the key")
}

/// A quantile of a time; the column is named after the time if the result has several times.
fn time<'a>(row: &'a Value, quantile: &str, time: &str) -> &'a Value {
    row.get(format!("{quantile}_{time}_ns"))
        .unwrap_or_else(|| &row[format!("{quantile}_ns")])
}

fn check_numbers(capture: &str) {
    let overview = document(capture);
    let queries = overview["queries"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str);
    let alone: Vec<Value> = queries.flat_map(|query| rows(query, capture)).collect();
    let of = |processor: &str, is: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        alone
            .iter()
            .filter(|row| row["processor"] == processor && is(row))
            .cloned()
            .collect()
    };
    for service in overview["services"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|s| s["requests"].is_u64())
    {
        let is_it = |row: &Value| {
            ["server_ip", "server_port"]
                .iter()
                .all(|f| row[f] == service[f])
                && row["count"] == service["requests"]
        };
        let rows = of("group-count-success-quantile", &is_it);
        let same = |row: &Value| {
            row["success"] == service["success"]
                && *time(row, "p50", "response_time") == service["p50_ns"]
                && *time(row, "p99", "response_time") == service["p99_ns"]
                && row.get("p99_total_time_ns").unwrap_or(&Value::Null) == &service["p99_total_ns"]
        };
        assert!(
            rows.iter().any(same),
            "{capture}: {service} is none of {rows:?}"
        );
    }
    for slow in overview["slowest"].as_array().expect("a list") {
        let (key, request) = key_of(slow);
        let is_it = |row: &Value| {
            &row[key] == request
                && row["count"] == slow["requests"]
                && row["server_ip"] == slow["server_ip"]
                && *time(row, "p99", "response_time") == slow["p99_ns"]
        };
        assert!(
            !of("group-quantile-count-top-k", &is_it).is_empty(),
            "{capture}: {slow}"
        );
    }
    for failing in overview["failing"].as_array().expect("a list") {
        let (key, request) = key_of(failing);
        let is_it = |row: &Value| {
            &row[key] == request
                && row["count"] == failing["requests"]
                && row["server_ip"] == failing["server_ip"]
        };
        assert!(
            !of("group-count-top-k", &is_it).is_empty(),
            "{capture}: {failing}"
        );
    }
    // Flows and bytes, compared with the flows.
    let mut sums = BTreeMap::<(String, String), (u64, u64)>::new();
    for flow in rows("PARSE flow", capture) {
        let sum = sums
            .entry((
                flow["transport"].to_string(),
                flow["application"].to_string(),
            ))
            .or_default();
        let bytes = ["client_bytes", "server_bytes"].map(|f| flow[f].as_u64().expect("a number"));
        *sum = (sum.0 + 1, sum.1 + bytes.iter().sum::<u64>());
    }
    let applications = overview["applications"].as_array().expect("a list").iter();
    let got = applications.map(|a| {
        let number = |f: &str| a[f].as_u64().expect("a number");
        (
            (a["transport"].to_string(), a["application"].to_string()),
            (number("flows"), number("bytes")),
        )
    });
    assert_eq!(got.collect::<BTreeMap<_, _>>(), sums, "{capture}");
}

#[test]
fn there_is_an_overview_of_every_capture() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut seen = 0;
    let folders = std::fs::read_dir(root.join("captures")).expect("the corpus can be read");
    let folders: Vec<_> = folders
        .map(|folder| {
            format!(
                "captures/{}",
                folder.expect("a folder").file_name().display()
            )
        })
        .collect();
    for capture in folders
        .iter()
        .map(String::as_str)
        .chain(["live-captures", "derived"])
        .flat_map(testkit::captures_in)
    {
        let path = capture.to_string_lossy();
        let output = run(&["-v", "overview", "-r", &path]);
        let screen = text(&output.stdout);
        let messages = text(&output.stderr);
        // Files that are not captures, or damaged, are reported.
        let is_told = output.status.success() || messages.contains("error: ");
        assert!(
            is_told && output.status.code().is_some(),
            "{path}: {messages}"
        );
        assert!(
            !messages.contains("do not add up") && !messages.contains("panicked"),
            "{path}: {messages}"
        );
        let lists = screen
            .split("ASK NEXT")
            .next()
            .expect("there is a beginning");
        assert!(
            lists.lines().all(|line| line.chars().count() <= 80),
            "{path}:\n{lists}"
        );
        assert!(screen.lines().count() <= 55, "{path}:\n{screen}");
        seen += 1;
    }
    assert!(seen > 300, "{seen} captures");
}
