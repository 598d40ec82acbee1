//! Queries over Kafka: rows equal those over the packets, with either engine.

#[path = "bus/ends.rs"]
mod ends;
#[path = "bus/engines.rs"]
mod engines;
#[path = "bus/equality.rs"]
mod equality;
#[path = "bus/hosts.rs"]
mod hosts;
#[path = "bus/jobs.rs"]
mod jobs;
#[path = "bus/kept.rs"]
mod kept;
#[path = "bus/limits.rs"]
mod limits;
#[path = "bus/opinion.rs"]
mod opinion;
#[path = "bus/periods.rs"]
pub mod periods;
#[path = "bus/publishing.rs"]
mod publishing;
#[path = "bus/questions.rs"]
mod questions;
#[path = "bus/refused.rs"]
mod refused;
#[path = "bus/results.rs"]
mod results;
#[path = "bus/rows.rs"]
mod rows;
#[path = "bus/simpler.rs"]
mod simpler;
#[path = "bus/terms.rs"]
mod terms;
#[path = "bus/world.rs"]
mod world;

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use testkit::cluster::{ClusterParts, TestCluster};

use crate::{Folder, ROOT, feedback, run};

/// Queries over the shop's capture; Flink merges cells and tuples of each.
const QUERIES: &[&str] = &[
    "PARSE http PROCESS (diff-group: group=url_template, w=200ms)",
    "PARSE http PROCESS (top-k: k=3, key=url_template, w=500ms)",
    "PARSE http PROCESS (group-count: group=status, w=400ms, slide=200ms)",
    "PARSE http PROCESS (group-sum-avg-min-max: value=response_bytes, group=server_port)",
    "PARSE http WHERE status >= 400 PROCESS (group-count-success: group=url_template)",
    "PARSE mysql_query PROCESS (group-quantile: group=command, q=0.5,0.95, w=1s)",
];

/// Flags of a query merged by Flink.
fn flink(cluster: &TestCluster) -> [&str; 6] {
    let gateway = cluster.gateway.as_deref().expect("a gateway");
    let flink = cluster.flink.as_deref().expect("Flink");
    [
        "--engine",
        "flink",
        "--flink-gateway",
        gateway,
        "--flink",
        flink,
    ]
}

fn publish(kafka: &str, query: &str, capture: &str, what: &str) {
    let flags = [
        "--kafka",
        kafka,
        "--publish",
        what,
        "--no-redact",
        "--partitions",
        "3",
        "--retention",
        "24h",
    ];
    let ran = run(&[&["publish", query, "-r", capture][..], &flags].concat());
    assert_eq!(ran.code, 0, "{query}: {}", ran.err);
}

