//! Interfaces of all kinds that go down, come up, and are removed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::capture::Capture;
use crate::net::{Net, ip, shell, within};

#[test]
fn any_takes_each_packet_once() {
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(&net.server, "PARSE packet", &["-i", "any", "udp port 4000"]);
    net.send(4, 4000);
    shell(
        &net.server,
        "for i in 1 2 3; do echo >/dev/udp/127.0.0.1/4000; done",
    );
    let captured = capture.interrupt();
    captured.check();
    let to = |ip: &str| {
        captured
            .column("dst_ip")
            .iter()
            .filter(|dst| *dst == ip)
            .count()
    };
    assert_eq!((to("10.9.0.1"), to("127.0.0.1")), (4, 3));
}

#[test]
fn loopback_packets_come_once() {
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(&net.server, "PARSE packet", &["-i", "lo"]);
    shell(
        &net.server,
        "for i in 1 2 3; do echo >/dev/udp/127.0.0.1/4000; done",
    );
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(
        captured
            .column("dst_port")
            .iter()
            .filter(|port| *port == "4000")
            .count(),
        3
    );
    assert_eq!(
        captured
            .column("transport")
            .iter()
            .filter(|t| *t == "icmp")
            .count(),
        3,
        "nobody listens"
    );
}

#[test]
fn an_interface_without_link_headers() {
    const TUN: &str = "
import fcntl, os, struct, sys
tun = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'tun0', 0x1001))
print('ready', flush=True)
sys.stdin.read()
";
    let Some(net) = Net::new() else { return };
    let mut python = within(&net.client, "python3");
    python
        .args(["-c", TUN])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut tun = python.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(tun.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("text");
    if line.trim() != "ready" {
        let _ = tun.wait();
        return testkit::require::missing("tun", "/dev/net/tun cannot be used");
    }
    ip(&format!("-n {} link set tun0 up", net.client)).expect("up");
    ip(&format!("-n {} addr add 10.9.6.1/24 dev tun0", net.client)).expect("an address");
    let args = ["-i", "tun0", "udp", "port", "4000"];
    let capture = Capture::start(&net.client, "PARSE packet", &args);
    shell(
        &net.client,
        "for i in 1 2; do echo >/dev/udp/10.9.6.2/4000; done",
    );
    let captured = capture.interrupt();
    drop(tun.stdin.take());
    tun.wait().expect("it ends");
    captured.check();
    assert_eq!(captured.column("dst_ip"), ["10.9.6.2"; 2]);
    assert_eq!(captured.column("packet_bytes"), ["29"; 2]);
}

#[test]
fn snaplen_truncates_and_is_reported() {
    let Some(net) = Net::new() else { return };
    let args = ["-s", "60", "-i", "eth0", "udp port 4000"];
    let capture = Capture::start(&net.server, "PARSE packet", &args);
    shell(
        &net.client,
        "printf '%1000s' x >/dev/udp/10.9.0.1/4000; echo >/dev/udp/10.9.0.1/4000",
    );
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(captured.column("packet_bytes"), ["1042", "43"]);
    assert_eq!(captured.count("/source/truncated_packets"), 1);
    assert_eq!(captured.count("/source/captured_bytes"), 103);
}

#[test]
fn fragments_are_put_together() {
    let Some(net) = Net::new() else { return };
    // Only a first fragment has ports: a port filter would exclude the others.
    let capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "udp port 4000"],
    );
    shell(
        &net.client,
        "head -c 4000 /dev/zero >/dev/udp/10.9.0.1/4000",
    );
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(captured.column("packet_bytes"), ["4042"]);
}

#[test]
fn interfaces_that_go_down_are_awaited() {
    let Some(net) = Net::new() else { return };
    let mut capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "udp port 4000"],
    );
    net.send(2, 4000);
    ip(&format!("-n {} link set eth0 down", net.server)).expect("down");
    capture.wait_for("eth0 went down");
    ip(&format!("-n {} link set eth0 up", net.server)).expect("up");
    capture.wait_for("eth0 is up again");
    // ARP resolution takes a while.
    let ping = "until ping -c1 -W1 -q 10.9.0.1 >/dev/null; do sleep 0.05; done";
    shell(&net.client, ping);
    net.send(3, 4000);
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(captured.rows.len(), 5);
}

#[test]
fn an_interface_that_is_removed_ends_the_capture() {
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "udp port 4000"],
    );
    net.send(2, 4000);
    ip(&format!("-n {} link del eth0", net.server)).expect("gone");
    let captured = capture.end();
    assert_eq!(captured.code, Some(1), "{}", captured.err);
    assert!(
        captured
            .err
            .contains("eth0: the interface has been removed"),
        "{}",
        captured.err
    );
    assert_eq!(captured.rows.len(), 2, "what came before is kept");
}
