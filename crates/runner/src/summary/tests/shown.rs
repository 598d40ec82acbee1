//! What a summary shows of much, and of the largest numbers.

use std::time::Duration;

use monitor::sampling_control::RateHistory;
use serde_json::{Value, json};
use wire::{Timestamp, UnreadProtocol};

use super::{order, summary};

#[test]
fn only_the_most_frequent_protocols_are_shown() {
    let mut summary = summary();
    for n in 0..10 {
        summary
            .accounting
            .count_protocol(UnreadProtocol::LinkType(900 + n), 100 + u64::from(n / 2));
    }
    let text = summary.text();
    let line = text
        .lines()
        .find(|line| line.contains("not read"))
        .expect("a line");
    // Equal counts by name; the least frequent, and the two of the summary, are not shown.
    let expected = "link_type_908 104, link_type_909 104, link_type_906 103, link_type_907 103, link_type_904 102, \
                    link_type_905 102, link_type_902 101, link_type_903 101, and 4 more";
    assert!(line.ends_with(expected), "{line}");
    let json: Value = serde_json::from_str(&summary.json()).expect("JSON");
    let all = json["packets"]["undecodable_protocols"].as_object();
    assert_eq!(all.map(|all| all.len()), Some(12));
}

#[test]
fn exporters_without_news_are_not_shown() {
    let mut summary = summary();
    let exporter = |n: u32, lost, clock_offset_ns| monitor::ExporterState {
        exporter: std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into(),
        protocol: telemetry::ExportProtocol::Ipfix,
        domain: n,
        losses: telemetry::SequenceLosses {
            received: 50,
            lost,
            ..Default::default()
        },
        clock_offset_ns,
    };
    let exports = &mut summary.accounting.exports;
    exports.decoded.messages = 5;
    exports.domains = 20;
    exports.exporters = vec![exporter(1, 0, Some(0)), exporter(2, 3, None)];
    exports.exporters.push(exporter(3, 0, Some(i64::MIN)));
    let text = summary.text();
    let shown: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("  exporter"))
        .collect();
    assert_eq!(shown.len(), 2, "{text}");
    assert!(
        shown[0].ends_with("10.0.0.2 domain 2 (ipfix): lost 3"),
        "{}",
        shown[0]
    );
    assert!(
        shown[1].contains("10.0.0.3 domain 3 (ipfix): clock off by "),
        "{}",
        shown[1]
    );
    // Flows of packets are not those of exporters.
    assert!(
        !text.lines().any(|line| line.starts_with("flows")),
        "{text}"
    );
}

#[test]
fn many_periods_of_empty_windows_are_cut() {
    let mut summary = summary();
    for (stretches, is_cut) in [(1, false), (4, false), (5, true), (100, true)] {
        let period = |n: i64| (n * 60_000_000_000, n * 60_000_000_000 + 1_000_000_000);
        summary.silences = vec![stream::EmptyWindows {
            windows: 7,
            stretches: (0..stretches).map(period).collect(),
        }];
        let text = summary.text();
        let line = text
            .lines()
            .find(|line| line.starts_with("empty windows"))
            .expect("a line");
        assert_eq!(line.ends_with(", …"), is_cut, "{line}");
        assert_eq!(
            line.matches(" to ").count(),
            4.min(stretches as usize),
            "{line}"
        );
    }
}

/// The largest counters neither break the lines nor the JSON.
#[test]
fn the_largest_counters_are_shown() {
    let mut summary = summary();
    summary.rows = u64::MAX;
    summary.elapsed = Duration::MAX;
    summary.seen = Some((Timestamp(i64::MIN), Timestamp(i64::MAX)));
    summary.source.original_bytes = u64::MAX;
    let text = summary.text();
    assert!(text.contains("18446744073709551615"), "{text}");
    let json: Value = serde_json::from_str(&summary.json()).expect("JSON");
    assert_eq!(json["rows"], json!(u64::MAX));
    assert_eq!(json["elapsed_ns"], json!(u64::MAX));
    assert_eq!(json["last_ts"], json!(i64::MAX));
    // No time: rates are those of the shortest time, not of a division by zero.
    summary.elapsed = Duration::ZERO;
    assert!(!summary.text().contains("inf"), "{}", summary.text());
}

/// Numbers that are not totals would be added up over agents.
#[test]
fn final_counters_are_totals_by_path() {
    let mut summary = summary();
    summary.memory = None;
    summary.sampling = rates_history();
    summary.silences = vec![stream::EmptyWindows {
        windows: 7,
        stretches: vec![(1, 2)],
    }];
    let closing = summary.closing(&order(), true);
    for (name, _) in &closing.counts {
        assert!(
            !matches!(name.as_str(), "format" | "first_ts" | "last_ts"),
            "{name}"
        );
        assert!(
            !name.starts_with("empty_windows") && !name.starts_with("sampling."),
            "{name}"
        );
    }
    let mut names: Vec<_> = closing
        .counts
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a counter occurs twice");
    assert_eq!(closing.end, plan::message::MonitorEndReason::Stopped);
}

fn rates_history() -> RateHistory {
    RateHistory {
        count: 3,
        lowest: Some(0.25),
        ..RateHistory::default()
    }
}
