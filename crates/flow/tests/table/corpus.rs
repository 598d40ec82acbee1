//! Compares real captures with results of tshark and a small Python script (`tools/truth.py` of the captures): number
//! of TCP connections, packets and distinct payload bytes per direction, handshake time, and segments repeated or out
//! of order. `KNOWN` lists differences due to different definitions, with reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flow::{FlowCore, FlowEvent, FlowEvents, FlowTable, FlowTableConfig};
use wire::{FlowSide, Packet, Timestamp};

/// Compared properties of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    first_ts: i64,
    client: String,
    server: String,
    packets: [u64; 2],
    unique_bytes: [u64; 2],
    handshake_us: Option<i64>,
    /// Segments that are retransmitted, copied, out of order, or after the end; tshark distinguishes these by time.
    repeated: u64,
    /// Copies; tshark does not count those without payload.
    duplicates: u64,
}

/// Connections by their endpoints, the smaller first.
type Connections = BTreeMap<(String, String), Vec<Facts>>;

fn truth(capture: &Path) -> Option<Connections> {
    let folder = testkit::corpus::truth_of(capture);
    let mut text = String::new();
    if let Ok(mut plain) = File::open(folder.join("tcp.tsv")) {
        plain.read_to_string(&mut text).expect("truth is UTF-8");
    } else if let Ok(zipped) = File::open(folder.join("tcp.tsv.gz")) {
        flate2::read::GzDecoder::new(zipped)
            .read_to_string(&mut text)
            .expect("truth is gzipped UTF-8");
    } else {
        return None;
    }
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next()?.split('\t').collect();
    let mut all = Connections::new();
    for line in lines {
        let cells: BTreeMap<&str, &str> = head.iter().copied().zip(line.split('\t')).collect();
        let number = |name: &str| cells[name].parse::<u64>().expect("a number");
        let end = |who: &str, port: &str| format!("{}:{}", cells[who], cells[port]);
        let client = end("client", "cport");
        let server = end("server", "sport");
        let facts = Facts {
            first_ts: nanos(cells["t_first"]),
            client: client.clone(),
            server: server.clone(),
            packets: [number("pkts_up"), number("pkts_down")],
            unique_bytes: [number("uniq_up"), number("uniq_down")],
            handshake_us: (!cells["handshake"].is_empty())
                .then(|| nanos(cells["handshake"]) / 1000),
            repeated: number("retrans") + number("out_of_order"),
            duplicates: 0,
        };
        all.entry(pair(client, server)).or_default().push(facts);
    }
    all.values_mut()
        .for_each(|list| list.sort_by_key(|f| f.first_ts));
    Some(all)
}

fn nanos(seconds: &str) -> i64 {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let sign = if seconds.starts_with('-') { -1 } else { 1 };
    let fraction: i64 = format!("{fraction:0<9}")[..9].parse().expect("digits");
    whole.parse::<i64>().expect("digits") * 1_000_000_000 + sign * fraction
}

fn pair(a: String, b: String) -> (String, String) {
    if a < b { (a, b) } else { (b, a) }
}

/// `None` for a file that is not a readable capture; this test does not check those.
fn ours(path: &Path) -> Option<Connections> {
    // tshark has no timeouts.
    let never = i64::MAX;
    let config = FlowTableConfig {
        tcp_idle_ns: never,
        tcp_opening_idle_ns: never,
        tcp_closed_idle_ns: never,
        udp_idle_ns: never,
        ..FlowTableConfig::default()
    };
    let mut table: FlowTable<()> = FlowTable::new(config);
    let mut events = FlowEvents::default();
    let mut all = Connections::new();
    let mut source = capture::open(&[path.to_path_buf()]);
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        for captured in block.packets() {
            if let Ok(packet) = Packet::decode(&captured) {
                table.process(&packet, &mut events);
                collect(&table, &events, &mut all);
            }
        }
    }
    loop {
        let more = table.close_all(Timestamp(0), &mut events);
        collect(&table, &events, &mut all);
        if !more {
            break;
        }
    }
    all.values_mut()
        .for_each(|list| list.sort_by_key(|f| f.first_ts));
    (source.counters().packets > 0).then_some(all)
}

