//! `explain --network`: a plan as text, JSON and picture; errors in the network file, the costs and BUDGET.

use serde_json::Value;

use super::{Folder, check};

const SITE: &str = include_str!("../../../planner/src/physical/tests/network.toml");
const QUERY: &str = "PARSE tcp_conn_time TO 10.60.3.1:3306 PROCESS (diff-group: group=srcIP)";

#[test]
fn a_plan_for_a_network_is_text_json_or_a_picture() {
    let folder = Folder::new();
    let network = folder.file("network.toml", SITE.as_bytes());
    let explain = |more: &[&str]| {
        check(
            &[&["explain", QUERY, "--network", &network], more].concat(),
            0,
            &[],
        )
        .out
    };
    let text = explain(&[]);
    for line in [
        "parser        tcp_conn_time",
        "leaf3         no rule; the monitor reads at port 1",
        "lacks         nothing",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    let plan: Value =
        serde_json::from_str(&explain(&["--format", "json", "--exact"])).expect("json");
    assert_eq!(
        (&plan["monitors"][0]["host"], &plan["flows"][0]["mbps"]),
        (&"leaf3".into(), &4.0.into())
    );
    let more = ["--expect", "10.60.3.1:3306=6Mbps", "--format", "json"];
    let plan: Value = serde_json::from_str(&explain(&more)).expect("json");
    assert_eq!(plan["flows"][0]["mbps"], 10.0);
    assert!(explain(&["--format", "svg"]).starts_with("<svg xmlns="));
}

/// Exports are planned with their error, or refused with the reason.
#[test]
fn an_export_is_planned() {
    let folder = Folder::new();
    let network = folder.file("network.toml", SITE.as_bytes());
    let query = "PARSE packet TO 10.60.1.3:80 PROCESS (group-sum: group=src_ip, w=10s)";
    let more = ["--network", &network, "--mode", "sflow"];
    let explain = |more: &[&str]| check(&[&["explain", query], more].concat(), 0, &[]).out;
    let json = explain(&[&more[..], &["--sampling", "16", "--format", "json"]].concat());
    let plan: Value = serde_json::from_str(&json).expect("json");
    assert_eq!(
        (&plan["export"]["protocol"], &plan["export"]["sampling"]),
        (&"sflow".into(), &16.into())
    );
    assert_eq!(plan["monitors"], Value::Array(Vec::new()));
    assert!(!explain(&more[..2]).contains("leaf1 exports"));
    for command in ["explain", "query"] {
        let words = ["PARSE packet only", "tcp_conn_time"];
        check(&[&[command, QUERY], &more[..]].concat(), 2, &words);
    }
    check(&["explain", query, "--mode", "sflow"], 2, &["--network"]);
}

#[test]
fn errors_in_network_plans_are_reported() {
    let folder = Folder::new();
    let network = folder.file("network.toml", SITE.as_bytes());
    let broken = folder.file(
        "broken.toml",
        SITE.replacen("tier = \"edge\"", "tier = \"top\"", 1)
            .as_bytes(),
    );
    let costs = folder.file("costs.toml", b"[switch]\ncopy_ns = -1.0\n");
    let refused = |args: &[&str], words: &[&str]| {
        check(&[&["explain", QUERY], args].concat(), 2, words);
    };
    refused(
        &["--network", &broken],
        &["broken.toml", "line 5", "aggregation"],
    );
    refused(
        &["--network", &network, "--costs", &costs],
        &["costs.toml", "switch.copy_ns", "-1"],
    );
    refused(
        &["--network", &network, "--expect", "web=1Mbps"],
        &["web", "10.0.1.2:80"],
    );
    refused(&["--exact"], &["--network"]);
    refused(&["--format", "svg"], &["--network"]);
    let bounded = |budget: &str| format!("PARSE http TO 10.60.1.3:80 BUDGET {budget}");
    check(
        &["explain", &bounded("cpu=0.0001%"), "--network", &network],
        2,
        &["the monitor on leaf1", "BUDGET allows"],
    );
    check(
        &["explain", &bounded("cpu=50%"), "--network", &network],
        0,
        &[],
    );
    for verb in [&["explain"][..], &["query", "-r", "none.pcap"]] {
        check(
            &[verb, &[&bounded("cpu=5%")]].concat(),
            2,
            &["this query has no network"],
        );
    }
    let nobody = "PARSE http FROM 9.9.9.8 TO 9.9.9.9:80";
    check(
        &["explain", nobody, "--network", &network],
        2,
        &["neither such servers nor their clients"],
    );
}
