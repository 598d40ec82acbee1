//! Rules expire unless renewed; renewed rules stay, with their counters.

use std::time::{Duration, Instant};

use mirror::MirrorMode;
use steer::{SwitchBackend, install, renew};
use testkit::programs::wait_for;

use crate::bed::{Bed, MONITOR, Which};
use crate::packets::{SERVER, copy, wish};

#[test]
fn a_lease_ends_unless_it_is_renewed() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let mut switch = bed.switch();
    let installed = install(
        &mut switch,
        &wish(vec![copy(MirrorMode::ENDS, Some(80), MONITOR)], 4),
    )
    .expect("it does");
    let every = installed.renew_every.expect("a lease");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        renew(&mut switch, &installed.rules).expect("it does");
        let there = mirror::diff::ours(&switch.list().expect("it lists").rules, SERVER);
        assert_eq!(there, installed.rules);
        std::thread::sleep(every);
    }
    // The renewing process is killed.
    wait_for("the end of the lease", || {
        let left = mirror::diff::ours(&switch.list().expect("it lists").rules, SERVER);
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{} rules", left.len()))
        }
    });
    // Too late: expired rules are not restored.
    renew(&mut switch, &installed.rules).expect("it does");
    let seen = switch.list().expect("it lists");
    assert_eq!(seen.rules.len(), 1, "the rule of the switch's owner");
}

/// Rules of others are unchanged, and jobs that would affect them are rejected.
#[test]
fn rules_of_others_stay() {
    let own = [
        "priority=5,tcp,tp_dst=80,actions=group:1",
        "priority=0,actions=NORMAL",
    ];
    let Some(bed) = Bed::new(&[own[1]]) else {
        return;
    };
    let group = [
        "-O",
        "OpenFlow13",
        "add-group",
        &format!("unix:{}/br0.mgmt", bed.sockets(Which::Near).display()),
        "group_id=1,type=all,bucket=output:2",
    ];
    testkit::namespaces::run(std::process::Command::new("ovs-ofctl").args(group)).expect("it does");
    bed.rules(Which::Near, &own);
    let mut switch = bed.switch();
    let before = switch.list().expect("it lists").rules;
    let refused = install(
        &mut switch,
        &wish(vec![copy(MirrorMode::FLOW, Some(80), MONITOR)], 30),
    )
    .expect_err("a doubt");
    assert!(
        refused.to_string().contains("group:1 cannot be modeled"),
        "{refused}"
    );
    assert_eq!(switch.list().expect("it lists").rules, before);
}
