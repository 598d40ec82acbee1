//! The agent's name and labels as columns: rows of three agents at a server equal those of local queries over each
//! host's packets.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::service::{Process, Server, wait};
use super::{Folder, check};

/// Each agent sees one client, and has a role.
const AGENTS: [(&str, &str); 3] = [
    ("10.20.0.21", "web"),
    ("10.20.0.22", "web"),
    ("10.20.0.23", "db"),
];
const QUERY: &str = "PARSE http PROCESS (diff-group: group=agent), (diff-group: group=label.role), \
                     (group-count: group=label.role) HAVING label.role != 'db' ORDER BY label.role";
const TUPLES: &str = "PARSE http SELECT agent, label.role, path WHERE label.role = 'web'";

/// Values independent of the agent: without times of windows and the last bits of averages.
fn said(row: &Value) -> String {
    let names = [
        "agent",
        "label.role",
        "path",
        "count",
        "min_ns",
        "max_ns",
        "p50_ns",
        "p95_ns",
        "p99_ns",
    ];
    let of = |name: &&str| {
        row.get(*name)
            .map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
    };
    names.iter().filter_map(of).collect::<Vec<_>>().join(" ")
}

fn sorted(rows: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort();
    rows
}

/// A local query over captures with this role.
fn local(query: &str, role: &str, captures: &[&str]) -> Vec<Value> {
    let label = format!("role={role}");
    let args = [
        &["query", query, "--label", &label, "--format", "jsonl", "-r"],
        captures,
    ]
    .concat();
    check(&args, 0, &[])
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect()
}

/// Rows with such a column.
fn having<'r>(rows: &'r [Value], column: &'r str) -> impl Iterator<Item = Value> + 'r {
    rows.iter()
        .filter(move |row| row.get(column).is_some())
        .cloned()
}

/// Results of local queries over the parts: by agent and by role.
fn expected(parts: &BTreeMap<&str, String>) -> (Vec<String>, Vec<String>) {
    let mut results = Vec::new();
    let mut tuples = Vec::new();
    for (agent, role) in AGENTS {
        let named = |mut row: Value| {
            assert!(row["agent"].is_null(), "no agent has taken part: {row}");
            row["agent"] = agent.into();
            said(&row)
        };
        results.extend(having(&local(QUERY, role, &[&parts[agent]]), "agent").map(named));
        tuples.extend(local(TUPLES, role, &[&parts[agent]]).into_iter().map(named));
    }
    for role in ["web", "db"] {
        let of_role = AGENTS.iter().filter(|(_, its)| *its == role);
        let captures: Vec<&str> = of_role.map(|(agent, _)| parts[agent].as_str()).collect();
        results.extend(having(&local(QUERY, role, &captures), "label.role").map(|row| said(&row)));
    }
    (sorted(results), sorted(tuples))
}

/// Rows of all results of a job that has run for this time.
fn rows_of(server: &Server, query: &str, results: usize, runs: Duration) -> Vec<String> {
    let id = server.rows(&["jobs", "start", query, "--standing"])[0]["id"].clone();
    let id = id.as_str().expect("a number");
    let is = |state: &'static str| {
        wait(state, || {
            let job = &server.rows(&["jobs", "show", id])[0];
            if job["state"] == state {
                Ok(())
            } else {
                Err(job.to_string())
            }
        });
    };
    is("running");
    std::thread::sleep(runs);
    server.ask(&["jobs", "stop", id]);
    is("ended");
    let of = |result: usize| server.rows(&["jobs", "results", id, "--result", &result.to_string()]);
    let rows: Vec<Value> = (0..results).flat_map(of).collect();
    assert!(
        rows.iter().all(|row| row["agents_missing"].is_null()),
        "{rows:?}"
    );
    sorted(rows.iter().map(said))
}

/// Origin of tuples in a recording, with and without labels.
#[test]
fn recordings_keep_labels() {
    let folder = Folder::new();
    let record = |name: &str, labels: &[&str]| {
        let to = folder.path(name);
        let args = [
            "record",
            "PARSE http",
            "-r",
            "captures/shop/in.pcap",
            "-o",
            &to,
        ];
        check(&[&args[..], labels].concat(), 0, &[]);
        to
    };
    let web = record("web", &["--label", "role=web", "--label", "Rack-Id=7"]);
    let plain = record("plain", &[]);
    let query = "PARSE http PROCESS (group-count: group=agent, label.role, label.rack_id) ORDER BY label.role";
    let out = check(
        &["query", query, "--format", "csv", "-r", &web, &plain],
        0,
        &[],
    )
    .out;
    let rows: Vec<_> = out
        .lines()
        .skip(1)
        .map(|line| line.split(',').take(4).collect::<Vec<_>>())
        .collect();
    assert_eq!(
        rows,
        [["", "", "", "221"], ["", "web", "7", "221"]],
        "{out}"
    );
    let again = ["query", query, "-r", &web, "--label", "role=db"];
    check(
        &again,
        2,
        &["a recording has the labels that it was recorded with"],
    );
}

/// A host whose policy allows less than any job needs.
#[test]
fn a_job_that_a_host_cannot_bear_is_refused_with_numbers() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let policy = folder.file(
        "small.toml",
        b"all_cores_max = 0.001\nall_memory_max = 1073741824",
    );
    let token = server.token(&folder, "small");
    let own = folder.path("small");
    let agent = [
        "agent",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--folder",
        &own,
        "--policy",
        &policy,
        "--name",
        "small",
    ];
    let _agent = Process::start(&[&agent[..], &["--demo", "captures/shop/in.pcap"]].concat());
    server.await_agents(1);
    let why = server.refuses(&["jobs", "start", "PARSE http PROCESS (rate)", "--standing"]);
    let numbers = "estimated cost: 0.01 cores and 48 MiB; available: 0.00 cores and 1024 MiB of 0.00 cores and 1024 MiB";
    assert!(
        why.contains("agent small has no capacity for it") && why.contains(numbers),
        "{why}"
    );
}

#[test]
fn agents_and_labels_are_columns() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let mut parts = BTreeMap::new();
    let agents = AGENTS.map(|(agent, role)| {
        let part = folder.path(&format!("{agent}.pcap"));
        let query = format!("PARSE packet FROM {agent} PROCESS (count)");
        check(
            &["query", &query, "-r", "captures/shop/in.pcap", "-w", &part],
            0,
            &[],
        );
        let policy = format!("labels = {{ Role = '{role}', rack = '7' }}");
        let policy = folder.file(&format!("{agent}.toml"), policy.as_bytes());
        let token = server.token(&folder, agent);
        let own = folder.path(agent);
        let called = server.agent(agent, &token, &own);
        let plays = ["--policy", &policy, "--demo", &part, "--demo-pause", "1h"];
        let process = Process::start(&[&called[..], &plays].concat());
        parts.insert(agent, part);
        process
    });
    server.await_agents(3);
    let (results, tuples) = expected(&parts);
    assert_eq!(results.len(), 3 + 2 + 1, "{results:?}");
    for (query, n, expected) in [(QUERY, 3, results), (TUPLES, 1, tuples)] {
        // The time to replay all packets depends on the machine.
        let mut seen = Vec::new();
        let is_there = [2, 8, 32].into_iter().any(|seconds| {
            seen = rows_of(&server, query, n, Duration::from_secs(seconds));
            seen == expected
        });
        assert!(is_there, "{query}: never\n{expected:#?}, but\n{seen:#?}");
    }
    drop(agents);
}
