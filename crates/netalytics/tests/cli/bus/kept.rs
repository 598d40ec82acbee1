//! Recording and assertions over published data; and several parsers published together, joined by the reader.

use super::{QUERIES, over_packets};
use crate::{Folder, ROOT, run};

/// After the shop's tuples and the cells of the first query were published.
pub fn published_tuples_are_recorded_and_checked(kafka: &str) {
    let folder = Folder::new();
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    let kept = folder.path("kept");
    let of_http: Vec<&&str> = QUERIES
        .iter()
        .filter(|query| query.starts_with("PARSE http"))
        .collect();
    let ran = run(&[
        "record",
        "PARSE http SINCE 2001-01-01",
        "--kafka",
        kafka,
        "--no-redact",
        "-o",
        &kept,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for query in of_http {
        let ran = run(&["query", query, "-r", &kept, "--format", "jsonl"]);
        assert_eq!(
            (ran.code, ran.out),
            (0, over_packets(query, &capture)),
            "{query}: {}",
            ran.err
        );
    }
    for what in ["tuples", "cells"] {
        for (assertion, code) in [("count > 0", 0), ("count > 1000000", 1)] {
            let query = format!("{} SINCE 2001-01-01", QUERIES[0]);
            let ran = run(&[
                "check",
                &query,
                "--kafka",
                kafka,
                "--published",
                what,
                "--assert",
                assertion,
            ]);
            assert_eq!(
                ran.code, code,
                "{what}, {assertion}: {}{}",
                ran.out, ran.err
            );
        }
    }
}

/// Parsers not published before.
pub fn parsers_are_published_together(kafka: &str) {
    const QUERY: &str = "PARSE memcached, tcp_conn_time WHERE response_time >= 0 PROCESS (diff-group: group=command)";
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    super::publish(kafka, "PARSE memcached, tcp_conn_time", &capture, "tuples");
    let expected = over_packets(QUERY, &capture);
    assert!(expected.lines().count() > 1, "{expected}");
    assert_eq!(super::published(kafka, QUERY, "tuples", &[]), expected);
    let alone = "PARSE tcp_conn_time PROCESS (group-count: group=server_port)";
    assert!(
        super::published(kafka, alone, "tuples", &[])
            .lines()
            .count()
            > 1
    );
}
