//! Encoded messages are read back as they were written, by the decoder and by tshark.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;

use telemetry::{
    ExportDecoder, ExportDomain, ExportEvent, ExportLimits, ExportProtocol, ExportedFlow,
    FlowDirection, FlowEncoder, FlowEncoderConfig, HeaderProtocol, OutgoingRecord, RecordRefusal,
    SflowEncoder, SflowEncoderConfig,
};
use testkit::{ByteOrder, SeededRng, TcpDialogue, TimestampPrecision, pcap_bytes};
use wire::Timestamp;

const MS: i64 = 1_000_000;
/// A full second: exports have no fractions.
const NOW: Timestamp = Timestamp(1_700_000_000_000 * MS);

fn domain(protocol: ExportProtocol) -> ExportDomain {
    ExportDomain {
        exporter: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 1,
        protocol,
        id: 77,
    }
}

/// Flows in which every field can be missing.
fn flows(protocol: ExportProtocol) -> Vec<ExportedFlow<'static>> {
    let mut rng = SeededRng::new(5);
    let mut flows = Vec::new();
    for n in 0..2000 {
        let mut flow = ExportedFlow::new(domain(protocol), NOW);
        let is_v6 = rng.chance(0.3);
        let address = |rng: &mut SeededRng| {
            let bits = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            let v4 = IpAddr::V4(Ipv4Addr::from_bits(bits as u32 | 1));
            Some(if is_v6 {
                IpAddr::V6(Ipv6Addr::from_bits(bits | 1))
            } else {
                v4
            })
        };
        flow.source = address(&mut rng);
        flow.destination = address(&mut rng);
        // A few combinations, as exporters have them.
        let has = |bit: u32| (n % 7) & bit == 0;
        flow.end = has(1).then(|| NOW.plus(-(rng.below(100_000) as i64) * MS));
        flow.start = flow
            .end
            .map(|end| end.plus(-(rng.below(100_000) as i64) * MS));
        flow.source_port = has(2).then(|| rng.next_u64() as u16);
        flow.destination_port = has(2).then(|| rng.next_u64() as u16);
        flow.protocol = Some(rng.next_u64() as u8);
        flow.tcp_flags = has(4).then(|| rng.next_u64() as u16 & 0xff);
        flow.traffic_class = has(4).then(|| rng.next_u64() as u8);
        flow.packets = Some(rng.next_u64());
        flow.bytes = has(1).then(|| rng.next_u64());
        flow.input = has(2).then(|| rng.next_u64() as u32);
        flow.output = has(2).then(|| rng.next_u64() as u32);
        flow.direction = has(4).then_some(if rng.chance(0.5) {
            FlowDirection::Egress
        } else {
            FlowDirection::Ingress
        });
        flow.source_as = has(1).then(|| rng.next_u64() as u32);
        flow.vlan = has(1).then(|| rng.next_u64() as u16 & 0xfff);
        if protocol == ExportProtocol::Ipfix {
            flow.reverse_packets = has(4).then(|| rng.next_u64());
            flow.reverse_bytes = has(4).then(|| rng.next_u64());
            flow.end_reason = has(2).then_some(3);
        }
        flows.push(flow);
    }
    flows
}

fn config(protocol: ExportProtocol) -> FlowEncoderConfig {
    FlowEncoderConfig {
        protocol,
        domain: 77,
        max_len: 1400,
        template_interval_ns: 60_000 * MS,
        template_messages: 200,
        started: NOW.plus(-5_000_000 * MS),
    }
}

