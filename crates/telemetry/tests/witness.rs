//! Every export capture of the corpus, record by record, compared with tshark.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use telemetry::{
    ExportCounters, ExportDecoder, ExportEvent, ExportLimits, ExportedFlow, PacketSample,
};
use wire::{Packet, Timestamp};

/// Fields of a record by their names in tshark.
type Record = BTreeMap<&'static str, String>;

/// Ports of the captures that tshark does not know as those of exports.
const PORTS: [u16; 5] = [2057, 9990, 9991, 9995, 2055];

#[test]
fn records_are_those_of_tshark() {
    testkit::require!("tshark");
    let mut captures = testkit::captures_in("captures/flowexport");
    captures.extend(
        testkit::captures_in("live-captures")
            .into_iter()
            .filter(|path| name(path).starts_with("flow_v")),
    );
    let mut records = 0;
    for capture in &captures {
        let (ours, counters) = decoded(capture);
        let theirs = tshark(capture);
        for (frame, theirs) in &theirs {
            let empty = Vec::new();
            let ours = ours.get(frame).unwrap_or(&empty);
            assert_eq!(
                ours.len(),
                theirs.len(),
                "{} frame {frame}: {counters:?}\n{ours:#?}\n{theirs:#?}",
                name(capture)
            );
            for (ours, theirs) in ours.iter().zip(theirs) {
                for (field, theirs) in theirs
                    .iter()
                    .filter(|(field, value)| is_used(field, value, ours))
                {
                    let all = ours;
                    let ours = all.get(field).map_or("null", String::as_str);
                    assert_eq!(
                        ours,
                        theirs,
                        "{} frame {frame}: {field} of {all:?}",
                        name(capture)
                    );
                }
            }
            records += theirs.len();
        }
        let more: Vec<u64> = ours
            .keys()
            .copied()
            .filter(|frame| !theirs.contains_key(frame))
            .collect();
        // NetFlow v5 sent to the port of sFlow, by which tshark decides.
        let known = if name(capture).starts_with("tcpdump-sflow_multiple") {
            vec![13, 19, 20, 21, 22]
        } else {
            vec![]
        };
        assert_eq!(
            more,
            known,
            "{}: frames without a record in tshark",
            name(capture)
        );
    }
    assert!(
        captures.is_empty() || records > 1500,
        "only {records} records"
    );
}

/// Not an address of the IP version that the record does not use, which some exporters fill with zeros, or that
/// belongs to the packet in a tunnel: the first address that is not zero counts.
fn is_used(field: &str, value: &str, ours: &Record) -> bool {
    let other_version = match field {
        "cflow.srcaddr" => "cflow.srcaddrv6",
        "cflow.dstaddr" => "cflow.dstaddrv6",
        "cflow.srcaddrv6" => "cflow.srcaddr",
        "cflow.dstaddrv6" => "cflow.dstaddr",
        _ => return true,
    };
    !["::", "0.0.0.0"].contains(&value) && !ours.contains_key(other_version)
}

fn name(path: &Path) -> String {
    path.file_name()
        .expect("a file name")
        .to_string_lossy()
        .into_owned()
}

/// Records by number of the frame, from 1.
fn decoded(capture: &Path) -> (BTreeMap<u64, Vec<Record>>, ExportCounters) {
    let mut decoder = ExportDecoder::new(ExportLimits::default());
    let mut records: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    let mut source = capture::open(&[capture.to_path_buf()]);
    let mut block = capture::PacketBlock::default();
    let mut frame = 0;
    while source.next_block(&mut block) {
        for captured in block.packets() {
            frame += 1;
            let Ok(packet) = Packet::decode(&captured) else {
                continue;
            };
            let source = packet.five_tuple.src;
            let exporter = SocketAddr::new(source.addr.to_ip(), source.port);
            decoder.decode(exporter, captured.ts, packet.payload, |event| {
                let record = match event {
                    ExportEvent::Flow(record, _) => flow(record),
                    ExportEvent::Sample(sample) => self::sample(sample),
                    _ => return,
                };
                if !record.is_empty() {
                    records.entry(frame).or_default().push(record);
                }
            });
        }
    }
    (records, decoder.counters())
}

fn flow(flow: &ExportedFlow<'_>) -> Record {
    let mut record = Record::new();
    let mut put = |name, value: Option<String>| value.map(|value| record.insert(name, value));
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    for (v4, v6, address) in [
        ("cflow.srcaddr", "cflow.srcaddrv6", flow.source),
        ("cflow.dstaddr", "cflow.dstaddrv6", flow.destination),
    ] {
        match address {
            Some(IpAddr::V4(address)) => put(v4, Some(address.to_string())),
            Some(IpAddr::V6(address)) => put(v6, Some(address.to_string())),
            None => None,
        };
    }
    let is_icmp = matches!(flow.protocol, Some(1 | 58));
    let destination_port = if is_icmp {
        flow.destination_port.or(flow.icmp)
    } else {
        flow.destination_port
    };
    let source_port = if is_icmp {
        flow.source_port.or(Some(0))
    } else {
        flow.source_port
    };
    put("cflow.srcport", text(source_port.map(u64::from)));
    put("cflow.dstport", text(destination_port.map(u64::from)));
    put("cflow.protocol", text(flow.protocol.map(u64::from)));
    put("cflow.octets", text(flow.bytes));
    put("cflow.packets", text(flow.packets));
    put("cflow.inputint", text(flow.input.map(u64::from)));
    put("cflow.outputint", text(flow.output.map(u64::from)));
    put("cflow.srcas", text(flow.source_as.map(u64::from)));
    put("cflow.dstas", text(flow.destination_as.map(u64::from)));
    put(
        "cflow.tos",
        flow.traffic_class.map(|tos| format!("0x{tos:02x}")),
    );
    let duration = flow
        .start
        .zip(flow.end)
        .map(|(start, end)| end.since(start));
    put(
        "cflow.timedelta",
        duration.map(|ns| Timestamp(ns).to_string()),
    );
    record
}