fn over_packets(query: &str, capture: &str) -> String {
    let ran = run(&["query", query, "-r", capture, "--format", "jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

fn published(kafka: &str, query: &str, what: &str, more: &[&str]) -> String {
    asked(kafka, &format!("{query} SINCE 2001-01-01"), what, more)
}

fn asked(kafka: &str, query: &str, what: &str, more: &[&str]) -> String {
    let flags = ["--kafka", kafka, "--published", what, "--format", "jsonl"];
    let ran = run(&[&["query", query][..], &flags, more].concat());
    assert_eq!(ran.code, 0, "{query}: {}", ran.err);
    ran.out
}

/// Number of clusters with Flink that run at once.
const FLINKS_MAX: usize = 2;

static FLINKS: Mutex<usize> = Mutex::new(0);
static FLINK_ENDED: Condvar = Condvar::new();

/// Permission to run a cluster with Flink.
struct FlinkPermit;

impl FlinkPermit {
    fn wait() -> FlinkPermit {
        let running = FLINKS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = FLINK_ENDED
            .wait_while(running, |running| *running >= FLINKS_MAX)
            .unwrap_or_else(PoisonError::into_inner);
        *running += 1;
        FlinkPermit
    }
}

impl Drop for FlinkPermit {
    fn drop(&mut self) {
        *FLINKS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FLINK_ENDED.notify_one();
    }
}

fn cluster(name: &str, parts: ClusterParts) -> Option<TestCluster> {
    TestCluster::start(Path::new(env!("CARGO_TARGET_TMPDIR")), name, parts)
}

/// Runs a test on a cluster of its own.
fn with_flink(name: &str, test: impl FnOnce(&TestCluster)) {
    let _permit = FlinkPermit::wait();
    if let Some(cluster) = cluster(name, ClusterParts::KafkaAndFlink) {
        test(&cluster);
    }
}

// The longest test of this program: by its name it starts early.
#[test]
fn queries_over_kafka_have_the_rows_of_the_packets() {
    with_flink("query-bus", |cluster| {
        let is_short = ["", "_SECONDS"]
            .iter()
            .all(|n| std::env::var_os(format!("NETALYTICS_QUERIES{n}")).is_none());
        if is_short {
            gives_the_rows_of_the_packets(cluster);
            losses_are_told(cluster);
        }
        equality::holds(cluster);
        // Last, since it publishes a sample.
        if is_short {
            let folder = tempfile::tempdir().expect("a directory");
            feedback::follows_a_slow_flink(cluster, folder.path());
        }
    });
}

#[test]
fn limits_and_ends_of_publishers_show_in_rows() {
    with_flink("publishers", |cluster| {
        ends::are_those_of_publishers(cluster);
        limits::are_marked(cluster);
    });
}

#[test]
fn unsupported_queries_over_kafka_are_rejected() {
    if let Some(cluster) = cluster("refused", ClusterParts::Kafka(1)) {
        refused::as_documented(&cluster);
    }
}

#[test]
fn captures_of_one_period_are_added() {
    with_flink("periods", periods::are_added);
}

fn gives_the_rows_of_the_packets(cluster: &TestCluster) {
    let kafka = cluster.kafka.as_str();
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    let nobody = run(&["query", QUERIES[0], "--kafka", kafka]);
    assert!(
        nobody.code == 2 && nobody.err.contains("netalytics publish 'PARSE http'"),
        "{}",
        nobody.err
    );
    publish(kafka, "PARSE http", &capture, "tuples");
    publish(kafka, "PARSE mysql_query", &capture, "tuples");
    for query in QUERIES {
        publish(kafka, query, &capture, "cells");
        let expected = over_packets(query, &capture);
        for what in ["tuples", "cells"] {
            assert_eq!(
                published(kafka, query, what, &[]),
                expected,
                "{query}: {what}"
            );
        }
    }
    // Three windows of these; sliding ones within SINCE and UNTIL.
    for query in [QUERIES[0], QUERIES[2]] {
        let within = format!("{query} SINCE '2026-11-21T22:03:58.4Z' UNTIL '2026-11-21T22:03:59Z'");
        let expected = over_packets(&within, &capture);
        assert!(expected.lines().count() > 3 && expected != over_packets(query, &capture));
        for what in ["tuples", "cells"] {
            assert_eq!(
                asked(kafka, &within, what, &[]),
                expected,
                "{within}: {what}"
            );
        }
    }
    kept::published_tuples_are_recorded_and_checked(kafka);
    kept::parsers_are_published_together(kafka);
    let gateway = cluster.gateway.as_deref().expect("a gateway");
    let jobs = cluster.flink.as_deref().expect("Flink");
    let flink = [
        "--engine",
        "flink",
        "--flink-gateway",
        gateway,
        "--flink",
        jobs,
    ];
    for (query, what) in [(QUERIES[0], "tuples"), (QUERIES[2], "cells")] {
        assert_eq!(
            published(kafka, query, what, &flink),
            over_packets(query, &capture),
            "{query}: {what}"
        );
    }
    results::rows_are_told(cluster, &[&["--published", "cells"], &flink[..]].concat());
    // Nothing is left behind.
    let topics = cluster
        .kafka_tool("org.apache.kafka.tools.TopicCommand")
        .arg("--list")
        .output()
        .expect("topics");
    let topics = String::from_utf8_lossy(&topics.stdout).into_owned();
    assert!(
        topics.contains("netalytics.http.v1") && !topics.contains("netalytics.merged"),
        "{topics}"
    );
    jobs::rows_come_over_kafka(cluster);
    // Queries unsupported by Flink are rejected before anything starts.
    let wrong = run(&[
        &[
            "query",
            "PARSE http WHERE url ~ 'a+b' PROCESS (count) SINCE 2001-01-01",
            "--kafka",
            kafka,
        ][..],
        &flink,
    ]
    .concat());
    assert!(
        wrong.code == 2 && wrong.err.contains("regular expression"),
        "{}",
        wrong.err
    );
}

/// Rows are marked by the capture's losses, as over a recording of it.
fn losses_are_told(cluster: &TestCluster) {
    let folder = Folder::new();
    let capture = hosts::lossy(&format!("{ROOT}/captures/shop/in.pcap"), 40, &folder);
    let recording = folder.path("recording");
    let recorded = run(&[
        "record",
        "PARSE http_get",
        "-r",
        &capture,
        "-o",
        &recording,
        "--no-redact",
    ]);
    assert_eq!(recorded.code, 0, "{}", recorded.err);
    let query = "PARSE http_get PROCESS (group-count: group=status)";
    let expected = over_packets(query, &recording);
    assert!(!expected.contains("\"lost\":null"), "{expected}");
    for what in ["tuples", "cells"] {
        publish(&cluster.kafka, query, &capture, what);
        assert_eq!(
            published(&cluster.kafka, query, what, &[]),
            expected,
            "{what}"
        );
    }
    // Tuples are equal. Over Kafka they are sorted by `ts_end`, in a recording by completion, which is later for halves
    // after a loss.
    let raw = published(&cluster.kafka, "PARSE http_get", "tuples", &[]);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        sorted(&raw),
        sorted(&over_packets("PARSE http_get", &recording))
    );
}

#[test]
fn explain_prints_the_flink_statements() {
    let query = "PARSE http PROCESS (group-count: group=status, w=1s)";
    for (flags, words) in [
        (
            &[][..],
            &[
                "'netalytics.cells.v1.",
                "TUMBLE",
                "SUM(",
                "'localhost:9092'",
            ][..],
        ),
        (
            &["--published", "tuples", "--kafka", "k:1"],
            &["'netalytics.http.v1'", "TUMBLE", "`status`", "'k:1'"],
        ),
    ] {
        let ran = run(&[&["explain", query, "--engine", "flink"][..], flags].concat());
        assert!(
            ran.code == 0 && ran.out.contains("EXECUTE STATEMENT SET"),
            "{}{}",
            ran.out,
            ran.err
        );
        words
            .iter()
            .for_each(|word| assert!(ran.out.contains(word), "no {word} in {}", ran.out));
    }
    let since = run(&[
        "explain",
        &format!("{query} SINCE 2026-01-01"),
        "--engine",
        "flink",
    ]);
    assert!(
        since
            .out
            .contains("'scan.startup.timestamp-millis' = '1767225600000'"),
        "{}",
        since.out
    );
    // Existing data is waited for, however busy the broker is.
    assert!(
        !since.out.contains("idle-timeout") && since.out.contains("scan.bounded.mode"),
        "{}",
        since.out
    );
    let wrong = [
        "explain",
        "PARSE http WHERE url ~ 'a+b' PROCESS (count)",
        "--engine",
        "flink",
    ];
    let wrong = run(&[&wrong[..], &["--published", "tuples"]].concat());
    let is_told = wrong.err.contains("Flink cannot merge this query") && !wrong.err.contains("\\n");
    assert!(wrong.code == 2 && is_told, "{}", wrong.err);
}

#[test]
fn unreachable_brokers_are_reported() {
    for verb in ["query", "publish"] {
        let capture = format!("{ROOT}/captures/shop/in.pcap");
        let input: &[&str] = if verb == "publish" {
            &["-r", &capture]
        } else {
            &[]
        };
        let ran = run(&[&[verb, "PARSE http", "--kafka", "127.0.0.1:1"][..], input].concat());
        assert!(
            ran.code == 1 && ran.err.contains("no broker responds at 127.0.0.1:1: "),
            "{}",
            ran.err
        );
    }
    let ran = run(&[
        "query",
        "PARSE http",
        "--kafka",
        "h:1",
        "--kafka-property",
        "sasl.pasword=secret",
    ]);
    assert!(
        ran.code == 2 && ran.err.contains("sasl.pasword") && !ran.err.contains("secret"),
        "{}",
        ran.err
    );
}
