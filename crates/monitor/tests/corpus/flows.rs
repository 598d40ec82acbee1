//! Compares `flow`, `tcp_conn_time`, `tcp_flow_key`, and `tcp_pkt_size` with `tcp.tsv` of the truth, one row per
//! connection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Row, captures, nanos, run, run_all, truth};

/// Folders with captures of connections.
const FOLDERS: &[&str] = &[
    "captures/http",
    "captures/tcp",
    "captures/mysql",
    "captures/memcached",
    "captures/redis",
    "captures/tunnels",
    "derived",
    "live-captures",
];

/// Files in another format (NetXRay 2) despite the extension `.pcap`.
const NOT_PCAP: &[&str] = &["wswiki-tcp-syn-attack.pcap"];

/// Encapsulated captures among the derived ones; the rest are damaged.
const DERIVED: &[&str] = &[
    "erspan1.pcap",
    "erspan2.pcap",
    "erspan3.pcap",
    "geneve.pcap",
    "gre.pcap",
    "gretap.pcap",
    "ipip.pcap",
    "mpls.pcap",
    "qinq.pcap",
    "vxlan.pcap",
    "vxlanfrag.pcap",
];

/// Fragments: the truth counts bytes of reassembled packets; we count bytes on the wire.
const FRAGMENTED: &[&str] = &["zeek-erspan.pcap", "vxlanfrag.pcap"];

/// Both endpoints, the smaller first: without a handshake, the truth and our table guess the client by different rules.
type Ends = (String, String);

#[test]
fn flows_agree_with_the_truth() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut connections = 0;
    let of_interest = |capture: &PathBuf| {
        !capture.starts_with(root.join("derived"))
            || DERIVED.iter().any(|name| capture.ends_with(name))
    };
    for capture in captures(&root, FOLDERS).into_iter().filter(of_interest) {
        let Some(truth) = truth(&capture, "tcp.tsv") else {
            continue;
        };
        if NOT_PCAP.iter().any(|name| capture.ends_with(name)) {
            continue;
        }
        connections += truth.len();
        check_totals(&capture, &truth);
        check_connection_times(&capture, &truth);
    }
    assert!(connections > 5000, "{connections} connections of truth");
}

/// Retransmissions, and retransmitted SYNs and SYN-ACKs, in captures without duplicate packets: the counts equal
/// tshark's (`tcp.analysis.retransmission`).
#[test]
fn syns_and_fins_sent_again_are_retransmissions() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (capture, resent, syns) in [
        ("mysql/zeek-auth.pcap", 13, 0),
        ("http/zeek-post.pcap", 1, 0),
        ("tcp/suricata-split-handshake-4whs.pcap", 1, 1),
        (
            "tcp/deepflow-syn-ack-ack-retrans-and-client-payload.pcap",
            6,
            1,
        ),
        ("tls/ndpi-tls_with_huge_ch.pcapng", 8, 4),
    ] {
        let rows = run(&root.join("captures").join(capture), "flow").rows;
        let sum = |field: &str| rows.iter().map(|row| number(row, field)).sum::<u64>();
        assert_eq!(
            (sum("retransmissions"), sum("syn_retransmissions")),
            (resent, syns),
            "{capture}"
        );
    }
}

