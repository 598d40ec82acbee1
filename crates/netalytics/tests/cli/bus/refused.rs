//! Queries that docs/distributed.md lists as unsupported over Kafka or in Flink are rejected with their reason;
//! supported ones return the rows of the packets.

use testkit::cluster::TestCluster;

use super::rows::in_one_order;
use super::{asked, over_packets, publish, published};
use crate::{ROOT, run};

/// Treatment of a query.
#[derive(Clone, Copy)]
enum Way {
    Works,
    /// Rejected with this reason.
    Refused(&'static str),
}

use Way::{Refused, Works};

const SAMPLES: Way = Refused("SAMPLE chooses flows by their packets");
const REGEX: Way = Refused("Flink's regular expressions have a different syntax");

/// Queries of the table; over tuples by the embedded engine and by Flink; over cells by Flink. The embedded engine
/// answers all over cells.
const ROWS: &[(&str, Way, Way, Way)] = &[
    (
        "PARSE http SAMPLE 0.1 PROCESS (group-count: group=status)",
        SAMPLES,
        SAMPLES,
        Works,
    ),
    (
        "PARSE http PROCESS (group-count: group=request_header.host)",
        Refused("have no request_header.host: publish the cells of this query"),
        Refused("request_header.host: the topic has no such column"),
        Works,
    ),
    (
        "PARSE http PROCESS (group-count: group=label.role)",
        Refused("have no label.role: publish the cells of this query"),
        Refused("label.role: the topic has no such column"),
        Works,
    ),
    (
        "PARSE http WHERE url ~ 'a+' PROCESS (count)",
        Works,
        REGEX,
        Works,
    ),
    (
        "PARSE http PROCESS (group-count: group=extract(url, 'a(.)'))",
        Works,
        REGEX,
        Works,
    ),
    (
        "PARSE http PROCESS (group-count: group=replace(url, 'a', 'b'))",
        Works,
        REGEX,
        Works,
    ),
    (
        "PARSE http PROCESS (group-count: group=subnet(client_ip, 24))",
        Works,
        Refused("Flink SQL has no functions that write addresses as text"),
        Works,
    ),
    (
        "PARSE http PROCESS (group-count: group=url_query(url, 'q'))",
        Works,
        Refused("Flink SQL decodes invalid UTF-8 differently"),
        Works,
    ),
    (
        "PARSE http WHERE (status & client_port) = 128 PROCESS (count)",
        Works,
        Refused("the bits of two columns"),
        Works,
    ),
    (
        "PARSE http WHERE response_time / 1ms % 2.5 < 1.0 PROCESS (count)",
        Works,
        Refused("the remainder of real numbers"),
        Works,
    ),
    (
        "PARSE http PROCESS (group-stddev: group=status, value=response_time / 1ms AS ms)",
        Works,
        Refused("for real numbers it needs sums that cancel out"),
        Works,
    ),
    (
        "PARSE http PROCESS (group-count: group=status, w=1500us)",
        Works,
        Refused("panes of 1500000 ns: Flink has a resolution of milliseconds"),
        Refused("panes of 1500000 ns: Flink has a resolution of milliseconds"),
    ),
    (
        "PARSE http",
        Works,
        Works,
        Refused("--published cells requires PROCESS"),
    ),
    (
        "PARSE http LIMIT 5000p PROCESS (count)",
        Refused("LIMIT in packets is not supported with Kafka"),
        Refused("LIMIT in packets is not supported with Kafka"),
        Refused("LIMIT in packets is not supported with Kafka"),
    ),
];

fn flink_is(query: &str, what: &str, way: Way) {
    let ran = run(&["explain", query, "--engine", "flink", "--published", what]);
    match way {
        Works => assert!(
            ran.code == 0 && ran.out.contains("INSERT INTO"),
            "{query}, {what}: {}",
            ran.err
        ),
        Refused(why) => {
            assert!(
                ran.code == 2 && ran.err.contains(why),
                "{query}, {what}: {}{}",
                ran.out,
                ran.err
            )
        }
    }
}

#[test]
fn flink_rejects_the_documented_queries() {
    for (query, _, tuples, cells) in ROWS {
        flink_is(query, "tuples", *tuples);
        flink_is(query, "cells", *cells);
    }
    // Of other parsers.
    let hashes = "PARSE nfs WHERE block_checksums LIKE 'a%' PROCESS (count)";
    flink_is(hashes, "tuples", Refused("checksums are not text in Flink"));
    flink_is(hashes, "cells", Works);
    flink_is(
        "PARSE nfs PROCESS (workload-profile)",
        "tuples",
        Refused("its sketches can only be made by monitors"),
    );
    flink_is("PARSE nfs PROCESS (workload-profile)", "cells", Works);
}

pub fn as_documented(cluster: &TestCluster) {
    let kafka = cluster.kafka.as_str();
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    publish(kafka, "PARSE http", &capture, "tuples");
    for (query, tuples, _, cells) in ROWS {
        let refuses = |what: &str, why: &str| {
            let query = format!("{query} SINCE 2001-01-01");
            let ran = run(&["query", &query, "--kafka", kafka, "--published", what]);
            assert!(
                ran.code == 2 && ran.err.contains(why),
                "{query}, {what}: {}{}",
                ran.out,
                ran.err
            );
        };
        match tuples {
            Works => {
                let found = published(kafka, query, "tuples", &[]);
                assert_eq!(different(query, &capture, &found), None, "{query}");
            }
            Refused(why) => refuses("tuples", why),
        }
        match cells {
            // Only Flink rejects windows.
            Refused(why) if !why.contains("Flink") => refuses("cells", why),
            _ => {
                publish(kafka, query, &capture, "cells");
                let found = published(kafka, query, "cells", &[]);
                // The flows in a sample depend on the sampler.
                let is_sample = query.contains("SAMPLE");
                assert!(!found.is_empty(), "{query}");
                if !is_sample {
                    assert_eq!(different(query, &capture, &found), None, "{query}");
                }
            }
        }
    }
    let counted = run(&[
        "query",
        "PARSE http PROCESS (count)",
        "--kafka",
        kafka,
        "--count",
        "5",
    ]);
    assert!(
        counted.code == 2 && counted.err.contains("LIMIT in packets is not supported"),
        "{}",
        counted.err
    );
    // Every result over sampled tuples is scaled to all flows.
    let auto = "PARSE http SAMPLE auto PROCESS (count) SINCE 2001-01-01";
    assert!(
        run(&["query", auto, "--kafka", kafka, "--published", "tuples"])
            .err
            .contains("SAMPLE chooses flows")
    );
    assert!(
        !asked(
            kafka,
            "PARSE http PROCESS (count) SINCE 2001-01-01",
            "tuples",
            &[]
        )
        .is_empty()
    );
}

/// First difference to the rows over the packets, ignoring the order.
fn different(query: &str, capture: &str, found: &str) -> Option<String> {
    let parsed = |lines: &str| {
        in_one_order(
            lines
                .lines()
                .map(|line| serde_json::from_str(line).expect("a row"))
                .collect(),
        )
    };
    super::rows::different(&parsed(&over_packets(query, capture)), &parsed(found))
}
