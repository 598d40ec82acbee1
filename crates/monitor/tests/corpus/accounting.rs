//! Every packet of every capture is counted exactly once for any query, and no capture makes a parser panic.

use std::path::Path;

use parsers::registry;
use plan::{AddressMatch, MonitorSpec, ParserUse, QueryLimit, SampleMode, TimeSpan};

use crate::support::{EVERYWHERE, captures, run_spec};

#[test]
fn every_packet_is_accounted_for() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (i, capture) in captures(&root, EVERYWHERE).iter().enumerate() {
        // All parsers at once over every capture; then the same captures with a filter, a sample, and a limit in turn.
        let mut spec = all_parsers();
        let whole = run_spec(capture, &spec);
        assert_eq!(
            whole.accounting.received,
            whole.packets,
            "{}",
            capture.display()
        );
        assert_eq!(
            whole.accounting.filtered_total() + whole.accounting.sampled_out,
            0
        );
        match i % 3 {
            0 => {
                spec.servers = vec![AddressMatch {
                    net: None,
                    port: Some(80),
                }]
            }
            1 => spec.sample = SampleMode::Fraction(0.5),
            _ => {
                spec.limit = QueryLimit {
                    packets: Some(50),
                    nanos: None,
                }
            }
        }
        let part = run_spec(capture, &spec).accounting;
        assert!(
            part.adds_up() && part.parsed <= whole.accounting.parsed,
            "{}",
            capture.display()
        );
        let limited = spec.limit.packets.is_some();
        assert!(
            limited || part.undecodable == whole.accounting.undecodable,
            "{}",
            capture.display()
        );
    }
}

/// Truth: the timestamps of the packets, compared one by one.
#[test]
fn a_span_holds_the_packets_of_its_time() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/shop/in.pcap");
    let mut source = capture::open(std::slice::from_ref(&capture));
    let mut block = capture::PacketBlock::default();
    let mut times = Vec::new();
    while source.next_block(&mut block) {
        times.extend(block.packets().map(|packet| packet.ts.0));
    }
    assert!(times.is_sorted() && times.len() > 1000);
    let [start, end] = [times.len() / 3, times.len() / 2].map(|place| times[place]);
    let early = times.partition_point(|ts| *ts < start) as u64;
    let before_end = times.partition_point(|ts| *ts < end) as u64;
    let check = |span, limit, received| {
        let accounting = run_spec(
            &capture,
            &MonitorSpec {
                span,
                limit,
                ..all_parsers()
            },
        )
        .accounting;
        assert!(accounting.adds_up());
        let expected_early = if span.start_ns.is_some() { early } else { 0 };
        assert_eq!(
            (accounting.filtered.early, accounting.received),
            (expected_early, received),
            "{span:?}"
        );
    };
    let whole = times.len() as u64;
    let none = QueryLimit::default();
    check(
        TimeSpan {
            start_ns: Some(start),
            end_ns: None,
        },
        none,
        whole,
    );
    check(
        TimeSpan {
            start_ns: None,
            end_ns: Some(end),
        },
        none,
        before_end,
    );
    check(
        TimeSpan {
            start_ns: Some(start),
            end_ns: Some(end),
        },
        none,
        before_end,
    );
    // The duration of LIMIT starts with the capture, not with the first packet.
    check(
        TimeSpan {
            start_ns: Some(start),
            end_ns: None,
        },
        QueryLimit {
            packets: None,
            nanos: Some(end - start),
        },
        before_end,
    );
    let first_and = QueryLimit {
        packets: None,
        nanos: Some(end - times[0]),
    };
    check(TimeSpan::default(), first_and, before_end);
}

fn all_parsers() -> MonitorSpec {
    let parsers = registry::schemas()
        .into_iter()
        .map(ParserUse::all_columns)
        .collect();
    MonitorSpec {
        parsers,
        ..MonitorSpec::default()
    }
}
