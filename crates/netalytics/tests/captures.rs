//! The project's own captures: every `captures/<case>/query*.txt` gives the rows of its `expected*.jsonl`, and the
//! recorded ones agree with the servers' own logs. `UPDATE=1` rewrites the expected rows; read the diff before you
//! believe it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[path = "captures/nothing.rs"]
mod nothing;
#[path = "captures/overview.rs"]
mod overview;

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures")
}

/// What `netalytics query` prints as JSON lines.
fn query(text: &str, capture: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(["query", text, "--format", "jsonl", "-r"])
        .arg(capture)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("JSON lines are UTF-8")
}

fn rows(text: &str, capture: &Path) -> Vec<Value> {
    query(text, capture).lines().map(|l| serde_json::from_str(l).expect("a line is JSON")).collect()
}

#[test]
fn every_case_gives_its_expected_rows() {
    let mut cases = 0;
    for folder in
        std::fs::read_dir(captures()).expect("captures/ is there").map(|e| e.expect("an entry").path())
    {
        let files =
            std::fs::read_dir(&folder).expect("a case is a folder").map(|e| e.expect("an entry").path());
        for file in files.filter(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with("query")))
        {
            let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
            let expected = folder.join(name.replace("query", "expected").replace(".txt", ".jsonl"));
            let text = std::fs::read_to_string(&file).expect("a query can be read");
            let got = query(text.trim(), &folder.join("in.pcap"));
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&expected, &got).expect("expected rows can be written");
            }
            let want = std::fs::read_to_string(&expected).unwrap_or_default();
            assert_eq!(got, want, "{}", file.display());
            cases += 1;
        }
    }
    assert!(cases >= 6, "{cases} cases");
}

/// nginx: `$msec $remote_addr $remote_port $request_method $request_uri $status $body_bytes_sent $request_time`.
#[test]
fn shop_requests_are_those_of_nginx() {
    let shop = captures().join("shop");
    let log = std::fs::read_to_string(shop.join("nginx-access.log")).expect("the log of the recording");
    let mut want = BTreeMap::<String, usize>::new();
    let mut logged_seconds = BTreeMap::<String, f64>::new();
    for line in log.lines() {
        let f: Vec<&str> = line.split(' ').collect();
        *want.entry(f[1..7].join(" ")).or_default() += 1;
        *logged_seconds.entry(format!("{} {}", f[1], f[2])).or_default() +=
            f[7].parse::<f64>().expect("seconds");
    }
    let mut got = BTreeMap::<String, usize>::new();
    let mut seen_seconds = BTreeMap::<String, f64>::new();
    for row in rows("PARSE http", &shop.join("in.pcap")) {
        let text = |f: &str| row[f].as_str().unwrap_or_default().to_owned();
        let uri = match row["url_query"].as_str() {
            Some(q) => format!("{}?{q}", text("path")),
            None => text("path"),
        };
        let connection = format!("{} {}", text("client_ip"), row["client_port"]);
        let line =
            format!("{connection} {} {uri} {} {}", text("method"), row["status"], row["response_bytes"]);
        *got.entry(line).or_default() += 1;
        // nginx answers some requests before their body has come.
        let (nanos, quality) = match row["response_time_ns"].as_i64() {
            Some(time) => (time + row["transfer_time_ns"].as_i64().expect("answered"), "exact"),
            None => (0, "untimed"),
        };
        *seen_seconds.entry(connection).or_default() += nanos as f64 / 1e9;
        assert_eq!(row["quality"], quality);
    }
    assert_eq!(got, want);
    // nginx counts whole milliseconds from its first read to its last write: never much more than what the network saw.
    for (connection, logged) in logged_seconds {
        let seen = seen_seconds[&connection];
        assert!((logged - seen).abs() < 0.012, "{connection}: nginx {logged} s, seen {seen} s");
    }
}

#[test]
fn shop_statements_are_those_of_mariadb() {
    let shop = captures().join("shop");
    let log = std::fs::read_to_string(shop.join("mariadb-queries.log")).expect("the log of the recording");
    let mut want: Vec<&str> =
        log.lines().filter_map(|l| l.split_once("\tQuery\t").map(|(_, text)| text)).collect();
    let rows = rows("PARSE mysql_query WHERE command = 'query'", &shop.join("in.pcap"));
    let mut got: Vec<&str> = rows.iter().map(|r| r["query"].as_str().expect("a statement")).collect();
    want.sort_unstable();
    got.sort_unstable();
    assert_eq!(got, want);
    let failed = rows.iter().filter(|r| r["error_code"] == 1054).count();
    assert_eq!(failed, want.iter().filter(|q| q.contains("discount")).count(), "unknown column: error 1054");
}

#[test]
fn shop_commands_are_those_of_memcached() {
    let shop = captures().join("shop");
    let log = std::fs::read_to_string(shop.join("memcached-commands.log")).expect("the log of the recording");
    let mut want: Vec<String> =
        log.lines().map(|l| l.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let rows = rows("PARSE memcached", &shop.join("in.pcap"));
    let mut got: Vec<String> = rows
        .iter()
        .map(|r| {
            format!(
                "{} {}",
                r["command"].as_str().expect("a command"),
                r["cache_key"].as_str().expect("a key")
            )
        })
        .collect();
    want.sort_unstable();
    got.sort_unstable();
    assert_eq!(got, want);
}
