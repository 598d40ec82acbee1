//! Kafka: the requests that the broker logged.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::{captures, rows};

/// The requests that the broker logged, in the order of each connection: fields and errors. Its times end after the last byte was sent.
#[test]
pub fn kafka_requests_are_those_of_the_broker() {
    const FIELDS: [&str; 8] = [
        "api_version",
        "client_id",
        "acks",
        "topics",
        "partitions",
        "record_bytes",
        "base_offset",
        "high_watermark",
    ];
    let folder = captures().join("kafka");
    let log = std::fs::read_to_string(folder.join("requests.jsonl")).expect("the broker's log");
    let mut logged = BTreeMap::<String, VecDeque<Value>>::new();
    for line in log.lines() {
        let request: Value = serde_json::from_str(line).expect("a line of JSON");
        let client = request["client"].as_str().expect("a port").to_owned();
        logged.entry(client).or_default().push_back(request);
    }
    let mut rows = rows("PARSE kafka", &folder.join("in.pcap"));
    rows.sort_by_key(|row| row["ts"].as_i64());
    let mut compared = 0;
    for row in &rows {
        let client = row["client_port"].to_string();
        let request = logged.get_mut(&client).and_then(VecDeque::pop_front);
        let request = request.unwrap_or_else(|| panic!("not logged: {row}"));
        let api = row["api"].as_str().expect("an API").to_uppercase();
        assert_eq!(
            api,
            request["api"].as_str().unwrap_or_default().replace('_', "")
        );
        for field in FIELDS {
            if !request[field].is_null() {
                assert_eq!(row[field], request[field], "{field} of {row}");
                compared += 1;
            }
        }
        if !matches!(row["api"].as_str(), Some("Fetch" | "FindCoordinator")) {
            assert!(
                request["group"].is_null() || row["group"] == request["group"],
                "{row}"
            );
        }
        assert_eq!(row["error"], request["error"], "{row}");
    }
    assert!(logged.values().all(VecDeque::is_empty), "{logged:?}");
    assert!(compared > 600, "{compared} fields");
}
