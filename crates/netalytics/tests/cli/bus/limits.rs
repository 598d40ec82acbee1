//! Rows affected by limits of publishers are marked, over Kafka as over packets: in queries of the past, and in running
//! queries and jobs of a server. A limit reported after its windows were emitted marks the open windows.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use testkit::cluster::TestCluster;
use testkit::programs::{PATIENCE, wait_for};

use super::ends::Traffic;
use super::periods::{START, capture, counted, publish};
use super::rows::rows;
use crate::faults::{Started, records};
use crate::service::{Process, Server, wait};
use crate::{Folder, run};

const DAY: u64 = 86_400;

/// Kind of published data, its query, and the query run.
const ASKED: [(&str, Option<&str>, &str); 2] = [
    (
        "cells",
        None,
        "PARSE tcp_pkt_size PROCESS (group-count: group=server_ip, w=20s)",
    ),
    (
        "tuples",
        Some("PARSE flow"),
        "PARSE flow PROCESS (group-count: group=server_ip, w=20s)",
    ),
];

pub fn are_marked(cluster: &TestCluster) {
    let folder = Folder::new();
    of_the_past(&cluster.kafka, &folder);
    let engines = [(&[][..], 1), (&super::flink(cluster)[..], 2)];
    for (engine, number) in engines {
        while_a_query_runs(cluster, &folder, (engine, START + DAY * number));
        reported_late(cluster, &folder, (engine, START + DAY * (number + 4)));
    }
    of_jobs(cluster, &folder);
}

fn of_the_past(kafka: &str, folder: &Folder) {
    let file = capture(folder, 20, (START, 60), 6000);
    for (what, published, query) in ASKED {
        let ran = run(&[
            "query",
            query,
            "-r",
            &file,
            "--flows-max",
            "16",
            "--format",
            "jsonl",
        ]);
        assert!(
            rows(&ran).iter().all(|row| row["approximate"] == true),
            "{}",
            ran.out
        );
        let mut command = publish(kafka, published.unwrap_or(query), what, &file);
        assert!(
            command
                .args(["--flows-max", "16"])
                .status()
                .expect("it runs")
                .success()
        );
        let (counts, inexact) = counted(kafka, query, what, &[]);
        assert!(
            !counts.is_empty() && inexact == rows(&ran).len(),
            "{what}: {counts:?}, {inexact}"
        );
    }
}

/// A publisher from a pipe, fed with the capture's header first, and the packets of a minute from `start`.
fn publisher(
    cluster: &TestCluster,
    folder: &Folder,
    start: u64,
    (what, query, flags): (&str, &str, &[&str]),
) -> (Started, Vec<Vec<u8>>) {
    let file = fs::read(capture(folder, 21, (start, 60), 6000)).expect("a capture");
    let (head, packets) = file.split_at(24);
    let packets = [head]
        .into_iter()
        .chain(packets.chunks(80))
        .map(<[u8]>::to_vec)
        .collect();
    let fixed = [
        "publish",
        query,
        "-r",
        "-",
        "--kafka",
        &cluster.kafka,
        "--publish",
        what,
        "--no-redact",
    ];
    (
        Started::new(
            folder,
            &format!("publisher-{start}-{what}"),
            &[&fixed[..], flags].concat(),
        ),
        packets,
    )
}

/// A live query from a time on, in whole days after `START`.
fn asker(
    cluster: &TestCluster,
    folder: &Folder,
    (what, query): (&str, &str),
    (engine, start): (&[&str], u64),
) -> Started {
    let query = format!(
        "{query} SINCE '2023-11-{}T22:13:20Z'",
        14 + (start - START) / DAY
    );
    let fixed = [
        "query",
        &query,
        "--follow",
        "--kafka",
        &cluster.kafka,
        "--published",
        what,
        "--format",
        "jsonl",
    ];
    let asker = Started::new(
        folder,
        &format!("asker-{start}-{what}"),
        &[&fixed[..], engine].concat(),
    );
    asker.says("Ctrl-C ends it");
    asker
}

fn has_rows(asker: &Started) {
    wait_for("a row", || match asker.rows() {
        0 => Err(String::new()),
        _ => Ok(()),
    });
}

/// Windows by start, and whether they are marked.
fn marked(asker: Started) -> Vec<(u64, bool)> {
    let ran = asker.interrupted(2 * PATIENCE);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let of = |row: &super::rows::Row| {
        (
            row["window_start"].as_u64().expect("a time") / 1_000_000_000,
            row["approximate"] == true,
        )
    };
    rows(&ran).iter().map(of).collect()
}

