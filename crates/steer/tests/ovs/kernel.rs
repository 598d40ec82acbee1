//! Filters of the kernel's traffic control, as values, on a host without a switch of ours: its own interface copies.

use mirror::tc::{Direction, Filter, clsact};
use mirror::{Field, Mode};

use crate::bed::{Bed, ip, namespace, run};
use crate::packets::{SERVES, ask, copy, cut, serve};

/// The host of the monitor; it is at no port of the bridge.
const FAR: u32 = 78;

#[test]
fn a_hosts_own_interface_copies() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else { return };
    let _server = serve(&bed);
    let (own, far) = (bed.ns(&SERVES.to_string()), bed.ns(&FAR.to_string()));
    namespace(&far).expect("it does");
    for words in [
        format!("-n {own} link add t0 type veth peer name e0 netns {far}"),
        format!("-n {own} link set t0 up"),
        format!("-n {far} link set e0 up"),
    ] {
        ip(&words).expect("it does");
    }
    // What the kernel sends is large until an interface cuts it: this one is to do so, too.
    run(bed.within(SERVES, "ethtool").args(["-K", "t0", "tx", "off"])).expect("it does");
    let tc = |words: Vec<String>| run(bed.within(SERVES, "tc").args(words));
    tc(clsact("e0")).expect("it does");
    let filters: Vec<Filter> = copy(Mode::FLOW, Some(80), 0)
        .asked
        .into_iter()
        .zip(500..)
        .map(|(matched, priority)| {
            let is_to_server = matched.get(Field::DestinationPort).mask != 0;
            let direction = if is_to_server { Direction::Ingress } else { Direction::Egress };
            Filter { interface: "e0".to_owned(), direction, priority, matched, target: "t0".to_owned() }
        })
        .collect();
    for filter in &filters {
        tc(filter.add().expect("u32 can say it")).expect("it does");
    }
    let (server, monitor) = (bed.capture(SERVES, ""), bed.capture(FAR, ""));
    ask(&bed, "mark tc", &server);
    // What is neither TCP nor UDP has no ports: the filters are for these two, and so is what was asked.
    let expected = cut(bed.capture_file(&server, "tcp port 80 or udp port 80"), Mode::FLOW);
    assert!(!expected.is_empty() && cut(monitor.wait(expected.len()), Mode::FLOW) == expected);
    for filter in &filters {
        tc(filter.delete()).expect("it does");
    }
    ask(&bed, "mark of the end", &server);
    assert_eq!(monitor.frames().len(), expected.len(), "nothing more");
    server.end();
    monitor.end();
}
