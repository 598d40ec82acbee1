//! Capture filters: in the kernel, and over files.

use crate::capture::{BINARY, Capture};
use crate::net::{CLIENT, Net, within};

#[test]
fn only_matching_packets_are_captured() {
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "udp", "port", "4000"],
    );
    net.send(5, 4001);
    net.send(7, 4000);
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(captured.column("dst_port"), ["4000"; 7]);
    assert_eq!(
        captured.count("/packets/received"),
        7,
        "the kernel leaves the others out"
    );
}

#[test]
fn a_filter_works_on_any() {
    let Some(net) = Net::new() else { return };
    let args = [
        "-i",
        "any",
        "--capture-filter",
        "udp dst port 4000 and src host 10.9.0.2",
    ];
    let capture = Capture::start(&net.server, "PARSE packet", &args);
    net.send(3, 4000);
    net.send(2, 4001);
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(captured.column("dst_port"), ["4000"; 3]);
}

#[test]
fn vlan_tags_come_back_and_can_be_filtered() {
    /// Sends a datagram in each of two VLANs, one in both, and one in none.
    const SEND: &str = "
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('eth0', 0))
ip = bytes.fromhex('4500001d000000004011 0000 0a090002 0a090001 1388 0fa0 0009 0000 0a'.replace(' ', ''))
tag = lambda kind, id: bytes.fromhex(kind) + id.to_bytes(2, 'big')
for tags in [tag('8100', 7), tag('8100', 8), tag('88a8', 7) + tag('8100', 8), b'']:
    s.send(b'\\xff' * 6 + b'\\2' * 6 + tags + b'\\x08\\x00' + ip)
";
    let Some(net) = Net::new() else { return };
    let filter = ["-i", "eth0", "vlan", "7", "and", "ip"];
    let tagged = Capture::start(&net.server, "PARSE packet", &filter);
    let all = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "host 10.9.0.2 or vlan"],
    );
    let cooked = Capture::start(&net.server, "PARSE packet", &["-i", "any", "udp port 4000"]);
    let sent = within(&net.client, "python3")
        .args(["-c", SEND])
        .output()
        .expect("it starts");
    assert!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
    let tagged = tagged.interrupt();
    let all = all.interrupt();
    let cooked = cooked.interrupt();
    for captured in [&tagged, &all, &cooked] {
        captured.check();
    }
    // Ethernet, IPv4 and UDP headers, one byte; and the tag, which the kernel removes and the capture restores.
    assert_eq!(tagged.column("packet_bytes"), ["47"]);
    assert_eq!(all.column("packet_bytes"), ["47", "47", "51", "43"]);
    assert_eq!(
        cooked.column("src_port"),
        ["5000"; 3],
        "cooked headers have room for one tag"
    );
}

#[test]
fn a_live_filter_and_the_same_on_a_file_agree() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("in.pcap");
    let filter = format!("src host {CLIENT} and udp[8] & 1 = 0 and greater 40");
    let mut dump = within(&net.server, "tcpdump");
    // A small snapshot length: the ring buffer would hold too few frames of maximum size.
    dump.args(["-i", "eth0", "-s", "2048", "-w"])
        .arg(&file)
        .args(["-U", "--immediate-mode", "-Z", "root", "udp"]);
    testkit::require!("tcpdump");
    let mut dump = dump
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = std::io::BufReader::new(dump.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("listening on") {
        assert!(
            std::io::BufRead::read_line(&mut said, &mut line).expect("text") > 0,
            "{line}"
        );
    }
    let capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "--capture-filter", &filter],
    );
    net.send(30, 4000);
    let live = capture.interrupt();
    crate::capture::signal(dump.id(), "INT");
    crate::capture::wait(&mut dump);
    let file = file.to_str().expect("UTF-8");
    let read = std::process::Command::new(BINARY)
        .args([
            "query",
            "PARSE packet",
            "-r",
            file,
            "--capture-filter",
            &filter,
            "--format",
            "jsonl",
            "-q",
        ])
        .output()
        .expect("it runs");
    let of_file = String::from_utf8(read.stdout).expect("text");
    assert!(read.status.success());
    live.check();
    assert_eq!(of_file.lines().count(), live.rows.len());
    assert!((1..30).contains(&live.rows.len()), "{}", live.rows.len());
    for (line, row) in of_file.lines().zip(&live.rows) {
        let of_file: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(
            (&of_file["src_port"], &of_file["packet_bytes"]),
            (&row["src_port"], &row["packet_bytes"])
        );
    }
}
