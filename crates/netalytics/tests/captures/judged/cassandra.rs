//! Cassandra: the requests and results that the driver reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::{captures, rows};

/// The requests and results that the driver reported, by connection and stream: five sessions with versions 3 to 5, without compression,
/// with LZ4, and with Snappy. The rest are events.
#[test]
pub fn cassandra_requests_are_those_of_the_driver() {
    const FIELDS: [(&str, &str); 8] = [
        ("version", "version"),
        ("consistency", "consistency"),
        ("page_size", "page_size"),
        ("statements", "statements"),
        ("error_code", "error_code"),
        ("rows", "returned_rows"),
        ("traced", "tracing_id"),
        ("warned", "warned"),
    ];
    let folder = captures().join("cassandra");
    let log = std::fs::read_to_string(folder.join("client.jsonl")).expect("the driver's log");
    let mut reported = BTreeMap::<(u64, i64), VecDeque<Value>>::new();
    let mut count = 0;
    for line in log.lines() {
        let request: Value = serde_json::from_str(line).expect("a line of JSON");
        let port = request["port"].as_u64().expect("a port");
        let stream = request["stream"].as_i64().expect("a stream");
        reported
            .entry((port, stream))
            .or_default()
            .push_back(request);
        count += 1;
    }
    let mut rows = rows("PARSE cassandra", &folder.join("in.pcap"));
    rows.sort_by_key(|row| row["ts"].as_i64());
    let (events, requests): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["command"] == "event");
    assert!(events.len() > 5, "{} events", events.len());
    assert_eq!(requests.len(), count);
    let mut compressions = BTreeSet::new();
    for row in requests {
        let port = row["client_port"].as_u64().expect("a port");
        let stream = row["stream"].as_i64().expect("a stream");
        let request = reported
            .get_mut(&(port, stream))
            .and_then(VecDeque::pop_front);
        let mut request = request.unwrap_or_else(|| panic!("not reported: {row}"));
        let mut row = row.clone();
        request["warned"] = (request["warnings"].as_u64().unwrap_or(0) > 0).into();
        row["warned"] = row["warnings"].is_string().into();
        for (reported, field) in FIELDS {
            let is_first_page = reported != "page_size" || !request[reported].is_null();
            if is_first_page {
                assert_eq!(row[field], request[reported], "{field} of {row}, {request}");
            }
        }
        let message = request["message"].as_str().expect("a class").to_lowercase();
        let command = row["command"].as_str().expect("a command");
        assert!(message.starts_with(&command.replace('_', "")), "{row}");
        if row["more_pages"].is_boolean() {
            assert_eq!(row["more_pages"], request["more"], "{row}");
        }
        if let Some(query) = request["query"].as_str() {
            let text = row["query"].as_str().unwrap_or_default();
            assert!(text.starts_with(query), "{row}, {request}");
        }
        // Identifiers of all statements were learned.
        assert_eq!(
            row["query"].is_string(),
            !["options", "startup", "register"].contains(&command),
            "{row}"
        );
        if row["query"].is_string() {
            assert_eq!(row["compression"], request["compression"], "{row}");
            compressions.extend(
                row["compression"]
                    .as_str()
                    .map(|name| format!("{name} {}", row["version"])),
            );
        }
        let seconds = request["seconds"].as_f64().expect("a time");
        let total = row["total_time_ns"].as_f64().expect("a time") / 1e9;
        assert!(total < seconds, "{total} {seconds}: {row}");
        assert_eq!(row["quality"], "exact", "{row}");
    }
    let all = ["lz4 4", "lz4 5", "snappy 3"].map(str::to_owned);
    assert_eq!(compressions, BTreeSet::from(all));
}
