//! Hostile input: damaged messages, floods of templates, exporters, and sets without a template. Nothing panics, and
//! every bound holds with a counter.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use proptest::prelude::*;
use telemetry::{ExportCounters, ExportDecoder, ExportLimits};
use testkit::SeededRng;
use wire::{Packet, Timestamp};

fn exporter(n: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(n)), 9995)
}

fn put(message: &mut Vec<u8>, numbers: &[u16]) {
    numbers
        .iter()
        .for_each(|number| message.extend(number.to_be_bytes()));
}

/// An IPFIX message of domain 1 with these sets.
fn ipfix(sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let mut message = Vec::new();
    let len = 16 + sets.iter().map(Vec::len).sum::<usize>();
    put(&mut message, &[10, len as u16]);
    [1_700_000_000, sequence, 1]
        .iter()
        .for_each(|word: &u32| message.extend(word.to_be_bytes()));
    sets.iter().for_each(|set| message.extend(set));
    message
}

fn set(id: u16, body: &[u16]) -> Vec<u8> {
    let mut set = Vec::new();
    put(&mut set, &[id, 4 + 2 * body.len() as u16]);
    put(&mut set, body);
    set
}

/// A template of bytes and packets, four bytes each.
fn template(id: u16) -> Vec<u8> {
    set(2, &[id, 2, 1, 4, 2, 4])
}

fn data(id: u16, bytes: u16, packets: u16) -> Vec<u8> {
    set(id, &[0, bytes, 0, packets])
}

fn decode(
    decoder: &mut ExportDecoder,
    from: SocketAddr,
    at: i64,
    message: &[u8],
) -> Vec<(Option<u64>, Option<u64>)> {
    let mut found = Vec::new();
    decoder.decode(from, Timestamp(at), message, |event| {
        if let telemetry::ExportEvent::Flow(record, _) = event {
            found.push((record.bytes, record.packets));
        }
    });
    found
}

#[test]
fn data_before_its_template_is_decoded_later() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    assert!(decode(&mut decoder, exporter(1), 0, &ipfix(0, &[data(300, 10, 1)])).is_empty());
    assert!(
        decode(
            &mut decoder,
            exporter(1),
            1,
            &ipfix(1, &[data(300, 20, 2), data(301, 5, 5)])
        )
        .is_empty()
    );
    // Another exporter's template of the same number.
    assert!(decode(&mut decoder, exporter(2), 2, &ipfix(0, &[template(300)])).is_empty());
    let found = decode(
        &mut decoder,
        exporter(1),
        3,
        &ipfix(3, &[template(300), data(300, 30, 3)]),
    );
    assert_eq!(
        found,
        [
            (Some(10), Some(1)),
            (Some(20), Some(2)),
            (Some(30), Some(3))
        ]
    );
    let counters = decoder.counters();
    assert_eq!(
        (
            counters.sets_held,
            counters.sets_decoded_late,
            counters.sets_discarded
        ),
        (3, 2, 0)
    );
    decode(&mut decoder, exporter(1), 601_000_000_000, &ipfix(4, &[]));
    assert_eq!(decoder.counters().sets_discarded, 1);
}

#[test]
fn withdrawn_and_replaced_templates() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    decode(
        &mut decoder,
        exporter(1),
        0,
        &ipfix(0, &[template(300), template(301)]),
    );
    decode(
        &mut decoder,
        exporter(1),
        0,
        &ipfix(0, &[set(2, &[300, 0])]),
    );
    assert!(decode(&mut decoder, exporter(1), 0, &ipfix(0, &[data(300, 1, 1)])).is_empty());
    assert_eq!(
        decode(&mut decoder, exporter(1), 0, &ipfix(0, &[data(301, 1, 2)])),
        [(Some(1), Some(2))]
    );
    // Packets first, without a withdrawal before.
    decode(
        &mut decoder,
        exporter(1),
        0,
        &ipfix(0, &[set(2, &[301, 2, 2, 4, 1, 4])]),
    );
    assert_eq!(
        decode(&mut decoder, exporter(1), 0, &ipfix(0, &[data(301, 1, 2)])),
        [(Some(2), Some(1))]
    );
    decode(&mut decoder, exporter(1), 0, &ipfix(0, &[set(2, &[2, 0])]));
    assert!(decode(&mut decoder, exporter(1), 0, &ipfix(0, &[data(301, 1, 2)])).is_empty());
    assert_eq!(decoder.counters().templates_withdrawn, 2);
}

#[test]
fn templates_and_rates_survive_a_restart() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    // Sampler 7 selects one of 64 packets.
    let options = set(3, &[400, 2, 1, 302, 8, 50, 4]);
    let rates = set(400, &[0, 0, 0, 7, 0, 64]);
    decode(
        &mut decoder,
        exporter(1),
        0,
        &ipfix(0, &[template(300), options, rates]),
    );
    let saved = decoder.save();
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    assert_eq!(decoder.restore(&saved), Ok(2));
    let mut found = Vec::new();
    decoder.decode(
        exporter(1),
        Timestamp(0),
        &ipfix(0, &[data(300, 1, 2)]),
        |event| {
            if let telemetry::ExportEvent::Flow(record, _) = event {
                found.push((record.bytes, record.rate.map(|rate| rate.packets)));
            }
        },
    );
    assert_eq!(found, [(Some(1), Some(64.0))]);
    assert_eq!(decoder.save(), saved);
    let longer = saved.replace("\"version\":1", "\"version\":2");
    assert!(
        decoder
            .restore(&longer)
            .is_err_and(|error| error.contains("version 2"))
    );
    assert!(decoder.restore("{").is_err());
}

