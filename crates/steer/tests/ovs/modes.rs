//! Each mode, end to end: the monitor receives the packets of the server's traffic that tcpdump's filter passes, each
//! once and with the requested length; all others receive the same as before.

use mirror::ovsdb::PortMirror;
use mirror::{MirrorMode, openflow::CookieOwner};
use steer::{SwitchBackend, install, remove};

use crate::bed::{Bed, MONITOR};
use crate::packets::{SERVER, SERVES, Stream, ask, copy, cut, same, serve, wish};

/// Mode, requested port, and filter.
const MODES: [(MirrorMode, Option<u16>, &str); 6] = [
    (MirrorMode::FLOW, Some(80), "tcp port 80"),
    (
        MirrorMode::ENDS,
        Some(80),
        "tcp port 80 and tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0",
    ),
    (
        MirrorMode::PUSHED,
        Some(80),
        "tcp port 80 and tcp[tcpflags] & tcp-push != 0",
    ),
    (
        MirrorMode::HEADS,
        Some(80),
        "tcp port 80 and tcp[tcpflags] & (tcp-ack|tcp-push) != 0",
    ),
    (MirrorMode::HEADERS, Some(80), "tcp port 80"),
    (MirrorMode::FLOW, None, "ip host 10.9.0.2"),
];

/// With an unused table 0, and next to a learning switch.
#[test]
fn requested_packets_are_copied_once() {
    for rules in [
        &[
            "table=0,priority=0,actions=resubmit(,1)",
            "table=1,priority=0,actions=NORMAL",
        ][..],
        &["table=0,priority=0,actions=NORMAL"],
    ] {
        let Some(bed) = Bed::new(rules) else { return };
        let _server = serve(&bed);
        let mut switch = bed.switch();
        // Before, during and after.
        let stream = Stream::start(&bed);
        for (i, (mode, port, filter)) in MODES.into_iter().enumerate() {
            let installed = install(&mut switch, &wish(vec![copy(mode, port, MONITOR)], 60));
            let installed = installed.unwrap_or_else(|e| panic!("{mode}: {e}"));
            assert!(!installed.proved.witnesses.is_empty() && !installed.rules.is_empty());
            check(&bed, &format!("{i}"), mode, filter);
            assert!(remove(&mut switch, SERVER).expect("it does") > 0);
        }
        assert_eq!(remove(&mut switch, SERVER), Ok(0), "nothing is left");
        nothing_is_copied(&bed);
        stream.end();
    }
}

/// Datagrams of several fragments, in which the switch sees no ports, to the requested port and to another one.
#[test]
fn fragments_are_copied_by_their_addresses() {
    const SEND: &str = "import socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        for n in range(20):\n    s.sendto(bytes([n]) * (4000 if n % 2 else 40), ('10.9.0.2', 80))\n";
    for rules in [
        &[
            "table=0,priority=0,actions=resubmit(,1)",
            "table=1,priority=0,actions=NORMAL",
        ][..],
        &["table=0,priority=0,actions=NORMAL"],
    ] {
        let Some(bed) = Bed::new(rules) else { return };
        let mut switch = bed.switch();
        let asked = wish(vec![copy(MirrorMode::FLOW, Some(80), MONITOR)], 60);
        install(&mut switch, &asked).unwrap_or_else(|e| panic!("{e}"));
        let server = bed.capture(SERVES, "udp");
        let monitor = bed.capture(MONITOR, "udp");
        testkit::namespaces::run(bed.within(1, "python3").args(["-c", SEND])).expect("it does");
        // Ten datagrams of one packet, ten of three.
        let expected = server.wait(40);
        same("fragments", &monitor.wait(40), &expected);
        remove(&mut switch, SERVER).expect("it does");
        server.end();
        monitor.end();
    }
}

fn check(bed: &Bed, mark: &str, mode: MirrorMode, filter: &str) {
    let server = bed.capture(SERVES, "");
    let monitor = bed.capture(MONITOR, "");
    ask(bed, &format!("mark {mark}"), &server);
    let expected = cut(bed.capture_file(&server, filter), mode);
    assert!(!expected.is_empty());
    let found = cut(monitor.wait(expected.len()), MirrorMode::FLOW);
    same(&mode.to_string(), &found, &expected);
    server.end();
    monitor.end();
}

fn nothing_is_copied(bed: &Bed) {
    let server = bed.capture(SERVES, "");
    let monitor = bed.capture(MONITOR, "");
    ask(bed, "mark of the end", &server);
    assert_eq!(monitor.frames().len(), 0);
    server.end();
    monitor.end();
}

/// A mirror of the server's port: all its traffic once, although selected twice.
#[test]
fn a_port_is_mirrored() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let _server = serve(&bed);
    let mut switch = bed.switch();
    let owner = CookieOwner {
        server: SERVER,
        job: 3,
        generation: 1,
        actions: 0,
    };
    let mirror = PortMirror {
        owner,
        ports: vec![format!("v{SERVES}")],
        output: format!("v{MONITOR}"),
        snaplen: 0,
    };
    // Before and after it is the mirror's output, the port is a normal one: NORMAL floods to it.
    switch.keep_floods_from(MONITOR).expect("it does");
    switch.add_mirror(&mirror).expect("it does");
    let seen = switch.list().expect("it lists");
    assert_eq!(seen.mirrors.len(), 1);
    assert_eq!(
        (&*seen.mirrors[0].name, &*seen.mirrors[0].entering),
        (&*mirror.name(), &[format!("v{SERVES}")][..])
    );
    check(&bed, "port", MirrorMode::PORT, "");
    assert_eq!(remove(&mut switch, SERVER), Ok(1));
    assert_eq!(switch.list().expect("it lists").mirrors, []);
    // Removing it again is not an error.
    switch.remove_mirror(&mirror.name()).expect("it does");
    nothing_is_copied(&bed);
}
