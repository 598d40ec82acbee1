//! sFlow and IPFIX exporters of a bridge: the database is compared in full before and after, on every way of ending;
//! samples are decoded by tshark.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use mirror::exporter::{ExporterSlot, RENEWED};
use testkit::namespaces::run;
use testkit::programs::{TestProgram, wait_for};

use crate::bed::{BRIDGE, Bed, Capture, Which};
use crate::holder::Holder;
use crate::packets::SERVER;

/// A collector's address, in the switch's namespace.
const TARGET: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 6343);
/// Leases of rules, in seconds.
const LEASE: u16 = 2;

fn holder(bed: &Bed) -> Holder {
    let within = |program: &str| bed.within_switch(Which::Near, program);
    Holder::start(bed, within, SERVER, LEASE)
}

fn export(protocol: &str, sampling: u32) -> String {
    let (address, port) = TARGET;
    format!("export {protocol} {sampling} {address}:{port}")
}

/// Waits until the database is as before.
fn same_database(bed: &Bed, before: &str, what: &str) {
    wait_for(what, || {
        let now = bed.database(Which::Near);
        if now == before {
            return Ok(());
        }
        let other = |line: &&str| !before.contains(*line);
        Err(now.lines().filter(other).collect::<Vec<_>>().join("\n"))
    });
}

/// An exporter that the operator has configured, in the other place.
fn operators(bed: &Bed, protocol: &str) {
    bed.vsctl(
        Which::Near,
        &format!(
            "-- --id=@o create {protocol} targets=\"10.0.0.9:9\" sampling=77 external_ids:owner=operator -- set bridge {BRIDGE} {protocol}=@o"
        ),
    );
}

#[test]
fn an_exporter_is_removed_on_every_way_of_ending() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    for (protocol, other) in [("sflow", "ipfix"), ("ipfix", "sflow")] {
        operators(&bed, other);
        let before = bed.database(Which::Near);
        for ending in ["stopped", "dropped", "-TERM", "-INT", "-KILL", "restart"] {
            let mut holder = holder(&bed);
            let started = holder.say(&export(protocol, 4)).expect("an empty place");
            assert_eq!(started.trim(), "exporting");
            let seen = bed.switch().exporters().expect("it answers");
            assert_eq!(seen.exporters.len(), 2, "{seen:?}");
            let made = seen
                .exporters
                .iter()
                .find(|seen| seen.mark.is_some())
                .expect("a marked one");
            assert_eq!((made.slot.column(), made.sampling), (protocol, Some(4)));
            assert_eq!(made.targets, ["127.0.0.1:6343"]);
            match ending {
                "stopped" => {
                    assert_eq!(holder.say("unexport"), Ok("stopped".to_owned()));
                    holder.end();
                }
                "dropped" => holder.end(),
                "restart" => {
                    bed.stop_database(Which::Near);
                    holder.kill();
                    bed.restart_database(Which::Near);
                }
                signal => holder.signal(signal),
            }
            same_database(&bed, &before, &format!("{protocol}, {ending}"));
        }
        bed.vsctl(Which::Near, &format!("clear bridge {BRIDGE} {other}"));
    }
}

/// The exporter of a process that was killed together with its cleanup process is removed by the next one that uses the
/// switch, with an exporter or a mirror, once it is stale.
#[test]
fn a_stale_exporter_is_removed_by_the_next_process() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    operators(&bed, "ipfix");
    let before = bed.database(Which::Near);
    for next in [export("sflow", 4), "start 3 ends port 80".to_owned()] {
        let mut first = holder(&bed);
        first.say(&export("sflow", 4)).expect("an empty place");
        let keepers = first.keepers();
        assert_eq!(keepers.len(), 1, "one object is kept");
        run(Command::new("kill").arg("-KILL").args(&keepers)).expect("they run");
        first.kill();
        let left = bed.switch().exporters().expect("it answers");
        assert!(left.at(ExporterSlot::Sflow).is_some());
        // Until it is stale, the process may still run.
        let mut second = holder(&bed);
        let refused = second.say(&export("sflow", 4)).expect_err("it may run");
        assert!(refused.contains("another netalytics process"), "{refused}");
        bed.vsctl(
            Which::Near,
            &format!("set sflow {BRIDGE} external_ids:{RENEWED}=1000"),
        );
        let started = second.say(&next).expect("it starts");
        let now = bed.switch().exporters().expect("it answers");
        let renewed = now.at(ExporterSlot::Sflow).map(|seen| seen.renewed);
        if next.starts_with("export") {
            assert!(started.contains("removed exporter sFlow"), "{started}");
            assert!(renewed.is_some_and(|time| time > 1000), "{now:?}");
        } else {
            assert_eq!(renewed, None, "{now:?}");
        }
        second.end();
        same_database(&bed, &before, &next);
    }
}

