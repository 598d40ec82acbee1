//! `netalytics map`: its numbers compared with queries without `service-map`, and its drawing.

use serde_json::Value;

use crate::{run, text};

const SHOP: &str = "captures/shop/in.pcap";

fn edges() -> Vec<Value> {
    let document: Value =
        serde_json::from_str(&text(&run(&["map", "-r", SHOP, "--format", "json"]).stdout))
            .expect("the map is JSON");
    document["edges"].as_array().expect("a list").clone()
}

/// Numbers of each edge, computed by separate queries.
#[test]
fn every_edge_has_the_numbers_of_plain_queries() {
    for (parser, protocol, edges_of) in [
        ("http", "http", 3),
        ("mysql_query", "mysql", 2),
        ("memcached", "memcached", 2),
    ] {
        let ends = "group=client_ip, server_ip, server_port";
        let query = format!(
            "PARSE {parser} PROCESS (group-count-rate-success-sum-quantile: {ends}, value=response_time_ns, q=0.5, 0.99)"
        );
        let output = run(&["-q", "query", &query, "-r", SHOP, "--format", "jsonl"]);
        let rows: Vec<Value> = text(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect();
        assert_eq!(rows.len(), edges_of, "{parser}");
        for row in rows {
            let same = |edge: &&Value| {
                edge["protocol"] == protocol
                    && ["client_ip", "server_ip"]
                        .iter()
                        .all(|end| edge[end] == row[end])
            };
            let all = edges();
            let edge = all
                .iter()
                .find(same)
                .unwrap_or_else(|| panic!("{row} has no edge"));
            for (of_edge, of_query) in [
                ("requests", "count"),
                ("requests_per_second", "rate"),
                ("success", "success"),
                ("time_ns", "sum_ns"),
                ("p50_ns", "p50_ns"),
                ("p99_ns", "p99_ns"),
            ] {
                let got = edge[of_edge].as_f64();
                let expected = row[of_query].as_f64();
                assert!(
                    got.is_some() && (got.unwrap() - expected.unwrap()).abs() < 1e-9,
                    "{of_edge}: {edge} {row}"
                );
            }
        }
    }
}

#[test]
fn map_fits_a_screen_and_names_hosts() {
    let hosts = std::env::temp_dir().join(format!("netalytics-map-{}", std::process::id()));
    std::fs::write(&hosts, "10.20.0.10 shop\n10.20.0.21 \"a\\b\n").expect("a file can be written");
    let file = hosts.to_str().expect("a path of letters");
    let screen = text(&run(&["map", "-r", SHOP, "--hosts", file]).stdout);
    let dot = text(&run(&["map", "-r", SHOP, "--hosts", file, "--format", "dot"]).stdout);
    std::fs::remove_file(&hosts).expect("it was there");
    assert!(screen.contains("10.20.0.22 → shop:80 http"), "{screen}");
    assert!(
        screen.lines().all(|line| line.chars().count() <= 80),
        "{screen}"
    );
    // Names stay within their quotes.
    assert!(dot.contains(r#""10.20.0.21" [label="\"a\\b"];"#), "{dot}");
    assert_eq!(dot.matches(" -> ").count(), edges().len());
}

#[test]
fn a_map_of_several_parsers_is_the_commands() {
    let output = run(&[
        "query",
        "PARSE http, mysql_query PROCESS (service-map)",
        "-r",
        SHOP,
    ]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("netalytics map"), "{error}");
}
