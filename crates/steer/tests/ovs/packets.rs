//! Traffic between hosts, and the packets expected at a monitor, by tcpdump's filters.

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::process::{Child, Stdio};

use mirror::{MirrorMode, SwitchCopy, asked};
use plan::{AddressMatch, MonitorSpec};
use steer::InstallRequest;
use testkit::namespaces::run;
use testkit::programs::{TestProgram, wait_for};

use crate::bed::{Bed, Capture, MONITOR};

pub const SERVER: u16 = 7;
/// Host with the servers.
pub const SERVES: u32 = 2;

/// TCP on ports 80 and 81, which sends as many bytes as requested; UDP on port 53, which echoes.
const SERVE: &str = r"
import socket, threading
def tcp(s):
    while True:
        c, _ = s.accept()
        c.sendall(b'x' * int(c.recv(100)))
        c.close()
def udp(s):
    while True:
        data, peer = s.recvfrom(2000)
        s.sendto(data, peer)
for port in (80, 81):
    threading.Thread(target=tcp, args=(socket.create_server(('10.9.0.2', port)),), daemon=True).start()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.9.0.2', 53))
print('ready', flush=True)
udp(s)
";

/// Unrequested traffic, then requested traffic, then a datagram that marks the end.
const ASK: &str = r"
import socket, sys
def get(port, n):
    c = socket.create_connection(('10.9.0.2', port))
    c.sendall(str(n).encode())
    said = 0
    while data := c.recv(65536):
        said += len(data)
    assert said == n, (said, n)
    c.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(20)
def tell(data):
    u.sendto(data, ('10.9.0.2', 53))
    assert u.recv(2000) == data
for i in range(3):
    get(81, 3000)
    tell(b'datagram %d' % i)
for n in (1, 100, 3000, 20000):
    get(80, n)
tell(sys.argv[1].encode())
";

/// Numbered datagrams until the end of standard input; then their number.
const COUNT: &str = r"
import select, socket, sys
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
n = 0
while not select.select([sys.stdin], [], [], 0.004)[0]:
    u.sendto(b'%08d' % n, ('10.9.0.3', 7))
    n += 1
print(n)
";

pub fn serve(bed: &Bed) -> TestProgram {
    let mut child = bed
        .within(SERVES, "python3")
        .args(["-c", SERVE])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("it speaks");
    assert_eq!(line, "ready\n");
    TestProgram(child)
}

/// Sends all traffic, and returns the server's capture of it.
pub fn ask(bed: &Bed, mark: &str, server: &Capture) {
    run(bed.within(1, "python3").args(["-c", ASK, mark])).expect("it is answered");
    wait_for(mark, || {
        // To the server and back.
        let marked = server
            .frames()
            .iter()
            .filter(|frame| frame.ends_with(mark.as_bytes()))
            .count();
        (marked == 2)
            .then_some(())
            .ok_or_else(|| format!("{marked} marks"))
    });
}

/// From host 1 to host 3 during the whole test: every datagram arrives once.
pub struct Stream {
    sender: Child,
    at: Capture,
}

impl Stream {
    pub fn start(bed: &Bed) -> Stream {
        let at = bed.capture(3, "udp dst port 7");
        let mut command = bed.within(1, "python3");
        let sender = command
            .args(["-c", COUNT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Stream {
            sender: sender.expect("python"),
            at,
        }
    }

    pub fn end(mut self) {
        drop(self.sender.stdin.take());
        let mut said = String::new();
        self.sender
            .stdout
            .take()
            .expect("piped")
            .read_to_string(&mut said)
            .expect("it speaks");
        let _ = self.sender.wait();
        let sent: usize = said.trim().parse().expect("a number");
        assert!(sent > 10, "{sent} datagrams were sent");
        let mut arrived = self.at.wait(sent);
        arrived.sort_by_key(|frame| frame[frame.len() - 8..].to_vec());
        let numbers: Vec<String> = arrived
            .iter()
            .map(|frame| String::from_utf8_lossy(&frame[frame.len() - 8..]).into_owned())
            .collect();
        let expected: Vec<String> = (0..sent).map(|n| format!("{n:08}")).collect();
        assert_eq!(numbers, expected, "each datagram once");
        self.at.end();
    }
}

/// Copies for a query on the server's port 80, or all of its traffic, in a mode.
pub fn copy(mode: MirrorMode, port: Option<u16>, target: u32) -> SwitchCopy {
    let server = AddressMatch {
        net: Some((IpAddr::from([10, 9, 0, 2]), 32)),
        port,
    };
    let spec = MonitorSpec {
        servers: vec![server],
        ..MonitorSpec::default()
    };
    let asked = asked(&spec, mode.which);
    SwitchCopy {
        job: 1,
        generation: 1,
        asked,
        ports: Vec::new(),
        part: mode.part,
        target,
    }
}

pub fn wish(copies: Vec<SwitchCopy>, lease: u16) -> InstallRequest {
    let monitors = vec![(MONITOR, "m".to_owned())];
    InstallRequest {
        server: SERVER,
        switch: "br0".to_owned(),
        copies,
        monitors,
        lease,
    }
}

/// The expected copies: truncated and sorted.
pub fn cut(mut frames: Vec<Vec<u8>>, mode: MirrorMode) -> Vec<Vec<u8>> {
    if let mirror::PacketPart::First(bytes) = mode.part {
        frames
            .iter_mut()
            .for_each(|frame| frame.truncate(bytes.into()));
    }
    frames.sort();
    frames
}

/// Compares frames as multisets.
pub fn same(what: &str, found: &[Vec<u8>], expected: &[Vec<u8>]) {
    let more = without(found, expected);
    let less = without(expected, found);
    assert!(
        more.is_empty() && less.is_empty(),
        "{what}: too many {more:#?}, too few {less:#?}"
    );
}

/// Multiset difference of frames.
fn without(frames: &[Vec<u8>], others: &[Vec<u8>]) -> Vec<String> {
    let mut others = others.to_vec();
    let mut rest = frames.to_vec();
    rest.retain(
        |frame| match others.iter().position(|other| other == frame) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        },
    );
    rest.iter()
        .map(|frame| {
            frame
                .iter()
                .take(60)
                .map(|byte| format!("{byte:02x}"))
                .collect()
        })
        .collect()
}
