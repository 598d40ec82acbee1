//! Jobs over two switches: copies through tunnels with both ends ours; atomic start; complete removal.

use std::net::IpAddr;

use mirror::ovsdb::TunnelKind;
use mirror::{MirrorMode, PacketCube, PacketPart};
use steer::{
    CopyJob, CopyRoute, CopyTap, NetworkMap, ObservedSwitch, PortPlace, SelectionMethod,
    SwitchBackend,
};

use crate::bed::{Bed, FAR_MONITOR, MONITOR, TUNNEL_HOST, TUNNEL_HOST_ADDRESS, Which, fabric_of};
use crate::packets::{SERVER, SERVES, Stream, ask, copy, cut, same, serve};

const LEASE: u16 = 30;

/// Traffic of the server's port, copied at its switch.
pub fn tap(mode: MirrorMode, port: Option<u16>, monitor: &str, to: CopyRoute) -> CopyTap {
    let asked: Vec<PacketCube> = copy(mode, port, 0).asked;
    let how = SelectionMethod::Rules(Vec::new());
    let monitor = monitor.to_owned();
    CopyTap {
        switch: Which::Near.name().to_owned(),
        asked,
        how,
        part: mode.part,
        monitor,
        to,
    }
}

pub fn far_port() -> PortPlace {
    PortPlace::new(Which::Far.name(), &format!("v{FAR_MONITOR}"))
}

/// State of both switches, without counters.
pub fn both(bed: &Bed) -> [ObservedSwitch; 2] {
    [Which::Near, Which::Far].map(|which| {
        let mut seen = bed.switch_at(which).list().expect("it lists");
        seen.rules.sort();
        seen
    })
}

/// Each kind of tunnel, to another switch's port and to a monitor's host: arriving packets equal, byte by byte and each
/// once, the server's own capture; a stream between other hosts is complete before, during and after.
#[test]
fn copies_pass_through_tunnels() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let _server = serve(&bed);
    let fabric = bed.fabric(SERVER, LEASE);
    // Ports of monitors remain as configured for the first job, without flooding.
    bed.switch().keep_floods_from(MONITOR).expect("it does");
    bed.switch_at(Which::Far)
        .keep_floods_from(FAR_MONITOR)
        .expect("it does");
    let before = both(&bed);
    let mode = MirrorMode {
        part: PacketPart::First(200),
        ..MirrorMode::FLOW
    };
    let host = IpAddr::from(TUNNEL_HOST_ADDRESS);
    let cases = [
        (
            CopyRoute::Switch(TunnelKind::Vxlan, far_port()),
            FAR_MONITOR,
            "",
            0,
        ),
        (
            CopyRoute::Switch(TunnelKind::Gre, far_port()),
            FAR_MONITOR,
            "",
            0,
        ),
        // Outer Ethernet, IPv4, and UDP with VXLAN, or GRE with a key.
        (
            CopyRoute::Host(TunnelKind::Vxlan, host),
            TUNNEL_HOST,
            "udp dst port 4789",
            14 + 20 + 8 + 8,
        ),
        (
            CopyRoute::Host(TunnelKind::Gre, host),
            TUNNEL_HOST,
            "ip proto 47",
            14 + 20 + 8,
        ),
    ];
    let stream = Stream::start(&bed);
    for (i, (to, at, filter, outer)) in cases.into_iter().enumerate() {
        let job = CopyJob {
            id: 1,
            generation: i as u8,
            taps: vec![tap(mode, Some(80), "m", to.clone())],
        };
        let running = fabric.start(job).unwrap_or_else(|e| panic!("{to:?}: {e}"));
        assert!(running.proved().classes > 0);
        let is_between_switches = matches!(to, CopyRoute::Switch(..));
        if is_between_switches {
            bed.forget_addresses();
        }
        let server = bed.capture(SERVES, "");
        let monitor = bed.capture(at, filter);
        let bystander = is_between_switches
            .then(|| bed.capture(TUNNEL_HOST, "udp dst port 4789 or ip proto 47"));
        ask(&bed, &format!("mark {i}"), &server);
        let expected = cut(bed.capture_file(&server, "tcp port 80"), mode);
        let inner = |frame: Vec<u8>| frame[outer..].to_vec();
        let found: Vec<Vec<u8>> = monitor
            .wait(expected.len())
            .into_iter()
            .map(inner)
            .collect();
        same(&format!("{to:?}"), &cut(found, MirrorMode::FLOW), &expected);
        if let Some(bystander) = bystander {
            assert!(bystander.frames().is_empty(), "{to:?}: copies are flooded");
            bystander.end();
        }
        running.stop().expect("it does");
        assert_eq!(both(&bed), before, "{to:?}: nothing is left");
        server.end();
        monitor.end();
    }
    stream.end();
}

