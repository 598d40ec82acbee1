//! TLS: the requests that nginx logged, without keys and with them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::tables::table;
use crate::{captures, rows, run, text};

/// On connections whose turns are all certain, the turns are the requests of the log, in order, and responses have the body
/// and a head. With keys, the requests that end with a turn have its total time.
#[test]
pub fn turns_are_the_requests_of_nginx() {
    let capture = captures().join("tls-keys/in.pcap");
    let turns = rows("PARSE encrypted", &capture);
    let mut of_port: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for turn in &turns {
        let port = turn["client_port"].to_string();
        of_port.entry(port).or_default().push(turn);
    }
    let mut logged: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in table("tls-keys", "server.log") {
        let bytes = line[4].parse().expect("a number");
        logged.entry(line[0].clone()).or_default().push(bytes);
    }
    let mut compared = 0;
    for (port, bodies) in &logged {
        let turns = &of_port[port];
        if turns.iter().any(|turn| turn["certainty"] != "turn") || turns.len() != bodies.len() {
            continue;
        }
        for (turn, body) in turns.iter().zip(bodies) {
            let bytes = turn["response_bytes"].as_u64().expect("a response");
            assert!(
                (*body..body + 700).contains(&bytes),
                "{port}: {bytes}, {body}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 40, "{compared}");

    let keys = captures().join("tls-keys/keys.log");
    let keys = keys.to_str().expect("a path");
    let path = capture.to_str().expect("a path");
    let read = [
        "query",
        "PARSE http",
        "-r",
        path,
        "--keys",
        keys,
        "--format",
        "jsonl",
        "-q",
    ];
    let printed = text(&run(&read).stdout);
    let requests: BTreeMap<(u64, i64), Value> = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|row| (end_of(&row), row))
        .collect();
    let certain = turns.iter().filter(|turn| turn["certainty"] == "turn");
    let both = certain.filter_map(|turn| Some((turn, requests.get(&end_of(turn))?)));
    let times: Vec<[&Value; 2]> = both
        .map(|(turn, request)| [turn, request].map(|row| &row["total_time_ns"]))
        .collect();
    assert!(times.len() >= 160, "{}", times.len());
    assert!(times.iter().all(|[turn, request]| turn == request));
}

/// Port of the client and time of the last byte.
fn end_of(row: &Value) -> (u64, i64) {
    let port = row["client_port"].as_u64().expect("a port");
    (port, row["ts_end"].as_i64().expect("a time"))
}