#[test]
fn floods_are_bounded_and_counted() {
    let limits = ExportLimits {
        domains: 100,
        templates_per_domain: 10,
        template_bytes: 20_000,
        pending_bytes: 10_000,
        ..ExportLimits::default()
    };
    let mut decoder = ExportDecoder::new(limits);
    for n in 0..10_000 {
        let message = ipfix(
            0,
            &[
                template(256 + n as u16),
                template(300 + n as u16),
                data(60_000, 1, 1),
            ],
        );
        decode(&mut decoder, exporter(n), 0, &message);
    }
    let ExportCounters {
        domains_evicted,
        templates,
        templates_evicted,
        sets_held,
        sets_discarded,
        ..
    } = decoder.counters();
    assert_eq!(
        (domains_evicted, templates, sets_held),
        (9_900, 20_000, 10_000)
    );
    assert!(
        (19_600..20_000).contains(&templates_evicted),
        "{templates_evicted}"
    );
    assert!(
        (9_800..10_000).contains(&sets_discarded),
        "{sets_discarded}"
    );
    assert!(decoder.losses().count() <= 100);
    for n in 0..1000 {
        decode(
            &mut decoder,
            exporter(1),
            0,
            &ipfix(0, &[template(256 + n)]),
        );
    }
    assert_eq!(decoder.counters().templates_rejected, 990);
    assert_eq!(
        decode(&mut decoder, exporter(1), 0, &ipfix(0, &[data(256, 1, 1)])).len(),
        1
    );
}

#[test]
fn losses_are_told_from_reordering() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let records = |n: u16| ipfix(u32::from(n), &[data(300, n, 1)]);
    decode(&mut decoder, exporter(1), 0, &ipfix(0, &[template(300)]));
    for n in [0, 1, 3, 2, 6, 7] {
        decode(&mut decoder, exporter(1), 0, &records(n));
    }
    let losses: Vec<_> = decoder.losses().map(|(_, losses)| losses).collect();
    assert_eq!(losses.len(), 1);
    assert_eq!(
        (losses[0].received, losses[0].lost, losses[0].reordered),
        (6, 2, 1)
    );
}

#[test]
fn lengths_that_lie_lose_the_rest_of_a_message_only() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    decode(&mut decoder, exporter(1), 0, &ipfix(0, &[template(300)]));
    let mut long = data(300, 7, 7);
    long[3] = 200;
    let found = decode(
        &mut decoder,
        exporter(1),
        0,
        &ipfix(0, &[data(300, 1, 1), long]),
    );
    assert_eq!(found, [(Some(1), Some(1)), (Some(7), Some(7))]);
    let mut short = data(300, 7, 7);
    short[3] = 3;
    assert_eq!(
        decode(
            &mut decoder,
            exporter(1),
            0,
            &ipfix(0, &[data(300, 1, 1), short])
        )
        .len(),
        1
    );
    assert_eq!(decoder.counters().malformed, 2);
    assert!(decode(&mut decoder, exporter(1), 0, b"GET / HTTP/1.1\r\n\r\n").is_empty());
    assert_eq!(decoder.counters().not_export, 1);
}

/// Payloads of the corpus's export captures.
fn messages() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let captures: Vec<PathBuf> = testkit::captures_in("captures/flowexport");
    for capture in captures {
        let mut source = capture::open(&[capture]);
        let mut block = capture::PacketBlock::default();
        while source.next_block(&mut block) {
            let packets = block
                .packets()
                .filter_map(|captured| Packet::decode(&captured).ok().map(|p| p.payload.to_vec()));
            found.extend(packets);
        }
    }
    found
}

/// 200,000 messages of the corpus, damaged.
#[test]
fn damage_does_no_harm() {
    let messages = messages();
    let mut rng = SeededRng::new(11);
    let limits = ExportLimits {
        domains: 50,
        pending_bytes: 100_000,
        template_bytes: 100_000,
        ..ExportLimits::default()
    };
    let mut decoder = ExportDecoder::new(limits);
    let mut random = |below: usize| rng.next_u64() as usize % below.max(1);
    let rounds = if messages.is_empty() { 0 } else { 200_000 };
    for n in 0..rounds {
        let mut message = messages[random(messages.len())].clone();
        if message.is_empty() {
            continue;
        }
        for _ in 0..random(5) {
            let at = random(message.len());
            message[at] = if random(2) == 0 {
                random(256) as u8
            } else {
                [0, 1, 0xff][random(3)]
            };
        }
        if random(4) == 0 {
            message.truncate(random(message.len()));
        }
        decoder.decode(
            exporter(random(100) as u32),
            Timestamp(n),
            &message,
            |event| {
                if let telemetry::ExportEvent::Flow(_, Some(record)) = event {
                    assert!(
                        record
                            .fields()
                            .all(|field| field.value.len() <= message.len())
                            || n > 0
                    );
                }
            },
        );
    }
    let counters = decoder.counters();
    assert_eq!(counters.messages + counters.not_export > 0, rounds > 0);
}

proptest! {
    #[test]
    fn garbage_is_no_export(version in prop::sample::select(vec![5u16, 9, 10, 0]), bytes: Vec<u8>, many in any::<[u8; 300]>()) {
        let mut decoder = ExportDecoder::new(ExportLimits::default());
        let mut message = version.to_be_bytes().to_vec();
        message.extend(&bytes);
        message.extend(&many);
        if version == 0 {
            message.splice(2..2, [0, 5]);
        }
        decoder.decode(exporter(1), Timestamp(0), &message, |_| {});
        decoder.decode(exporter(1), Timestamp(i64::MAX), &message, |_| {});
        decoder.decode(exporter(1), Timestamp(i64::MIN), &message, |_| {});
    }
}
