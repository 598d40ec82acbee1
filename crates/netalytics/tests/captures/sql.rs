//! Twenty statements typed by habit against the shop: each has the rows of the web server's log, or one message whose
//! statement has them.

use std::process::Command;

/// Statements with the rows, as `column value` in the order of the columns.
const ACCEPTED: [(&str, &[&str]); 11] = [
    (
        "SELECT url, count(*) FROM http WHERE status >= 500 GROUP BY url ORDER BY count DESC LIMIT 5",
        &["shop.example/broken 5"],
    ),
    ("SELECT COUNT(*) AS n FROM http;", &["221"]),
    (
        "select method, count(*) n from http group by method order by n desc -- the busiest first",
        &["GET 196", "POST 25"],
    ),
    (
        "SELECT status, COUNT(*) FROM http GROUP BY 1 ORDER BY 2 DESC LIMIT 2",
        &["200 174", "204 25"],
    ),
    (
        "SELECT client_ip, COUNT(*) AS n FROM http WHERE status BETWEEN 300 AND 599 GROUP BY client_ip HAVING COUNT(*) > 3 ORDER BY n DESC",
        &["10.20.0.21 11", "10.20.0.22 8"],
    ),
    (
        "SELECT COUNT(DISTINCT client_ip) AS clients, SUM(response_bytes) AS bytes FROM http",
        &["3 8393"],
    ),
    (
        "SELECT CASE WHEN status < 300 THEN 'fine' ELSE 'other' END AS word, COUNT(*) FROM http GROUP BY word",
        &["fine 199", "other 22"],
    ),
    (
        "SELECT \"method\", COUNT(*) FILTER (WHERE status <> 200) AS other FROM http GROUP BY \"method\"",
        &["GET 22", "POST 25"],
    ),
    (
        "SELECT count(*) FROM http WHERE path ILIKE '%CART%' AND method = \"POST\"",
        &["25"],
    ),
    (
        "SELECT count(*) FROM http h JOIN tcp_conn_time c ON h.id = c.id WHERE h.path = '/cart' AND h.method IN ('POST')",
        &["25"],
    ),
    (
        "SELECT path, status FROM http WHERE status = '500' ORDER BY ts LIMIT 2",
        &["/broken 500", "/broken 500"],
    ),
];

/// Statements with words of their one message, and the statement that follows it with its rows.
const CORRECTED: [(&str, &str, &str, &[&str]); 9] = [
    (
        "SELECT path, count(*) AS n FROM http WHERE n > 30 GROUP BY path",
        "after HAVING",
        "SELECT path, count(*) AS n FROM http GROUP BY path HAVING n > 30 ORDER BY n",
        &["/search 31", "/ 65"],
    ),
    (
        "SELECT path, response_bytes / 2 AS half FROM http WHERE half > 1000",
        "write response_bytes / 2",
        "SELECT count(*) FROM http WHERE response_bytes / 2 > 1000",
        &["0"],
    ),
    (
        "SELECT 100.0 * COUNT(*) FILTER (WHERE method = 'POST') / COUNT(*) FROM http",
        "write ratio(method = 'POST')",
        "SELECT ratio(method = 'POST') FROM http",
        &["0.11312217194570136"],
    ),
    (
        "SELECT method, SUM(response_bytes) / COUNT(*) AS size FROM http GROUP BY method ORDER BY size",
        "write avg(response_bytes)",
        "SELECT avg(response_bytes) FROM http",
        &["37.977375565610856"],
    ),
    (
        "SELECT status::text FROM http",
        "write status",
        "SELECT DISTINCT status FROM http WHERE CASE WHEN status > 400 THEN 1 ELSE 0 END = 1",
        &["500 5"],
    ),
    (
        "SELECT path FROM http WHERE ts > now() - interval '5 minutes'",
        "the clause SINCE 5m",
        "SELECT count(*) FROM http SINCE 5m",
        &["221"],
    ),
    (
        "SELECT path FROM http WHERE status = 500 LIMIT 2 OFFSET 2",
        "omit OFFSET",
        "SELECT path FROM http WHERE status = 500 LIMIT 2",
        &["/broken", "/broken"],
    ),
    (
        "SELECT path FROM http WHERE path IN (SELECT path FROM http WHERE status = 500)",
        "one WHERE",
        "SELECT count(*) FROM http WHERE path = '/broken' AND status IS NOT NULL",
        &["5"],
    ),
    (
        "SELECT path FROM http WHERE client_ip LIKE '10.20.0.%'",
        "write client_ip in (10.20.0.0/24)",
        "SELECT count(*) FROM http WHERE client_ip in (10.20.0.0/24)",
        &["221"],
    ),
];

/// The rows of a statement, or its messages. Columns about the result itself are omitted.
fn outcome(sql: &str) -> Result<Vec<String>, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(["query", sql, "--format", "csv", "-r"])
        .arg(super::captures().join("shop/in.pcap"))
        .output()
        .expect("the program starts");
    if !output.status.success() {
        return Err(super::text(&output.stderr));
    }
    let table = super::text(&output.stdout);
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let own = head
        .iter()
        .position(|name| *name == "approximate")
        .unwrap_or(head.len());
    let row = |line: &str| line.split(',').take(own).collect::<Vec<_>>().join(" ");
    Ok(lines.map(row).collect())
}

#[test]
fn statements_typed_by_habit() {
    let mut found = Vec::new();
    for (sql, rows) in ACCEPTED {
        let is = outcome(sql);
        if !is.as_ref().is_ok_and(|is| is == rows) {
            found.push(format!("{sql}\n{is:?}"));
        }
    }
    for (sql, words, corrected, rows) in CORRECTED {
        let message = outcome(sql).err().unwrap_or_default();
        if message.matches("error:").count() != 1 || !message.contains(words) {
            found.push(format!("{sql}\n{message}"));
        }
        let is = outcome(corrected);
        if !is.as_ref().is_ok_and(|is| is == rows) {
            found.push(format!("{corrected}\n{is:?}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
