//! Compares MongoDB commands and operations with `mongo.tsv` of every capture that has one: command, database, and times in
//! nanoseconds. Differences are listed in [`DIFFERENCES`] and explained in `docs/truth/mongodb.md`.

use std::path::Path;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, check_others, compare_captures, nanos, run,
    true_times, truth, unmatched,
};

/// Known differences, as [`unmatched`] prints them.
const DIFFERENCES: &ListedDifferences = &[
    // The first request has the number 0, which the dissector takes for none.
    (
        "deepflow-mongo.pcap",
        &[
            r#"+ ("10.50.1.138:43250", "isMaster", "admin", Some(1696733182212419000), Some(1053000))"#,
            r#"- ("10.50.1.133:27017", "", "", Some(1696733182212419000), None)"#,
            r#"- ("10.50.1.138:43250", "isMaster", "admin", Some(1696733182211366000), None)"#,
        ],
    ),
    // On another port.
    (
        "ndpi-mongodb.pcap",
        &[
            r#"+ ("10.10.10.18:64566", "getnonce", "InactiveUserIdentity", Some(1483814916108514000), None)"#,
        ],
    ),
];

#[test]
fn commands_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 1290, |capture, name| {
        let expected = truth(capture, "mongo.tsv").unwrap_or_default();
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

#[test]
fn other_protocols_have_no_tuples() {
    check_others(EVERYWHERE, "mongodb", "mongo.tsv", &[]);
}

/// Client, command, database, a time, and the total time. The time is that of the last byte of a pair; of another message, which is
/// one segment in these captures, its own.
type Compared = (String, String, String, Option<i64>, Option<i64>);

fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let wanted = expected.iter().map(wanted).collect();
    let rows = run(capture, "mongodb").rows;
    let ours = rows.iter().map(|row| {
        let field = |name: &str| row.get(name).cloned().unwrap_or_default();
        let time = |name: &str| row.get(name).and_then(|time| time.parse().ok());
        let client = format!("{}:{}", row["client_ip"], row["client_port"]);
        let total = time("total_time_ns");
        let at = time(if total.is_some() { "ts_end" } else { "ts" });
        (client, field("command"), field("database"), at, total)
    });
    unmatched(wanted, ours, is_same, |row| format!("{row:?}"))
}

/// The table does not have the databases of OP_MSG.
fn is_same(truth: &Compared, ours: &Compared) -> bool {
    let has_database = !truth.2.is_empty();
    (&truth.0, &truth.1, truth.3, truth.4) == (&ours.0, &ours.1, ours.3, ours.4)
        && (!has_database || truth.2 == ours.2)
}

fn wanted(row: &Row) -> Compared {
    let client = format!("{}:{}", row["client"], row["cport"]);
    let detail = row.get("detail").map_or("", String::as_str);
    let (namespace, element) = detail.split_once(' ').unwrap_or((detail, ""));
    let database = namespace.split('.').next().unwrap_or_default().to_owned();
    let (command, database) = match row["operation"].split(' ').next().unwrap_or_default() {
        _ if !row.contains_key("req_first") => ("", String::new()),
        "Reply" => ("", String::new()),
        "Extensible" => (detail, String::new()),
        "Query" if namespace.ends_with(".$cmd") => (element, database),
        "Query" => ("query", database),
        "Get" => ("get_more", database),
        "Insert" => ("insert", database),
        "Update" => ("update", database),
        "Delete" => ("delete", database),
        _ => ("kill_cursors", database),
    };
    let time = |name: &str| row.get(name).map(|time| nanos(time));
    let end = time("t_resp_last").or(time("t_req_last"));
    (
        client,
        command.to_owned(),
        database,
        end,
        true_times(row)[3],
    )
}
