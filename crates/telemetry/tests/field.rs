//! Messages at which other collectors fail, by construction: options behind the records that they describe or in another
//! domain, several samplers, total counters, structured data, and layer-2 records.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use telemetry::{ExportDecoder, ExportEvent, ExportLimits};
use wire::Timestamp;

/// Columns of a record that the tests compare.
#[derive(Debug, PartialEq)]
struct Found {
    bytes: Option<u64>,
    packets: Option<u64>,
    rate: Option<(f64, &'static str)>,
    macs: Option<([u8; 6], [u8; 6])>,
}

/// An IPFIX message of `domain` with these sets.
fn message(domain: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let len = 16 + sets.iter().map(Vec::len).sum::<usize>();
    let mut message = [10u16.to_be_bytes(), (len as u16).to_be_bytes()].concat();
    [1_700_000_000, 0, domain]
        .iter()
        .for_each(|word| message.extend(word.to_be_bytes()));
    sets.iter().for_each(|set| message.extend(set));
    message
}

fn set(id: u16, body: &[u8]) -> Vec<u8> {
    let len = 4 + body.len() as u16;
    [&id.to_be_bytes()[..], &len.to_be_bytes(), body].concat()
}

/// A set of words of two bytes.
fn words(id: u16, body: &[u16]) -> Vec<u8> {
    let bytes: Vec<u8> = body.iter().flat_map(|word| word.to_be_bytes()).collect();
    set(id, &bytes)
}

fn decode(decoder: &mut ExportDecoder, message: &[u8]) -> Vec<Found> {
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)), 9995);
    let mut found = Vec::new();
    decoder.decode(from, Timestamp(0), message, |event| {
        if let ExportEvent::Flow(record, _) = event {
            found.push(Found {
                bytes: record.bytes,
                packets: record.packets,
                rate: record.rate.map(|rate| (rate.packets, rate.source.name())),
                macs: record.source_mac.zip(record.destination_mac),
            });
        }
    });
    assert_eq!(decoder.counters().malformed, 0);
    found
}

fn counted(bytes: Option<u64>, packets: Option<u64>) -> Found {
    Found {
        bytes,
        packets,
        rate: None,
        macs: None,
    }
}

/// A template of bytes and packets.
fn template() -> Vec<u8> {
    words(2, &[300, 2, 1, 4, 2, 4])
}

fn record(bytes: u16, packets: u16) -> Vec<u8> {
    words(300, &[0, bytes, 0, packets])
}

/// Options that report a rate of the whole domain, and their template: element 34 in the scope of a domain (149).
fn options(rate: u16) -> [Vec<u8>; 2] {
    [
        words(3, &[400, 2, 1, 149, 4, 34, 4]),
        words(400, &[0, 7, 0, rate]),
    ]
}

#[test]
fn options_behind_the_records_of_a_message_apply_to_them() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let [options_template, options] = options(64);
    let sets = [
        template(),
        record(1, 2),
        options_template,
        options,
        record(3, 4),
    ];
    let rates: Vec<_> = decode(&mut decoder, &message(7, &sets))
        .iter()
        .map(|found| (found.bytes, found.rate))
        .collect();
    let rate = Some((64.0, "options"));
    assert_eq!(rates, [(Some(1), rate), (Some(3), rate)]);
}

#[test]
fn a_record_keeps_the_template_that_was_before_it() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    // The second template has packets first.
    let replaced = words(2, &[300, 2, 2, 4, 1, 4]);
    let sets = [template(), record(1, 2), replaced, record(1, 2)];
    let found = decode(&mut decoder, &message(7, &sets));
    assert_eq!(
        found,
        [counted(Some(1), Some(2)), counted(Some(2), Some(1))]
    );
}

#[test]
fn options_of_another_domain_of_the_exporter_apply() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let [options_template, options] = options(128);
    decode(&mut decoder, &message(0, &[options_template, options]));
    let found = decode(&mut decoder, &message(7, &[template(), record(1, 2)]));
    assert_eq!(found[0].rate, Some((128.0, "options")));
}

#[test]
fn a_record_has_the_rate_of_its_sampler_and_zero_is_unknown() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    // Element 302 is the selector, 305 and 306 packets selected and skipped.
    let options_template = words(3, &[400, 3, 1, 302, 4, 305, 4, 306, 4]);
    let rates = words(
        400,
        &[0, 1, 0, 1, 0, 99, 0, 2, 0, 1, 0, 499, 0, 3, 0, 0, 0, 0],
    );
    let template = words(2, &[301, 2, 1, 4, 302, 4]);
    let records = words(301, &[0, 10, 0, 1, 0, 20, 0, 2, 0, 30, 0, 3]);
    let found = decode(
        &mut decoder,
        &message(7, &[options_template, rates, template, records]),
    );
    let rates: Vec<_> = found
        .iter()
        .map(|found| found.rate.map(|rate| rate.0))
        .collect();
    assert_eq!(rates, [Some(100.0), Some(500.0), None]);
}

#[test]
fn total_counters_become_differences_by_flow() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    // Source and destination port, and total bytes and packets.
    let template = words(2, &[300, 4, 7, 2, 11, 2, 85, 4, 86, 4]);
    let totals =
        |port: u16, bytes: u16, packets: u16| words(300, &[port, 80, 0, bytes, 0, packets]);
    let first = [template, totals(1, 1000, 10), totals(2, 500, 5)];
    let unknown = || counted(None, None);
    assert_eq!(
        decode(&mut decoder, &message(7, &first)),
        [unknown(), unknown()]
    );
    assert_eq!(decoder.counters().totals_without_base, 2);
    let second = [totals(2, 700, 9), totals(1, 1000, 10)];
    assert_eq!(
        decode(&mut decoder, &message(7, &second)),
        [counted(Some(200), Some(4)), counted(Some(0), Some(0))]
    );
}

#[test]
fn structured_data_is_skipped_by_its_length() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    for element in [291, 292, 293] {
        let template = words(2, &[300, 3, 1, 4, element, 0xffff, 2, 4]);
        let list = |len: u8| [&[len][..], &vec![0xee; usize::from(len)]].concat();
        let one = [&[0, 0, 0, 1][..], &list(9), &[0, 0, 0, 2]].concat();
        // A length of three bytes.
        let long = [&[0, 0, 0, 3][..], &[255, 1, 4], &[0xee; 260], &[0, 0, 0, 4]].concat();
        let empty = [&[0, 0, 0, 5][..], &list(0), &[0, 0, 0, 6]].concat();
        let records = set(300, &[one, long, empty].concat());
        let found = decode(&mut decoder, &message(7, &[template, records]));
        let all =
            [(1, 2), (3, 4), (5, 6)].map(|(bytes, packets)| counted(Some(bytes), Some(packets)));
        assert_eq!(found, all, "element {element}");
    }
}

#[test]
fn records_of_bridges_have_ethernet_addresses_and_no_others() {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    // Source and destination MAC, VLAN, EtherType, layer-2 bytes, packets.
    let template = words(2, &[300, 5, 56, 6, 80, 6, 58, 2, 256, 2, 2, 4]);
    let macs = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let body = [&macs.0[..], &macs.1, &[0, 9, 8, 6], &[0, 0, 0, 3]].concat();
    let found = decode(&mut decoder, &message(7, &[template, set(300, &body)]));
    let expected = Found {
        macs: Some(macs),
        ..counted(None, Some(3))
    };
    assert_eq!(found, [expected]);
}
