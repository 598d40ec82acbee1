//! Jobs of a server whose agents publish to Kafka: rows equal those of one process over the same packets, with either
//! engine, and each window is reported once, also after kills of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::cluster::TestCluster;

use super::results::consumed;
use crate::service::{Process, Server, wait};
use crate::{Folder, check};

/// Agents, the clients whose packets they see, and whether they repeat these.
const AGENTS: [(&str, &str, &str); 3] = [
    ("web-1", "10.20.0.21", "1h"),
    ("web-2", "10.20.0.22", "1h"),
    ("busy", "10.20.0.23", "50ms"),
];

const ONCE: &str = "PARSE http PROCESS (diff-group: group=url_template)";
const AGAIN: &str = "PARSE http PROCESS (group-count: group=path, w=500ms)";

/// Starts them; returns the captures of the first two.
fn agents(cluster: &TestCluster, server: &Server, folder: &Folder) -> (Vec<Process>, Vec<String>) {
    let start = |(name, client, pause): &(&str, &str, &str)| {
        let part = folder.path(&format!("{name}.pcap"));
        let query = format!("PARSE packet FROM {client} PROCESS (count)");
        check(
            &["query", &query, "-r", "captures/shop/in.pcap", "-w", &part],
            0,
            &[],
        );
        let role = if *name == "busy" { "busy" } else { "web" };
        let properties = folder.file(
            &format!("{name}.properties"),
            format!("# for the brokers' logs\nclient.id = {name}\n").as_bytes(),
        );
        let policy = format!(
            "labels = {{ role = '{role}' }}\n[kafka]\nbrokers = '{}'\nproperties_file = '{properties}'",
            cluster.kafka
        );
        let policy = folder.file(&format!("{name}.toml"), policy.as_bytes());
        let token = server.token(folder, name);
        let own = folder.path(name);
        let agent = server.agent(name, &token, &own);
        let plays = ["--policy", &policy, "--demo", &part, "--demo-pause", pause];
        (Process::start(&[&agent[..], &plays].concat()), part)
    };
    let (agents, mut parts): (Vec<Process>, Vec<String>) = AGENTS.iter().map(start).unzip();
    server.await_agents(AGENTS.len());
    parts.truncate(2);
    (agents, parts)
}

fn start(server: &Server, query: &str, role: &str, more: &[&str]) -> String {
    let on = format!("role={role}");
    let words = [
        "jobs",
        "start",
        query,
        "--standing",
        "--on",
        &on,
        "--bus",
        "kafka",
    ];
    server.rows(&[&words[..], more].concat())[0]["id"]
        .as_str()
        .expect("a number")
        .to_owned()
}

/// Stops a job; returns its rows after its end.
fn end(server: &Server, job: &str) -> Vec<Value> {
    server.ask(&["jobs", "stop", job]);
    // Flink is slow on a busy machine.
    let until = Instant::now() + Duration::from_secs(300);
    loop {
        let shown = &server.rows(&["jobs", "show", job])[0];
        if shown["state"] == "ended" {
            assert_eq!(shown["reason"], "it was stopped", "{shown}");
            break;
        }
        assert!(Instant::now() < until, "{shown}");
        std::thread::sleep(Duration::from_millis(200));
    }
    server.rows(&["jobs", "results", job])
}

/// Tuples of all agents of a job.
fn tuples(server: &Server, job: &str) -> u64 {
    let shown = &server.rows(&["jobs", "show", job])[0];
    let agents = shown["agents"].as_array().expect("agents").iter();
    agents
        .map(|agent| agent["counters"]["tuples"].as_u64().unwrap_or(0))
        .sum()
}

fn count(row: &Value) -> u64 {
    row["count"]
        .as_u64()
        .or_else(|| row["count"].as_str()?.parse().ok())
        .expect("a count")
}

/// Key and values of a row.
fn said(row: &Value) -> [String; 3] {
    ["window_start", "path", "count"].map(|name| row[name].to_string().trim_matches('"').to_owned())
}

/// Rows without a server's additional columns, sorted.
fn sorted(rows: impl IntoIterator<Item = Value>) -> Vec<String> {
    let text = |mut row: Value| {
        let object = row.as_object_mut().expect("a row");
        object.retain(|name, value| name != "agents_missing" && !value.is_null());
        row.to_string()
    };
    let mut rows: Vec<String> = rows.into_iter().map(text).collect();
    rows.sort();
    rows
}

