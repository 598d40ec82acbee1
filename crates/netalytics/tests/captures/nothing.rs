//! A query without a result reports the reason on standard error.

use std::path::Path;
use std::process::Command;

/// The reasons why a query over a capture is empty, without the prefix and the values of fields.
fn why(query: &str, capture: &Path) -> Vec<String> {
    let mut reasons = all_reasons(query, capture);
    reasons.retain(|reason| !reason.contains(" is most often "));
    reasons
}

/// All lines about an empty result.
fn all_reasons(query: &str, capture: &Path) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .args(["query", query, "-r"])
        .arg(capture)
        .output()
        .expect("the program starts");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{query}: {said}");
    let reasons = said.lines().filter_map(|line| {
        line.strip_prefix("nothing found: ")
            .or(line.strip_prefix("note: "))
    });
    reasons.map(str::to_owned).collect()
}

fn check(query: &str, capture: &Path, expected: &[&str]) {
    assert_eq!(
        why(query, capture),
        expected,
        "{query} of {}",
        capture.display()
    );
}

/// The values of the fields in WHERE, if it matches nothing.
#[test]
fn the_values_that_there_are() {
    let shop = super::captures().join("shop/in.pcap");
    assert_eq!(
        all_reasons(
            "PARSE http TO *:80 WHERE status = 599 or response_time > 1h and method = 'get' PROCESS (count)",
            &shop
        ),
        [
            "WHERE matches none of 221 tuples",
            "status is most often 200 (174), 204 (25), 302 (17), 500 (5)",
            "response_time_ns is 2.00 µs to 182 ms",
            "method is most often 'GET' (196), 'POST' (25)",
        ]
    );
}

#[test]
fn times_are_a_period() {
    let shop = super::captures().join("shop/in.pcap");
    let reasons = all_reasons("PARSE http WHERE ts > '2100-01-01'", &shop);
    let is_period =
        |reason: &String| reason.starts_with("ts is 2026-11-") && reason.contains(" to 2026-11-");
    assert!(reasons.iter().any(is_period), "{reasons:?}");
}

#[test]
fn empty_results_over_the_shop_are_explained() {
    let shop = super::captures().join("shop/in.pcap");
    check("PARSE http", &shop, &[]);
    check("PARSE http PROCESS (count)", &shop, &[]);
    check(
        "PARSE http WHERE status = 599",
        &shop,
        &["WHERE matches none of 221 tuples"],
    );
    check(
        "PARSE http WHERE status = 599 PROCESS (count)",
        &shop,
        &["WHERE matches none of 221 tuples"],
    );
    check(
        "PARSE http FROM 192.0.2.1",
        &shop,
        &["FROM and TO match none of 1629 packets"],
    );
    let turned = "812 packets of flows in the opposite direction: FROM is the client, which connects; TO is the server";
    check(
        "PARSE http FROM *:80",
        &shop,
        &["FROM and TO match none of 1629 packets", turned],
    );
    check(
        "PARSE mysql_query TO *:80",
        &shop,
        &["39 flows not parsed as mysql: 39 http (PARSE http)"],
    );
    check(
        "PARSE rpc",
        &shop,
        &[
            "43 flows not parsed as rpc: 39 http (PARSE http), 2 memcached (PARSE memcached), 2 mysql (PARSE mysql_query)",
        ],
    );
    check(
        "PARSE http, mysql_query",
        &shop,
        &[
            "http and mysql_query never join: several parsers are joined by flow, and a flow has one protocol",
            "no flow has tuples of http and mysql_query at once: 353 tuples of one or the other",
        ],
    );
    check(
        "PARSE http WHERE status = 200 and status = 404",
        &shop,
        &[
            "WHERE is never true: its conditions on status contradict each other",
            "WHERE matches none of 221 tuples",
        ],
    );
}

#[test]
fn empty_results_over_unparsed_protocols_are_explained() {
    for (capture, query, expected) in [
        (
            "tls/suricata-dump_mtu300.pcap",
            "PARSE http",
            "1 flow not parsed as http: 1 tls (encrypted: not readable without keys",
        ),
        (
            "pgsql/deepflow-pgsql-all.pcap",
            "PARSE mysql_query",
            "1 flow not parsed as mysql: 1 postgresql",
        ),
        (
            "kafka/ndpi-kafka.pcapng",
            "PARSE http",
            "flows not parsed as http: ",
        ),
        (
            "dns/ndpi-default-dns.pcap",
            "PARSE tcp_conn_time",
            "5 packets, none with data for tcp_conn_time",
        ),
    ] {
        let Some(root) = testkit::corpus() else {
            return;
        };
        let said = why(query, &root.join("captures").join(capture));
        assert!(
            said.len() == 1 && said[0].contains(expected),
            "{query} of {capture}: {said:?}"
        );
    }
}
