//! Summaries as text and JSON.

mod shown;

use std::time::Duration;

use monitor::PacketAccounting;
use monitor::sampling_control::{RateChange, RateHistory};
use serde_json::{Value, json};
use wire::{DecodeError, Timestamp, UnreadProtocol};

use super::{InputError, RunSummary};

fn summary() -> RunSummary {
    let mut accounting = PacketAccounting {
        received: 100,
        parsed: 90,
        tuples: 7,
        ..PacketAccounting::default()
    };
    accounting.filtered.address = 6;
    accounting.undecodable[DecodeError::NotIp as usize] = 4;
    accounting.count_protocol(UnreadProtocol::EtherType(0x0806), 3);
    accounting.count_protocol(UnreadProtocol::Llc(0xe0), 1);
    accounting.flows.opened = 3;
    accounting.parsers.resyncs = 2;
    RunSummary {
        query: "PARSE http".into(),
        accounting,
        source: capture::SourceCounters {
            packets: 100,
            original_bytes: 123_456,
            captured_bytes: 100_000,
            lost_before_us: Some(12),
            buffer_overflows: 2,
            ..Default::default()
        },
        stream: stream::EngineCounters {
            tuples_in: 7,
            tuples_late: 1,
            ..Default::default()
        },
        silences: Vec::new(),
        rows: 6,
        seen: Some((Timestamp(1_000_000_000), Timestamp(2_500_000_000))),
        memory: None,
        epochs_cut: 0,
        limit_reached: false,
        regulated: None,
        sampling: RateHistory::default(),
        lacks: Vec::new(),
        errors: vec![InputError {
            path: "x.pcap".into(),
            offset: Some(9),
            text: "x.pcap: byte 9: cut".into(),
            after_packets: 100,
        }],
        cut_short: None,
        panics: Vec::new(),
        output_errors: Vec::new(),
        fed: None,
        kept: None,
        delivered: Vec::new(),
        packets_kept: None,
        taps: None,
        sent: None,
        elapsed: Duration::from_millis(50),
    }
}

#[test]
fn a_text_for_people() {
    assert_eq!(
        summary().text(),
        "\
packets         100  123.5 kB in 1.50 s of traffic
  parsed         90
  filtered        6  address 6
  undecodable     4  not_ip 4
    not read         arp 3, ipx 1
lost before us   12  buffer_overflows 2
flows             3
parsers              resyncs 2
tuples            7  tuples_late 1
rows              6
done in 50.0 ms: 2000 packets/s, 2.0 MB/s
"
    );
}