/// With a cluster of Kafka and Flink.
pub fn rows_come_over_kafka(cluster: &TestCluster) {
    let folder = Folder::new();
    let gateway = cluster.gateway.as_deref().expect("a gateway");
    let mut server = Server::with(
        &folder,
        &["--kafka", &cluster.kafka, "--flink-gateway", gateway],
    );
    let (agents, parts) = agents(cluster, &server, &folder);
    let [embedded, flink] =
        ["embedded", "flink"].map(|engine| start(&server, ONCE, "web", &["--engine", engine]));
    let to = format!("kafka://{}/netalytics.jobs#name=again", cluster.kafka);
    let again = start(&server, AGAIN, "busy", &["--to", &to]);
    let published = start(&server, "PARSE http, tcp_conn_time", "busy", &["--raw"]);

    // Rows of windows continue while the server is killed, twice.
    for _ in 0..2 {
        let before = server.rows(&["jobs", "results", &again]).len();
        wait("more rows come", || {
            let rows = server.rows(&["jobs", "results", &again]).len();
            if rows > before + 5 {
                Ok(())
            } else {
                Err(format!("{rows} rows"))
            }
        });
        server.start_again(&folder);
    }
    server.await_agents(AGENTS.len());

    let whole = check(
        &[
            "query", ONCE, "-r", &parts[0], &parts[1], "--format", "jsonl",
        ],
        0,
        &[],
    )
    .out;
    let whole: Vec<Value> = whole
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    let all: u64 = whole.iter().map(count).sum();
    for job in [&embedded, &flink] {
        wait("all packets are played", || {
            let found = tuples(&server, job);
            if found >= all {
                Ok(())
            } else {
                Err(format!("{found} tuples of {all}"))
            }
        });
        let rows = end(&server, job);
        assert_eq!(sorted(rows), sorted(whole.clone()), "job {job}");
    }
    let rows = end(&server, &again);
    let windows: BTreeSet<String> = rows
        .iter()
        .map(|row| format!("{} {}", row["window_start"], row["path"]))
        .collect();
    assert_eq!(
        windows.len(),
        rows.len(),
        "each group of each window is told once"
    );
    assert_eq!(
        rows.iter().map(count).sum::<u64>(),
        tuples(&server, &again),
        "what was found was told"
    );
    assert!(end(&server, &published).is_empty());
    wait("all rows are delivered", || {
        let outlet = &server.rows(&["jobs", "show", &again])[0]["outlets"][0];
        if outlet["delivered"] == rows.len() {
            Ok(())
        } else {
            Err(outlet.to_string())
        }
    });
    // Rows in transit during a kill may be duplicated under one identifier.
    let told = consumed(cluster, "netalytics.jobs").into_iter();
    let told: BTreeMap<String, [String; 3]> = told
        .map(|told| {
            (
                told.headers["id"].clone(),
                said(&serde_json::from_str(&told.row).expect("a row")),
            )
        })
        .collect();
    assert_eq!(told.len(), rows.len());
    let told: BTreeSet<[String; 3]> = told.into_values().collect();
    assert_eq!(told, rows.iter().map(said).collect());

    // Brokers learn of a deletion one after another.
    wait("topics of ended jobs are deleted", || {
        let topics = cluster
            .kafka_tool("org.apache.kafka.tools.TopicCommand")
            .arg("--list")
            .output()
            .expect("Java");
        let topics = String::from_utf8_lossy(&topics.stdout).into_owned();
        assert!(topics.contains("netalytics.tcp_conn_time.v1"), "{topics}");
        if topics.contains("netalytics.job.") || topics.contains("netalytics.merged") {
            Err(topics)
        } else {
            Ok(())
        }
    });
    drop(agents);
}

/// Message of a server without a bus.
#[test]
fn a_server_without_kafka_has_no_bus() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let why = server.refuses(&["jobs", "start", ONCE, "--standing", "--bus", "kafka"]);
    assert!(why.contains("serve --kafka HOST:PORT names one"), "{why}");
    let tuples = [
        "jobs",
        "start",
        "PARSE http",
        "--standing",
        "--bus",
        "kafka",
        "--to",
        "kafka://127.0.0.1:1",
    ];
    let why = server.refuses(&tuples);
    assert!(why.contains("omit outlets"), "{why}");
    let folder = Folder::new();
    let server = Server::with(&folder, &["--kafka", "127.0.0.1:1"]);
    let why = server.refuses(&[
        "jobs",
        "start",
        ONCE,
        "--standing",
        "--bus",
        "kafka",
        "--engine",
        "flink",
    ]);
    assert!(why.contains("serve --flink-gateway URL names one"), "{why}");
}
