//! Captures of equal, earlier and overlapping periods, published one after another and concurrently: in a complete past
//! no tuple is late, with either engine. Expected values by construction: each capture has a known number of packets to
//! its own server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bus::{Kafka, NextRecord, PartitionEnd, PartitionRange, PartitionReader, TopicAdmin};
use serde_json::Value;
use testkit::cluster::TestCluster;
use testkit::programs::PATIENCE;

use super::rows::rows;
use crate::{BINARY, Folder, run};

pub const START: u64 = 1_700_000_000;
const QUERY: &str = "PARSE tcp_pkt_size PROCESS (group-count: group=server_ip, w=10s)";

/// A capture of `packets` packets to server 10.`net`.0.2, evenly distributed over `seconds` from `start`.
pub fn capture(folder: &Folder, net: u8, (start, seconds): (u64, u64), packets: u64) -> String {
    let mut file: Vec<u8> = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    for n in 0..packets {
        let ns = start * 1_000_000_000 + n * seconds * 1_000_000_000 / packets;
        let mut frame = [[2; 6], [4; 6]].concat();
        frame.extend([
            8, 0, 0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, net, 0, 1, 10, net, 0, 2,
        ]);
        let port = 20_000 + (n % 50) as u16;
        let sequence = 1 + (n / 50) as u32 * 10;
        frame.extend(port.to_be_bytes().into_iter().chain(80_u16.to_be_bytes()));
        frame.extend(
            sequence
                .to_be_bytes()
                .into_iter()
                .chain(1_u32.to_be_bytes()),
        );
        frame.extend([0x50, 0x18, 255, 255, 0, 0, 0, 0]);
        frame.extend([b'x'; 10]);
        let head = [
            (ns / 1_000_000_000) as u32,
            (ns % 1_000_000_000) as u32,
            frame.len() as u32,
        ];
        file.extend(
            head.iter()
                .chain(&head[2..])
                .flat_map(|word| word.to_le_bytes()),
        );
        file.extend(frame);
    }
    folder.file(&format!("period-{net}.pcap"), &file)
}

pub fn publish(kafka: &str, query: &str, what: &str, capture: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.args([
        "publish",
        query,
        "-r",
        capture,
        "--kafka",
        kafka,
        "--publish",
        what,
        "--no-redact",
    ]);
    command
        .args(["--partitions", "2", "-q"])
        .stdout(Stdio::null());
    command
}

/// Packets by server, and rows that are not exact.
pub fn counted(
    kafka: &str,
    query: &str,
    what: &str,
    more: &[&str],
) -> (BTreeMap<String, u64>, usize) {
    let flags = [
        "--kafka",
        kafka,
        "--published",
        what,
        "--format",
        "jsonl",
        "-q",
    ];
    let query = format!("{query} SINCE 2001-01-01");
    let ran = run(&[&["query", &query][..], &flags, more].concat());
    assert_eq!(ran.code, 0, "{query}: {}", ran.err);
    let mut counts = BTreeMap::new();
    let mut inexact = 0;
    for row in rows(&ran) {
        let server = row["server_ip"].as_str().expect("a server").to_owned();
        *counts.entry(server).or_insert(0) += row["count"].as_u64().expect("a count");
        inexact += usize::from(row["approximate"] != false);
    }
    (counts, inexact)
}

/// Number of records per partition; checks in the first column that promises do not decrease.
fn promises_grow(kafka: &str, topic: &str) -> Vec<i64> {
    let kafka = Kafka::new(kafka, []).expect("an address");
    let there = TopicAdmin::connect(&kafka, PATIENCE).expect("a broker");
    let mut reader = PartitionReader::new(&kafka, 1 << 20).expect("a reader");
    let ranges = there.offsets(topic).expect("offsets");
    for (partition, range) in (0..).zip(&ranges) {
        let until = PartitionEnd::Offset(range.end);
        let part = PartitionRange {
            topic: topic.to_owned(),
            partition,
            from: range.start,
            until,
        };
        let part = reader.add(part).expect("a partition");
        let mut last = i64::MIN;
        loop {
            match reader
                .next(part, Duration::from_millis(50))
                .expect("a record")
            {
                NextRecord::Record(record) => {
                    let promise = first_long(record.payload());
                    assert!(
                        promise >= last,
                        "partition {partition}: {promise} after {last}"
                    );
                    last = promise;
                }
                NextRecord::Over => break,
                NextRecord::Nothing | NextRecord::CaughtUp => {}
            }
        }
    }
    ranges.iter().map(|range| range.end - range.start).collect()
}

