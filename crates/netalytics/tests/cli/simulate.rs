//! The placement study: equal numbers from equal seeds, its files, and errors in its flags.

use std::fs;

use super::{Folder, check};

const SMALL: &[&str] = &[
    "simulate",
    "placement",
    "--k",
    "4",
    "--flows",
    "4K",
    "--traffic",
    "60Gbps",
    "--monitored",
    "4K,1K",
    "--seeds",
    "3",
    "--sizes",
    "equal",
];

fn small(more: &[&str]) -> super::Ran {
    check(&[SMALL, more].concat(), 0, &[])
}

#[test]
fn small_study_has_the_expected_rows() {
    let rows = small(&["--format", "csv"]).out;
    assert_eq!(
        rows,
        include_str!("placement.csv"),
        "cargo run -- {} --format csv",
        SMALL.join(" ")
    );
    assert_eq!(
        rows,
        small(&["--format", "csv", "--progress", "always"]).out
    );
    assert_ne!(
        rows,
        small(&["--format", "csv", "--seed", "7"]).out,
        "another seed"
    );
    let table = small(&["--strategies", "packed-node"]).out;
    assert_eq!(
        table.lines().count(),
        3,
        "a heading, and each number of flows:\n{table}"
    );
}

#[test]
fn a_study_leaves_its_figures_and_numbers() {
    let folder = Folder::new();
    let ran = small(&["-o", &folder.path("study"), "--progress", "always"]);
    assert!(ran.err.contains("30 of 30 placements"), "{}", ran.err);
    let text = |name: &str| fs::read_to_string(folder.path(&format!("study/{name}"))).expect(name);
    assert_eq!(text("runs.csv").lines().count(), 1 + 3 * 2 * 5);
    assert_eq!(text("placement.csv").lines().count(), 1 + 2 * 5);
    for name in ["figure-7.svg", "figure-7-all.svg", "figure-8.svg"] {
        let svg = text(name);
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{name}"
        );
        for strategy in [
            "local-random",
            "netalytics-node",
            "netalytics-network",
            "packed-node",
            "packed-network",
        ] {
            assert!(svg.contains(strategy), "{strategy} in {name}");
        }
    }
}

/// Flows that no monitor can capture are reported by strategy; all others are placed.
#[test]
fn omitted_flows_are_reported() {
    let args = [
        "--monitor",
        "1Mbps,1,4",
        "--sizes",
        "equal",
        "--monitored",
        "100",
        "--strategies",
        "netalytics-network",
    ];
    let ran = check(
        &[&SMALL[..8], &args].concat(),
        0,
        &["netalytics-network with 100 flows omits 100.0 flows"],
    );
    assert!(ran.out.contains("netalytics-network"), "{}", ran.out);
}

#[test]
fn wrong_flags_end_with_2() {
    for (flags, word) in [
        (&["--k", "5"][..], "an even k from 2 to 128, not 5"),
        (
            &["--monitored", "2M"],
            "--monitored 2000000 exceeds --flows 1000000",
        ),
        (
            &["--strategies", "best"],
            "one of local-random, netalytics-node",
        ),
        (&["--sizes", "big"], "datacenter, pareto"),
        (&["--traffic", "1.2T"], "a rate as 10Gbps"),
        (&["--memory", "128..32"], "from low to high"),
        (&["--used", "40%..120%"], "from 0% to 100%"),
        (&["--cores", "1.5..2"], "whole numbers"),
        (&["--locality", "0,0,0"], "above 0"),
        (&["--locality", "1,2"], "three numbers"),
        (&["--monitor", "10Gbps"], "10Gbps,1,4"),
        (&["--seeds", "0"], "--seeds"),
        (&["--format", "parquet"], "table, jsonl and csv"),
    ] {
        check(&[&["simulate", "placement"], flags].concat(), 2, &[word]);
    }
    check(&["simulate"], 2, &["placement"]);
}

#[test]
fn a_folder_that_cannot_be_written_to_ends_with_1() {
    let folder = Folder::new();
    let file = folder.file("taken", b"");
    check(&[SMALL, &["-o", &file]].concat(), 1, &["cannot write to"]);
}
