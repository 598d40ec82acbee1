//! The use case of examples/autoscaling (docs/use-cases.md), short: what was counted is what the web servers have logged, also
//! though the server was killed; pages that are hot get replicas and lose them afterward, without swinging; and no client saw anything of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::capture::BINARY;
use crate::net::Net;

/// Duration of the three parts of the load, in seconds.
const PARTS: [&str; 3] = ["3", "11", "3"];

#[test]
fn replicas_follow_load_and_clients_notice_nothing() {
    testkit::require!("nginx", "redis-server", "redis-cli", "python3", "curl");
    testkit::require!("nginx-lua" => Path::new("/usr/lib/nginx/modules/ngx_http_lua_module.so").exists());
    let Some(_net) = Net::new() else { return };
    let folder = tempfile::Builder::new()
        .prefix("autoscaling-")
        .tempdir_in("/tmp")
        .expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ran = Command::new(root.join("examples/autoscaling/run.sh"))
        .arg(folder.path())
        .args(PARTS)
        .env("NETALYTICS", BINARY)
        .env("KILL", "yes")
        .output()
        .expect("bash runs");
    let said =
        |name: &str| fs::read_to_string(folder.path().join("log").join(name)).unwrap_or_default();
    assert!(
        ran.status.success(),
        "{}\n{}\n{}",
        String::from_utf8_lossy(&ran.stderr),
        said("serve"),
        said("load")
    );

    let file = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let rows = |name: &str| -> Vec<Value> {
        file(name)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let fields = |text: &str| -> Vec<Vec<String>> {
        text.lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    };

    // Every request was answered with its page; clients and proxy agree.
    let load = fields(&file("load.tsv"));
    let proxy = fields(&file("log/proxy.requests"));
    assert!(load.len() > 1000, "{}", load.len());
    assert_eq!(load.iter().filter(|line| line[2] != "200").count(), 0);
    assert_eq!(
        proxy
            .iter()
            .filter(|line| line[1] != "200" || line[4] != "200")
            .count(),
        0
    );
    same(&by(&load, 1), &by(&proxy, 2));

    // Counts equal the servers' logs, by page and by server.
    let mut pages: BTreeMap<String, u64> = BTreeMap::new();
    let mut servers: BTreeMap<String, u64> = BTreeMap::new();
    for (n, address) in ["10.61.0.3", "10.61.0.4", "10.61.0.5"]
        .into_iter()
        .enumerate()
    {
        let requests = fields(&file(&format!("log/web{}.requests", n + 1)));
        by(&requests, 2)
            .into_iter()
            .for_each(|(page, count)| *pages.entry(page).or_default() += count);
        servers.insert(address.into(), requests.len() as u64);
    }
    same(&counted(&rows("pages.jsonl"), "path"), &pages);
    same(&counted(&rows("servers.jsonl"), "server_ip"), &servers);
    assert!(
        servers.values().all(|count| *count > 20),
        "hot pages were on all of them: {servers:?}"
    );

    // Up while hot, down afterward, without oscillation; each page has the last decision.
    let mut decisions = rows("decisions.jsonl");
    decisions.reverse();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let directions: Vec<String> = decisions
        .iter()
        .map(|decision| text(&decision["direction"]))
        .collect();
    let mut turns = directions.clone();
    turns.dedup();
    assert_eq!(turns, ["begin", "up", "down"], "{directions:?}");
    let versions: Vec<u64> = decisions
        .iter()
        .filter_map(|decision| decision["version"].as_u64())
        .collect();
    assert!(
        versions.iter().zip(1..).all(|(version, n)| *version == n),
        "{versions:?}"
    );
    let mut replicas: BTreeMap<String, u64> = BTreeMap::new();
    let mut hot = BTreeSet::new();
    for change in decisions
        .iter()
        .flat_map(|decision| decision["changes"].as_array().into_iter().flatten())
    {
        let page = text(&change["group"]);
        let had = replicas
            .insert(page.clone(), change["to"].as_u64().expect("a number"))
            .unwrap_or(1);
        assert_eq!(Some(had), change["from"].as_u64(), "{change}");
        hot.insert(page);
    }
    assert!(
        hot.iter().all(|page| page.starts_with("/hot/")) && hot.len() > 5,
        "{hot:?}"
    );
    assert!(replicas.values().all(|n| *n == 1), "{replicas:?}");
    // The killed server may have sent a decision without having noted it, and sends it again.
    let content = fields(&file("content.tsv"));
    let mut executed: Vec<u64> = content
        .iter()
        .map(|line| line[1].parse().expect("a number"))
        .collect();
    executed.dedup();
    assert_eq!(executed, versions);
    assert!(file("redis.txt").lines().any(|line| line == "10.61.0.3"));
}

/// Compares counts; prints only differences.
fn same(found: &BTreeMap<String, u64>, expected: &BTreeMap<String, u64>) {
    let names: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differ = names
        .into_iter()
        .filter(|name| found.get(*name) != expected.get(*name));
    let differ: Vec<_> = differ
        .map(|name| (name, found.get(name), expected.get(name)))
        .collect();
    assert!(differ.is_empty(), "{differ:?}");
}

/// Count of each value in a column.
fn by(lines: &[Vec<String>], column: usize) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    lines
        .iter()
        .for_each(|line| *counts.entry(line[column].clone()).or_default() += 1);
    counts
}

/// Sum of counts by `key` over all windows.
fn counted(rows: &[Value], key: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for row in rows {
        let name = row[key].as_str().expect("a text").to_owned();
        *counts.entry(name).or_default() += row["count"].as_u64().expect("a number");
    }
    counts
}