fn collect(table: &FlowTable<()>, events: &FlowEvents, all: &mut Connections) {
    for event in events.list() {
        let flow = table.flow(event.flow);
        if flow.is_tcp() && matches!(event.what, FlowEvent::Closed { .. }) {
            let end = |side| {
                let end = flow.key().end(side);
                format!("{}:{}", end.addr, end.port)
            };
            all.entry(pair(end(FlowSide::A), end(FlowSide::B)))
                .or_default()
                .push(facts_of(&flow, end));
        }
    }
}

fn facts_of(flow: &FlowCore<'_>, end: impl Fn(FlowSide) -> String) -> Facts {
    let (client, _) = flow.client();
    let ways = [client, client.other()];
    let repeated = |side| {
        let c = flow.counters(side);
        c.resent() + u64::from(c.out_of_order + c.stragglers)
    };
    let duplicates = ways.map(|side| u64::from(flow.counters(side).duplicates));
    Facts {
        first_ts: flow.first_ts().0,
        client: end(client),
        server: end(client.other()),
        packets: [0, 1].map(|way| flow.packets(ways[way]) + duplicates[way]),
        unique_bytes: ways.map(|side| flow.unique_bytes(side)),
        handshake_us: flow.handshake_ns().map(|ns| ns / 1000),
        repeated: ways.map(repeated).iter().sum(),
        duplicates: duplicates.iter().sum(),
    }
}

/// Capture, differing value, and the reason for keeping ours.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "deepflow-xiangdao-retrans.pcap",
        "unique_bytes",
        "IP lengths say 12 to 631 bytes of payload, the records say none was on the wire; tshark believes the records",
    ),
    (
        "deepflow-xiangdao-retrans.pcap",
        "repeated",
        "as above: tshark sees no payload to repeat",
    ),
    (
        "pkts-established_syn_ports_reused.pcap",
        "connections",
        "a SYN inside of a connection that nobody answers begins none (RFC 5961, 4); tshark takes it for another",
    ),
    (
        "suricata-split-handshake-4whs.pcap",
        "handshake",
        "ours ends when both SYNs are acknowledged; the truth waits for the client's first ACK without SYN",
    ),
    (
        "suricata-split-handshake-5whs.pcap",
        "connections",
        "the server answers SYN with ACK, then SYN: one connection, that tshark takes for two",
    ),
    (
        "suricata-tcp-rst-with-data.pcap",
        "unique_bytes",
        "13 bytes of a RST are a message for people, no stream data (RFC 9293, 3.10.7.4)",
    ),
    (
        "zeek-fin_retransmission.pcap",
        "handshake",
        "the client's ACK carries its FIN; the truth waits for one without",
    ),
    (
        "zeek-fin_retransmission.pcap",
        "repeated",
        "tshark calls the FIN after the SYN a retransmission of the SYN",
    ),
    (
        "zeek-reassembly.pcap",
        "unique_bytes",
        "two records say 20 bytes less than the IP length, and so does tshark; the next sequence numbers say more",
    ),
    (
        "zeek-reassembly.pcap",
        "repeated",
        "segments out of order whose checksums are wrong are damaged, others' were right before: not taken in",
    ),
    (
        "zeek-rst-inject-rae.pcap",
        "unique_bytes",
        "150 bytes after an injected RST that is in window and cannot be told from a true one",
    ),
    (
        "zeek-rst-inject-rae.pcap",
        "repeated",
        "the same 150 bytes, a straggler of ours",
    ),
];

