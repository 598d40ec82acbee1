//! Traffic between two hosts of the bed during queries: numbered datagrams, and connections with a response each.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use testkit::print_uncaptured;
use testkit::programs::wait_for;

use super::{LEAVES, TestBed};
use crate::net::within;

/// Numbered datagrams from `client1` to `app1`, which records them; and connections to it with a response each. The
/// receiver does not wait for the disk, because its socket would become full.
const HEAR: &str = r"
import os, queue, socket, sys, threading
def answer():
    at = socket.create_server((sys.argv[1], 8000))
    while True:
        asking, _ = at.accept()
        asking.sendall(asking.recv(100) * 2000)
        asking.close()
threading.Thread(target=answer, daemon=True).start()
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
at.bind((sys.argv[1], 7))
out, heard = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT), queue.SimpleQueue()
def write():
    while True:
        os.write(out, heard.get())
threading.Thread(target=write, daemon=True).start()
while True:
    heard.put(at.recv(100))
";
const SPEAK: &str = r"
import select, socket, sys
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
n = 0
while not select.select([sys.stdin], [], [], 0.005)[0]:
    to.sendto(b'%08d\n' % n, (sys.argv[1], 7))
    n += 1
    if n % 10 == 0:
        asked, said = b'GET %d' % n, b''
        with socket.create_connection((sys.argv[1], 8000), timeout=30) as connection:
            connection.sendall(asked)
            while heard := connection.recv(1 << 16):
                said += heard
        assert said == asked * 2000, len(said)
print(n)
";

/// Traffic between two hosts, which queries must not affect.
pub struct HostTraffic {
    hears: Child,
    speaks: Child,
}

impl HostTraffic {
    pub fn start(bed: &TestBed) -> HostTraffic {
        let to = "10.60.2.1";
        let python = |host: &str, words: &[&str]| {
            let mut command = within(&format!("{}{host}", bed.prefix()), "python3");
            command
                .arg("-c")
                .args(words)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("python")
        };
        let heard = bed.path("heard");
        let hears = python("app1", &[HEAR, to, heard.to_str().expect("text")]);
        wait_for("who hears", || {
            heard.exists().then_some(()).ok_or_else(String::new)
        });
        HostTraffic {
            hears,
            speaks: python("client1", &[SPEAK, to]),
        }
    }

    /// Number of datagrams that have arrived.
    pub fn arrived(bed: &TestBed) -> usize {
        let heard = fs::read_to_string(bed.path("heard")).unwrap_or_default();
        heard.lines().count()
    }

    /// Checks that all datagrams arrived once, except those that the kernel dropped at the full socket of a switch or
    /// of the receiver, as on a machine without free CPU time; returns the number that was sent.
    pub fn end(mut self, bed: &TestBed) -> usize {
        drop(self.speaks.stdin.take());
        let mut said = String::new();
        self.speaks
            .stdout
            .take()
            .expect("piped")
            .read_to_string(&mut said)
            .expect("text");
        assert!(
            self.speaks.wait().expect("it ends").success(),
            "a connection was not answered"
        );
        let sent: usize = said.trim().parse().expect("a number");
        wait_for("the last datagrams", || {
            let heard = fs::read_to_string(bed.path("heard")).unwrap_or_default();
            let dropped = dropped(bed);
            (heard.lines().count() + dropped >= sent)
                .then_some(())
                .ok_or_else(|| {
                    let lost = lost_ranges(&numbers(&heard), sent);
                    format!(
                        "{sent} were sent, {dropped} dropped at full sockets, and lost: {lost:?}; drops counted by Open vSwitch: {:?}",
                        counted_drops(bed)
                    )
                })
        });
        let heard = fs::read_to_string(bed.path("heard")).unwrap_or_default();
        let heard = numbers(&heard);
        let different: BTreeSet<usize> = heard.iter().copied().collect();
        assert!(
            different.len() == heard.len() && different.last().is_none_or(|last| *last < sent),
            "{sent} datagrams were sent, others arrived"
        );
        if heard.len() < sent {
            print_uncaptured(&format!(
                "{} of {sent} datagrams were dropped at full sockets",
                sent - heard.len()
            ));
        }
        sent
    }
}

impl Drop for HostTraffic {
    fn drop(&mut self) {
        for child in [&mut self.speaks, &mut self.hears] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Numbers of the recorded datagrams; the last line may be incomplete.
fn numbers(heard: &str) -> Vec<usize> {
    let whole = heard.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect()
}

/// First and last number of each gap in the datagrams that arrived, of `sent`.
fn lost_ranges(heard: &[usize], sent: usize) -> Vec<(usize, usize)> {
    let arrived: BTreeSet<usize> = heard.iter().copied().collect();
    let mut lost: Vec<(usize, usize)> = Vec::new();
    for number in (0..sent).filter(|number| !arrived.contains(number)) {
        match lost.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => lost.push((number, number)),
        }
    }
    lost
}

/// Drops that the switches' datapaths have counted, by cause. Some are intended, such as those by rules.
fn counted_drops(bed: &TestBed) -> Vec<String> {
    let of_switch = |switch: &str| {
        let control = bed.path(&format!("run/{switch}/vswitchd.ctl"));
        let output = Command::new("ovs-appctl")
            .arg("-t")
            .arg(control)
            .arg("coverage/show")
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let drops = text.lines().filter(|line| line.contains("drop"));
        drops
            .map(|line| format!("{switch}: {line}"))
            .collect::<Vec<_>>()
    };
    LEAVES
        .iter()
        .copied()
        .chain(["spine1"])
        .flat_map(of_switch)
        .collect()
}

/// Packets that the kernel dropped because the socket of a switch's port, or that of the receiver, was full.
fn dropped(bed: &TestBed) -> usize {
    let printed = |place: &str, program: &str, words: &[&str]| {
        let output = within(&format!("{}{place}", bed.prefix()), program)
            .args(words)
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let switches = LEAVES.iter().copied().chain(["spine1"]);
    let at_switches = switches.map(|switch| {
        let sockets = printed(switch, "ss", &["-0", "-m", "-H"]);
        let drops = sockets.split(",d").skip(1);
        drops
            .filter_map(|rest| rest.split(')').next()?.parse::<usize>().ok())
            .sum::<usize>()
    });
    let receiver = printed("app1", "cat", &["/proc/net/udp"]);
    let at_receiver = receiver
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().last()?.parse::<usize>().ok());
    at_switches.chain(at_receiver).sum()
}
