//! Compares Kafka requests with `kafka.tsv` of every capture that has one: API, version, and times in nanoseconds. Differences are
//! listed in [`DIFFERENCES`] and explained in `docs/truth/kafka.md`.

use std::path::Path;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, check_others, compare_captures, nanos, run,
    true_times, truth, unmatched,
};

/// Known differences, as [`unmatched`] prints them.
const DIFFERENCES: &ListedDifferences = &[
    // The dissector takes the client for the server.
    (
        "deepflow-11-join-group-v7.pcap",
        &[
            r#"+ ("10.50.71.3:30120", "JoinGroup", "7", Some(1715759817614902000), Some(2956000))"#,
            r#"- ("10.50.71.119:36333", "", "", Some(1715759817611946000), None)"#,
            r#"- ("10.50.71.119:36333", "Produce", "120", Some(1715759817614902000), None)"#,
        ],
    ),
    // Responses in front of the first request that was captured.
    (
        "ndpi-kafka.pcapng",
        &[
            r#"- ("172.16.17.101:58052", "", "", Some(1681849206507695000), None)"#,
            r#"- ("172.16.17.101:58052", "", "", Some(1681849506130446000), None)"#,
        ],
    ),
];

#[test]
fn requests_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 100, |capture, name| {
        let expected = truth(capture, "kafka.tsv").unwrap_or_default();
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

#[test]
fn other_protocols_have_no_tuples() {
    check_others(EVERYWHERE, "kafka", "kafka.tsv", &[]);
}

/// Client, API, version, a time, and the time up to the last byte of the response. The first time is that of the last byte of a
/// pair; of another message, which is one segment in these captures, its own.
type Compared = (String, String, String, Option<i64>, Option<i64>);

fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let wanted = expected.iter().map(wanted).collect();
    let rows = run(capture, "kafka").rows;
    let ours = rows.iter().map(|row| {
        let field = |name: &str| row.get(name).cloned().unwrap_or_default();
        let time = |name: &str| row.get(name).and_then(|time| time.parse().ok());
        let client = format!("{}:{}", row["client_ip"], row["client_port"]);
        let total = time("total_time_ns").or(time("waited_ns"));
        let at = time(if total.is_some() { "ts_end" } else { "ts" });
        (client, field("api"), field("api_version"), at, total)
    });
    unmatched(wanted, ours, |a, b| a == b, |row| format!("{row:?}"))
}

fn wanted(row: &Row) -> Compared {
    let field = |name: &str| row.get(name).map_or("", String::as_str);
    let client = format!("{}:{}", row["client"], row["cport"]);
    let api = match field("operation").split(' ').next().unwrap_or_default() {
        "Offsets" => "ListOffsets",
        api => api,
    };
    let time = |name: &str| row.get(name).map(|time| nanos(time));
    let end = time("t_resp_last").or(time("t_req_last"));
    let version = field("version");
    (
        client,
        api.to_owned(),
        version.to_owned(),
        end,
        true_times(row)[3],
    )
}