fn encoded(protocol: ExportProtocol, flows: &[ExportedFlow<'_>]) -> Vec<Vec<u8>> {
    let mut encoder = FlowEncoder::new(config(protocol));
    let mut messages = Vec::new();
    let mut send = |message: &[u8]| messages.push(message.to_vec());
    flows
        .iter()
        .try_for_each(|flow| encoder.push(flow, NOW, &mut send))
        .expect("records that can be sent");
    encoder.flush(NOW, &mut send);
    messages
}

#[test]
fn flows_are_read_back() {
    for protocol in [ExportProtocol::Ipfix, ExportProtocol::Netflow9] {
        let flows = flows(protocol);
        let messages = encoded(protocol, &flows);
        assert!(messages.iter().all(|message| message.len() <= 1400));
        let mut decoder = ExportDecoder::new(ExportLimits::default());
        let mut read = Vec::new();
        for message in &messages {
            decoder.decode(
                SocketAddr::from(([127, 0, 0, 1], 1)),
                NOW,
                message,
                |event| {
                    if let ExportEvent::Flow(flow, _) = event {
                        read.push(format!("{flow:?}"));
                    }
                },
            );
        }
        assert_eq!(read.len(), flows.len());
        for (read, flow) in read.iter().zip(&flows) {
            assert_eq!(*read, format!("{flow:?}"));
        }
        let counters = decoder.counters();
        assert_eq!(
            (
                counters.malformed,
                counters.sets_held,
                counters.times_rejected
            ),
            (0, 0, 0)
        );
        assert!(
            decoder
                .losses()
                .all(|(_, losses)| losses.lost + losses.repeated + losses.restarts == 0)
        );
    }
}

#[test]
fn netflow_v9_has_a_record_for_each_direction() {
    let mut flow = flows(ExportProtocol::Netflow9)[0];
    flow.reverse_packets = Some(4);
    flow.reverse_bytes = Some(400);
    let mut read = Vec::new();
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    for message in encoded(ExportProtocol::Netflow9, &[flow]) {
        decoder.decode(
            SocketAddr::from(([127, 0, 0, 1], 1)),
            NOW,
            &message,
            |event| {
                if let ExportEvent::Flow(flow, _) = event {
                    read.push((flow.source, flow.destination_port, flow.packets, flow.bytes));
                }
            },
        );
    }
    let expected = [
        (flow.source, flow.destination_port, flow.packets, flow.bytes),
        (flow.destination, flow.source_port, Some(4), Some(400)),
    ];
    assert_eq!(read, expected);
}

/// Start and end of the flows in these messages.
fn times_read(messages: &[Vec<u8>]) -> Vec<(Option<Timestamp>, Option<Timestamp>)> {
    let mut read = Vec::new();
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    for message in messages {
        decoder.decode(
            SocketAddr::from(([127, 0, 0, 1], 1)),
            NOW,
            message,
            |event| {
                if let ExportEvent::Flow(flow, _) = event {
                    read.push((flow.start, flow.end));
                }
            },
        );
    }
    assert_eq!(decoder.counters().malformed, 0);
    read
}

/// NetFlow v9 counts 32 bits of milliseconds from the start of the exporter; neither protocol has times before 1970.
#[test]
fn times_are_sent_in_a_form_that_has_them() {
    let second = 1_000 * MS;
    let year = 365 * 86_400 * second;
    for protocol in [ExportProtocol::Ipfix, ExportProtocol::Netflow9] {
        for (started, start, end, is_sent) in [
            (NOW.plus(-9 * second), NOW.plus(-2 * second), NOW, true),
            // Before the exporter's start, and in the future.
            (
                NOW.plus(-9 * second),
                NOW.plus(-3 * year),
                NOW.plus(-2 * year),
                true,
            ),
            (
                NOW.plus(-9 * second),
                NOW.plus(second),
                NOW.plus(year),
                true,
            ),
            // The milliseconds have wrapped: 2^32 of them are 49.7 days.
            (NOW.plus(-year), NOW.plus(-2 * second), NOW, true),
            (
                NOW.plus(-(1 << 32) * MS - second),
                NOW.plus(-2 * second),
                NOW,
                true,
            ),
            (
                NOW.plus(-9 * second),
                Timestamp(-second),
                Timestamp(-1),
                false,
            ),
        ] {
            let mut encoder = FlowEncoder::new(FlowEncoderConfig {
                started,
                ..config(protocol)
            });
            let mut record = OutgoingRecord {
                start: Some(start),
                end: Some(end),
                ..OutgoingRecord::default()
            };
            record.put(2, 8, Some(1u64));
            let mut messages = Vec::new();
            let mut send = |message: &[u8]| messages.push(message.to_vec());
            encoder.push_record(&record, NOW, &mut send).expect("sent");
            encoder.flush(NOW, &mut send);
            let omitted = if is_sent { 0 } else { 2 };
            assert_eq!(encoder.times_omitted(), omitted);
            // The decoder rejects times far from the export.
            if is_sent && end.since(NOW).abs() < year {
                assert_eq!(
                    times_read(&messages),
                    [(Some(start), Some(end))],
                    "{protocol}"
                );
            }
        }
    }
}

#[test]
fn records_that_no_message_has_room_for_are_refused() {
    let mut encoder = FlowEncoder::new(config(ExportProtocol::Ipfix));
    let mut sent = 0;
    let mut push = |record: &OutgoingRecord| {
        encoder.push_record(record, NOW, &mut |message| {
            assert!(message.len() <= 1400);
            sent += 1;
        })
    };
    let mut record = OutgoingRecord::default();
    assert_eq!(push(&record), Err(RecordRefusal::Empty));
    record.put_text(0, 96, &[b'a'; 1350]);
    assert_eq!(push(&record), Ok(()));
    record.put_text(0, 96, &[b'a'; 50]);
    assert_eq!(push(&record), Err(RecordRefusal::TooLong));
    for id in 0..2000 {
        let mut record = OutgoingRecord::default();
        record.put(1000 + id, 4, Some(id));
        let is_new = id < 1023;
        assert_eq!(push(&record).is_ok(), is_new, "{id}");
    }
    assert!(sent > 10);
    let mut netflow = FlowEncoder::new(config(ExportProtocol::Netflow9));
    record.fields.truncate(1);
    assert_eq!(
        netflow.push_record(&record, NOW, &mut |_| {}),
        Err(RecordRefusal::VariableLength)
    );
}

/// Messages of ten records each, a second apart.
#[test]
fn templates_are_repeated_by_time_by_messages_and_on_request() {
    const LONG: i64 = 1_000_000_000;
    let count = |interval_ms: i64, messages: u64, resumed: bool| {
        let mut encoder = FlowEncoder::new(FlowEncoderConfig {
            template_interval_ns: interval_ms * MS,
            template_messages: messages,
            ..config(ExportProtocol::Ipfix)
        });
        let mut record = OutgoingRecord::default();
        record.put(2, 8, Some(1u64));
        let mut templates = 0;
        let mut flows = 0;
        for message in 0..20 {
            let now = NOW.plus(message * 1_000 * MS);
            if resumed && message == 7 {
                encoder.resume(70);
            }
            let mut send = |message: &[u8]| {
                assert_eq!(message[8..12], u32::to_be_bytes(flows), "sequence number");
                flows += 10;
                templates += u32::from(message[16..18] == [0, 2]);
            };
            for _ in 0..10 {
                encoder.push_record(&record, now, &mut send).expect("sent");
            }
            encoder.flush(now, &mut send);
        }
        templates
    };
    assert_eq!(count(LONG, u64::MAX, false), 1);
    assert_eq!(count(5_000, u64::MAX, false), 4);
    assert_eq!(count(LONG, 4, false), 5);
    assert_eq!(count(LONG, u64::MAX, true), 2);
}

#[test]
fn samples_are_read_back() {
    let mut rng = SeededRng::new(9);
    let config = SflowEncoderConfig {
        agent: "2001:db8::1".parse().expect("an address"),
        sub_agent: 3,
        rate: 128,
        header_len: 125,
        max_len: 1400,
        started: NOW,
    };
    let mut encoder = SflowEncoder::new(config);
    let packets: Vec<Vec<u8>> = (0..1000)
        .map(|_| (0..rng.below(300)).map(|_| rng.next_u64() as u8).collect())
        .collect();
    let mut datagrams = Vec::new();
    let mut send = |datagram: &[u8]| datagrams.push(datagram.to_vec());
    for (n, packet) in (0..).zip(&packets) {
        encoder.push(
            HeaderProtocol::Ipv4,
            packet.len() as u32,
            packet,
            n * 128,
            NOW,
            &mut send,
        );
    }
    encoder.flush(NOW, &mut send);
    assert!(datagrams.iter().all(|datagram| datagram.len() <= 1400));
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let mut read = Vec::new();
    for datagram in &datagrams {
        decoder.decode(
            SocketAddr::from(([127, 0, 0, 1], 1)),
            NOW,
            datagram,
            |event| {
                let ExportEvent::Sample(sample) = event else {
                    panic!("a sample")
                };
                assert_eq!((sample.rate, sample.protocol), (128, HeaderProtocol::Ipv4));
                assert_eq!(
                    (sample.pool, sample.context.domain.exporter),
                    (sample.sequence * 128, config.agent)
                );
                read.push((sample.frame_len as usize, sample.header.to_vec()));
            },
        );
    }
    let expected = packets
        .iter()
        .map(|packet| (packet.len(), packet[..packet.len().min(125)].to_vec()));
    assert!(read.into_iter().eq(expected));
    assert_eq!(decoder.counters().malformed, 0);
}

/// Records, and the sum of their packets, by tshark.
#[test]
fn tshark_reads_the_same() {
    testkit::require!("tshark");
    for protocol in [ExportProtocol::Ipfix, ExportProtocol::Netflow9] {
        let mut flows = flows(protocol);
        for flow in &mut flows {
            flow.packets = Some(3);
            // tshark gives reversed elements the same names.
            flow.reverse_packets = None;
            flow.reverse_bytes = None;
        }
        let mut talk = TcpDialogue::new("127.0.0.1:1", "127.0.0.1:2055");
        for message in encoded(protocol, &flows) {
            talk.datagram(wire::FlowSide::A, &message);
        }
        let file =
            std::env::temp_dir().join(format!("encoded-{protocol}-{}.pcap", std::process::id()));
        std::fs::write(
            &file,
            pcap_bytes(&talk.take(), TimestampPrecision::Micros, ByteOrder::Little),
        )
        .expect("written");
        let mut command = Command::new("tshark");
        command
            .args([
                "-n",
                "-d",
                "udp.port==2055,cflow",
                "-T",
                "fields",
                "-e",
                "cflow.packets",
                "-r",
            ])
            .arg(&file);
        command.args([
            "-e",
            "_ws.malformed",
            "-e",
            "cflow.srcport",
            "-e",
            "cflow.octets",
        ]);
        let read = String::from_utf8(command.output().expect("it runs").stdout).expect("text");
        std::fs::remove_file(&file).expect("a file");
        let mut values: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for line in read.lines() {
            for (column, cell) in line.split('\t').enumerate() {
                let numbers = cell
                    .split(',')
                    .filter(|cell| !cell.is_empty())
                    .map(|cell| cell.parse::<u64>().expect("a number"));
                values.entry(column).or_default().extend(numbers);
            }
        }
        assert_eq!(values[&0], vec![3; flows.len()], "{protocol}");
        assert!(values[&1].is_empty());
        let ports: Vec<u64> = flows
            .iter()
            .filter_map(|flow| flow.source_port.map(u64::from))
            .collect();
        assert_eq!(values[&2], ports);
        assert_eq!(
            values[&3],
            flows
                .iter()
                .filter_map(|flow| flow.bytes)
                .collect::<Vec<_>>()
        );
    }
}
