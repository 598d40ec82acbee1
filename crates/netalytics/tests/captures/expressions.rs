//! Results of expressions, SELECT and ORDER BY equal those of a few lines of code over all tuples of a capture; also
//! over its recording, and with any number of workers.

use std::cmp::Reverse;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const SHOP: &str = "captures/shop/in.pcap";

fn lines(args: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}\n{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn tuples(parser: &str) -> Vec<Value> {
    let tuples = lines(&["query", &format!("PARSE {parser}"), "-q", "-r", SHOP]);
    assert!(tuples.len() > 200, "{parser}: {} tuples", tuples.len());
    tuples
}

/// Checks the rows of a query: over packets with one and three workers, and over a recording.
fn check(query: &str, expected: &[Value]) {
    let folder = tempfile::tempdir().expect("a folder for test files");
    let recording = folder.path().join("recording");
    let recording = recording.to_str().expect("UTF-8");
    let parser = query.split_whitespace().nth(1).expect("PARSE names one");
    let whole = format!("PARSE {parser}");
    lines(&[
        "record",
        &whole,
        "-q",
        "-r",
        SHOP,
        "-o",
        recording,
        "--no-redact",
    ]);
    let inputs = [
        [SHOP, "--workers", "1"],
        [SHOP, "--workers", "3"],
        [recording, "--format", "jsonl"],
    ];
    for [input, flag, value] in inputs {
        let rows = lines(&["query", query, "-q", "-r", input, flag, value]);
        assert_eq!(rows, expected, "{query} over {input}, {flag} {value}");
    }
}

fn number(row: &Value, field: &str) -> Option<i64> {
    row[field].as_i64()
}

fn text<'r>(row: &'r Value, field: &str) -> Option<&'r str> {
    row[field].as_str()
}

#[test]
fn columns_are_computed_of_each_tuple() {
    let row = |row: &Value| {
        let ts = number(row, "ts").expect("a time");
        let time = number(row, "response_time_ns");
        let bytes = number(row, "request_bytes").zip(number(row, "response_bytes"));
        let ip: Ipv4Addr = text(row, "client_ip")
            .expect("an address")
            .parse()
            .expect("IPv4");
        let [a, b, c, _] = ip.octets();
        let path = text(row, "path").expect("a path");
        let query = text(row, "url_query").and_then(|query| query.strip_prefix("q="));
        let status = number(row, "status");
        json!({
            "class": status.map(|s| s / 100),
            "second": ts - ts % 1_000_000_000,
            "ms": time.map(|t| t as f64 / 1e6),
            "twice": time.map(|t| 2 * t + 1_000),
            "net": format!("{a}.{b}.{c}.0/24"),
            "page": path.split('/').nth(1),
            "last": path.split('/').next_back(),
            "q": query,
            "template": path.split('/').map(|p| if p.parse::<u32>().is_ok() { "N" } else { p }).collect::<Vec<_>>().join("/"),
            "length": path.chars().count(),
            "bytes": bytes.map(|(a, b)| a + b),
            "verdict": if status.is_some_and(|s| s >= 500) { "bad" } else { "good" },
            "shout": text(row, "host").map(str::to_uppercase),
            "url": row["url"],
            "took": ts_end(row) - ts,
        })
    };
    let expected: Vec<Value> = tuples("http").iter().map(row).collect();
    check(
        "PARSE http SELECT status/100 AS class, trunc(ts, 1s) AS second, response_time / 1ms AS ms, \
         2 * response_time + 1us AS twice, subnet(client_ip, 24) AS net, split(path, '/', 2) AS page, \
         split(path, '/', -1) AS last, url_query(url, 'q') AS q, replace(path, '/[0-9]+', '/N') AS template, \
         length(path) AS length, request_bytes + response_bytes AS bytes, if(status >= 500, 'bad', 'good') AS verdict, \
         upper(host) AS shout, url, ts_end - ts AS took",
        &expected,
    );
}

fn ts_end(row: &Value) -> i64 {
    number(row, "ts_end").expect("a time")
}

/// Checks that a condition selects the tuples for which `keep` is true.
fn check_where(parser: &str, condition: &str, keep: impl Fn(&Value) -> bool) {
    let all = tuples(parser);
    let kept: Vec<Value> = all.iter().filter(|row| keep(row)).cloned().collect();
    assert!(
        !kept.is_empty() && kept.len() < all.len(),
        "{condition} keeps {} of {}",
        kept.len(),
        all.len()
    );
    check(&format!("PARSE {parser} WHERE {condition}"), &kept);
}

