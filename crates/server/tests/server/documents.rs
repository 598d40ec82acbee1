//! docs/api.md, docs/alerts.md and docs/actions.md: runs each command and compares its output with the text below it.

use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// Commands with their expected output.
fn examples(text: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut command = None;
    let mut blocks = text.split("```");
    while let (Some(_), Some(block)) = (blocks.next(), blocks.next()) {
        let (kind, body) = block.split_once('\n').expect("a block has lines");
        match kind {
            "sh" => assert_eq!(
                command.replace(body.to_owned()),
                None,
                "a command without an answer"
            ),
            "json" => {
                let command = command.take().expect("an answer stands behind its command");
                found.push((command, serde_json::from_str(body).expect("JSON")));
            }
            other => panic!("a block of kind {other:?}"),
        }
    }
    assert_eq!(command, None);
    found
}

/// Whether a response matches the document; `…` matches anything, and in a list any number of items.
fn is_as(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(any), _) if any == "…" => true,
        (Value::Object(expected), Value::Object(found)) => expected
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|found| is_as(value, found))),
        (Value::Array(expected), Value::Array(found)) => match expected.split_last() {
            Some((Value::String(any), first)) if any == "…" => {
                first.len() <= found.len() && first.iter().zip(found).all(|(e, f)| is_as(e, f))
            }
            _ => {
                expected.len() == found.len()
                    && expected.iter().zip(found).all(|(e, f)| is_as(e, f))
            }
        },
        _ => expected == found,
    }
}

#[test]
fn every_example_is_answered_so() {
    check(
        TestFleet::shop(),
        include_str!("../../../../docs/api.md"),
        14,
    );
}

#[test]
fn alerts_match_their_page() {
    check(
        TestFleet::shop(),
        include_str!("../../../../docs/alerts.md"),
        5,
    );
}

#[test]
fn actions_match_their_page() {
    check(
        TestFleet::new(Way::Note),
        include_str!("../../../../docs/actions.md"),
        4,
    );
}

/// Runs the examples, at least `least` of them.
fn check(fleet: Arc<TestFleet>, text: &str, least: usize) {
    let server = Server::start(fleet);
    let folder = tempfile::tempdir().expect("a folder");
    let examples = examples(text);
    assert!(examples.len() >= least, "{} examples", examples.len());
    for (command, expected) in examples {
        let ran = Command::new("sh")
            .args(["-c", &command])
            .current_dir(folder.path())
            .env("URL", format!("http://{}", server.address))
            .env("TOKEN", &server.token)
            .output()
            .expect("a shell");
        let printed = String::from_utf8_lossy(&ran.stdout);
        let found: Value = serde_json::from_str(&printed).unwrap_or_else(|error| {
            panic!(
                "{command}: {error}: {printed} {}",
                String::from_utf8_lossy(&ran.stderr)
            )
        });
        assert!(
            is_as(&expected, &found),
            "{command}\nis to print\n{expected}\nand prints\n{found}"
        );
        if command.contains("/api/v1/jobs\" -H") && found["id"].is_string() {
            server.ended(found["id"].as_str().expect("an id"));
        }
    }
}
