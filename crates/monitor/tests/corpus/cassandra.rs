//! Compares CQL requests with `cql.tsv` of every capture that has one: command, stream, statement, error, and times in nanoseconds.
//! Explained in `docs/truth/cassandra.md`.

use std::path::Path;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, check_others, compare_captures, nanos, run,
    true_times, truth, unmatched,
};

/// Known differences, as [`unmatched`] prints them.
const DIFFERENCES: &ListedDifferences = &[];

#[test]
fn requests_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 140, |capture, name| {
        let expected = truth(capture, "cql.tsv").unwrap_or_default();
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

#[test]
fn other_protocols_have_no_tuples() {
    check_others(EVERYWHERE, "cassandra", "cql.tsv", &[]);
}

/// A row: client, command, stream, statement, and code of the error; a time, and the time up to the last byte of the response. The first
/// time is that of the last byte of a pair; of another message, which is one segment in these captures, its own.
type Compared = ([String; 5], Option<i64>, Option<i64>);

fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let wanted = expected.iter().map(wanted).collect();
    let rows = run(capture, "cassandra").rows;
    let ours = rows.iter().map(|row| {
        let field = |name: &str| row.get(name).cloned().unwrap_or_default();
        let time = |name: &str| row.get(name).and_then(|time| time.parse().ok());
        let client = format!("{}:{}", row["client_ip"], row["client_port"]);
        let total = time("total_time_ns");
        let at = time(if total.is_some() { "ts_end" } else { "ts" });
        let query = field("query").replace(char::is_whitespace, " ");
        let texts = [
            client,
            field("command"),
            field("stream"),
            query,
            field("error_code"),
        ];
        (texts, at, total)
    });
    unmatched(wanted, ours, |a, b| a == b, |row| format!("{row:?}"))
}

fn wanted(row: &Row) -> Compared {
    let field = |name: &str| row.get(name).map_or("", String::as_str);
    let client = format!("{}:{}", row["client"], row["cport"]);
    let command = field("operation").split(' ').next().unwrap_or_default();
    let command = command.to_ascii_lowercase();
    // Other messages have names of options or events there.
    let query = match &*command {
        "query" => field("detail").replace(char::is_whitespace, " "),
        _ => String::new(),
    };
    let texts = [
        client,
        command,
        field("id").to_owned(),
        query,
        field("error").to_owned(),
    ];
    let time = |name: &str| row.get(name).map(|time| nanos(time));
    let end = time("t_resp_last").or(time("t_req_last"));
    (texts, end, true_times(row)[3])
}
