//! Compares MySQL commands with `mysql.tsv` of every capture that has one: each row with command, text, error, rows,
//! bytes, and times in nanoseconds; and no tuples for captures without MySQL. Differences are listed in [`DIFFERENCES`]
//! and explained in `docs/truth/mysql.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, compare_captures, nanos, run, truth,
    without_packets,
};

/// Known differences: capture, then client, row, and both values; long values are truncated.
const DIFFERENCES: &ListedDifferences = &[
    // Compressed and joined midstream: the truth reads the compressed header as a plain one.
    (
        "deepflow-partial-packet-compressed.pcap",
        &[
            "10.233.78.0:20871 0: command sleep is query here; query  is SELECT * FROM `process` WHERE `process`. here; \
         transfer 100933000 is 25908000 here; total 105875000 is 30850000 here; rows - is 1992 here; response bytes 118265 is 662589 here; \
         request bytes 69 is 65 here",
            "10.233.78.0:20871 1: more here: query",
        ],
    ),
    // A login from before 4.1: the truth looks for the user at the position of later versions.
    (
        "mercury-emix.pcap.gz",
        &["10.4.10.204:33416 0: user - is danny here"],
    ),
    (
        "mercury-mysql.pcap",
        &["10.4.10.204:33416 0: user - is danny here"],
    ),
    // The response is truncated: the truth counts up to the last captured byte; our end time is null.
    (
        "packetbeat-mysql_with_gap.pcap",
        &[
            "192.168.33.1:60137 0: transfer 3980000 is - here; total 4333000 is - here; response bytes 144835 is - here",
        ],
    ),
    (
        "percona-tcpdump011.pcap",
        &[
            "192.168.28.224:54673 3: transfer 0 is - here; total 265575000 is - here; response bytes 1448 is - here",
        ],
    ),
    // "hello, world!" instead of a login: the truth takes it for a compressed one and does not read the error.
    (
        "percona-tcpdump043.pcap",
        &[
            "127.0.0.1:62160 0: error - is 1156 here; response 185000 is - here; total 185000 is - here",
        ],
    ),
    // The server refuses the connection with error 1130 instead of a greeting.
    (
        "zeek-auth.pcap",
        &[
            "192.168.1.3:55834 0: more here: connect",
            "192.168.1.3:55835 0: more here: connect",
            "192.168.1.3:55836 0: more here: connect",
        ],
    ),
    // Truncated to 96 bytes per packet and compared with the truth of the complete capture: texts are incomplete, and
    // headers are missing.
    (
        "mysql_16m_snap96.pcap.gz",
        &[
            "10.77.0.2:55828 0: user app is - here",
            "10.77.0.2:55828 3: query SELECT LENGTH('yyyyyyyyyyyyyyyyyyyyyyyyy is  here; \
         response 217049000 is - here; transfer 0 is - here; total 217049000 is - here; rows 1 is - here; response bytes 319 is - here; request bytes 17825818 is - here",
            "10.77.0.2:55828 4: query SELECT REPEAT('z', 17*1024*1024) is  here; \
         transfer 54867000 is - here; total 132913000 is - here; rows 1 is - here; \
         response bytes 17825883 is - here",
            "10.77.0.2:55828 5: transfer 0 is - here; total 4104000 is - here; rows 1 is - here; response bytes 64 is - here",
        ],
    ),
];

/// The truth truncates texts to this number of characters.
const TEXT_MAX: usize = 1998;

