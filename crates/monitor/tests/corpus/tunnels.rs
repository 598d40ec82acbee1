//! The contents of tunnels and fragments, packet by packet, compared with tshark.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use capture::PacketBlock;
use monitor::fragments::FragmentReassembler;
use wire::{CapturedPacket, IpFragment, Packet, TransportHeader};

use crate::support::{captures, run};

const FOLDERS: &[&str] = &[
    "captures/tunnels",
    "captures/ipfrag",
    "captures/formats",
    "derived",
    "found/bugs",
];

/// Deliberately damaged: in one, the last fragment overlaps another; in the other, lengths contradict each other, and
/// tshark decodes a part.
const DAMAGED: &[&str] = &["wswiki-teardrop.pcap", "noise.pcap"];

/// tshark also numbers custom blocks, which are not packets.
const NUMBERED_OTHERWISE: &[&str] = &["gopacket-be-test102.pcapng", "gopacket-le-test202.pcapng"];

/// Frame number to source, destination, protocol, and the ports of TCP and UDP.
type Frames = BTreeMap<u64, String>;

#[test]
fn inner_packets_are_those_of_tshark() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    testkit::require!("tshark");
    let mut frames = 0;
    let mut wrong = Vec::new();
    for capture in captures(&root, FOLDERS) {
        if DAMAGED
            .iter()
            .chain(NUMBERED_OTHERWISE)
            .any(|name| capture.ends_with(name))
        {
            continue;
        }
        let ours = ours(&capture);
        let theirs = theirs(&capture);
        frames += theirs.len();
        for (number, theirs) in &theirs {
            if ours.get(number) != Some(theirs) {
                let name = capture.file_name().unwrap_or_default().to_string_lossy();
                wrong.push(format!(
                    "{name} {number}: {:?}, tshark {theirs:?}",
                    ours.get(number)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {frames}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(frames > 15_000, "{frames} frames compared");
}

/// Two requests with various outer headers.
#[test]
fn requests_behind_every_header_are_read() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for name in ["ip_ah", "link_cisco_cmd", "link_llc_snap", "link_pppoe_pfc"] {
        let run = run(&root.join(format!("found/bugs/{name}.pcap")), "http");
        let rows: Vec<_> = run
            .rows
            .iter()
            .map(|row| (row.get("method"), row.get("quality")))
            .collect();
        let get = (Some(&"GET".to_owned()), Some(&"exact".to_owned()));
        assert_eq!(rows, [get, get], "{name}");
    }
}

/// A fragmented datagram is listed under its last packet.
fn ours(capture: &Path) -> Frames {
    let mut source = capture::open(&[capture.to_owned()]);
    let mut block = PacketBlock::default();
    let mut frames = Frames::new();
    let mut number = 0;
    let mut fragments = FragmentReassembler::new(64 << 20);
    while source.next_block(&mut block) {
        for captured in block.packets() {
            number += 1;
            if let Some(text) = shown(&captured, &mut fragments) {
                frames.insert(number, text);
            }
        }
    }
    frames
}

fn shown(captured: &CapturedPacket<'_>, fragments: &mut FragmentReassembler) -> Option<String> {
    if let Some(fragment) = IpFragment::of(captured) {
        let whole = fragments.add(&fragment, 1, captured.wire_len())?;
        return shown(&whole.captured(), fragments);
    }
    let packet = Packet::decode(captured).ok()?;
    let src = packet.five_tuple.src;
    let dst = packet.five_tuple.dst;
    Some(match packet.transport {
        TransportHeader::Tcp(_) => {
            format!("{} {} {} {} tcp", src.addr, dst.addr, src.port, dst.port)
        }
        TransportHeader::Udp => format!("{} {} {} {} udp", src.addr, dst.addr, src.port, dst.port),
        _ => return None,
    })
}

/// TCP and UDP packets, except malformed ones without ports in tshark's output.
fn theirs(capture: &Path) -> Frames {
    let fields = [
        "frame.number",
        "frame.protocols",
        "ip.src",
        "ip.dst",
        "ipv6.src",
        "ipv6.dst",
    ];
    let ports = [
        "tcp.srcport",
        "tcp.dstport",
        "udp.srcport",
        "udp.dstport",
        "tcp.hdr_len",
    ];
    let mut command = Command::new("tshark");
    command
        .args(["-n", "-T", "fields", "-E", "occurrence=l", "-r"])
        .arg(capture);
    // Linux's default port of VXLAN.
    command.args(["-d", "udp.port==8472,vxlan"]);
    fields.iter().chain(&ports).for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(frame).collect()
}

fn frame(line: &str) -> Option<(u64, String)> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [
        number,
        protocols,
        v4_src,
        v4_dst,
        v6_src,
        v6_dst,
        tcp_src,
        tcp_dst,
        udp_src,
        udp_dst,
        tcp_len,
    ] = cells[..]
    else {
        return None;
    };
    let stack: Vec<&str> = protocols.split(':').collect();
    // A TCP header with an invalid length is not decoded. ICMP errors quote headers.
    let is_bogus = tcp_len.parse().is_ok_and(|len: u32| len < 20);
    if is_bogus || stack.iter().any(|p| p.starts_with("icmp")) {
        return None;
    }
    let last = |names: &[&str]| stack.iter().rposition(|p| names.contains(p));
    let (src, dst) = if last(&["ipv6"]) > last(&["ip"]) {
        (v6_src, v6_dst)
    } else {
        (v4_src, v4_dst)
    };
    let (src_port, dst_port, name) = if last(&["tcp"]) > last(&["udp"]) {
        (tcp_src, tcp_dst, "tcp")
    } else {
        (udp_src, udp_dst, "udp")
    };
    // After the innermost IP header, not around a tunnel with another payload.
    let is_inside = last(&["tcp", "udp"]) > last(&["ip", "ipv6", "vxlan", "geneve", "gtp"]);
    (is_inside && !src_port.is_empty()).then(|| {
        (
            number.parse().unwrap_or(0),
            format!("{src} {dst} {src_port} {dst_port} {name}"),
        )
    })
}
