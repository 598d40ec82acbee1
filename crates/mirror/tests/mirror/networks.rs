//! Several switches: a packet that passes two of them is copied once.

use std::net::IpAddr;

use mirror::model::{
    KnownHost, PortNeighbor, SwitchLink, SwitchMirror, SwitchModel, SwitchNetwork, SwitchPort,
};
use mirror::proof::Counterexample;
use mirror::{CopyExpectation, PacketPart, ProofFault, ProofResult, StrayPolicy, SwitchCopy};

use crate::bed::{SERVER, copy, faults, first_table, monitor, rules, wanted};

const NORMAL: [&str; 2] = [
    "priority=0,actions=resubmit(,1)",
    "table=1,priority=0,actions=NORMAL",
];

/// Two leaves at a spine; hosts at ports 1 and 2 of each leaf, 10.0.LEAF.PORT; port 49 is the uplink, and switches with
/// copies have a monitor at 9.
fn network(copies: [&[SwitchCopy]; 2]) -> (SwitchNetwork, SwitchNetwork) {
    let host = |n| SwitchPort::new(n, "h", PortNeighbor::Hosts);
    let up = |n| SwitchPort::new(n, "up", PortNeighbor::Switch);
    let leaf = |name, own: &[SwitchCopy]| {
        let mut ports = vec![host(1), host(2), up(49)];
        ports.extend((!own.is_empty()).then(|| monitor(9, "m")));
        let before = SwitchModel::new(name, ports, rules(&NORMAL));
        let after = before
            .rules
            .iter()
            .cloned()
            .chain(first_table(own))
            .collect();
        (before.clone(), before.with_rules(after))
    };
    let spine = SwitchModel::new(
        "spine",
        vec![up(1), up(2)],
        rules(&["priority=0,actions=NORMAL"]),
    );
    let hosts = |leaf: usize| {
        (1..=2u32).map(move |port| KnownHost {
            address: IpAddr::from([10, 0, leaf as u8, port as u8]),
            at: (leaf, port),
        })
    };
    let hosts: Vec<KnownHost> = hosts(0).chain(hosts(1)).collect();
    let links = vec![SwitchLink((0, 49), (2, 1)), SwitchLink((1, 49), (2, 2))];
    let one = leaf("leaf1", copies[0]);
    let two = leaf("leaf2", copies[1]);
    let of =
        |one, two| SwitchNetwork::new(vec![one, two, spine.clone()], links.clone(), hosts.clone());
    (of(one.0, two.0), of(one.1, two.1))
}

fn prove(
    (before, after): (SwitchNetwork, SwitchNetwork),
    wanted: &[CopyExpectation],
) -> Result<ProofResult, Vec<Counterexample>> {
    mirror::prove(&before, &after, wanted, &|rule| rule.cookie.is_of(SERVER))
}

/// All traffic of a server on the second leaf, copied there.
#[test]
fn copied_at_the_servers_switch() {
    let at_server = copy(
        1,
        &[
            "tcp,nw_dst=10.0.1.1,tp_dst=80",
            "tcp,nw_src=10.0.1.1,tp_src=80",
        ],
        PacketPart::Whole,
        9,
    );
    let want = wanted(&[&at_server], "m");
    let all = std::slice::from_ref(&at_server);
    let right = prove(network([&[], all]), &want);
    assert!(right.is_ok(), "{}", right.unwrap_err()[0]);
    // With copies at both leaves, packets that pass both arrive twice; both monitors have the same name.
    assert_eq!(
        faults(prove(network([all, all]), &want)),
        [ProofFault::Repeated]
    );
    // With copies at the other leaf only, local traffic of the server's leaf is missing.
    assert_eq!(
        faults(prove(network([all, &[]]), &want)),
        [ProofFault::Missing]
    );
}

