//! A million exporters with forged addresses: memory stays bounded, and all that is discarded is counted. The test has
//! a process of its own, whose memory it measures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use telemetry::{ExportDecoder, ExportLimits};
use wire::Timestamp;

const EXPORTERS: u32 = 1_000_000;
/// 16 MiB of sets that wait, and the states of 16,384 domains and 65,536 flows, in bytes.
const MEMORY_MAX: u64 = 96 << 20;

fn put(message: &mut Vec<u8>, numbers: &[u16]) {
    numbers
        .iter()
        .for_each(|number| message.extend(number.to_be_bytes()));
}

/// A message of `version` (9 or 10) with a template of bytes and packets, its options with a sampling rate, a record,
/// and a set without a template.
fn message(version: u16) -> Vec<u8> {
    let is_ipfix = version == 10;
    let mut sets = Vec::new();
    let ids: [u16; 2] = if is_ipfix { [2, 3] } else { [0, 1] };
    // Bytes and packets in total, so that the decoder keeps the flow.
    put(&mut sets, &[ids[0], 16, 300, 2, 85, 4, 86, 4]);
    if is_ipfix {
        put(&mut sets, &[ids[1], 18, 301, 2, 1, 302, 4, 50, 4]);
    } else {
        put(&mut sets, &[ids[1], 18, 301, 4, 4, 1, 4, 50, 4]);
    }
    put(&mut sets, &[301, 12, 0, 7, 0, 64]);
    put(&mut sets, &[300, 12, 0, 1000, 0, 10]);
    put(&mut sets, &[60_000, 36]);
    sets.resize(sets.len() + 32, 7);
    let mut message = Vec::new();
    if is_ipfix {
        put(&mut message, &[10, 16 + sets.len() as u16]);
        put(&mut message, &[25_940, 0, 0, 0, 0, 1]);
    } else {
        put(&mut message, &[9, 5]);
        put(&mut message, &[0, 1000, 25_940, 0, 0, 0, 0, 1]);
    }
    message.extend(sets);
    message
}

/// A datagram of a sub-agent without samples.
fn sflow(agent: u32) -> Vec<u8> {
    let words = [5, 1, agent, 0, 1, 1000, 0];
    words
        .iter()
        .flat_map(|word: &u32| word.to_be_bytes())
        .collect()
}

/// Peak of resident memory, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of a process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    1024 * kilobytes.expect("a peak").parse::<u64>().expect("a number")
}

#[test]
fn a_million_exporters_are_bounded_and_counted() {
    let limits = ExportLimits::default();
    let before = peak_bytes();
    let mut decoder = ExportDecoder::new(limits);
    let messages = [message(9), message(10)];
    let mut records = 0;
    for n in 0..EXPORTERS {
        let exporter = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(n)), 9995);
        let now = Timestamp(i64::from(n) * 1000);
        let sflow = sflow(n + 1);
        let message = match n % 3 {
            2 => &sflow,
            of => &messages[of as usize],
        };
        decoder.decode(exporter, now, message, |_| records += 1);
    }
    let counters = decoder.counters();
    assert_eq!(counters.messages, u64::from(EXPORTERS));
    assert_eq!(counters.malformed + counters.not_export, 0, "{counters:?}");
    let templated = u64::from(EXPORTERS - EXPORTERS / 3);
    assert_eq!((records, counters.flows), (templated, templated));
    assert_eq!(counters.totals_without_base, templated);
    assert_eq!(
        (counters.options, counters.sets_held),
        (templated, templated)
    );
    let kept = decoder.losses().count();
    assert!(kept <= limits.domains, "{kept}");
    assert_eq!(counters.domains_evicted, u64::from(EXPORTERS) - kept as u64);
    let templates_kept = counters.templates - counters.templates_evicted;
    assert!(templates_kept <= 2 * kept as u64, "{counters:?}");
    let sets_kept = counters.sets_held - counters.sets_decoded_late - counters.sets_discarded;
    assert!(32 * sets_kept <= limits.pending_bytes as u64, "{sets_kept}");
    let grown = peak_bytes() - before;
    assert!(grown < MEMORY_MAX, "{grown} bytes");
}