#[test]
fn commands_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 2500, |capture, name| {
        let expected = truth(capture, table_of(name)).unwrap_or_default();
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

/// With packet loss, a tuple with both halves has only true values.
#[test]
fn lost_packets_leave_no_wrong_pairs() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for captures");
    let path = folder.path().join("lossy.pcap");
    for name in ["mysql_mix", "mysql_sysbench_text", "mysql_sysbench_ps"] {
        let capture = root.join(format!("live-captures/{name}.pcap"));
        let expected = truth(&capture, "mysql.tsv").expect("truth of the corpus");
        let whole = std::fs::read(&capture).expect("a capture of the corpus");
        for (loss, at_least) in [(0.01, 0.75), (0.05, 0.6), (0.15, 0.35)] {
            let mut paired = 0;
            for seed in 0..6 {
                std::fs::write(&path, without_packets(&whole, loss, seed))
                    .expect("a capture can be written");
                paired += check_pairs(
                    &path,
                    &expected,
                    &format!("{name}, {loss} lost, seed {seed}"),
                );
            }
            let share = paired as f64 / (6 * expected.len()) as f64;
            assert!(
                share > at_least,
                "{name}: {share} of commands paired under a loss of {loss}"
            );
        }
    }
}

/// Checks the values of pairs and counts them.
fn check_pairs(capture: &Path, expected: &[Row], what: &str) -> usize {
    let key = |port: &str, ts: i64, command: &str| (port.to_owned(), ts, command.to_lowercase());
    let theirs: BTreeMap<_, _> = expected
        .iter()
        .map(|t| (key(&t["cport"], nanos(&t["t_req_first"]), &t["command"]), t))
        .collect();
    let rows = run(capture, "mysql_query").rows;
    let mut paired = 0;
    for o in rows.iter().filter(|o| o["quality"] != "half") {
        let ts = o["ts"].parse().expect("a number");
        let Some(t) = theirs.get(&key(&o["client_port"], ts, &o["command"])) else {
            panic!(
                "{what}: no {} of {} at {ts}",
                o["command"], o["client_port"]
            );
        };
        // Unknown values are null; a text ends at the first missing byte, and is null if its prepare was not captured;
        // a request ends with its last captured byte.
        let wrong: Vec<_> = compare_row(t, o)
            .split("; ")
            .filter(|d| !d.is_empty() && !d.ends_with("is - here") && !d.ends_with("is  here"))
            .filter(|d| !(is_cut(t, o) && d.starts_with("response")))
            .map(str::to_owned)
            .collect();
        assert!(
            wrong.is_empty(),
            "{what}: {} {ts} {wrong:?}",
            o["client_port"]
        );
        paired += 1;
    }
    paired
}

/// Whether bytes of the request, including its end, may be missing.
fn is_cut(t: &Row, o: &Row) -> bool {
    let segments = t["req_bytes"].parse::<u64>().is_ok_and(|n| n > 1448);
    o["quality"] == "gap_body" || o["quality"] != "exact" && segments
}

/// Name of the truth table: a capture truncated to 96 bytes per packet uses the one of the complete capture.
fn table_of(capture: &str) -> &'static str {
    match capture {
        "mysql_16m_snap96.pcap.gz" => "../mysql_16m_snap96.pcap.truth-full/mysql.tsv",
        _ => "mysql.tsv",
    }
}

/// All differences as text.
fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let theirs = connections(expected, ["client", "cport"], |r| nanos(&r["t_req_first"]));
    let rows = run(capture, "mysql_query").rows;
    let ours = connections(&rows, ["client_ip", "client_port"], |r| {
        r["ts"].parse().expect("a number")
    });
    let ends: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let mut found = Vec::new();
    for end in ends {
        let theirs = rows_of(&theirs, end);
        let ours = rows_of(&ours, end);
        for i in 0..theirs.len().max(ours.len()) {
            let difference = match (theirs.get(i), ours.get(i)) {
                (Some(t), Some(o)) => compare_row(t, o),
                (Some(t), None) => format!("{} is not here", t["command"]),
                (_, o) => o.map_or_else(String::new, |o| {
                    format!("more here: {}", o.get("command").map_or("-", |c| c))
                }),
            };
            if !difference.is_empty() {
                found.push(format!("{end} {i}: {difference}"));
            }
        }
    }
    found
}

type Connections<'a> = BTreeMap<String, Vec<&'a Row>>;