/// Traffic of all hosts, copied at the entry.
#[test]
fn packets_are_copied_at_their_entry() {
    let entering = SwitchCopy {
        ports: vec![1, 2],
        ..copy(1, &["ip"], PacketPart::Whole, 9)
    };
    let want = wanted(&[&entering], "m");
    let all = std::slice::from_ref(&entering);
    let right = prove(network([all, all]), &want);
    assert!(right.is_ok(), "{}", right.unwrap_err()[0]);
    assert_eq!(
        faults(prove(network([all, &[]]), &want)),
        [ProofFault::Missing]
    );
}

/// To a monitor at another switch, through a tunnel.
#[test]
fn copied_into_a_tunnel() {
    let asked = copy(
        1,
        &["udp,tp_dst=53", "udp,tp_src=53"],
        PacketPart::Whole,
        10,
    );
    let ports = vec![
        SwitchPort::new(1, "a", PortNeighbor::Hosts),
        SwitchPort::new(2, "b", PortNeighbor::Hosts),
        SwitchPort {
            leads: PortNeighbor::Copies,
            ..monitor(10, "vx0")
        },
    ];
    let near = SwitchModel::new("near", ports, rules(&NORMAL));
    let far = SwitchModel::new(
        "far",
        vec![
            SwitchPort::new(1, "vx0", PortNeighbor::Copies),
            monitor(3, "m"),
        ],
        rules(&["priority=1,in_port=1,actions=output:3"]),
    );
    let link = vec![SwitchLink((0, 10), (1, 1))];
    let after = near
        .rules
        .iter()
        .cloned()
        .chain(first_table(std::slice::from_ref(&asked)))
        .collect();
    let of =
        |near: SwitchModel| SwitchNetwork::new(vec![near, far.clone()], link.clone(), Vec::new());
    let after = of(near.with_rules(after));
    let right = prove((of(near.clone()), after.clone()), &wanted(&[&asked], "m"));
    assert!(right.is_ok(), "{}", right.unwrap_err()[0]);
    // The remote switch must have a rule for the tunnel.
    let mut closed = after;
    closed.switches[1].rules.clear();
    assert_eq!(
        faults(prove((of(near), closed), &wanted(&[&asked], "m"))),
        [ProofFault::Missing]
    );
}

/// A port mirror copies once what enters and leaves by selected ports.
#[test]
fn a_mirror_of_a_port_copies_once() {
    let ports = vec![
        SwitchPort::new(1, "a", PortNeighbor::Hosts),
        SwitchPort::new(2, "b", PortNeighbor::Hosts),
        monitor(9, "m"),
    ];
    let before = SwitchModel::new("s", ports, rules(&["priority=0,actions=NORMAL"]));
    let mirror = |entering: &[u32], leaving: &[u32]| {
        let mirror = SwitchMirror {
            name: "m0".to_owned(),
            entering: entering.to_vec(),
            leaving: leaving.to_vec(),
            output: 9,
            max_len: None,
        };
        SwitchModel {
            mirrors: vec![mirror],
            ..before.clone()
        }
    };
    let hosts = (1..=2u32).map(|port| KnownHost {
        address: IpAddr::from([10, 0, 0, port as u8]),
        at: (0, port),
    });
    let hosts: Vec<KnownHost> = hosts.collect();
    let of = |switch: SwitchModel| SwitchNetwork::new(vec![switch], Vec::new(), hosts.clone());
    let asked = copy(
        1,
        &["tcp,nw_dst=10.0.0.2", "tcp,nw_src=10.0.0.2"],
        PacketPart::Whole,
        9,
    );
    let mut want = wanted(&[&asked], "m");
    let check = |after: SwitchModel, want: &[CopyExpectation]| {
        faults(prove((of(before.clone()), of(after)), want))
    };
    assert_eq!(check(mirror(&[2], &[2]), &want), [ProofFault::Stranger]);
    want[0].others = StrayPolicy::Tolerated;
    assert_eq!(check(mirror(&[2], &[2]), &want), []);
    assert_eq!(check(mirror(&[2], &[]), &want), [ProofFault::Missing]);
    assert_eq!(check(mirror(&[1, 2], &[1, 2]), &want), []);
}
