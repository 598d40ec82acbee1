//! Two captures of the same traffic, and the delay between them. Expected values by construction: the second is derived
//! from the first with known delays and a clock that is hours off.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Delays to the server and back, with a clock that is seven hours behind.
const WAY: testkit::NetworkDelay = testkit::NetworkDelay {
    server: [10, 20, 0, 10],
    to_us: 12_000,
    back_us: 8_000,
    ahead_us: -7 * 3_600_000_000,
};
const BETWEEN_NS: i64 = 20_000_000;
const REWRITTEN: [u8; 4] = [10, 20, 0, 22];

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/shop/in.pcap")
}

/// As captured at the clients. `rewrite`: packets of one client have another address there, as behind NAT.
fn at_the_clients(rewrite: bool) -> Vec<u8> {
    let whole = std::fs::read(shop()).expect("the capture is there");
    testkit::at_the_clients(&whole, WAY, |bytes| {
        for place in [26, 30] {
            if rewrite && bytes.get(place..place + 4) == Some(&REWRITTEN) {
                bytes[place..place + 4].copy_from_slice(&[192, 0, 2, 22]);
            }
        }
    })
}

struct Answer {
    rows: Vec<Value>,
    taps: Value,
}

fn ask(query: &str, client: &[u8], workers: &str) -> Answer {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("client.pcap");
    let summary = folder.path().join("summary.json");
    std::fs::write(&capture, client).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args([
            "query",
            query,
            "--format",
            "jsonl",
            "--workers",
            workers,
            "--server-tap",
        ])
        .arg(shop())
        .arg("-r")
        .arg(&capture)
        .arg("--summary-json")
        .arg(&summary)
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{query}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("JSON lines are UTF-8");
    let rows = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    let summary = std::fs::read(&summary).expect("a summary");
    let summary: Value = serde_json::from_slice(&summary).expect("a summary is JSON");
    Answer {
        rows,
        taps: summary["taps"].clone(),
    }
}

#[test]
fn network_time_and_server_time_are_separated() {
    let client = at_the_clients(false);
    for parser in ["http", "mysql_query", "memcached"] {
        // If the server answered before the end of the request, its tap has no response time.
        let query = format!(
            "PARSE {parser} WHERE tap.server_time is not null SELECT tap.seen, tap.client_time_ns, tap.server_time_ns, tap.network_time_ns"
        );
        for workers in ["1", "2"] {
            let Answer { rows, taps } = ask(&query, &client, workers);
            assert!(rows.len() > 30, "{parser}: {rows:?}");
            for row in &rows {
                assert_eq!(
                    (
                        row["tap.seen"].as_str(),
                        row["tap.network_time_ns"].as_i64()
                    ),
                    (Some("both"), Some(BETWEEN_NS)),
                    "{parser}: {row}"
                );
                let time = |name: &str| row[name].as_i64().expect("a time");
                assert_eq!(
                    time("tap.client_time_ns") - time("tap.server_time_ns"),
                    BETWEEN_NS,
                    "{row}"
                );
            }
            assert_eq!(
                (&taps["client_only"], &taps["server_only"]),
                (&0.into(), &0.into()),
                "{parser}: {taps}"
            );
        }
    }
}

#[test]
fn rewritten_connections_are_counted() {
    let client = at_the_clients(true);
    let query =
        "PARSE http PROCESS (group-count-avg: group=(client_ip, tap.seen), value=tap.network_time)";
    let Answer { rows, taps } = ask(query, &client, "1");
    let counts = |seen: &str| -> i64 {
        let of = rows.iter().filter(|row| row["tap.seen"] == seen);
        of.map(|row| row["count"].as_i64().expect("a count")).sum()
    };
    assert!(counts("both") > 0 && counts("client") > 0, "{rows:#?}");
    assert!(
        rows.iter()
            .all(|row| (row["tap.seen"] == "client") == (row["client_ip"] == "192.0.2.22"))
    );
    let is_off = |row: &&Value| {
        row["tap.seen"] == "both" && row["avg_ns"].as_f64() != Some(BETWEEN_NS as f64)
    };
    assert_eq!(rows.iter().find(is_off), None);
    assert_eq!(
        (&taps["joined"], &taps["client_only"]),
        (&counts("both").into(), &counts("client").into())
    );
    assert_eq!(taps["server_only"], taps["client_only"], "{taps}");
}

#[test]
fn exchanged_captures_are_mentioned() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = folder.path().join("client.pcap");
    std::fs::write(&client, at_the_clients(false)).expect("written");
    let shop = shop();
    for (read, server_tap, is_mentioned) in [(&client, &shop, false), (&shop, &client, true)] {
        let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
            .args([
                "query",
                "PARSE http SELECT tap.network_time",
                "--server-tap",
            ])
            .args([server_tap.as_path(), Path::new("-r"), read])
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.contains("are the captures swapped?"),
            is_mentioned,
            "{said}"
        );
    }
}

/// The flags and the query must match.
#[test]
fn one_without_the_other_is_refused() {
    let shop = shop();
    let shop = shop.to_str().expect("UTF-8");
    for (query, flags, why) in [
        (
            "PARSE http SELECT tap.network_time",
            vec![],
            "--server-tap FILE closer to the servers",
        ),
        (
            "PARSE http",
            vec!["--server-tap", shop],
            "uses no column that needs two taps",
        ),
        (
            "PARSE http SELECT tap.other",
            vec!["--server-tap", shop],
            "`tap` has no field `tap.other`",
        ),
        ("PARSE dns SELECT tap.seen", vec![], "tap"),
        (
            "PARSE http SELECT tap.seen",
            vec!["--server-tap", "/nowhere.pcap"],
            "/nowhere.pcap",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
            .args(["query", query, "-r", shop])
            .args(flags)
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(why),
            "{query}: {said}"
        );
    }
}