/// First column of a record: branch of `[null, long]`, then a zigzag number.
fn first_long(record: &[u8]) -> i64 {
    assert_eq!(record[0], 2, "not null");
    let mut n = 0_u64;
    let mut shift = 0;
    for byte in &record[1..] {
        n |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            break;
        }
    }
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

pub fn are_added(cluster: &TestCluster) {
    let kafka = cluster.kafka.as_str();
    let folder = Folder::new();
    let gateway = cluster.gateway.as_deref().expect("a gateway");
    let flink = [
        "--engine",
        "flink",
        "--flink-gateway",
        gateway,
        "--flink",
        cluster.flink.as_deref().expect("Flink"),
    ];
    // Two captures of one period, an earlier one, one that overlaps both, and a later one. Readers read 4096 records of
    // a partition at once.
    let captures = [
        (1, (START, 60), 15_000),
        (2, (START, 60), 14_000),
        (3, (START - 3600, 60), 9000),
        (4, (START - 3570, 3600), 6000),
        (5, (START + 60, 30), 5000),
    ];
    let files: Vec<String> = captures
        .iter()
        .map(|(net, period, packets)| capture(&folder, *net, *period, *packets))
        .collect();
    let mut expected: BTreeMap<String, u64> = captures
        .iter()
        .map(|(net, _, packets)| (format!("10.{net}.0.2"), *packets))
        .collect();
    for (what, query) in [("tuples", "PARSE tcp_pkt_size"), ("cells", QUERY)] {
        for file in &files {
            let ran = publish(kafka, query, what, file)
                .status()
                .expect("the binary runs");
            assert!(ran.success(), "{file}");
        }
        for _ in 0..2 {
            assert_eq!(
                counted(kafka, QUERY, what, &[]),
                (expected.clone(), 0),
                "{what}"
            );
        }
    }
    let records = promises_grow(kafka, "netalytics.tcp_pkt_size.v1");
    // A capture of a later period reuses a partition.
    assert_eq!(
        records.iter().filter(|records| **records > 4096).count(),
        4,
        "{records:?}"
    );
    // Concurrently: a short one ends before a long one has a partition.
    let together = [
        (6, (START + 5, 1), 10),
        (7, (START, 60), 12_000),
        (8, (START - 50, 60), 10_000),
    ];
    for what in ["tuples", "cells"] {
        let query = if what == "tuples" {
            "PARSE tcp_pkt_size"
        } else {
            QUERY
        };
        let start = |(net, period, packets)| {
            publish(kafka, query, what, &capture(&folder, net, period, packets))
                .spawn()
                .expect("it runs")
        };
        let started = together.map(start);
        started
            .into_iter()
            .for_each(|mut one| assert!(one.wait().expect("it ends").success()));
    }
    expected.extend(together.map(|(net, _, packets)| (format!("10.{net}.0.2"), packets)));
    for what in ["tuples", "cells"] {
        assert_eq!(
            counted(kafka, QUERY, what, &[]),
            (expected.clone(), 0),
            "{what}"
        );
        assert_eq!(
            counted(kafka, QUERY, what, &flink),
            (expected.clone(), 0),
            "{what}, Flink"
        );
    }
    promises_grow(kafka, "netalytics.tcp_pkt_size.v1");
    a_topic_without_publishers_ends_by_the_clock(kafka);
    flink_reads_from_the_start(kafka, &flink, &folder);
    slots_are_large_enough(kafka, &flink, &folder);
}

