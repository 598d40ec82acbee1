//! Flooding to the port of a monitor: disabled while a job copies there, and enabled again however the job ends.
//! Checked with the tools of Open vSwitch and `ping`, whose ARP request is flooded.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use mirror::MirrorMode;
use mirror::openflow::CookieOwner;
use mirror::ovsdb::PortMirror;
use steer::{CopyJob, CopyRoute, SwitchBackend};
use testkit::namespaces::{ip, run};
use testkit::programs::wait_for;

use crate::bed::{Bed, MONITOR, Which};
use crate::fabrics::tap;
use crate::holder::Holder;
use crate::packets::SERVER;

const LEASE: u16 = 2;

/// The host at the monitor's port, with an address until dropped.
struct Spare<'b>(&'b Bed);

impl Spare<'_> {
    fn new(bed: &Bed) -> Spare<'_> {
        let spare = Spare(bed);
        spare.address("add");
        spare
    }

    fn address(&self, word: &str) {
        let _ = ip(&format!(
            "-n {} addr {word} 10.9.0.{MONITOR}/24 dev e0",
            self.0.ns(&MONITOR.to_string())
        ));
    }

    /// Whether another host without its MAC address can reach it.
    fn answers(&self) -> bool {
        ip(&format!("-n {} neigh flush all", self.0.ns("1"))).expect("it does");
        let mut ping = self.0.within(1, "ping");
        ping.args([
            "-c",
            "2",
            "-i",
            "0.2",
            "-w",
            "3",
            &format!("10.9.0.{MONITOR}"),
        ])
        .stdout(Stdio::null());
        ping.status().expect("ping").success()
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        self.address("del");
    }
}

fn states(bed: &Bed) -> [String; 2] {
    [Which::Near, Which::Far].map(|which| bed.state(which))
}

/// Stopped, rejected, interrupted by `kill -9`: the complete state of both switches is restored, and the spare host
/// answers.
#[test]
fn flooding_is_restored_however_a_job_ends() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let spare = Spare::new(&bed);
    let before = states(&bed);
    assert!(spare.answers());
    let as_before = |ending: &str| {
        wait_for("the state of before", || {
            let now = states(&bed);
            if now == before {
                Ok(())
            } else {
                Err(format!("{ending}: {now:#?}, was {before:#?}"))
            }
        });
        assert!(spare.answers(), "{ending}");
    };
    let here = || CopyRoute::Port(format!("v{MONITOR}"));
    let job = |id, to: CopyRoute| CopyJob {
        id,
        generation: 1,
        taps: vec![tap(MirrorMode::FLOW, Some(80), &format!("m{id}"), to)],
    };
    let fabric = bed.fabric(SERVER, 30);
    let running = fabric.start(job(1, here())).expect("it does");
    assert!(bed.state(Which::Near).contains("NO_FLOOD"));
    running.stop().expect("it does");
    as_before("stopped");
    // One continues, the other had its own port.
    let far = fabric.start(job(
        2,
        CopyRoute::Switch(mirror::ovsdb::TunnelKind::Vxlan, crate::fabrics::far_port()),
    ));
    let far = far.expect("it does");
    let beside = states(&bed);
    let near = tap(MirrorMode::FLOW, Some(81), "m3", here());
    fabric
        .start(CopyJob {
            id: 3,
            generation: 1,
            taps: vec![near],
        })
        .expect("it does")
        .stop()
        .expect("it does");
    assert_eq!(states(&bed), beside, "one of two stopped");
    drop(far);
    as_before("dropped");
    // Rejected by the proof, before any switch has a rule.
    bed.rules(
        Which::Near,
        &[
            "priority=0,actions=NORMAL",
            "priority=9,udp,actions=output:9",
        ],
    );
    let refused = states(&bed);
    assert!(fabric.start(job(4, here())).is_err());
    assert_eq!(states(&bed), refused, "refused");
    bed.rules(Which::Near, &["priority=0,actions=NORMAL"]);
    for (mode, way) in [
        ("flow", "port"),
        ("mirror", "port"),
        ("mirror", "interface"),
        ("flow", "vxlan"),
    ] {
        let within = |program: &str| bed.within_switch(Which::Near, program);
        let mut holder = Holder::start(&bed, within, SERVER, LEASE);
        holder
            .say(&format!("start 5 {mode} {way} 80"))
            .unwrap_or_else(|e| panic!("{mode} {way}: {e}"));
        assert_ne!(states(&bed), before);
        holder.kill();
        as_before(&format!("{mode} {way} killed"));
    }
}

