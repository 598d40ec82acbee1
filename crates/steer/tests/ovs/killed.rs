//! Whoever holds jobs is killed: what was on switches and interfaces is gone, and those that it was none of notice nothing.

use mirror::Mode;
use steer::Backend;
use testkit::namespaces::run;
use testkit::programs::wait_for;

use crate::bed::{BRIDGE, Bed, Which};
use crate::fabrics::both;
use crate::holder::Holder;
use crate::packets::{SERVER, SERVES, Stream, ask, cut, same, serve};

/// Leases of what is killed, in seconds.
const LEASE: u16 = 2;

/// A mirror of the server's port, into an interface of the process that asked for it.
#[test]
fn a_mirror_goes_with_its_process() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else { return };
    let _server = serve(&bed);
    let before = both(&bed);
    let stream = Stream::start(&bed);
    for ending in ["stopped", "killed"] {
        let within = |program: &str| bed.within_switch(Which::Near, program);
        let mut holder = Holder::start(&bed, within, SERVER, LEASE);
        let started = holder.say("start 3 mirror interface 80").unwrap_or_else(|e| panic!("{e}"));
        let interface = started.strip_prefix("started ").expect("an interface").to_owned();
        let seen = bed.switch().list().expect("it lists");
        assert_eq!(seen.mirrors.len(), 1);
        assert_eq!(seen.mirrors[0].output.as_deref(), Some(&*interface));
        let server = bed.capture(SERVES, "");
        let monitor = bed.capture_at(bed.within_switch(Which::Near, "tcpdump"), &interface, "");
        ask(&bed, &format!("mark {ending}"), &server);
        let expected = cut(server.frames(), Mode::PORT);
        same(ending, &cut(monitor.wait(expected.len()), Mode::PORT), &expected);
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

/// What a switch's database and its host have is gone at once, rules when nobody has renewed them.
pub fn nothing_is_left(bed: &Bed, before: &[steer::Observed; 2]) {
    wait_for("the end of all that was made", || {
        let now = both(bed);
        if now == *before { Ok(()) } else { Err(format!("{now:#?}\n{}", bed.vsctl(Which::Near, "show"))) }
    });
    for which in [Which::Near, Which::Far] {
        for table in ["Mirror", "Port", "Interface"] {
            let names = bed.vsctl(which, &format!("--bare --columns=name list {table}"));
            assert!(!names.contains("na0") && !names.contains("netalytics"), "{table}: {names}");
        }
        let links = run(bed.within_switch(which, "ip").args(["-br", "link"])).expect("it does");
        assert!(!links.contains("na0"), "{BRIDGE}: {links}");
    }
}

/// Filters at the server's own interface, beside somebody else's.
#[test]
fn filters_go_with_their_process() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else { return };
    let _server = serve(&bed);
    let tc = |words: &str| run(bed.within(SERVES, "tc").args(words.split(' '))).expect("it does");
    // Somebody else counts what comes in.
    tc("qdisc add dev e0 clsact");
    tc(
        "filter add dev e0 ingress prio 100 protocol ip u32 match u8 6 0xff at 9 action mirred egress mirror dev lo",
    );
    let others = || tc("filter show dev e0 ingress");
    let counted = || {
        let shown = tc("-s filter show dev e0 ingress prio 100");
        let sent = shown.split("Sent ").nth(1).and_then(|rest| rest.split(' ').nth(2)?.parse::<u64>().ok());
        sent.unwrap_or_else(|| panic!("{shown}"))
    };
    let before = others();
    let stream = Stream::start(&bed);
    for ending in ["stopped", "killed"] {
        let mut holder = Holder::start(&bed, |program| bed.within(SERVES, program), SERVER, LEASE);
        let interface = format!("na0-{ending}");
        holder.say(&format!("tc e0 {interface}")).unwrap_or_else(|e| panic!("{e}"));
        let server = bed.capture(SERVES, "");
        let monitor = bed.capture_at(bed.within(SERVES, "tcpdump"), &interface, "");
        let counted_before = counted();
        ask(&bed, &format!("mark {ending}"), &server);
        // What is neither TCP nor UDP has no ports: the filters are for these two, and so is what was asked.
        let expected = cut(bed.capture_file(&server, "tcp port 80 or udp port 80"), Mode::FLOW);
        same(ending, &cut(monitor.wait(expected.len()), Mode::FLOW), &expected);
        assert!(counted() > counted_before, "filters of others see what they saw");
        monitor.end();
        if ending == "killed" {
            holder.kill();
        } else {
            assert_eq!(holder.say("untc"), Ok("stopped".to_owned()));
            holder.end();
        }
        wait_for("the end of the filters", || {
            let links = run(bed.within(SERVES, "ip").args(["-br", "link"])).expect("it does");
            let left = [others(), tc("filter show dev e0 egress")];
            let is_gone = left == [before.clone(), String::new()] && !links.contains(&interface);
            if is_gone { Ok(()) } else { Err(format!("{left:?} {links}")) }
        });
        ask(&bed, "mark of the end", &server);
        server.end();
    }
    stream.end();
    tc("qdisc del dev e0 clsact");
    // Where nobody else has a place, there is none when it is over.
    let mut holder = Holder::start(&bed, |program| bed.within(SERVES, program), SERVER, LEASE);
    holder.say("tc e0 na0-alone").expect("it does");
    assert!(tc("qdisc show dev e0").contains("clsact"));
    holder.say("untc").expect("it does");
    assert!(!tc("qdisc show dev e0").contains("clsact"));
    holder.end();
}
