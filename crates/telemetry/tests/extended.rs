//! What sFlow agents add to samples: extended data as in tshark, and extensions that no capture of the corpus has, as
//! their specifications define them.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use telemetry::{ExportCounters, ExportDecoder, ExportEvent, ExportLimits, SampleContext};
use testkit::{ByteOrder, SentPacket, TimestampPrecision, pcap_bytes};
use wire::{Packet, Timestamp};

/// VLANs, route, and autonomous systems of a sample, where it has them.
type ExtendedData = [Option<String>; 4];

#[test]
fn extended_data_is_that_of_tshark() {
    testkit::require!("tshark");
    let captures = testkit::captures_in("captures/flowexport");
    let mut samples = 0;
    let mut found = [0; 4];
    for capture in &captures {
        let ours = extended_data(capture);
        let theirs = tshark(capture);
        assert_eq!(ours, theirs, "{}", capture.display());
        samples += ours.len();
        for data in &ours {
            for (n, value) in data.iter().enumerate() {
                found[n] += usize::from(value.is_some());
            }
        }
    }
    if !captures.is_empty() {
        assert!(samples > 700, "{samples} samples");
        assert!(found[..3].iter().all(|n| *n > 1), "{found:?}");
    }
}

#[test]
fn removed_vlan_tags_are_those_of_tshark() {
    testkit::require!("tshark");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tags.pcap");
    let tags = words(&[1012, 12, 2, 0x88a8_0064, 0x8100_e005]);
    let datagram = datagram(1, &sample(&[tags, raw_header()]));
    let ends = ends_of(("10.0.0.254:6343", "10.9.9.9:6343"));
    let packet = SentPacket::udp(Timestamp(0), ends, &datagram);
    let bytes = pcap_bytes(&[packet], TimestampPrecision::Nanos, ByteOrder::Little);
    std::fs::write(&path, bytes).expect("a capture");
    let ours = extended_data(&path);
    assert_eq!(ours, tshark(&path));
    assert_eq!(ours[0][3].as_deref(), Some("100,5"));
}

fn ends_of((from, to): (&str, &str)) -> (SocketAddr, SocketAddr) {
    let end = |text: &str| text.parse().expect("an address");
    (end(from), end(to))
}

/// "sFlow Tunnel Structures" (sflow.org, 2012).
#[test]
fn tunnels_have_ends_and_a_network() {
    let v4 = words(&[
        1024,
        32,
        100,
        17,
        0x0a00_0001,
        0x0a00_0002,
        50_000,
        4789,
        0,
        0,
    ]);
    let v6_ends = [0x2001_0db8, 0, 0, 1, 0x2001_0db8, 0, 0, 2];
    let v6 = [
        words(&[1025, 56, 100, 17]),
        words(&v6_ends),
        words(&[50_000, 6081, 0, 0]),
    ]
    .concat();
    let networks = [words(&[1029, 4, 77]), words(&[1030, 4, 42])].concat();
    let (contexts, counters) = decoded(&datagram(1, &sample(&[v4, v6, networks, raw_header()])));
    assert_eq!(counters.malformed, 0);
    let [(input, output)] = contexts[..] else {
        panic!("{contexts:?}");
    };
    let end = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(input, (Some([end("10.0.0.1"), end("10.0.0.2")]), Some(42)));
    let ends = [end("2001:db8::1"), end("2001:db8::2")];
    assert_eq!(output, (Some(ends), Some(77)));
}

type Tunnel = (Option<[IpAddr; 2]>, Option<u32>);

/// Tunnels of the samples of a datagram.
fn decoded(datagram: &[u8]) -> (Vec<(Tunnel, Tunnel)>, ExportCounters) {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let mut tunnels = Vec::new();
    let from = SocketAddr::from(([10, 0, 0, 254], 6343));
    decoder.decode(from, Timestamp(0), datagram, |event| {
        if let ExportEvent::Sample(sample) = event {
            let SampleContext {
                input_tunnel: input,
                output_tunnel: output,
                ..
            } = sample.context;
            tunnels.push(((input.ends, input.vni), (output.ends, output.vni)));
        }
    });
    (tunnels, decoder.counters())
}