/// Packets and bytes on the wire per pair of endpoints and direction. Our counts exclude copies made by a mirror; for
/// such captures, packets of both directions are compared together.
fn check_totals(capture: &Path, truth: &[Row]) {
    let mut expected = BTreeMap::<Ends, [u64; 4]>::new();
    for row in truth {
        let client = format!("{} {}", row["client"], row["cport"]);
        let server = format!("{} {}", row["server"], row["sport"]);
        add(
            &mut expected,
            client,
            server,
            ["pkts_up", "pkts_down", "wire_up", "wire_down"].map(|f| number(row, f)),
        );
    }
    let mut got = BTreeMap::<Ends, [u64; 4]>::new();
    let mut copies = BTreeMap::<Ends, [u64; 4]>::new();
    for row in run(capture, "flow")
        .rows
        .iter()
        .filter(|r| r["transport"] == "tcp")
    {
        let client = format!("{} {}", row["client_ip"], row["client_port"]);
        let server = format!("{} {}", row["server_ip"], row["server_port"]);
        let fields = [
            "client_packets",
            "server_packets",
            "client_bytes",
            "server_bytes",
        ];
        add(
            &mut got,
            client.clone(),
            server.clone(),
            fields.map(|f| number(row, f)),
        );
        add(
            &mut copies,
            client,
            server,
            [number(row, "duplicates"), 0, 0, 0],
        );
    }
    let packets: u64 = expected.values().map(|v| v[0] + v[1]).sum();
    for (ends, [n, m, ..]) in copies.into_iter().filter(|(_, copies)| *copies != [0; 4]) {
        for (all, n) in [(&mut got, n + m), (&mut expected, 0)] {
            let [up, down, ..] = all[&ends];
            all.insert(ends.clone(), [up + down + n, 0, 0, 0]);
        }
    }
    if FRAGMENTED.iter().any(|name| capture.ends_with(name)) {
        let no_bytes = |totals: &mut BTreeMap<Ends, [u64; 4]>| {
            totals
                .values_mut()
                .for_each(|[.., up, down]| (*up, *down) = (0, 0));
        };
        no_bytes(&mut got);
        no_bytes(&mut expected);
    }
    assert_eq!(got, expected, "{}", capture.display());
    assert_eq!(
        run(capture, "tcp_pkt_size").rows.len() as u64,
        packets,
        "{}",
        capture.display()
    );
}