/// Packets requested by several jobs are copied to all of them, and to the remaining ones after one stops.
#[test]
fn jobs_share_switches() {
    let Some(bed) = Bed::new(&[
        "table=0,priority=0,actions=resubmit(,1)",
        "table=1,priority=0,actions=NORMAL",
    ]) else {
        return;
    };
    let _server = serve(&bed);
    let fabric = bed.fabric(SERVER, LEASE);
    let here = CopyRoute::Port(format!("v{MONITOR}"));
    let all = CopyJob {
        id: 1,
        generation: 1,
        taps: vec![tap(MirrorMode::FLOW, Some(80), "m", here)],
    };
    let there = tap(
        MirrorMode::ENDS,
        None,
        "n",
        CopyRoute::Switch(TunnelKind::Vxlan, far_port()),
    );
    let ends = CopyJob {
        id: 2,
        generation: 1,
        taps: vec![there],
    };
    let one = fabric.start(all).expect("it does");
    let two = fabric.start(ends).expect("it does");
    let filters = [
        "tcp port 80",
        "tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0",
    ];
    let check = |mark: &str, filters: [Option<&str>; 2]| {
        let server = bed.capture(SERVES, "");
        let monitors = [MONITOR, FAR_MONITOR].map(|at| bed.capture(at, ""));
        ask(&bed, mark, &server);
        for (filter, monitor) in filters.into_iter().zip(&monitors) {
            let expected = filter.map_or(Vec::new(), |filter| bed.capture_file(&server, filter));
            same(
                mark,
                &cut(monitor.wait(expected.len()), MirrorMode::FLOW),
                &cut(expected, MirrorMode::FLOW),
            );
        }
        server.end();
        monitors.into_iter().for_each(crate::bed::Capture::end);
    };
    check("mark both", filters.map(Some));
    one.stop().expect("it does");
    check("mark one", [None, Some(filters[1])]);
    drop(two);
    check("mark none", [None, None]);
}

/// A job with a tunnel stops while others continue: nothing arrives through the remains of its tunnel.
#[test]
fn tunnels_are_removed_without_disturbing_other_jobs() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    for (which, port) in [(Which::Near, MONITOR), (Which::Far, FAR_MONITOR)] {
        bed.switch_at(which)
            .keep_floods_from(port)
            .expect("it does");
    }
    let fabric = bed.fabric(SERVER, LEASE);
    let job = |id, tap| CopyJob {
        id,
        generation: 1,
        taps: vec![tap],
    };
    let here = CopyRoute::Port(format!("v{MONITOR}"));
    let one = fabric
        .start(job(1, tap(MirrorMode::FLOW, Some(80), "m", here)))
        .expect("it does");
    let before = both(&bed);
    let there = CopyRoute::Switch(TunnelKind::Vxlan, far_port());
    let two = fabric
        .start(job(2, tap(MirrorMode::ENDS, Some(81), "n", there)))
        .expect("it does");
    two.stop().expect("it does");
    assert_eq!((one.lost(), both(&bed)), (None, before));
}