/// Records that end within their structure are counted, and the packet is kept.
#[test]
fn cut_records_are_counted() {
    let whole = [
        words(&[1001, 16, 1, 2, 3, 4]),
        words(&[1002, 16, 1, 0x0a00_0001, 24, 16]),
        // One segment of two systems, no communities, and a local preference.
        words(&[
            1003,
            48,
            1,
            0x0a00_0001,
            1,
            2,
            3,
            1,
            2,
            2,
            65_000,
            65_001,
            0,
            100,
        ]),
        words(&[1012, 8, 1, 0x8100_0001]),
        words(&[1024, 16, 100, 17, 1, 2]),
        words(&[1029, 4, 1]),
    ];
    for (record, needed) in whole.into_iter().zip([12, 16, 40, 8, 16, 4]) {
        for cut in (0..=record.len() as u32 - 8).step_by(4) {
            let mut bytes = record[..8 + cut as usize].to_vec();
            bytes[4..8].copy_from_slice(&cut.to_be_bytes());
            let (contexts, counters) = decoded(&datagram(1, &sample(&[bytes, raw_header()])));
            assert_eq!(contexts.len(), 1);
            assert_eq!(
                counters.malformed,
                u64::from(cut < needed),
                "{record:?} {cut}"
            );
        }
    }
}

/// A discarded packet (sFlow "Dropped Packet Notification Structures", 2020): reason 258 is an ACL.
#[test]
fn discarded_packets_have_reason_and_header() {
    let header = raw_header();
    let body = [words(&[9, 0, 3, 2, 4, 0, 258, 1]), header].concat();
    let message = datagram(1, &[words(&[5, body.len() as u32]), body].concat());
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let mut found = Vec::new();
    let from = SocketAddr::from(([10, 0, 0, 254], 6343));
    decoder.decode(from, Timestamp(0), &message, |event| {
        if let ExportEvent::Discarded(of) = event {
            found.push((
                of.sequence,
                of.drops,
                of.reason,
                of.frame_len,
                of.header.len(),
            ));
        }
    });
    assert_eq!(found, [(9, 2, 258, 60, 60)]);
    assert_eq!(decoder.counters().discarded, 1);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn datagram(samples: u32, bytes: &[u8]) -> Vec<u8> {
    [
        words(&[5, 1, 0x0a00_00fe, 0, 1, 1000, samples]),
        bytes.to_vec(),
    ]
    .concat()
}

/// A flow sample of these records.
fn sample(records: &[Vec<u8>]) -> Vec<u8> {
    let records_bytes = records.concat();
    let count = count(&records_bytes);
    let body = [words(&[1, 3, 64, 640, 0, 3, 4, count]), records_bytes].concat();
    [words(&[1, body.len() as u32]), body].concat()
}

fn count(mut records: &[u8]) -> u32 {
    let mut count = 0;
    while let [_, _, _, _, a, b, c, d, rest @ ..] = records {
        records = &rest[u32::from_be_bytes([*a, *b, *c, *d]) as usize..];
        count += 1;
    }
    count
}

/// A raw header of an Ethernet frame of 60 bytes.
fn raw_header() -> Vec<u8> {
    let ends = ends_of(("10.1.0.1:4000", "10.2.0.1:53"));
    let frame = SentPacket::udp(Timestamp(0), ends, &[0; 18]).to_bytes();
    assert_eq!(frame.len(), 60);
    [words(&[1, 76, 1, 60, 4, 60]), frame].concat()
}

/// Extended data of every sample of a capture, in order.
fn extended_data(capture: &Path) -> Vec<ExtendedData> {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let mut found = Vec::new();
    let mut source = capture::open(&[capture.to_path_buf()]);
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        for captured in block.packets() {
            let Ok(packet) = Packet::decode(&captured) else {
                continue;
            };
            let source = packet.five_tuple.src;
            let exporter = SocketAddr::new(source.addr.to_ip(), source.port);
            decoder.decode(exporter, captured.ts, packet.payload, |event| {
                if let ExportEvent::Sample(sample) = event {
                    found.push(ours(&sample.context));
                }
            });
        }
    }
    found
}