/// Exporters of the operator stay, and the place of the other protocol is free.
#[test]
fn exporters_of_the_operator_stay() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    for (protocol, other) in [("sflow", "ipfix"), ("ipfix", "sflow")] {
        operators(&bed, protocol);
        bed.vsctl(
            Which::Near,
            &format!(
                "-- --id=@b get bridge {BRIDGE} -- --id=@i create ipfix targets=\"10.0.0.9:8\" -- --id=@c create Flow_Sample_Collector_Set id=7 bridge=@b ipfix=@i"
            ),
        );
        let before = bed.database(Which::Near);
        let mut holder = holder(&bed);
        let refused = holder.say(&export(protocol, 4)).expect_err("it is taken");
        let told = "is configured by the operator of the switch, to 10.0.0.9:9; it was not changed";
        assert!(refused.contains(told), "{refused}");
        same_database(&bed, &before, "nothing was changed");
        holder.say(&export(other, 4)).expect("an empty place");
        let seen = bed.switch().exporters().expect("it answers");
        assert_eq!((seen.exporters.len(), &*seen.collector_sets), (2, &[7][..]));
        holder.end();
        same_database(&bed, &before, "only ours was removed");
        // The operator replaces our exporter while it runs: theirs stays.
        let mut holder = self::holder(&bed);
        holder.say(&export(other, 4)).expect("an empty place");
        bed.vsctl(Which::Near, &format!("clear bridge {BRIDGE} {other}"));
        operators(&bed, other);
        let replaced = bed.database(Which::Near);
        holder.say("sample 8").expect("a request");
        let lost = wait_for("the loss to be noticed", || {
            let told = holder.say("sampling").expect("an answer");
            told.contains("replaced").then(|| told.clone()).ok_or(told)
        });
        assert!(lost.contains("switch near: another program"), "{lost}");
        holder.end();
        same_database(&bed, &replaced, "theirs stays");
        for column in ["sflow", "ipfix"] {
            bed.vsctl(Which::Near, &format!("clear bridge {BRIDGE} {column}"));
        }
        bed.vsctl(Which::Near, "-- --all destroy Flow_Sample_Collector_Set");
    }
}

/// Packets of 400 pings in both directions; all are forwarded.
const SENT: usize = 800;
/// Receives nothing, but without a socket at the port, the kernel refuses every second datagram of an exporter.
const LISTEN: &str = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    s.bind(('127.0.0.1', 6343))\nprint('ready', flush=True)\ntime.sleep(1000)\n";

/// The rates that tshark reads in the samples of pings.
fn rates(collector: &Capture) -> Vec<u32> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(collector.file());
    tshark.args([
        "-d",
        &format!("udp.port=={},sflow", TARGET.1),
        "-T",
        "fields",
    ]);
    tshark.args([
        "-E",
        "aggregator=,",
        "-e",
        "sflow.flow_sample.sampling_rate",
    ]);
    let told = run(&mut tshark).expect("tshark");
    let rates = told.split([',', '\n']).filter(|rate| !rate.is_empty());
    rates
        .map(|rate| rate.trim().parse().expect("a number"))
        .collect()
}

/// A switch samples at the configured rate, and at a changed one; changes are at least five seconds apart.
#[test]
fn packets_are_sampled_at_the_rate_that_is_set() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    testkit::require!("tshark");
    let before = bed.database(Which::Near);
    let ping = || {
        let mut ping = bed.within(1, "ping");
        ping.args(["-q", "-i", "0.002", "-c", "400", "10.9.0.2"]);
        run(&mut ping).expect("an answer");
    };
    let collect = || {
        let filter = format!("udp dst port {}", TARGET.1);
        bed.capture_at(bed.within_switch(Which::Near, "tcpdump"), "lo", &filter)
    };
    let mut python = bed.within_switch(Which::Near, "python3");
    let mut child = python
        .args(["-c", LISTEN])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python");
    let mut line = String::new();
    let said = child.stdout.take().expect("piped");
    BufReader::new(said)
        .read_line(&mut line)
        .expect("it speaks");
    let _listens = TestProgram(child);
    let mut holder = holder(&bed);
    let collector = collect();
    holder.say(&export("sflow", 1)).expect("an empty place");
    ping();
    // An agent sends a datagram at least once a second.
    let seen = wait_for("all samples", || {
        let seen = rates(&collector);
        if seen.len() >= SENT {
            Ok(seen)
        } else {
            Err(format!("{}", seen.len()))
        }
    });
    // A few ARP packets.
    assert!(seen.len() < SENT + 20, "{}", seen.len());
    assert!(seen.iter().all(|rate| *rate == 1));
    collector.end();
    for rate in [2, 3, 4] {
        holder.say(&format!("sample {rate}")).expect("a request");
    }
    wait_for("the change", || {
        let told = holder.say("sampling").expect("an answer");
        assert!(
            !told.starts_with("1:2") && !told.starts_with("1:3"),
            "{told}"
        );
        told.starts_with("1:4").then_some(()).ok_or(told)
    });
    let collector = collect();
    ping();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let seen = rates(&collector);
    let new = seen.iter().filter(|rate| **rate == 4).count() as f64;
    // Six standard deviations around a quarter.
    let mean = SENT as f64 / 4.0;
    assert!((new - mean).abs() < 6.0 * (mean * 0.75).sqrt(), "{new}");
    assert!(seen.iter().all(|rate| *rate == 4), "{seen:?}");
    collector.end();
    holder.end();
    same_database(&bed, &before, "the end");
}
