//! The process that holds jobs is killed: its objects on switches and interfaces are removed, and other traffic is not
//! affected.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use mirror::MirrorMode;
use steer::SwitchBackend;
use testkit::namespaces::run;
use testkit::programs::{TestProgram, wait_for};

use crate::bed::{BRIDGE, Bed, MONITOR, Which};
use crate::fabrics::both;
use crate::holder::Holder;
use crate::packets::{SERVER, SERVES, Stream, ask, cut, same, serve};

/// Leases of killed processes, in seconds.
const LEASE: u16 = 2;

/// A mirror of the server's port, into an interface of the process that requested it.
#[test]
fn mirrors_are_removed_with_their_process() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let _server = serve(&bed);
    let before = both(&bed);
    let stream = Stream::start(&bed);
    for ending in ["stopped", "killed"] {
        let within = |program: &str| bed.within_switch(Which::Near, program);
        let mut holder = Holder::start(&bed, within, SERVER, LEASE);
        let started = holder
            .say("start 3 mirror interface 80")
            .unwrap_or_else(|e| panic!("{e}"));
        let interface = started
            .strip_prefix("started ")
            .expect("an interface")
            .to_owned();
        let seen = bed.switch().list().expect("it lists");
        assert_eq!(seen.mirrors.len(), 1);
        assert_eq!(seen.mirrors[0].output.as_deref(), Some(&*interface));
        let server = bed.capture(SERVES, "");
        let monitor = bed.capture_at(bed.within_switch(Which::Near, "tcpdump"), &interface, "");
        ask(&bed, &format!("mark {ending}"), &server);
        let expected = cut(server.frames(), MirrorMode::PORT);
        same(
            ending,
            &cut(monitor.wait(expected.len()), MirrorMode::PORT),
            &expected,
        );
        monitor.end();
        if ending == "killed" {
            holder.kill();
        } else {
            assert_eq!(holder.say("stop 3"), Ok("stopped".to_owned()));
            holder.end();
        }
        nothing_is_left(&bed, &before);
        ask(&bed, "mark of the end", &server);
        server.end();
    }
    stream.end();
}

/// Objects in a switch's database and on its host are removed immediately, rules when their lease expires.
pub fn nothing_is_left(bed: &Bed, before: &[steer::ObservedSwitch; 2]) {
    wait_for("the end of all that was made", || {
        let now = both(bed);
        if now == *before {
            Ok(())
        } else {
            Err(format!("{now:#?}\n{}", bed.vsctl(Which::Near, "show")))
        }
    });
    for which in [Which::Near, Which::Far] {
        for table in ["Mirror", "Port", "Interface"] {
            let names = bed.vsctl(which, &format!("--bare --columns=name list {table}"));
            assert!(
                !names.contains("na0") && !names.contains("netalytics"),
                "{table}: {names}"
            );
        }
        let links = run(bed.within_switch(which, "ip").args(["-br", "link"])).expect("it does");
        assert!(!links.contains("na0"), "{BRIDGE}: {links}");
    }
}

/// Packets of a flow that was running before, which has an entry in the datapath.
#[test]
fn a_mirror_and_its_removal_apply_to_running_flows() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let target = format!("10.9.0.{SERVES}");
    let mut ping = bed.within(1, "ping");
    ping.args(["-q", "-i", "0.01", &target])
        .stdout(Stdio::null());
    let _flow = TestProgram::start(&mut ping);
    thread::sleep(Duration::from_secs(2));
    let monitor = bed.capture(MONITOR, "icmp");
    let copied = || {
        let before = monitor.frames().len();
        thread::sleep(Duration::from_secs(1));
        monitor.frames().len() - before
    };
    for ending in ["stopped", "-KILL"] {
        let within = |program: &str| bed.within_switch(Which::Near, program);
        let mut holder = Holder::start(&bed, within, SERVER, LEASE);
        holder
            .say("start 3 mirror port 80")
            .unwrap_or_else(|e| panic!("{e}"));
        let n = copied();
        // 200 packets per second.
        assert!(n > 50, "{ending}: {n} packets were copied");
        match ending {
            "stopped" => holder.end(),
            signal => holder.signal(signal),
        }
        wait_for("the removal of the mirror", || {
            let mirrors = bed.vsctl(Which::Near, "--bare --columns=name list mirror");
            mirrors.trim().is_empty().then_some(()).ok_or(mirrors)
        });
        thread::sleep(Duration::from_millis(500));
        assert_eq!(copied(), 0, "{ending}: packets were copied");
    }
}