/// Names of the values that differ between our connections of a pair of endpoints and the truth's.
fn differences(ours: &[Facts], truth: &[Facts]) -> Vec<&'static str> {
    if ours.len() != truth.len() {
        return vec!["connections"];
    }
    let mut all = Vec::new();
    for (o, t) in ours.iter().zip(truth) {
        let near = |(a, b): (i64, i64)| (a - b).abs() <= 1; // the truth stores seconds as a float
        let handshakes = o
            .handshake_us
            .zip(t.handshake_us)
            .map_or(o.handshake_us == t.handshake_us, near);
        let checks = [
            (o.client == t.client, "client"),
            (o.packets == t.packets, "packets"),
            (o.unique_bytes == t.unique_bytes, "unique_bytes"),
            (handshakes, "handshake"),
            (
                (o.repeated..=o.repeated + o.duplicates).contains(&t.repeated),
                "repeated",
            ),
        ];
        all.extend(
            checks
                .iter()
                .filter(|(same, _)| !same)
                .map(|(_, what)| *what),
        );
    }
    all
}

#[test]
fn connections_equal_those_of_tshark() {
    let mut met = BTreeSet::new();
    let mut unknown = Vec::new();
    let mut compared = 0;
    let Some(_) = testkit::corpus() else { return };
    for path in ["captures/tcp", "captures/http", "live-captures"]
        .iter()
        .flat_map(|f| testkit::captures_in(f))
    {
        let Some(truth) = truth(&path) else { continue };
        let Some(ours) = ours(&path) else { continue };
        let name = path
            .file_name()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let ends: BTreeSet<_> = truth.keys().chain(ours.keys()).collect();
        for pair in ends {
            let list = |all: &Connections| all.get(pair).cloned().unwrap_or_default();
            let ours = list(&ours);
            let truth = list(&truth);
            compared += truth.len();
            for what in differences(&ours, &truth) {
                match KNOWN
                    .iter()
                    .position(|(file, field, _)| *file == name && *field == what)
                {
                    Some(known) => _ = met.insert(known),
                    None => {
                        unknown.push(format!("{name}: {what}\n  ours {ours:?}\n truth {truth:?}"))
                    }
                }
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "{} differences:\n{}",
        unknown.len(),
        unknown.join("\n")
    );
    assert!(
        compared > 4_500,
        "only {compared} connections were compared"
    );
    let stale: Vec<_> = (0..KNOWN.len())
        .filter(|n| !met.contains(n))
        .map(|n| KNOWN[n])
        .collect();
    assert!(stale.is_empty(), "these differences are gone: {stale:?}");
}

/// Captures in which one segment was forged or damaged: the connections are those of the capture without it.
#[test]
fn a_single_false_segment_changes_no_connection() {
    let Some(_) = testkit::corpus() else { return };
    let mut checked = 0;
    for path in testkit::captures_in("found") {
        let name = path
            .file_name()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let (port, connections, bytes) = match name.as_str() {
            // The bytes of the last client continue after the inserted SYN.
            "syn_from_server_next.pcap.gz" | "syn_from_client_random.pcap.gz" => (8080, 5, 968_171),
            "tfo_3frames.pcap" => (80, 1, 374),
            // 52,532 according to tshark, 24 of them in the segment with the wrong checksum.
            "mc_ack_damaged.pcap" => (11211, 2, 52_508),
            _ => continue,
        };
        let all: Vec<Facts> = ours(&path)
            .expect("a capture")
            .into_values()
            .flatten()
            .collect();
        let of_port: Vec<&Facts> = all
            .iter()
            .filter(|f| f.server.ends_with(&format!(":{port}")))
            .collect();
        assert_eq!(of_port.len(), connections, "{name}: {all:?}");
        assert!(
            all.iter().all(|f| !f.client.ends_with(&format!(":{port}"))),
            "{name}: a server is a client"
        );
        let unique: u64 = of_port.iter().flat_map(|f| f.unique_bytes).sum();
        assert_eq!(unique, bytes, "{name}");
        checked += 1;
    }
    assert!(checked == 4, "only {checked} were checked");
}