fn a_topic_without_publishers_ends_by_the_clock(kafka: &str) {
    for what in ["tuples", "cells"] {
        let query = format!("{QUERY} LIMIT 2s");
        let ran = run(&[
            "query",
            &query,
            "--kafka",
            kafka,
            "--published",
            what,
            "--format",
            "jsonl",
            "-q",
        ]);
        assert!(
            ran.code == 0 && ran.out.is_empty(),
            "{what}: {}{}",
            ran.out,
            ran.err
        );
    }
}

/// A live query in Flink includes data published from its start, though the job takes seconds to start, and marks the
/// window that had started before.
fn flink_reads_from_the_start(kafka: &str, flink: &[&str], folder: &Folder) {
    let query = format!("{QUERY} LIMIT 12s");
    let seconds = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a clock")
            .as_secs()
    };
    // The query starts in the first half of a window, and ends in the next one.
    while seconds() % 10 > 4 {
        std::thread::sleep(Duration::from_millis(100));
    }
    let start = seconds() / 10 * 10;
    let flags = [
        "--kafka",
        kafka,
        "--published",
        "tuples",
        "--format",
        "jsonl",
    ];
    let asking = Command::new(BINARY)
        .args([&["query", &query][..], &flags, flink].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut asking = asking.expect("the binary runs");
    let mut says = BufReader::new(asking.stderr.take().expect("piped"))
        .lines()
        .map_while(Result::ok);
    assert!(says.any(|line| line.contains("reading netalytics.tcp_pkt_size")));
    std::thread::sleep(Duration::from_millis(300));
    let file = capture(folder, 30, (start, 30), 3000);
    assert!(
        publish(kafka, "PARSE tcp_pkt_size", "tuples", &file)
            .status()
            .expect("it runs")
            .success()
    );
    std::thread::spawn(move || says.for_each(drop));
    let ended = asking.wait_with_output().expect("it ends");
    let lines = String::from_utf8_lossy(&ended.stdout).into_owned();
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let found: Vec<(u64, bool)> = rows
        .iter()
        .map(|row| {
            (
                row["count"].as_u64().unwrap_or(0),
                row["approximate"] == true,
            )
        })
        .collect();
    assert_eq!(ended.status.code(), Some(0), "{lines}");
    assert!(
        found[0] == (1000, true) && found[1..].iter().all(|(_, is_marked)| !is_marked),
        "{lines}"
    );
    assert!(found.len() > 1, "{lines}");
}

/// A job's memory requirement is checked before it starts.
fn slots_are_large_enough(kafka: &str, flink: &[&str], folder: &Folder) {
    let file = capture(folder, 20, (START, 60), 6000);
    assert!(
        publish(kafka, "PARSE flow", "tuples", &file)
            .status()
            .expect("it runs")
            .success()
    );
    let query = |processors: u64| {
        let each = (1..=processors).map(|n| format!("(group-count: group=server_ip, w={n}s)"));
        format!(
            "PARSE flow PROCESS {} SINCE 2001-01-01",
            each.collect::<Vec<_>>().join(", ")
        )
    };
    let flags = [
        "--kafka",
        kafka,
        "--published",
        "tuples",
        "--format",
        "jsonl",
        "-q",
    ];
    let asked = |processors| run(&[&["query", &query(processors)][..], &flags, flink].concat());
    // 128 MiB suffice for 17 by the requirement, and for Flink.
    let enough = asked(17);
    assert!(enough.code == 0 && !enough.out.is_empty(), "{}", enough.err);
    let too_many = asked(25);
    assert_eq!((too_many.code, &*too_many.out), (1, ""));
    let needs = "it needs 188 MiB, and a slot has 128 MiB; set taskmanager.memory.managed.size to at least 3008 MiB";
    assert!(too_many.err.contains(needs), "{}", too_many.err);
}