fn ours(context: &SampleContext<'_>) -> ExtendedData {
    let vlans = context.input_vlan.zip(context.output_vlan);
    let address = |of: Option<IpAddr>| of.map_or("null".to_owned(), |of| of.to_string());
    [
        vlans.map(|(input, output)| format!("{input} {output}")),
        context.route.map(|route| {
            let lens = (route.source_prefix_len, route.destination_prefix_len);
            format!("{} {} {}", address(route.next_hop), lens.0, lens.1)
        }),
        context.gateway.map(|gateway| {
            let systems = (gateway.agent_as, gateway.source_as, gateway.source_peer_as);
            let hop = address(gateway.next_hop);
            format!(
                "{hop} {} {} {} {}",
                systems.0, systems.1, systems.2, gateway.path
            )
        }),
        context.vlan_stack.map(|stack| stack.to_string()),
    ]
}

/// The same by tshark.
fn tshark(capture: &Path) -> Vec<ExtendedData> {
    let output = Command::new("tshark")
        .args([
            "-n",
            "-T",
            "json",
            "--no-duplicate-keys",
            "-J",
            "sflow",
            "-r",
        ])
        .arg(capture)
        .output()
        .expect("tshark runs");
    let frames: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut found = Vec::new();
    for frame in &frames {
        // Several layers or samples of a title are an array.
        for layer in each(&frame["_source"]["layers"]["sflow"]) {
            let nodes = layer.as_object().into_iter().flatten();
            let samples = nodes.filter(|(title, _)| {
                title.starts_with("Flow sample") || title.starts_with("Expanded flow sample")
            });
            found.extend(samples.flat_map(|(_, nodes)| each(nodes)).map(theirs));
        }
    }
    found
}

fn each(node: &Value) -> Vec<&Value> {
    match node {
        Value::Array(nodes) => nodes.iter().collect(),
        node => vec![node],
    }
}

fn theirs(sample: &Value) -> ExtendedData {
    let text = |node: &Value| node.as_str().unwrap_or("null").to_owned();
    let fields = |title: &str, names: &[&str]| {
        let node = sample.get(title)?;
        let values = names.iter().map(|name| text(&node[name]));
        Some(values.collect::<Vec<_>>().join(" "))
    };
    let gateway = [
        "sflow_245.nexthop",
        "sflow_245.as",
        "sflow_245.srcAS",
        "sflow_245.peerAS",
    ];
    let path = |title: &str| {
        let systems = &sample[title]["sflow.as_type_tree"]["sflow_245.dstAS"];
        let systems = each(systems).into_iter().filter_map(Value::as_str);
        systems.collect::<Vec<_>>().join(" ")
    };
    let tags = |node: &Value| {
        let tag = |of: &Value| text(of).parse::<u32>().expect("a tag") & 0xfff;
        let tags = each(&node["sflow_5.extended_vlan_tunnel.tpid_tci_pair"]);
        let tags = tags.into_iter().map(|of| tag(of).to_string());
        tags.collect::<Vec<_>>().join(",")
    };
    [
        fields(
            "Extended switch data",
            &["sflow_245.vlan.in", "sflow_245.vlan.out"],
        ),
        fields(
            "Extended router data",
            &[
                "sflow_245.nexthop",
                "sflow_245.nexthop.src_mask",
                "sflow_245.nexthop.dst_mask",
            ],
        ),
        fields("Extended gateway data", &gateway)
            .map(|values| format!("{values} {}", path("Extended gateway data"))),
        sample.get("Extended VLAN tunnel").map(tags),
    ]
}