fn while_a_query_runs(cluster: &TestCluster, folder: &Folder, (engine, start): (&[&str], u64)) {
    for (what, published, query) in ASKED {
        // The topic exists.
        let earlier = capture(folder, 22, (START - 100_000, 1), 10);
        let published = published.unwrap_or(query);
        assert!(
            publish(&cluster.kafka, published, what, &earlier)
                .status()
                .expect("it runs")
                .success()
        );
        let asker = asker(cluster, folder, (what, query), (engine, start));
        let flags = (what, published, &["--flows-max", "16"][..]);
        let (mut publisher, packets) = publisher(cluster, folder, start, flags);
        publisher.feed(&packets, Duration::from_secs(8));
        has_rows(&asker);
        assert_eq!(publisher.ends(PATIENCE).code, 0);
        let expected = [0, 20, 40].map(|window| (start + window, true));
        assert_eq!(marked(asker), expected, "{what}, {engine:?}");
    }
}

/// A lane reports a limit of the first window after that was emitted.
fn reported_late(cluster: &TestCluster, folder: &Folder, (engine, start): (&[&str], u64)) {
    let what = "tuples";
    let query = "PARSE tcp_pkt_size PROCESS (group-count: group=server_ip, w=20s)";
    let earlier = capture(folder, 22, (START - 100_000, 1), 10);
    assert!(
        publish(&cluster.kafka, "PARSE tcp_pkt_size", what, &earlier)
            .status()
            .expect("it runs")
            .success()
    );
    let asker = asker(cluster, folder, (what, query), (engine, start));
    let (mut publisher, packets) =
        publisher(cluster, folder, start, (what, "PARSE tcp_pkt_size", &[]));
    let (first, rest) = packets.split_at(3000);
    publisher.feed(first, Duration::from_secs(3));
    has_rows(&asker);
    let ns = |seconds: u64| (start + seconds) * 1_000_000_000;
    let entry = format!(
        r#"{{"lane":"by-hand-{start}","number":1,"says":"holds","partition":900,"topics":["netalytics.tcp_pkt_size.v1"],
        "limited":{{"from_ns":{},"to_ns":{},"times":1}}}}"#,
        ns(1),
        ns(5)
    );
    records::write(cluster, bus::lanes::TOPIC, 0, &[entry.into_bytes()]);
    std::thread::sleep(Duration::from_secs(2));
    publisher.feed(rest, Duration::from_secs(3));
    assert_eq!(publisher.ends(PATIENCE).code, 0);
    let expected =
        [(0, false), (20, true), (40, false)].map(|(window, marked)| (start + window, marked));
    assert_eq!(marked(asker), expected, "{engine:?}");
}

/// A message head above its limit, repeatedly seen by an agent: rows of jobs are marked from then on, with both
/// engines.
fn of_jobs(cluster: &TestCluster, folder: &Folder) {
    let gateway = cluster.gateway.as_deref().expect("a gateway");
    let server = Server::with(
        folder,
        &["--kafka", &cluster.kafka, "--flink-gateway", gateway],
    );
    let mut traffic = Traffic::default();
    traffic.connection((1, 1001), 0.0, &[(0.1, "short", 1, Some(0.2))], None);
    traffic.connection(
        (1, 1002),
        0.1,
        &[(0.3, "long", 70_000, Some(0.4))],
        Some(0.5),
    );
    let file = traffic.file(folder, "heads.pcap");
    let policy = folder.file(
        "heads.toml",
        format!("[kafka]\nbrokers = '{}'", cluster.kafka).as_bytes(),
    );
    let token = server.token(folder, "heads");
    let own = folder.path("heads");
    let agent = [
        "agent",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--name",
        "heads",
        "--folder",
        &own,
    ];
    let _agent = Process::start(
        &[
            &agent[..],
            &["--policy", &policy, "--demo", &file, "--demo-pause", "50ms"],
        ]
        .concat(),
    );
    server.await_agents(1);
    let query = "PARSE http PROCESS (group-count: group=path, w=1s)";
    let start = |engine: &str| -> String {
        let words = [
            "jobs",
            "start",
            query,
            "--standing",
            "--bus",
            "kafka",
            "--engine",
            engine,
        ];
        server.rows(&words)[0]["id"]
            .as_str()
            .expect("a number")
            .to_owned()
    };
    for job in ["embedded", "flink"].map(start) {
        let windows = |rows: &[Value]| -> BTreeSet<u64> {
            rows.iter()
                .map(|row| row["window_start"].as_u64().expect("a time"))
                .collect()
        };
        wait("rows come", || {
            let rows = server.rows(&["jobs", "results", &job]);
            if windows(&rows).len() >= 6 {
                Ok(())
            } else {
                Err(format!("{rows:?}"))
            }
        });
        let rows = server.rows(&["jobs", "results", &job]);
        let first = *windows(&rows).first().expect("a window");
        let mut later = rows
            .iter()
            .filter(|row| row["window_start"].as_u64() > Some(first));
        assert!(
            later.all(|row| row["approximate"] == true),
            "job {job}: {rows:?}"
        );
        server.ask(&["jobs", "stop", &job]);
    }
}
