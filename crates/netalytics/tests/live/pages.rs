//! The use case of examples/pages (docs/use-cases.md): what the queries find is what the shop itself has logged, and an update with the
//! mistake is caught.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::capture::BINARY;
use crate::testbed::TestBed;

#[test]
fn pages_and_statements_are_those_of_the_log_and_a_mistake_is_caught() {
    let Some(bed) = TestBed::new() else { return };
    let folder = tempfile::Builder::new()
        .prefix("pages-")
        .tempdir_in("/tmp")
        .expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ran = Command::new(root.join("examples/pages/run.sh"))
        .arg(folder.path())
        .arg("250")
        .env("NETALYTICS", BINARY)
        .output()
        .expect("bash runs");
    drop(bed);
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );

    let file = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let rows = |name: &str| -> Vec<Value> {
        file(name)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    // Pages with the number of their statements.
    let mut pages: BTreeMap<String, u64> = BTreeMap::new();
    let mut statements = 0;
    for line in file("first.requests").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        *pages.entry(fields[0].to_owned()).or_default() += 1;
        statements += fields[3].parse::<u64>().expect("a number");
    }
    let count = |row: &Value| row["count"].as_u64().expect("a number");
    let path = |row: &Value| row["path"].as_str().expect("a path").to_owned();
    let found = rows("pages.jsonl");
    assert_eq!(
        found
            .iter()
            .map(|row| (path(row), count(row)))
            .collect::<BTreeMap<_, _>>(),
        pages
    );
    assert_eq!(pages.values().sum::<u64>(), 250);
    assert_eq!(
        rows("statements.jsonl").iter().map(count).sum::<u64>(),
        statements
    );
    assert_eq!(
        rows("hosts.jsonl").iter().map(count).collect::<Vec<_>>(),
        [250, 250]
    );
    let median = |of: &str| {
        let row = found.iter().find(|row| path(row) == of).expect("a row");
        row["p50_ns"].as_f64().expect("a number")
    };
    assert!(
        median("/overdue") > 1.5 * median("/overdue-bug"),
        "{found:?}"
    );

    let outcome = |name: &str| serde_json::from_str::<Value>(&file(name)).expect("JSON");
    let good = outcome("good-statements.json");
    let bad = outcome("bad-statements.json");
    assert_eq!(
        (good["passed"].as_bool(), bad["passed"].as_bool()),
        (Some(true), Some(false)),
        "{bad}"
    );
    assert!(bad.to_string().contains("WHERE returned IS NULL"), "{bad}");
    assert!(
        !outcome("bad-pages.json")["passed"]
            .as_bool()
            .expect("an outcome")
    );
}
