//! Compares HTTP/2 streams with `http2.tsv` of every capture that has one (tables made from tshark's dissection): number, method, host,
//! path, status, gRPC status, sizes, and times in nanoseconds. Differences are listed in [`DIFFERENCES`] and explained in
//! `docs/truth/http2.md`.

use std::path::Path;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, check_others, compare_captures, nanos, run,
    truth, unmatched,
};

/// Known differences, as [`unmatched`] prints them.
const DIFFERENCES: &ListedDifferences = &[
    // Retransmitted segments, behind which the dissector does not continue.
    (
        "mixed_live.pcap.gz",
        &[
            r#"+ ("10.78.0.2:39724 11", ["GET", "10.77.0.1:8082", "/sleep20", "200", ""], [Some(0), Some(9), Some(1795292996548190000), Some(106523000), Some(0)])"#,
            r#"+ ("10.78.0.2:39724 17", ["GET", "10.77.0.1:8082", "/sleep20", "200", ""], [Some(0), Some(9), Some(1795292996548190000), Some(106523000), Some(0)])"#,
            r#"+ ("10.78.0.2:39740 83", ["GET", "10.77.0.1:8082", "/sleep20", "200", ""], [Some(0), Some(9), Some(1795292996824493000), Some(46261000), Some(0)])"#,
            r#"+ ("10.78.0.2:39752 1", ["GET", "10.77.0.1:8082", "/10k.txt", "200", ""], [Some(0), Some(10000), Some(1795292996943857000), Some(30594000), Some(233737000)])"#,
            r#"- ("10.78.0.2:39724 11", ["GET", "10.77.0.1:8082", "/sleep20", "", ""], [Some(0), None, Some(1795292996548190000), None, None])"#,
            r#"- ("10.78.0.2:39724 17", ["GET", "10.77.0.1:8082", "/sleep20", "", ""], [Some(0), None, Some(1795292996548190000), None, None])"#,
            r#"- ("10.78.0.2:39740 83", ["GET", "10.77.0.1:8082", "/sleep20", "", ""], [Some(0), Some(9), Some(1795292996824493000), None, None])"#,
            r#"- ("10.78.0.2:39752 1", ["GET", "10.77.0.1:8082", "/10k.txt", "200", ""], [Some(0), None, Some(1795292996943857000), Some(30594000), None])"#,
        ],
    ),
    // A connection whose second half the table assigns to the other side; a pushed stream without its request.
    (
        "arkime-http2-nghttp2.pcap",
        &[
            r#"+ ("10.89.85.15:49570 13", ["GET", "nghttp2.org", "/", "200", ""], [Some(0), Some(6616), Some(1593995681482643000), Some(333759000), Some(806000)])"#,
            r#"+ ("10.89.85.15:49570 2", ["GET", "nghttp2.org", "/stylesheets/screen.css", "200", ""], [Some(0), Some(39082), Some(1593995682317587000), Some(51000), Some(485514000)])"#,
            r#"- ("10.89.85.15:49570 2", ["", "", "", "200", ""], [None, Some(39082), Some(1593995682317638000), None, Some(485514000)])"#,
            r#"- ("139.162.123.134:80 13", ["", "", "", "", ""], [Some(6616), None, Some(1593995682317638000), None, None])"#,
        ],
    ),
    // A second connection, which the dissector does not recognize.
    (
        "suricata-http2-errorcode.pcap",
        &[
            r#"+ ("127.0.0.1:63577 1", ["POST", "127.0.0.1:6233", "/helloworld.GreeterService/SayHello", "200", "OK"], [Some(12), Some(19), Some(1715280754461491000), Some(234000), Some(65000)])"#,
        ],
    ),
    // Bytes are missing between frames: the length of the response is unknown.
    (
        "deepflow-grpc-server-stream.pcap",
        &[
            r#"+ ("127.0.0.1:59854 1", ["POST", "localhost:9001", "/timeseriesquery.TimeSeriesQueryService/ServerStreamQuery", "200", "OK"], [Some(35), None, Some(1717500067000570000), Some(501692000), Some(2004375000)])"#,
            r#"- ("127.0.0.1:59854 1", ["POST", "localhost:9001", "/timeseriesquery.TimeSeriesQueryService/ServerStreamQuery", "200", "OK"], [Some(35), Some(3223), Some(1717500067000570000), Some(501692000), Some(2004375000)])"#,
        ],
    ),
];

#[test]
fn streams_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 170, |capture, name| {
        let expected = truth(capture, "http2.tsv").unwrap_or_default();
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

#[test]
fn other_protocols_have_no_tuples() {
    check_others(EVERYWHERE, "http2", "http2.tsv", &[]);
}

/// Client and stream; method, host, path, status, and gRPC status; sizes; times of the first byte, of the response, and of the last
/// byte.
type Compared = (String, Vec<String>, [Option<i64>; 5]);

fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let wanted = expected.iter().filter_map(wanted).collect();
    let rows = run(capture, "http2").rows;
    let ours = rows.iter().map(|row| {
        let field = |name: &str| row.get(name).cloned().unwrap_or_default();
        let number = |name: &str| row.get(name).and_then(|number| number.parse().ok());
        let client = format!(
            "{}:{} {}",
            row["client_ip"], row["client_port"], row["stream"]
        );
        let path = match field("url_query") {
            query if query.is_empty() => field("path"),
            query => format!("{}?{query}", field("path")),
        };
        let texts = vec![
            field("method"),
            field("host"),
            path,
            field("status"),
            field("grpc_status"),
        ];
        let numbers = [
            number("request_bytes"),
            number("response_bytes"),
            number("ts"),
            number("response_time_ns"),
            number("transfer_time_ns"),
        ];
        (client, texts, numbers)
    });
    unmatched(wanted, ours, |a, b| a == b, |row| format!("{row:?}"))
}

/// `None`: a stream of which the table knows nothing but the number.
fn wanted(row: &Row) -> Option<Compared> {
    let field = |name: &str| row.get(name).cloned().unwrap_or_default();
    let time = |name: &str| row.get(name).map(|time| nanos(time));
    let asked = time("t_req_headers");
    let answered = time("t_resp_headers");
    let first = asked.or(answered)?;
    let client = format!("{}:{} {}", row["client"], row["cport"], row["h2stream"]);
    let statuses = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
    ];
    let status = field("grpc_status");
    let status = status
        .parse()
        .ok()
        .and_then(|code: usize| statuses.get(code))
        .map_or(status, |name| (*name).to_owned());
    let texts = vec![
        field("method"),
        field("authority"),
        field("path"),
        field("status"),
        status,
    ];
    let size = |name: &str, end: &str| {
        row.get(end)?;
        field(name).parse().ok()
    };
    let whole = time("t_req_end").filter(|end| answered.is_none_or(|first| *end <= first));
    let from = whole.or(asked.filter(|_| row.contains_key("grpc_status")));
    let numbers = [
        size("req_data", "t_req_end"),
        size("resp_data", "t_resp_end"),
        Some(first),
        answered.zip(from).map(|(to, from)| to - from),
        time("t_resp_end").zip(answered).map(|(to, from)| to - from),
    ];
    Some((client, texts, numbers))
}