fn sample(sample: &PacketSample<'_>) -> Record {
    let hex: Vec<String> = sample
        .header
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut record = Record::from([
        (
            "sflow.flow_sample.sequence_number",
            sample.sequence.to_string(),
        ),
        ("sflow.flow_sample.sampling_rate", sample.rate.to_string()),
        ("sflow.flow_sample.sample_pool", sample.pool.to_string()),
        (
            "sflow.flow_sample.dropped_packets",
            sample.drops.to_string(),
        ),
        (
            "sflow_245.header.frame_length",
            sample.frame_len.to_string(),
        ),
        (
            "sflow_245.header.payload_stripped",
            sample.stripped.to_string(),
        ),
        (
            "sflow_245.header.sampled_header_length",
            sample.header.len().to_string(),
        ),
        ("sflow_245.header", hex.join(":")),
    ]);
    for (name, vlan) in [
        ("sflow_245.vlan.in", sample.context.input_vlan),
        ("sflow_245.vlan.out", sample.context.output_vlan),
    ] {
        vlan.map(|vlan| record.insert(name, vlan.to_string()));
    }
    record
}

/// Names of the fields that are compared.
const FIELDS: [&str; 24] = [
    "cflow.srcaddr",
    "cflow.srcaddrv6",
    "cflow.dstaddr",
    "cflow.dstaddrv6",
    "cflow.srcport",
    "cflow.dstport",
    "cflow.protocol",
    "cflow.octets",
    "cflow.packets",
    "cflow.inputint",
    "cflow.outputint",
    "cflow.srcas",
    "cflow.dstas",
    "cflow.tos",
    "cflow.timedelta",
    "sflow.flow_sample.sequence_number",
    "sflow.flow_sample.sampling_rate",
    "sflow.flow_sample.sample_pool",
    "sflow.flow_sample.dropped_packets",
    "sflow_245.header.frame_length",
    "sflow_245.header.payload_stripped",
    "sflow_245.header.sampled_header_length",
    "sflow_245.header",
    "sflow_245.vlan.in",
];

fn tshark(capture: &Path) -> BTreeMap<u64, Vec<Record>> {
    let mut command = Command::new("tshark");
    command.args(["-2", "-n", "-r"]).arg(capture);
    for port in PORTS {
        command.args(["-d", &format!("udp.port=={port},cflow")]);
    }
    command.args([
        "-T",
        "json",
        "--no-duplicate-keys",
        "-J",
        "frame cflow sflow",
    ]);
    let output = command.output().expect("tshark runs");
    let frames: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut records = BTreeMap::new();
    for frame in frames {
        let layers = &frame["_source"]["layers"];
        let number = layers["frame"]["frame.number"]
            .as_str()
            .and_then(|number| number.parse().ok());
        let mut found = Vec::new();
        for layer in ["cflow", "sflow"] {
            collect(&layers[layer], &mut found);
        }
        if !found.is_empty() {
            records.insert(number.expect("a frame number"), found);
        }
    }
    records
}

/// Walks the tree to the nodes of records.
fn collect(node: &Value, found: &mut Vec<Record>) {
    match node {
        Value::Array(nodes) => nodes.iter().for_each(|node| collect(node, found)),
        Value::Object(nodes) => {
            for (title, node) in nodes {
                let is_record = ["Flow ", "pdu ", "Expanded flow sample"]
                    .iter()
                    .any(|begin| title.starts_with(begin));
                if !is_record {
                    collect(node, found);
                    continue;
                }
                let mut record = Record::new();
                fields(node, &mut record);
                let is_flow = [
                    "cflow.srcaddr",
                    "cflow.srcaddrv6",
                    "cflow.octets",
                    "sflow_245.header",
                ];
                if is_flow.iter().any(|field| record.contains_key(field)) {
                    found.push(record);
                }
            }
        }
        _ => {}
    }
}

fn fields(node: &Value, record: &mut Record) {
    let Value::Object(nodes) = node else { return };
    for (title, node) in nodes {
        match node {
            Value::String(value) => {
                if let Some(name) = FIELDS.iter().find(|name| **name == title.as_str()) {
                    record.insert(name, value.clone());
                }
                // tshark shows the padding as part of the header.
                if let Some(len) = record.get("sflow_245.header.sampled_header_length") {
                    let digits = 3 * len.parse::<usize>().expect("a length");
                    record
                        .entry("sflow_245.header")
                        .and_modify(|hex| hex.truncate(digits.saturating_sub(1)));
                }
            }
            _ => fields(node, record),
        }
    }
}
