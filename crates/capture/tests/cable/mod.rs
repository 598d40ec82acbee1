//! Two network namespaces connected by a virtual cable, for tests of live sources: a test runs itself again inside
//! one, and sends from the other. Requires root; otherwise a message states that nothing was tested.

// Not every test binary uses all functions.
#![allow(dead_code)]

use std::env;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use capture::{PacketBlock, PacketSource};
use wire::packet::TransportHeader;
use wire::{CapturedPacket, Packet};

/// Set in the monitor's namespace to the name of the sender's namespace.
const PEER: &str = "CABLE_TEST_PEER";
/// Set for a sender: the datagrams to send.
const SEND: &str = "CABLE_TEST_SEND";

/// The test `sender`: sends the requested datagrams from its namespace.
pub fn sender() {
    let Ok(orders) = env::var(SEND) else { return };
    for (i, order) in orders.split(',').enumerate() {
        let mut parts = order.split(' ');
        let mut next = || parts.next().expect("address, count and length");
        let to = next();
        let count = next();
        let len = next();
        let any = if to.starts_with('[') {
            "[::]"
        } else {
            "0.0.0.0"
        };
        let socket = UdpSocket::bind(format!("{any}:{}", 20_000 + i)).expect("a free port");
        let count: u32 = count.parse().expect("a number");
        let len: usize = len.parse().expect("a number");
        for number in 0..count {
            let mut payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
            payload[..4].copy_from_slice(&number.to_be_bytes());
            // A receiver may be missing, so errors of the stack are ignored.
            let _ = socket.send_to(&payload, to);
            if number % 64 == 63 {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// A received datagram.
pub struct Seen {
    pub to: String,
    pub number: u32,
    pub payload_len: usize,
    pub intact: bool,
    pub tagged: bool,
}

/// Decodes a sender's datagram.
pub fn seen(captured: &CapturedPacket<'_>) -> Option<Seen> {
    let packet = Packet::decode(captured).ok()?;
    let five = packet.five_tuple;
    if !matches!(packet.transport, TransportHeader::Udp)
        || !(20_000..30_000).contains(&five.src.port)
    {
        return None;
    }
    Some(Seen {
        to: format!("{}:{}", five.dst.addr, five.dst.port),
        number: u32::from_be_bytes(*packet.payload.first_chunk()?),
        payload_len: packet.payload.len(),
        intact: (4..)
            .zip(&packet.payload[4..])
            .all(|(at, &byte)| byte == at as u8),
        tagged: captured.bytes[12..14] == [0x81, 0],
    })
}

/// Receives until `enough` returns true, or until a timeout without packets.
pub fn receive(
    sources: &mut [Box<dyn PacketSource>],
    enough: impl Fn(&[Seen]) -> bool,
) -> Vec<Seen> {
    const QUIET: Duration = Duration::from_secs(5);
    let mut all = Vec::new();
    let mut last = Instant::now();
    let mut block = PacketBlock::default();
    while last.elapsed() < QUIET && !enough(&all) {
        for source in &mut *sources {
            assert!(source.next_block(&mut block), "{:?}", source.errors());
            let before = all.len();
            all.extend(block.packets().filter_map(|c| seen(&c)));
            if all.len() > before {
                last = Instant::now();
            }
        }
    }
    all
}

pub fn peer() -> String {
    env::var(PEER).expect("inside")
}

/// Sends from the other namespace: `address count length`, separated by commas.
pub fn send(orders: &str) -> Child {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &peer()])
        .arg(env::current_exe().expect("our own path"));
    command
        .args(["--exact", "sender", "--nocapture"])
        .env(SEND, orders)
        .stdout(Stdio::null());
    command.spawn().expect("`ip` runs")
}

/// Sends raw frames from the other namespace, with Python.
pub fn send_frames(frames: &[Vec<u8>]) {
    const PROGRAM: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind(('e0', 0))\n\
        for frame in sys.argv[1:]: s.send(bytes.fromhex(frame))";
    let hex = |frame: &Vec<u8>| frame.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &peer(), "python3", "-c", PROGRAM])
        .args(frames.iter().map(hex));
    assert!(
        command.status().is_ok_and(|status| status.success()),
        "python3 sends frames"
    );
}

pub fn end(mut child: Child) {
    assert!(child.wait().expect("it ran").success());
}

pub fn run(command: &str) {
    let mut words = command.split(' ');
    let status = Command::new(words.next().expect("a program"))
        .args(words)
        .status();
    assert!(status.expect("it runs").success(), "{command}");
}

pub fn output(command: &str) -> String {
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn await_that(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..500 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("in vain: {what}");
}

pub fn this_test(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("our own path"));
    command
        .args(["--exact", name, "--nocapture"])
        .stdout(Stdio::null());
    command
}

/// Runs `body` as the test `name` in a namespace with an interface `mon`, connected to `e0` in another namespace.
pub fn inside(name: &str, features: &[&str], body: impl FnOnce()) {
    if env::var_os(PEER).is_some() {
        return body();
    }
    let net =
        testkit::require!("namespaces" => Namespaces::make(name, features.contains(&"queues")));
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &net.monitor])
        .arg(env::current_exe().expect("our own path"));
    command
        .args(["--exact", name, "--nocapture"])
        .env(PEER, &net.peer);
    let output = command.output().expect("`ip` runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Two namespaces, removed on drop.
struct Namespaces {
    monitor: String,
    peer: String,
}

impl Namespaces {
    fn make(test: &str, queues: bool) -> Option<Namespaces> {
        let id = format!("{}-{}", std::process::id(), &test[..test.len().min(24)]);
        let net = Namespaces {
            monitor: format!("xm-{id}"),
            peer: format!("xp-{id}"),
        };
        let monitor = &net.monitor;
        let peer = &net.peer;
        for name in [monitor, peer] {
            let made = Command::new("ip")
                .args(["netns", "add", name])
                .stderr(Stdio::null())
                .status();
            if !made.is_ok_and(|status| status.success()) {
                return None;
            }
        }
        let many = if queues {
            "numrxqueues 4 numtxqueues 4 "
        } else {
            ""
        };
        run(&format!(
            "ip -n {monitor} link add mon {many}address 02:00:00:00:00:02 type veth peer name e0 \
             {many}address 02:00:00:00:00:01 netns {peer}"
        ));
        for (ns, interface) in [(monitor, "mon"), (peer, "e0"), (monitor, "lo")] {
            run(&format!("ip -n {ns} link set {interface} up"));
        }
        for (address, neighbor) in [("10.9.0.1/24", "10.9.0.2"), ("fd09::1/64", "fd09::2")] {
            let nodad = if neighbor.contains(':') { " nodad" } else { "" };
            run(&format!("ip -n {peer} addr add {address} dev e0{nodad}"));
            run(&format!(
                "ip -n {peer} neigh add {neighbor} lladdr 02:00:00:00:00:02 dev e0"
            ));
        }
        Some(net)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.monitor, &self.peer] {
            let _ = Command::new("ip")
                .args(["netns", "del", name])
                .stderr(Stdio::null())
                .status();
        }
    }
}
