//! A Redis server: its content is compared with the output, also after a kill in between.

use std::process::Command;

use serde_json::Value;

use super::{Query, Server, free_port, over_shop, shop, wait_for};

fn start(port: u16) -> Server {
    let server = Server::start(
        Command::new("redis-server")
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .args(["--requirepass", "s3cret"]),
    );
    wait_for("Redis", || (ask(port, &["ping"]) == ["PONG"]).then_some(()));
    server
}

/// Lines of a response.
fn ask(port: u16, words: &[&str]) -> Vec<String> {
    let output = Command::new("redis-cli")
        .env("REDISCLI_AUTH", "s3cret")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "--raw"])
        .args(words)
        .output()
        .expect("a client");
    String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(String::from)
        .collect()
}

fn secret(folder: &std::path::Path) -> String {
    super::file(folder, "secret", "s3cret\n")
}

#[test]
fn rankings_are_sorted_sets_and_tuples_are_entries() {
    testkit::require!("redis-server", "redis-cli");
    let port = free_port();
    let folder = tempfile::tempdir().expect("a folder");
    let _server = start(port);
    let to = format!(
        "redis://127.0.0.1:{port}/0#secret-file={}",
        secret(folder.path())
    );
    let done = over_shop(
        "PARSE http PROCESS (top-k: key=url_template, k=3), (group-count: group=method, status, w=1s)",
        &["--to", &to],
    );
    done.adds_up();
    assert_eq!((done.code, done.lost()), (Some(0), 0), "{}", done.err);
    assert!(!done.err.contains("s3cret"), "{}", done.err);
    let rows: Vec<Value> = done
        .lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let ranked = rows.iter().filter(|row| row["processor"] == "top-k");
    let ranked: Vec<String> = ranked
        .flat_map(|row| {
            [
                row["url_template"].as_str().unwrap_or_default().to_owned(),
                row["count"].to_string(),
            ]
        })
        .collect();
    assert_eq!(ranked.len(), 6);
    assert_eq!(
        ask(
            port,
            &["zrange", "netalytics:top-k", "0", "-1", "rev", "withscores"]
        ),
        ranked
    );
    // Each window by its start; the newest also without it.
    let windows = rows.iter().filter(|row| row["processor"] == "group-count");
    let start = |row: &Value| row["window_start"].as_i64().expect("a time") / 1_000_000_000;
    let last = windows.clone().map(start).max().expect("windows");
    for row in windows {
        let member = serde_json::json!([row["method"], row["status"].to_string()]).to_string();
        let key = format!("netalytics:group-count:{}", start(row));
        assert_eq!(
            ask(port, &["zscore", &key, &member]),
            [row["count"].to_string()],
            "{key} {member}"
        );
        let newest = ask(port, &["zscore", "netalytics:group-count", &member]);
        assert!(
            start(row) != last || newest == [row["count"].to_string()],
            "{member}: {newest:?}"
        );
        let seconds: i64 = ask(port, &["ttl", &key])[0].parse().expect("seconds");
        assert!((1..=3600).contains(&seconds), "{key}: {seconds}");
    }
    let tuples = over_shop("PARSE http", &["--to", &to, "--no-redact"]);
    tuples.adds_up();
    assert_eq!(
        ask(port, &["xlen", "netalytics:http"]),
        [tuples.lines.len().to_string()]
    );
    let first = ask(port, &["xrange", "netalytics:http", "-", "+", "count", "1"]);
    let row: Value = serde_json::from_str(&tuples.lines[0]).expect("JSON");
    let path = first
        .iter()
        .position(|word| word == "path")
        .map(|at| first[at + 1].as_str());
    assert_eq!(path, row["path"].as_str(), "{first:?}");
    // A foreign key of another type is not overwritten.
    ask(port, &["set", "x:http", "mine"]);
    let refused = over_shop("PARSE http", &["--to", &format!("{to}&prefix=x")]);
    refused.adds_up();
    assert_eq!(
        refused.count("/lost/refused"),
        refused.lines.len() as u64,
        "{}",
        refused.err
    );
    assert_eq!(ask(port, &["get", "x:http"]), ["mine"]);
}

#[test]
fn a_server_that_is_killed_and_comes_back() {
    testkit::require!("redis-server", "redis-cli");
    let port = free_port();
    let folder = tempfile::tempdir().expect("a folder");
    let packets = shop();
    let mut server = start(port);
    let to = format!(
        "redis://127.0.0.1:{port}/0#secret-file={}",
        secret(folder.path())
    );
    let mut run = Query::start("PARSE http", &["--to", &to, "--to-timeout", "60s"]);
    let half = packets.len() / 2;
    run.feed(&packets[..half]);
    let entries = |port| {
        ask(port, &["xlen", "netalytics:http"])
            .first()
            .and_then(|n| n.parse::<u64>().ok())
    };
    wait_for("entries", || entries(port).filter(|n| *n > 20));
    let before = entries(port).expect("a number");
    server.kill();
    run.feed(&packets[half..]);
    run.end();
    let _server = start(port);
    let done = run.done();
    done.adds_up();
    let after = entries(port).expect("a number");
    // The first server's data is lost with it: it had no persistence. An entry may be in both.
    assert_eq!((done.lost(), done.code), (0, Some(0)), "{}", done.err);
    assert!(
        after > 0 && before + after >= done.count("/sent"),
        "{before} + {after}, {}",
        done.err
    );
}