#[test]
fn limits_that_took_effect_are_named() {
    let mut summary = summary();
    summary.accounting.flows.closed[flow::CloseReason::Evicted as usize] = 5;
    summary.stream.groups_overflowed = 9;
    let text = summary.text();
    for line in [
        "limit reached     5  flows: flows evicted; rows of that time are approximate (--flows-max raises the limit)",
        "limit reached     9  groups: tuples or groups pooled; their rows are approximate (--groups-max raises the limit)",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let json: Value = serde_json::from_str(&summary.json()).expect("JSON");
    assert_eq!(
        json["limits"]["flows"],
        json!({"flag": "--flows-max", "count": 5})
    );
    assert_eq!(json["limits"]["joined_tuples"]["count"], json!(0));
}

/// Detects renamed counters, and counters of the stream without a limit or an exemption.
#[test]
fn every_limit_has_its_counter() {
    let mut summary = summary();
    summary.packets_kept = Some(Default::default());
    summary.accounting.tls.decrypted = 1;
    let value = summary.value();
    let known = |limit: &crate::limits::MemoryLimit| {
        value
            .pointer(&format!("/{}", limit.counter.replace('.', "/")))
            .is_some()
    };
    let unknown: Vec<_> = crate::limits::LIMITS
        .iter()
        .filter(|limit| !known(limit))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // Part of the query's result, late data, and normal ends.
    let no_limits = [
        "tuples_in",
        "tuples_filtered",
        "tuples_joined",
        "tuples_null_value",
        "tuples_late",
        "rows_filtered",
        "rows_beyond_limit",
        "join_expired",
    ];
    for name in value["stream"].as_object().expect("counters").keys() {
        let is_limit = crate::limits::LIMITS
            .iter()
            .any(|limit| limit.counter == format!("stream.{name}"));
        assert!(is_limit != no_limits.contains(&name.as_str()), "{name}");
    }
}

fn order() -> plan::message::JobOrder {
    let plan = plan::Plan {
        query: String::new(),
        monitor: Default::default(),
        dataflow: Default::default(),
    };
    plan::message::JobOrder {
        job: 7,
        generation: 2,
        attempt: 1,
        plan,
        redaction: None,
        capture: plan::message::CaptureSpec::default(),
        packets_max: None,
        memory_max: 0,
        cpu_millis: 0,
        workers: 0,
        taps: plan::TapTable::default(),
        origin: tuple::AgentOrigin::default(),
        topics: Vec::new(),
    }
}

#[test]
fn an_account_has_the_counts_by_name() {
    let closing = summary().closing(&order(), false);
    let count = |name| closing.count(name);
    assert_eq!(
        (closing.job, closing.generation, closing.attempt),
        (7, 2, 1)
    );
    assert_eq!(closing.end, plan::message::MonitorEndReason::Input);
    for (name, n) in [
        ("packets.received", 100),
        ("packets.filtered.address", 6),
        ("packets.filtered.early", 0),
        ("packets.undecodable.not_ip", 4),
        ("source.lost_before_us", 12),
        ("flows.opened", 3),
        ("parsers.resyncs", 2),
        ("stream.tuples_late", 1),
        ("rows", 6),
    ] {
        assert_eq!(count(name), Some(n), "{name}");
    }
    assert_eq!(
        (count("format"), count("first_ts"), count("replayed")),
        (None, None, None)
    );
    assert_eq!(
        (closing.seen, closing.errors.len()),
        (Some((1_000_000_000, 2_500_000_000)), 1)
    );
    assert_eq!(
        plan::message::MonitorFinalReport::decode(&closing.encode()),
        Ok(closing)
    );
}

#[test]
fn rates_that_changed() {
    let mut summary = summary();
    for rate in [0.5, 0.25, 0.3] {
        let ts = Timestamp(2_000_000_000);
        summary.sampling.add(RateChange {
            ts,
            worker: 1,
            rate,
            backlog: 0.75,
            lost: 9,
            ceiling: 1.0,
            copied: 1.0,
        });
    }
    let line = "sampling          3  changes of rate, lowest 25.000 %, last 30.000 %\n";
    assert!(summary.text().contains(line), "{}", summary.text());
    let json: Value = serde_json::from_str(&summary.json()).expect("JSON");
    let first = json!({
        "ts": 2_000_000_000, "worker": 1, "rate": 0.5, "backlog": 0.75, "lost": 9, "ceiling": 1.0, "copied": 1.0,
    });
    assert_eq!(json.pointer("/sampling/0"), Some(&first));
    assert_eq!(json.pointer("/sampling_changes"), Some(&json!(3)));
    assert_eq!(json.pointer("/sampling_lowest"), Some(&json!(0.25)));
}

#[test]
fn numbers_that_do_not_add_up_are_a_bug() {
    let mut summary = summary();
    summary.accounting.received += 1;
    assert!(summary.text().contains("report that as a bug"));
}

#[test]
fn everything_as_json() {
    let json: Value = serde_json::from_str(&summary().json()).expect("JSON");
    for (pointer, expected) in [
        ("/packets/received", json!(100)),
        ("/packets/undecodable/not_ip", json!(4)),
        (
            "/packets/undecodable_protocols",
            json!({ "arp": 3, "ipx": 1 }),
        ),
        ("/packets/adds_up", json!(true)),
        ("/stream/tuples_late", json!(1)),
        ("/flows/closed/fin", json!(0)),
        ("/first_ts", json!(1_000_000_000)),
        ("/errors/0/offset", json!(9)),
        ("/complete", json!(false)),
    ] {
        assert_eq!(json.pointer(pointer), Some(&expected), "{pointer}");
    }
}

/// A panic is a bug and comes first; a request to stop matters only if nothing failed.
#[test]
fn the_reason_of_an_end_is_the_worst() {
    use plan::message::MonitorEndReason::{Failed, Input, Limit, Stopped};
    let failed = |text: &str| Failed(text.to_owned());
    let mut summary = summary();
    let end = |summary: &RunSummary, was_stopped| summary.closing(&order(), was_stopped).end;
    assert_eq!(
        (end(&summary, false), end(&summary, true)),
        (Input, Stopped)
    );
    summary.limit_reached = true;
    assert_eq!(end(&summary, true), Limit);
    summary.output_errors = vec!["disk full".into()];
    assert_eq!(end(&summary, true), failed("disk full"));
    summary.cut_short = Some("no broker".into());
    assert_eq!(end(&summary, false), failed("no broker"));
    summary.panics = vec!["index out of bounds".into(), "another".into()];
    assert_eq!(end(&summary, false), failed("index out of bounds"));
}

#[test]
fn a_run_is_complete_without_complaints() {
    let mut summary = summary();
    assert_eq!(
        summary.complaints().collect::<Vec<_>>(),
        ["x.pcap: byte 9: cut"]
    );
    summary.cut_short = Some("stopped".into());
    summary.panics = vec!["p".into()];
    summary.output_errors = vec!["o".into()];
    assert_eq!(
        summary.complaints().collect::<Vec<_>>(),
        ["x.pcap: byte 9: cut", "stopped", "p", "o"]
    );
    assert!(!summary.is_complete());
    summary.errors.clear();
    summary.cut_short = None;
    summary.panics = vec![];
    summary.output_errors = vec![];
    assert!(summary.is_complete());
}

/// Input other than packets has counters of its own; its rows are not packets.
#[test]
fn published_input_has_its_own_lines() {
    use super::{FedInput, PublishedInput};
    let mut summary = summary();
    let published = PublishedInput {
        records: 5,
        bytes: 2048,
        rows: 40,
        malformed: 1,
        late: 2,
        hurried: 3,
    };
    summary.fed = Some(FedInput::Published(published));
    let text = summary.text();
    for part in [
        "records",
        "malformed",
        "too late",
        "dropped by Flink",
        "hurried",
        "tuples or cells",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("packets"), "{text}");
    assert_eq!(summary.published(), Some(published));
    assert!(summary.replayed().is_none() && summary.monitored().is_none());
    let fed = summary.fed.expect("input");
    assert_eq!((fed.tuples(), fed.bytes()), (40, 2048));
}

#[test]
fn counters_that_are_zero_have_no_line() {
    use super::{FedInput, PublishedInput};
    let mut summary = summary();
    summary.fed = Some(FedInput::Published(PublishedInput {
        records: 5,
        ..PublishedInput::default()
    }));
    let text = summary.text();
    assert!(
        !["malformed", "too late", "hurried"]
            .iter()
            .any(|part| text.contains(part)),
        "{text}"
    );
}

#[test]
fn a_run_without_packets_has_no_period() {
    let mut summary = summary();
    summary.seen = None;
    summary.elapsed = Duration::ZERO;
    let text = summary.text();
    assert!(
        text.starts_with("packets         100  123.5 kB\n"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&summary.json()).expect("JSON");
    assert!(json["first_ts"].is_null() && json["last_ts"].is_null());
    assert_eq!(summary.closing(&order(), false).seen, None);
}
