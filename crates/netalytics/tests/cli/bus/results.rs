//! Rows in a topic of results: records read by Kafka's own consumer are compared with the output.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::cluster::TestCluster;

use super::{QUERIES, over_packets};
use crate::{BINARY, ROOT, run};

const TEXT: &str = include_str!("../../../../../docs/outlets.md");

/// A record printed by the consumer.
pub struct Told {
    pub headers: BTreeMap<String, String>,
    pub key: String,
    pub row: String,
}

/// The line of the documentation with this prefix.
fn documented(start: &str) -> &'static str {
    let line = TEXT
        .lines()
        .find(|line| line.trim_start().starts_with(start));
    line.unwrap_or_else(|| panic!("no {start}")).trim()
}

/// All records of a topic, by the command of the documentation.
pub fn consumed(cluster: &TestCluster, topic: &str) -> Vec<Told> {
    let words = documented("kafka-console-consumer.sh").split(' ').skip(3);
    let words = words.map(|word| {
        if word == "netalytics.results" {
            topic
        } else {
            word
        }
    });
    let consumer = cluster
        .kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer")
        .args(words)
        .args(["--timeout-ms", "5000"])
        .stdin(Stdio::null())
        .output()
        .expect("Java");
    let text = String::from_utf8(consumer.stdout).expect("text");
    let told = |line: &str| {
        let parts: Vec<&str> = line.splitn(3, '\t').collect();
        let [headers, key, row] = parts[..] else {
            panic!("no record: {line}")
        };
        let pairs = headers
            .split(',')
            .filter_map(|header| header.split_once(':'));
        let headers = pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Told {
            headers,
            key: key.to_owned(),
            row: row.to_owned(),
        }
    };
    text.lines().map(told).collect()
}

/// Rows of queries over packets, and over published data (`merged`), are in the topic as printed.
pub fn rows_are_told(cluster: &TestCluster, merged: &[&str]) {
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    let query = QUERIES[2];
    let to = format!("kafka://{}#name=merged", cluster.kafka);
    let since = format!("{query} SINCE 2001-01-01");
    let asked = [
        "query",
        &since,
        "--kafka",
        &cluster.kafka,
        "--format",
        "jsonl",
        "--to",
        &to,
        "--no-redact",
    ];
    let ran = run(&[&asked[..], merged].concat());
    assert_eq!(
        (ran.code, &ran.out),
        (0, &over_packets(query, &capture)),
        "{}",
        ran.err
    );

    let tuples = "PARSE http SELECT method, path, status";
    let to = format!("kafka://{}", cluster.kafka);
    let plain = run(&[
        "query",
        tuples,
        "-r",
        &capture,
        "--format",
        "jsonl",
        "--no-redact",
        "--to",
        &to,
    ]);
    assert_eq!(plain.code, 0, "{}", plain.err);

    let example = documented(
        "netalytics query 'PARSE http PROCESS (group-count: group=url_template, w=10s)' -i eth0 --to 'kafka",
    );
    let example = example.strip_prefix("netalytics").expect("a command");
    let example = example
        .replace("-i eth0", &format!("-r '{capture}'"))
        .replace("127.0.0.1:9092", &cluster.kafka);
    let shown = Command::new("sh")
        .args(["-c", &format!("{BINARY}{example}")])
        .output()
        .expect("a shell");
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    let shown = String::from_utf8(shown.stdout).expect("text");

    let all = consumed(cluster, "netalytics.results");
    for (name, printed) in [
        ("merged", &ran.out),
        (tuples, &plain.out),
        ("pages", &shown),
    ] {
        let of: Vec<&Told> = all.iter().filter(|told| told.key == name).collect();
        let rows: Vec<&str> = of.iter().map(|told| told.row.as_str()).collect();
        assert_eq!(rows, printed.lines().collect::<Vec<_>>(), "{name}");
        assert!(rows.len() > 3, "{name}: {rows:?}");
        assert!(
            rows.iter()
                .all(|row| serde_json::from_str::<Value>(row).is_ok()),
            "{name}: {rows:?}"
        );
    }
    // A query's text contains commas, which this consumer does not distinguish from separators.
    assert!(
        all.iter()
            .all(|told| told.key == tuples || told.headers["job"] == told.key)
    );
    let ids: BTreeSet<&str> = all.iter().map(|told| told.headers["id"].as_str()).collect();
    assert_eq!(
        ids.len(),
        all.len(),
        "each row has an identifier of its own"
    );
}

/// Rows not accepted by a broker are counted.
#[test]
fn rows_that_no_broker_takes_are_lost_and_counted() {
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    let ask = |to: &str| {
        run(&[
            "query",
            "PARSE http",
            "-r",
            &capture,
            "-q",
            "--to",
            to,
            "--to-timeout",
            "4s",
        ])
    };
    let ran = ask("kafka://127.0.0.1:1");
    let rows = ran.out.lines().count();
    assert!(rows > 10 && ran.code == 1, "{}", ran.err);
    let lost = format!(
        "--to kafka://127.0.0.1:1: {rows} of {rows} rows were lost (at_end {rows}): no broker responds at"
    );
    assert!(ran.err.contains(&lost), "{}", ran.err);
    for (to, why) in [
        ("kafka://h/a/b", "is not a topic name"),
        ("kafka://h#properties-file=/nowhere", "cannot read /nowhere"),
        ("kafka://h#partitions=x", "is not a number above 0"),
        ("kafka://me@h", "does not support users"),
    ] {
        let ran = ask(to);
        assert!(ran.code == 2 && ran.err.contains(why), "{to}: {}", ran.err);
    }
}