/// Arguments of a tool that changes a switch, and a job that needs it.
const CHANGES: [(&str, &str); 4] = [
    ("external_ids:netalytics=", "flow port"),
    ("no-flood", "flow port"),
    ("create mirror", "mirror port"),
    ("add-port", "flow vxlan"),
];

/// A holder whose tools with these arguments run something before and after their work.
fn with_tools(bed: &Bed, words: &str, (before, behind): (&str, &str)) -> Holder {
    let folder = bed.folder.join("tools");
    let path = std::env::var("PATH").expect("a path");
    std::fs::create_dir_all(&folder).expect("a folder");
    for tool in ["ovs-vsctl", "ovs-ofctl"] {
        let case = |what: &str| format!("case \"$*\" in *'{words}'*) {what};; esac");
        let script = format!(
            "#!/bin/sh\nPATH={path}\n{}\n{tool} \"$@\"; status=$?\n{}\nexit $status\n",
            case(before),
            case(behind)
        );
        let file = folder.join(tool);
        std::fs::write(&file, script).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a file");
    }
    let path = format!("{}:{path}", folder.display());
    let within = |program: &str| {
        let mut command = bed.within_switch(Which::Near, program);
        command.env("PATH", &path);
        command
    };
    Holder::start(bed, within, SERVER, LEASE)
}

/// The work is done, but the tool reports a failure, like one killed after its transaction.
#[test]
fn nothing_is_left_of_a_tool_that_fails_behind_its_work() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let before = states(&bed);
    for (words, job) in CHANGES {
        let mut holder = with_tools(&bed, words, (":", "exit 1"));
        assert!(holder.say(&format!("start 1 {job} 80")).is_err(), "{words}");
        assert_eq!(states(&bed), before, "{words}");
        holder.end();
    }
}

#[test]
fn nothing_is_left_of_a_tool_that_outlives_its_process() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let before = states(&bed);
    for (words, job) in CHANGES {
        let [began, ended] = ["began", "ended"].map(|name| bed.folder.join(name));
        let [touch, done] = [&began, &ended].map(|file| format!("touch {}", file.display()));
        let mut holder = with_tools(&bed, words, (&format!("{touch}; sleep 0.5"), &done));
        holder.tell(&format!("start 1 {job} 80"));
        let is_there = |file: &std::path::Path| file.exists().then_some(()).ok_or_else(String::new);
        wait_for("a tool at work", || is_there(&began));
        holder.kill();
        wait_for("its end", || is_there(&ended));
        wait_for("the state of before", || {
            let now = states(&bed);
            if now == before {
                Ok(())
            } else {
                Err(format!("{words}: {now:#?}, was {before:#?}"))
            }
        });
        [began, ended]
            .iter()
            .for_each(|file| std::fs::remove_file(file).expect("it exists"));
    }
}

/// Remains of a process killed with its keepers are found on the switch by the next start, which succeeds.
#[test]
fn next_start_repairs_state_of_killed_processes() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let spare = Spare::new(&bed);
    let before = states(&bed);
    // State left by a process killed with its keepers, after its rules have expired.
    let owner = CookieOwner {
        server: SERVER + 1,
        job: 9,
        generation: 1,
        actions: 0,
    };
    let mirror = PortMirror {
        owner,
        ports: vec!["v2".to_owned()],
        output: format!("v{MONITOR}"),
        snaplen: 0,
    };
    run(std::process::Command::new("ovs-vsctl")
        .arg(format!(
            "--db=unix:{}/db.sock",
            bed.sockets(Which::Near).display()
        ))
        .args(mirror.create(crate::bed::BRIDGE)))
    .expect("it does");
    bed.flood(Which::Near, MONITOR, "no-flood");
    let record = mirror::ovsdb::record(SERVER + 1, 1_700_000_000);
    bed.vsctl(
        Which::Near,
        &format!("set interface v{MONITOR} external_ids:netalytics={record}"),
    );
    bed.vsctl(
        Which::Near,
        &format!("add-port br0 na008-000a tag=4095 -- set interface na008-000a type=vxlan options:remote_ip=10.8.0.2 options:key=9 external_ids:netalytics={record}"),
    );
    assert!(!spare.answers());
    let fabric = bed.fabric(SERVER, 30);
    let job = CopyJob {
        id: 1,
        generation: 1,
        taps: vec![tap(
            MirrorMode::FLOW,
            Some(80),
            "m",
            CopyRoute::Port(format!("v{MONITOR}")),
        )],
    };
    let running = fabric.start(job).expect("nothing is in its way");
    assert_eq!(running.repaired().len(), 3, "{:?}", running.repaired());
    assert_eq!(bed.switch().list().expect("it lists").mirrors, []);
    running.stop().expect("it does");
    assert_eq!(states(&bed), before);
    assert!(spare.answers());
}