/// Packets of one switch are not expected at another unless a link between them is known.
#[test]
fn switches_that_are_not_known_to_be_joined_are_proved_apart() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let _server = serve(&bed);
    let near = tap(
        MirrorMode::FLOW,
        Some(80),
        "m",
        CopyRoute::Port(format!("v{MONITOR}")),
    );
    let far = CopyTap {
        switch: Which::Far.name().to_owned(),
        ..tap(
            MirrorMode::FLOW,
            Some(80),
            "n",
            CopyRoute::Port(format!("v{FAR_MONITOR}")),
        )
    };
    let job = || CopyJob {
        id: 1,
        generation: 1,
        taps: vec![near.clone(), far.clone()],
    };
    let refused = bed
        .fabric(SERVER, LEASE)
        .start(job())
        .err()
        .expect("the rules on the near switch");
    assert!(
        refused
            .to_string()
            .contains("monitor n requests it and does not receive it"),
        "{refused}"
    );
    let apart = fabric_of(&bed.folder, SERVER, LEASE, NetworkMap::default());
    let running = apart.start(job()).unwrap_or_else(|e| panic!("{e}"));
    let server = bed.capture(SERVES, "");
    let monitor = bed.capture(MONITOR, "");
    ask(&bed, "mark apart", &server);
    let expected = bed.capture_file(&server, "tcp port 80");
    same(
        "apart",
        &cut(monitor.wait(expected.len()), MirrorMode::FLOW),
        &cut(expected, MirrorMode::FLOW),
    );
    running.stop().expect("it does");
    server.end();
    monitor.end();
}

/// Changes on earlier switches are undone if a later one rejects the job.
#[test]
fn all_or_nothing() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    bed.rules(
        Which::Far,
        &[
            "priority=65535,ip,actions=drop",
            "priority=0,actions=NORMAL",
        ],
    );
    bed.switch().keep_floods_from(MONITOR).expect("it does");
    bed.switch_at(Which::Far)
        .keep_floods_from(FAR_MONITOR)
        .expect("it does");
    let before = both(&bed);
    let fabric = bed.fabric(SERVER, LEASE);
    let job = |tap: CopyTap| CopyJob {
        id: 1,
        generation: 1,
        taps: vec![tap],
    };
    // A rule on the remote switch has the same priority as the one at the tunnel end.
    let tunnel = CopyRoute::Switch(TunnelKind::Gre, far_port());
    let refused = fabric
        .start(job(tap(MirrorMode::FLOW, Some(80), "m", tunnel)))
        .err()
        .expect("an overlap");
    assert!(
        refused
            .to_string()
            .contains("two rules of equal priority match"),
        "{refused}"
    );
    assert_eq!(both(&bed), before);
    // A monitor's host that does not exist.
    let nobody = CopyRoute::Host(TunnelKind::Vxlan, [10, 8, 0, 99].into());
    let refused = fabric
        .start(job(tap(MirrorMode::FLOW, Some(80), "m", nobody)))
        .err()
        .expect("nobody");
    assert!(
        refused
            .to_string()
            .contains("the tunnel's other end 10.8.0.99 does not answer"),
        "{refused}"
    );
    assert_eq!(both(&bed), before);
    // Unknown names.
    for (to, said) in [
        (
            CopyRoute::Port("v99".to_owned()),
            "switch near: port v99 does not exist",
        ),
        (
            CopyRoute::Switch(TunnelKind::Gre, PortPlace::new("south", "v1")),
            "switch south: the network has no switch of that name",
        ),
    ] {
        let refused = fabric
            .start(job(tap(MirrorMode::FLOW, Some(80), "m", to)))
            .err()
            .expect("no such thing");
        assert_eq!(refused.to_string(), said);
        assert_eq!(both(&bed), before);
    }
    // Another server's rules for the same packets.
    bed.rules(Which::Far, &["priority=0,actions=NORMAL"]);
    let here = || CopyRoute::Port(format!("v{MONITOR}"));
    let other = bed.fabric(SERVER + 1, LEASE);
    let theirs = other
        .start(job(tap(MirrorMode::ENDS, Some(80), "m", here())))
        .expect("no other connection");
    let held = both(&bed);
    let far = CopyRoute::Switch(TunnelKind::Vxlan, far_port());
    let refused = fabric
        .start(job(tap(MirrorMode::FLOW, Some(80), "n", far)))
        .err()
        .expect("a clash");
    assert!(
        refused
            .to_string()
            .contains("server 8 has a rule for the same packets"),
        "{refused}"
    );
    assert_eq!(both(&bed)[0], held[0]);
    theirs.stop().expect("it does");
}
