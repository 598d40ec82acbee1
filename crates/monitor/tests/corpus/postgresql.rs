//! Compares PostgreSQL cycles with `pgsql.tsv` of every capture that has one: text, name, tag, error, rows, and times in nanoseconds;
//! and no tuples for captures without PostgreSQL. Differences are listed in [`DIFFERENCES`] and explained in
//! `docs/truth/postgresql.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, compare_captures, nanos, run, truth,
};

/// Known differences: capture, then client, row, and both values; long values are truncated.
const DIFFERENCES: &ListedDifferences = &[
    // The client's first message has an impossible length, and the error no code.
    (
        "zeek-bad-startup-message-1.pcap",
        &[
            "127.0.0.1:54906 0: command login is  here; begin 1673270524038183000 is 1673270524038399000 here",
        ],
    ),
];

/// The truth truncates texts to this number of characters.
const TEXT_MAX: usize = 1998;

#[test]
fn cycles_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 4500, |capture, name| {
        let expected = truth(capture, "pgsql.tsv").unwrap_or_default();
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

/// Differences in all rows of a capture.
fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let ours = by_client(
        &run(capture, "postgresql").rows,
        ["client_ip", "client_port"],
    );
    let theirs = by_client(expected, ["client", "cport"]);
    let mut found = Vec::new();
    // The truth ends at missing segments; in some other connections, it gives responses to the requests after theirs.
    let flows = truth(capture, "tcp.tsv").unwrap_or_default();
    let lost = |row: &&Row| row.get("lost_segment").is_some_and(|n| n != "0");
    let lossy: BTreeSet<String> = flows
        .iter()
        .filter(lost)
        .map(|row| format!("{}:{}", row["client"], row["cport"]))
        .collect();
    let is_ordered = |client: &&String| {
        let rows = theirs.get(*client).map_or(&[][..], Vec::as_slice);
        let is_before = |row: &Row| row.get("total").is_some_and(|total| total.starts_with('-'));
        !rows.iter().any(is_before) && !lossy.contains(*client)
    };
    let clients: BTreeSet<_> = ours
        .keys()
        .chain(theirs.keys())
        .filter(is_ordered)
        .collect();
    for client in clients {
        let mut ours = ours.get(client).map_or(&[][..], Vec::as_slice);
        for (i, expected) in theirs
            .get(client)
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .enumerate()
        {
            // A cycle has a row for each statement.
            let n = statements_of(expected).max(1).min(ours.len());
            let (rows, rest) = ours.split_at(n);
            ours = rest;
            let difference = compare_cycle(expected, rows);
            if !difference.is_empty() {
                found.push(format!("{client} {i}: {difference}"));
            }
        }
        for row in ours {
            found.push(format!(
                "{client}: more here: {}",
                row.get("command").map_or("-", |c| c)
            ));
        }
    }
    found
}

/// Number of statements of a cycle by its messages, or by the tags of a Query.
fn statements_of(cycle: &Row) -> usize {
    let executed = cycle.get("messages").map_or(0, |m| m.matches('E').count());
    let tags = cycle.get("tag").map_or(0, |tag| tag.split("; ").count());
    match cycle["kind"].as_str() {
        "extended" => executed,
        "simple" => tags,
        _ => 1,
    }
}

fn by_client(rows: &[Row], client: [&str; 2]) -> BTreeMap<String, Vec<Row>> {
    let mut map = BTreeMap::<String, Vec<Row>>::new();
    for row in rows {
        let client = format!("{}:{}", row[client[0]], row[client[1]]);
        map.entry(client).or_default().push(row.clone());
    }
    map
}

/// Differences between a cycle and its rows.
fn compare_cycle(t: &Row, rows: &[Row]) -> String {
    let Some((first, last)) = rows.first().zip(rows.last()) else {
        return format!("{} is not here", t["kind"]);
    };
    let mut found = Vec::new();
    let mut check = |what: &str, theirs: Option<String>, ours: Option<String>| {
        if theirs != ours {
            let shown =
                |v: Option<String>| v.map_or("-".to_owned(), |v| v.chars().take(40).collect());
            found.push(format!("{what} {} is {} here", shown(theirs), shown(ours)));
        }
    };
    let ours = |row: &Row, field: &str| row.get(field).cloned();
    let time = |field: &str| t.get(field).map(|v| nanos(v));
    let joined = |field: &str| {
        let values: Vec<String> = rows.iter().filter_map(|row| ours(row, field)).collect();
        (!values.is_empty()).then(|| values.join("; "))
    };
    let command = ours(first, "command").unwrap_or_default();
    let kind = match t["kind"].as_str() {
        "startup" => "login",
        "SSLRequest" if command == "gss_request" => "gss_request",
        "SSLRequest" => "ssl_request",
        "CancelRequest" => "cancel",
        "F" => "function_call",
        "simple" => "query",
        "extended" => "execute",
        other => other,
    };
    let is_same = command == kind
        || kind == "execute" && ["parse", "describe", "close", "sync"].contains(&command.as_str());
    if !is_same {
        check("command", Some(kind.to_owned()), Some(command));
    }
    let short = |text: String| text.chars().take(TEXT_MAX).collect::<String>();
    let text = |text: String| {
        text.replace(['\r', '\n', '\t'], " ")
            .trim()
            .trim_end_matches(';')
            .to_owned()
    };
    let theirs = t.get("query").cloned().map(short).map(text);
    let query = joined("query").map(short).map(text);
    // The truth has only the text of the last Parse, and none for portals of earlier cycles.
    let is_end = |theirs: &String| query.as_ref().is_some_and(|ours| ours.ends_with(theirs));
    let has_parse = t.get("messages").is_some_and(|m| m.contains('P'));
    let is_same = theirs
        .as_ref()
        .map_or(query.is_none() || !has_parse, is_end);
    if !is_same {
        check("query", theirs, query);
    }
    let error = rows.iter().find_map(|row| ours(row, "error_code"));
    check(
        "error",
        t.get("error")
            .map(|e| e.split(' ').next().unwrap_or_default().to_owned()),
        error,
    );
    let rows_seen: u64 = rows
        .iter()
        .filter_map(|row| ours(row, "returned_rows")?.parse::<u64>().ok())
        .sum();
    let rows_seen = (rows_seen > 0).then(|| rows_seen.to_string());
    check(
        "rows",
        t.get("rows").cloned().filter(|n| n != "0"),
        rows_seen,
    );
    let begin = ours(first, "ts").and_then(|ts| ts.parse::<i64>().ok());
    check(
        "begin",
        time("t_req_first").map(|t| t.to_string()),
        begin.map(|t| t.to_string()),
    );
    // A row ends with its result; ReadyForQuery, with which the cycle ends, may be in a later packet.
    let end = ours(last, "ts_end").and_then(|ts| ts.parse::<i64>().ok());
    let bounds = time("t_resp_first").zip(time("t_resp_last"));
    if let (Some((from, to)), Some(end)) = (bounds, end)
        && (end < from || end > to && kind != "login")
    {
        check("end", Some(to.to_string()), Some(end.to_string()));
    }
    found.join("; ")
}