fn add(
    totals: &mut BTreeMap<Ends, [u64; 4]>,
    client: String,
    server: String,
    [up, down, wire_up, wire_down]: [u64; 4],
) {
    let (ends, values) = if client <= server {
        ((client, server), [up, down, wire_up, wire_down])
    } else {
        ((server, client), [down, up, wire_down, wire_up])
    };
    let sums = totals.entry(ends).or_default();
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

/// Start, handshake time, and end of every connection that was captured from its SYN and whose ports are used once.
fn check_connection_times(capture: &Path, truth: &[Row]) {
    // Both ends send a SYN here. In the truth, the end whose SYN is answered is the client, and the handshake ends with
    // its last ACK; here the sender of the first SYN is the client, and the handshake ends when both SYNs are
    // acknowledged.
    if capture.to_string_lossy().contains("split-handshake") {
        return;
    }
    // An unanswered SYN inside a connection: the truth starts another connection, RFC 5961 §4 does not.
    if capture.ends_with("pkts-established_syn_ports_reused.pcap") {
        return;
    }
    // An injected RST that does not acknowledge the SYN: the truth counts it as the end, RFC 9293 §3.10.7.3 does not.
    let injected = capture.ends_with("zeek-rst-inject-rae.pcap");
    check_round_trips(capture, truth);
    let rows = run(capture, "tcp_conn_time").rows;
    let flow_keys = run(capture, "tcp_flow_key").rows;
    for t in truth {
        let same_ends = |r: &&Row| {
            (r["client_ip"] == t["client"]
                && r["client_port"] == t["cport"]
                && r["server_ip"] == t["server"]
                && r["server_port"] == t["sport"])
                || (r["client_ip"] == t["server"]
                    && r["client_port"] == t["sport"]
                    && r["server_ip"] == t["client"]
                    && r["server_port"] == t["cport"])
        };
        let starts: Vec<&Row> = rows
            .iter()
            .filter(same_ends)
            .filter(|r| r["event"] == "start")
            .collect();
        let ends: Vec<&Row> = rows
            .iter()
            .filter(same_ends)
            .filter(|r| r["event"] == "end")
            .collect();
        let Some(t_syn) = t.get("t_syn") else {
            continue;
        };
        let 1 = starts.len() else { continue };
        let 1 = ends.len() else { continue };
        let place = format!("{}: {} {}", capture.display(), t["client"], t["cport"]);
        assert_eq!(flow_keys.iter().filter(same_ends).count(), 1, "{place}");
        assert_eq!(starts[0]["ts"], nanos(t_syn).to_string(), "{place}: SYN");
        let first_end = ["t_fin_client", "t_fin_server", "t_rst"]
            .iter()
            .filter_map(|f| t.get(*f))
            .map(|v| nanos(v))
            .min();
        if let Some(end) = first_end.filter(|_| ends[0]["flag"] != "EXPIRED" && !injected) {
            assert_eq!(
                ends[0]["conn_time_ns"],
                (end - nanos(t_syn)).to_string(),
                "{place}: end"
            );
        }
        if let (Some(theirs), Some(ours)) = (t.get("handshake"), ends[0].get("handshake_ns")) {
            let ours: i64 = ours.parse().expect("a number");
            assert!(
                (nanos(theirs) - ours).abs() <= 1000,
                "{place}: handshake {ours} ns, truth {theirs} s"
            );
        }
    }
}

/// The two round trips of the handshake, for every connection with one SYN whose ports are used once.
fn check_round_trips(capture: &Path, truth: &[Row]) {
    let rows = run(capture, "flow").rows;
    let number_of = |t: &Row| {
        truth
            .iter()
            .filter(|o| [&o["client"], &o["cport"]] == [&t["client"], &t["cport"]])
            .count()
    };
    for t in truth
        .iter()
        .filter(|t| t.get("syns").is_some_and(|syns| syns == "1") && number_of(t) == 1)
    {
        let same_ends = |r: &&Row| {
            [
                ("client_ip", "client"),
                ("client_port", "cport"),
                ("server_ip", "server"),
                ("server_port", "sport"),
            ]
            .iter()
            .all(|(ours, theirs)| r[*ours] == t[*theirs])
        };
        let flows: Vec<&Row> = rows.iter().filter(same_ends).collect();
        let [flow] = flows.as_slice() else { continue };
        for (ours, theirs) in [
            ("server_rtt_ns", "syn_synack"),
            ("client_rtt_ns", "synack_ack"),
        ] {
            let Some(ours_ns) = flow.get(ours) else {
                continue;
            };
            let Some(theirs) = t.get(theirs) else {
                continue;
            };
            let ours_ns: i64 = ours_ns.parse().expect("a number");
            let place = format!("{}: {} {}", capture.display(), t["client"], t["cport"]);
            assert!(
                (nanos(theirs) - ours_ns).abs() <= 1000,
                "{place}: {ours} {ours_ns} ns, truth {theirs} s"
            );
        }
        // The sum of both is the handshake time.
        let all = ["client_rtt_ns", "server_rtt_ns", "handshake_ns"]
            .map(|f| flow.get(f).map(|v| v.parse::<i64>().expect("a number")));
        if let [Some(client), Some(server), handshake] = all {
            assert_eq!(handshake, Some(client + server), "{}", capture.display());
        }
    }
}

fn number(row: &Row, field: &str) -> u64 {
    row.get(field)
        .map_or(0, |v| v.parse().unwrap_or_else(|_| panic!("{field} = {v}")))
}

/// Flow and packet tuples do not depend on other parsers of the query.
#[test]
fn flows_are_the_same_beside_other_parsers() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut compared = 0;
    for capture in captures(
        &root,
        &["captures/dns", "captures/http", "captures/tunnels"],
    ) {
        // Each with a column that no other parser has.
        for (parser, own) in [("flow", "reason"), ("packet", "src_ip")] {
            let alone = qualities(&capture, &[parser], own);
            let beside = qualities(&capture, &[parser, "dns", "http", "mysql_query"], own);
            compared += alone.len();
            assert_eq!(alone, beside, "{parser}, {}", capture.display());
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// Sorted by flow and time.
fn qualities(capture: &Path, parsers: &[&str], own: &str) -> Vec<String> {
    let of_row = |row: &Row| format!("{} {} {}", row["id"], row["ts_end"], row["quality"]);
    let rows = run_all(capture, parsers).rows;
    let mut all: Vec<String> = rows
        .iter()
        .filter(|row| row.contains_key(own))
        .map(of_row)
        .collect();
    all.sort();
    all
}