#[test]
fn conditions_compute_too() {
    let status = |row: &Value| number(row, "status");
    let time = |row: &Value| number(row, "response_time_ns");
    check_where("http", "status / 100 in (4, 5)", |row| {
        status(row).is_some_and(|s| [4, 5].contains(&(s / 100)))
    });
    check_where(
        "http",
        "response_time > 2 * 1us and not status % 100 = 0",
        |row| time(row).is_some_and(|t| t > 2_000) && status(row).is_some_and(|s| s % 100 != 0),
    );
    check_where("http", "length(path) * 10 > response_bytes", |row| {
        let path = text(row, "path").expect("a path").len() as i64;
        number(row, "response_bytes").is_some_and(|bytes| path * 10 > bytes)
    });
    check_where(
        "http",
        "url ~ '/(product|search)' and path !~ '[13579]$'",
        |row| {
            let path = text(row, "path").expect("a path");
            let named = path.starts_with("/product") || path.starts_with("/search");
            named && !path.ends_with(['1', '3', '5', '7', '9'])
        },
    );
    check_where(
        "http",
        "user_agent ilike 'SHOP-%' and url ~* 'PRODUCT'",
        |row| {
            text(row, "user_agent").is_some_and(|agent| agent.starts_with("shop-"))
                && text(row, "url").is_some_and(|url| url.contains("product"))
        },
    );
    check_where(
        "http",
        "client_ip in (10.20.0.22/31, 192.168.0.0/16)",
        |row| ["10.20.0.22", "10.20.0.23"].contains(&text(row, "client_ip").expect("an address")),
    );
    check_where(
        "packet",
        "tcp_flags & (SYN | FIN) and packet_bytes > 70",
        |row| {
            number(row, "tcp_flags").is_some_and(|flags| flags & 3 != 0)
                && number(row, "packet_bytes").is_some_and(|bytes| bytes > 70)
        },
    );
    check_where(
        "http",
        "if(status = 200, response_time, transfer_time) > 1ms",
        |row| {
            let field = if status(row) == Some(200) {
                "response_time_ns"
            } else {
                "transfer_time_ns"
            };
            number(row, field).is_some_and(|ns| ns > 1_000_000)
        },
    );
}

#[test]
fn rows_have_the_requested_order() {
    let mut all = tuples("http");
    // Equal ones stay in order of time; null is the smallest.
    all.sort_by_key(|row| {
        (
            Reverse(number(row, "status").map(|s| s / 100)),
            text(row, "path").map(str::to_owned),
        )
    });
    let expected: Vec<Value> = all
        .iter()
        .take(37)
        .map(|row| json!({ "path": row["path"], "ts": row["ts"], "status": row["status"] }))
        .collect();
    check(
        "PARSE http SELECT path, ts, status ORDER BY status/100 DESC, path LIMIT 37 ROWS",
        &expected,
    );
    let first: Vec<Value> = tuples("http").into_iter().take(5).collect();
    check("PARSE http LIMIT 5 ROWS", &first);
}

#[test]
fn groups_and_values_are_computed() {
    let all = tuples("http");
    let mut groups: Vec<(Option<i64>, String, i64, i64)> = Vec::new();
    for row in &all {
        let class = number(row, "status").map(|s| s / 100);
        let page = text(row, "path")
            .and_then(|path| path.split('/').nth(1))
            .expect("a page")
            .to_owned();
        let double = number(row, "response_time_ns").map_or(0, |t| 2 * t);
        match groups
            .iter_mut()
            .find(|(c, p, ..)| (c, p) == (&class, &page))
        {
            Some((_, _, count, sum)) => (*count, *sum) = (*count + 1, *sum + double),
            None => groups.push((class, page, 1, double)),
        }
    }
    groups.sort();
    let rows = lines(&[
        "query",
        "PARSE http PROCESS (group-count-sum: group=status/100 AS class, split(path, '/', 2) AS page, value=response_time * 2)",
        "-q",
        "-r",
        SHOP,
    ]);
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let page = text(row, "page").expect("a page").to_owned();
            (
                number(row, "class"),
                page,
                number(row, "count").expect("a count"),
                number(row, "sum_ns").unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(found, groups);
}
