//! With packet loss, a tuple with both halves has only true values: HTTP and memcached under random loss, each pair
//! compared with the truth of the complete capture. (MySQL has its own test.)

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Row, nanos, run, truth, without_packets};

const SEEDS: u64 = 10;

/// A capture, its parser and truth table, and the values of a truth row and a tuple that must be equal.
struct Case {
    capture: &'static str,
    parser: &'static str,
    table: &'static str,
    of_truth: fn(&Row) -> String,
    of_tuple: fn(&Row) -> String,
    /// Minimum number of paired tuples per truth row (a multi-get has several) at 1, 5, and 15 % loss.
    at_least: [f64; 3],
}

#[test]
fn lost_packets_leave_no_wrong_pairs() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for case in CASES {
        check(&root, case);
    }
}

const CASES: &[Case] = &[
    Case {
        capture: "http_keepalive.pcap.gz",
        at_least: [0.9, 0.6, 0.15],
        ..HTTP
    },
    Case {
        capture: "http_mix.pcap",
        at_least: [0.85, 0.7, 0.5],
        ..HTTP
    },
    Case {
        capture: "http_pipelined.pcap",
        at_least: [0.3, 0.05, 0.0],
        ..HTTP
    },
    Case {
        capture: "http_short.pcap",
        at_least: [0.95, 0.85, 0.6],
        ..HTTP
    },
    Case {
        capture: "mc_load.pcap",
        at_least: [2.0, 1.5, 0.8],
        ..MEMCACHED
    },
    Case {
        capture: "mc_binary.pcap",
        at_least: [0.5, 0.2, 0.05],
        ..MEMCACHED
    },
];

const HTTP: Case = Case {
    capture: "",
    parser: "http",
    table: "http.tsv",
    of_truth: |t| {
        format!(
            "{} {} {}",
            cell(t, "method"),
            cell(t, "uri"),
            cell(t, "status")
        )
    },
    of_tuple: |o| {
        let query = o
            .get("url_query")
            .map(|q| format!("?{q}"))
            .unwrap_or_default();
        format!(
            "{} {}{query} {}",
            cell(o, "method"),
            cell(o, "path"),
            cell(o, "status")
        )
    },
    at_least: [0.0; 3],
};

const MEMCACHED: Case = Case {
    capture: "",
    parser: "memcached",
    table: "memcache.tsv",
    of_truth: |t| cell(t, "command").to_owned(),
    of_tuple: |o| cell(o, "command").to_owned(),
    at_least: [0.0; 3],
};

fn cell<'a>(row: &'a Row, field: &str) -> &'a str {
    row.get(field).map_or("", String::as_str)
}

fn check(root: &Path, case: &Case) {
    let capture = root.join("live-captures").join(case.capture);
    let expected = truth(&capture, case.table).expect("truth of the corpus");
    let mut whole = std::fs::read(&capture).expect("a capture of the corpus");
    if case.capture.ends_with(".gz") {
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&whole[..]), &mut plain)
            .expect("gzip");
        whole = plain;
    }
    let folder = tempfile::tempdir().expect("a folder for captures");
    let path = folder.path().join("lossy.pcap");
    for (loss, at_least) in [0.01, 0.05, 0.15].into_iter().zip(case.at_least) {
        let mut paired = 0;
        for seed in 0..SEEDS {
            std::fs::write(&path, without_packets(&whole, loss, seed))
                .expect("a capture can be written");
            paired += check_pairs(
                case,
                &path,
                &expected,
                &format!("{}, {loss} lost, seed {seed}", case.capture),
            );
        }
        let share = paired as f64 / (SEEDS as usize * expected.len()) as f64;
        assert!(
            share >= at_least,
            "{}: {share} paired under a loss of {loss}",
            case.capture
        );
    }
}

/// Checks every pair and counts them. The key of a transaction is its client port and the time of its first request
/// byte; one packet may contain several.
fn check_pairs(case: &Case, capture: &Path, expected: &[Row], what: &str) -> usize {
    let mut theirs = BTreeMap::<(String, i64), Vec<&Row>>::new();
    for t in expected.iter().filter(|t| t.contains_key("t_req_first")) {
        theirs
            .entry((t["cport"].clone(), nanos(&t["t_req_first"])))
            .or_default()
            .push(t);
    }
    let mut paired = 0;
    for o in run(capture, case.parser).rows {
        let Some(response_time) = o.get("response_time_ns").filter(|_| o["quality"] != "half")
        else {
            continue;
        };
        let response_time: i64 = response_time.parse().expect("a number");
        let at = (
            o["client_port"].clone(),
            o["ts"].parse::<i64>().expect("a number"),
        );
        let same = (case.of_tuple)(&o);
        let told = |t: &&&Row| {
            // If the end of the request is lost, times count from its last captured byte.
            let single = t["req_first"] == t["req_last"];
            let near = |ttfb: &String| (nanos(ttfb) - response_time).abs() <= 1000;
            (case.of_truth)(t) == same && (!single || t.get("ttfb").is_some_and(near))
        };
        let known = theirs.get(&at).and_then(|rows| rows.iter().find(told));
        assert!(
            known.is_some(),
            "{what}: {at:?} {same} {response_time} ns is not in {:?}",
            theirs.get(&at)
        );
        paired += 1;
    }
    paired
}
