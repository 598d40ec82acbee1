//! HTTP/2 and gRPC: the logs of nginx and of a gRPC server.

use serde_json::Value;

use crate::{captures, rows};

fn lines_of(file: &str) -> Vec<Value> {
    let log = std::fs::read_to_string(captures().join("http2").join(file)).expect("a log");
    let lines = log.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

/// Requests by client, method, path, status, and size of the body, and in `http` the same ones. Times are at most those of nginx,
/// which has milliseconds.
#[test]
pub fn streams_are_those_of_nginx() {
    let capture = captures().join("http2/in.pcap");
    let shown = |fields: [&Value; 6]| fields.map(Value::to_string).join(" ");
    let mut expected: Vec<String> = lines_of("nginx-access.jsonl")
        .iter()
        .map(|line| {
            let of = |name| &line[name];
            shown([
                of("client_port"),
                of("method"),
                of("host"),
                of("path"),
                of("status"),
                of("response_bytes"),
            ])
        })
        .collect();
    expected.sort_unstable();
    for parser in ["http", "http2"] {
        let found = rows(
            &format!("PARSE {parser} WHERE server_port = 8082"),
            &capture,
        );
        let mut found: Vec<String> = found
            .iter()
            .map(|row| {
                // nginx may answer before the client has ended an upload.
                let is_early = row["method"] == "POST" && row["response_time_ns"].is_null();
                let quality = if is_early { "untimed" } else { "exact" };
                assert_eq!(
                    (&row["quality"], &row["http_version"]),
                    (&quality.into(), &"2".into())
                );
                let query = row["url_query"].as_str();
                let path = row["path"].as_str().expect("a path");
                let path = query.map_or(path.to_owned(), |query| format!("{path}?{query}"));
                let port = &row["client_port"];
                let of = |name| &row[name];
                shown([
                    port,
                    of("method"),
                    of("host"),
                    &path.into(),
                    of("status"),
                    of("response_bytes"),
                ])
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{parser}");
    }
}

/// Methods, statuses, and numbers of messages as the server counted them. Two calls have no line: a method that does not exist; and the
/// client that gave up has another status than the server.
#[test]
pub fn calls_are_those_of_the_server() {
    let capture = captures().join("http2/in.pcap");
    let shown = |fields: [&Value; 4]| fields.map(Value::to_string).join(" ");
    let mut expected: Vec<String> = lines_of("grpc-server.jsonl")
        .iter()
        .filter(|line| line["method"] != "Sleep")
        .map(|line| shown(["method", "status", "requests", "responses"].map(|name| &line[name])))
        .collect();
    let found = rows("PARSE grpc", &capture);
    let (served, others): (Vec<&Value>, Vec<&Value>) = found
        .iter()
        .partition(|row| row["grpc_method"] != "Sleep" && row["grpc_method"] != "Nothing");
    let mut served: Vec<String> = served
        .iter()
        .map(|row| {
            assert_eq!(
                (&row["grpc_service"], &row["quality"]),
                (&"test.Calls".into(), &"exact".into())
            );
            let fields = [
                "grpc_method",
                "grpc_status",
                "request_messages",
                "response_messages",
            ];
            shown(fields.map(|name| &row[name]))
        })
        .collect();
    expected.sort_unstable();
    served.sort_unstable();
    assert_eq!(served, expected);
    let mut others: Vec<String> = others
        .iter()
        .map(|row| shown(["grpc_method", "grpc_status", "end", "status"].map(|name| &row[name])))
        .collect();
    others.sort_unstable();
    assert_eq!(
        others,
        [
            r#""Nothing" "UNIMPLEMENTED" "end_stream" 200"#,
            r#""Sleep" null "rst_stream(CANCEL)" null"#
        ]
    );
}
