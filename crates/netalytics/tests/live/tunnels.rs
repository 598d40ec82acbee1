//! Kernel tunnels: captured on the wire, and received as the end of a mirror.

use std::collections::BTreeSet;

use testkit::require::missing;

use crate::capture::{Capture, Captured};
use crate::net::{CLIENT, Net, SERVER, ip, shell, within};

/// Device, subnet, creation parameters that begin with the kind of the device, and expected name: layers and number.
const DEVICES: [(&str, u8, &str, &str); 5] = [
    (
        "vx",
        42,
        "vxlan id 42 remote SERVER local CLIENT dstport 4789 dev eth0",
        "vxlan 42",
    ),
    (
        "gv",
        43,
        "geneve id 43 remote SERVER dstport 6081",
        "geneve 43",
    ),
    (
        "gt",
        44,
        "gretap remote SERVER local CLIENT key 44",
        "gre 44",
    ),
    (
        "es",
        45,
        "erspan seq key 45 local CLIENT remote SERVER erspan_ver 1 erspan 123",
        "erspan 45",
    ),
    ("ii", 46, "ipip local CLIENT remote SERVER", "ipip null"),
];

/// Creates the client's ends of the tunnels whose kinds the kernel supports or `ALLOW_MISSING` does not name; returns their names.
fn make_tunnels(net: &Net) -> BTreeSet<&'static str> {
    let mut made = BTreeSet::new();
    for (device, subnet, how, called) in DEVICES {
        let how = how.replace("SERVER", SERVER).replace("CLIENT", CLIENT);
        let ns = &net.client;
        let make = || {
            ip(&format!("-n {ns} link add {device} type {how}"))?;
            ip(&format!("-n {ns} addr add 10.{subnet}.0.2/24 dev {device}"))?;
            ip(&format!("-n {ns} link set {device} up"))?;
            // The other end does not respond.
            let neighbor =
                format!("-n {ns} neigh add 10.{subnet}.0.1 lladdr 02:00:00:00:00:01 dev {device}");
            if called.contains("ipip") {
                Ok(())
            } else {
                ip(&neighbor)
            }
        };
        match make() {
            Ok(()) => drop(made.insert(called)),
            Err(reason) => missing(how.split(' ').next().expect("a kind"), &reason),
        }
    }
    made
}

/// Five datagrams of 2,000 bytes through each tunnel, which must be fragmented.
fn send(net: &Net) {
    for (_, subnet, ..) in DEVICES {
        let to = format!("/dev/udp/10.{subnet}.0.1/4000");
        shell(
            &net.client,
            &format!("for i in 1 2 3 4 5; do head -c 2000 /dev/zero >{to} || true; done"),
        );
    }
}

fn check(captured: &Captured, made: &BTreeSet<&str>, sender: &str) {
    let columns = |name: &str| captured.column(name);
    let called: Vec<String> = columns("tunnel")
        .into_iter()
        .zip(columns("tunnel_id"))
        .map(|(t, id)| format!("{t} {id}"))
        .collect();
    let ours: BTreeSet<&str> = called.iter().map(String::as_str).collect();
    assert_eq!(&ours, made, "{}", captured.err);
    assert_eq!(called.len(), 5 * made.len(), "{called:?}\n{}", captured.err);
    assert!(columns("dst_port").iter().all(|port| port == "4000"));
    assert!(columns("tunnel_src").iter().all(|src| src == sender));
    assert_eq!(captured.code, Some(0), "{}", captured.err);
    assert_eq!(
        captured.summary.pointer("/packets/adds_up"),
        Some(&serde_json::Value::Bool(true))
    );
}

#[test]
fn tunneled_packets_are_captured_and_filtered() {
    let Some(net) = Net::new() else { return };
    let made = make_tunnels(&net);
    let capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "udp", "dst", "port", "4000"],
    );
    send(&net);
    check(&capture.interrupt(), &made, CLIENT);
}

#[test]
fn mirrors_are_received() {
    let Some(net) = Net::new() else { return };
    let mut made = make_tunnels(&net);
    made.remove("ipip null");
    let at = |what: &str| format!("{what}://{SERVER}");
    let args = [
        "--listen",
        &["vxlan", "geneve", "gre"].map(at).join(","),
        "--capture-filter",
        "udp dst port 4000",
    ];
    let capture = Capture::start(&net.server, "PARSE packet", &args);
    send(&net);
    check(&capture.interrupt(), &made, CLIENT);
}

#[test]
fn several_workers_share_a_mirror() {
    let Some(net) = Net::new() else { return };
    let made = make_tunnels(&net);
    testkit::require!("vxlan" => made.contains("vxlan 42"));
    let args = ["--listen", "vxlan://0.0.0.0:4789", "--workers", "2"];
    let capture = Capture::start(&net.server, "PARSE flow WHERE server_port = 4000", &args);
    send(&net);
    let captured = capture.interrupt();
    captured.check();
    // Each datagram belongs to a different flow.
    assert_eq!(captured.column("tunnel"), ["vxlan"; 5], "{}", captured.err);
}

#[test]
fn a_switch_mirrors_in_erspan_and_gre() {
    /// A datagram to port 4000 in an Ethernet frame, in ERSPAN II of session 7, and in GRE with key 8.
    const SEND: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 47)
frame = b'\\2' * 12 + bytes.fromhex('0800 4500001d000000004011 0000 0a000001 0a000002 1388 0fa0 0009 0000 0a')
for head in ['1000 88be 00000001 1000 0007 00000000', '2000 6558 00000008']:
    s.sendto(bytes.fromhex(head) + frame, (sys.argv[1], 0))
";
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["--listen", "erspan://0.0.0.0"],
    );
    let sent = within(&net.client, "python3")
        .args(["-c", SEND, SERVER])
        .output()
        .expect("it starts");
    assert!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(captured.column("tunnel"), ["erspan", "gre"]);
    assert_eq!(captured.column("tunnel_id"), ["7", "8"]);
    assert_eq!(captured.column("tunnel_dst"), [SERVER; 2]);
    assert_eq!(captured.column("dst_port"), ["4000"; 2]);
}
