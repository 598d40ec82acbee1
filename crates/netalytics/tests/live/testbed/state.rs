//! State of a bed that queries must not change: switches without rules and counters, as printed by the tools of Open
//! vSwitch, and hosts that answer `ping` from a host that must resolve their MAC addresses first.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use super::TestBed;
use crate::net::within;

const SWITCHES: [&str; 4] = ["leaf1", "leaf2", "leaf3", "spine1"];
const TABLES: [(&str, &str); 6] = [
    (
        "mirror",
        "_uuid,name,select_src_port,select_dst_port,select_all,output_port,snaplen",
    ),
    ("qos", "_uuid,type,queues"),
    ("queue", "_uuid,other_config"),
    ("port", "_uuid,name,tag,trunks,qos,external_ids"),
    (
        "bridge",
        "_uuid,name,mirrors,ports,fail_mode,external_ids,other_config",
    ),
    ("interface", "name,type,options,external_ids,ofport"),
];

fn output(command: &mut Command) -> String {
    let output = command.output().expect("Open vSwitch's own tools");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Ports and their flags, groups, meters, queues, and rows of the database: sorted lines.
pub fn of_switches(bed: &TestBed) -> String {
    let mut state = Vec::new();
    for switch in SWITCHES {
        let run = bed.path(&format!("run/{switch}"));
        let bridge = format!("unix:{}/br0.mgmt", run.display());
        let mut text = String::new();
        for (version, what) in [
            ("OpenFlow10", "show"),
            ("OpenFlow13", "dump-groups"),
            ("OpenFlow13", "dump-meters"),
            ("OpenFlow13", "queue-get-config"),
        ] {
            text += &output(Command::new("ovs-ofctl").args(["-O", version, what, &bridge]));
        }
        let mut port = String::new();
        for line in text.lines().filter(|line| !line.contains("xid=")) {
            // Flags are on lines after that of their port.
            if line.contains("): addr:") {
                port = line.to_owned();
            }
            state.push(format!("{switch}: {port} {line}"));
        }
        for (table, columns) in TABLES {
            let mut vsctl = Command::new("ovs-vsctl");
            vsctl.arg(format!("--db=unix:{}/db.sock", run.display()));
            vsctl.args([
                "--format=csv",
                "--no-headings",
                &format!("--columns={columns}"),
                "list",
                table,
            ]);
            state.extend(
                output(&mut vsctl)
                    .lines()
                    .map(|row| format!("{switch}: {table} {row}")),
            );
        }
    }
    state.sort();
    state.join("\n")
}

/// Lines that only one of two states has.
pub fn difference(before: &str, now: &str) -> String {
    let (before, now): (BTreeSet<&str>, BTreeSet<&str>) =
        (before.lines().collect(), now.lines().collect());
    let lost = before.difference(&now).map(|line| format!("- {line}\n"));
    lost.chain(now.difference(&before).map(|line| format!("+ {line}\n")))
        .collect()
}

/// Addresses of hosts that answer the first client.
pub fn hosts_that_answer(bed: &TestBed) -> Vec<String> {
    let client = format!("{}client1", bed.prefix());
    let flushed = within(&client, "ip")
        .args(["neigh", "flush", "all"])
        .status();
    assert!(flushed.expect("ip").success());
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let is_address = |word: &&str| word.starts_with("10.60.") && word.split('.').count() == 4;
    let hosts = network.lines().filter(|line| line.starts_with("addresses"));
    let addresses: BTreeSet<&str> = hosts
        .flat_map(|line| line.split('"'))
        .filter(is_address)
        .collect();
    let ping = |address: &&str| {
        let mut ping = within(&client, "ping");
        ping.args(["-c", "1", "-w", "3", address])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        (ping.spawn().expect("ping"), (*address).to_owned())
    };
    let asked: Vec<_> = addresses.iter().map(ping).collect();
    let answered = asked.into_iter().filter_map(|(mut ping, address)| {
        ping.wait().expect("it ends").success().then_some(address)
    });
    answered.collect()
}