/// The rows of each client, by time.
fn connections<'a>(
    rows: &'a [Row],
    client: [&str; 2],
    ts: impl Fn(&Row) -> i64,
) -> Connections<'a> {
    let mut map = Connections::new();
    for row in rows {
        map.entry(format!("{}:{}", row[client[0]], row[client[1]]))
            .or_default()
            .push(row);
    }
    map.values_mut()
        .for_each(|rows| rows.sort_by_key(|r| ts(r)));
    map
}

fn rows_of<'a, 'b>(connections: &'b Connections<'a>, end: &str) -> &'b [&'a Row] {
    connections.get(end).map_or(&[], |rows| rows)
}

/// Differences in one row.
fn compare_row(t: &Row, o: &Row) -> String {
    let theirs = |field: &str| t.get(field).cloned();
    let ours = |field: &str| o.get(field).cloned();
    let time = |field: &str| t.get(field).map(|v| nanos(v));
    let between = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(a, b)| (b - a).to_string());
    let note = t.get("note").map_or("", |v| v);
    let command = t["command"]
        .to_lowercase()
        .replace("sslrequest", "ssl_request");
    // In the truth, a login ends with the client's last packet; in our tuples, with its first.
    let rounds = command == "login" && time("t_req_last") > time("t_resp_first");
    let asked = time(if rounds { "t_req_first" } else { "t_req_last" });

    let mut found = Vec::new();
    let mut check = |what: &str, theirs: Option<String>, ours: Option<String>| {
        if theirs != ours {
            let shown = |v: Option<String>| {
                v.map_or_else(
                    || "-".to_owned(),
                    |v| v.chars().take(40).collect::<String>(),
                )
            };
            let [theirs, ours] = [theirs, ours].map(shown);
            found.push(format!("{what} {theirs} is {ours} here"));
        }
    };
    check("command", Some(command.clone()), ours("command"));
    match &*command {
        "login" => check(
            "user",
            theirs("query"),
            ours("user").filter(|u| !u.is_empty()),
        ),
        _ => {
            let [theirs, ours] = [theirs("query"), ours("query")].map(|q| q.unwrap_or_default());
            let ours = text(&ours);
            check(
                "query",
                Some(text(without_attributes(&theirs, &ours))),
                Some(ours),
            );
        }
    }
    check("error", theirs("error"), ours("error_code"));
    check("ts", time("t_req_first").map(|v| v.to_string()), ours("ts"));
    check(
        "response",
        between(asked, time("t_resp_first")),
        ours("response_time_ns"),
    );
    check(
        "transfer",
        between(time("t_resp_first"), time("t_resp_last")),
        ours("transfer_time_ns"),
    );
    check(
        "total",
        between(asked, time("t_resp_last")),
        ours("total_time_ns"),
    );
    // The truth has no row counts for compressed results, counts only the first of several results, and counts column
    // definitions as rows.
    if command != "field_list" && !note.contains("several results") && !note.contains("compressed")
    {
        check("rows", theirs("rows"), ours("rows"));
    }
    // For compressed results, our byte counts are those of the inner packets.
    if !note.contains("compressed") {
        check(
            "response bytes",
            theirs("resp_bytes"),
            ours("response_bytes"),
        );
        if !rounds && command != "ssl_request" {
            check("request bytes", theirs("req_bytes"), ours("request_bytes"));
        }
    }
    found.join("; ")
}

/// The truth includes query attributes, and the two bytes of their count, in the text.
fn without_attributes<'a>(theirs: &'a str, ours: &str) -> &'a str {
    let counted = theirs.starts_with(|c: char| c.is_control()) && !theirs.starts_with(ours);
    match theirs
        .strip_suffix(ours)
        .filter(|_| counted && !ours.is_empty())
    {
        Some(attributes) => &theirs[attributes.len()..],
        None => theirs.strip_prefix("\0\u{1}").unwrap_or(theirs),
    }
}

/// The part of a text that the truth has.
fn text(query: &str) -> String {
    query.chars().take(TEXT_MAX).collect()
}
