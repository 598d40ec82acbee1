//! Errors are detected and reported with a packet and its path.

use mirror::model::{FloodSetting, PortNeighbor, SwitchModel, SwitchPort};
use mirror::{PacketPart, ProofFault};

use crate::bed::{copy, faults, monitor, ports, prove, rules, wanted, with};

const GUARD: &str = "cookie=0x6e61007000010100,priority=65535,in_port=9,actions=drop";

/// Rules not made by `compose`, next to NORMAL in table 0.
fn check(ours: &[&str], expected: &[ProofFault]) {
    let switch = SwitchModel::new("s", ports(), rules(&["cookie=0,priority=0,actions=NORMAL"]));
    let want = wanted(
        &[&copy(1, &["tcp,tp_dst=80"], PacketPart::First(96), 9)],
        "m",
    );
    let ours: Vec<String> = ours
        .iter()
        .map(|text| format!("cookie=0x6e61007000010101,{text}"))
        .collect();
    let mut all: Vec<&str> = ours.iter().map(String::as_str).collect();
    all.push(GUARD);
    let found = prove(&switch, with(&switch, rules(&all)), &want);
    assert_eq!(faults(found), expected, "{ours:?}");
}

#[test]
fn faults_are_found() {
    use ProofFault::{Changed, Doubt, Missing, Overlap, Repeated, Short, Stranger};
    check(
        &[
            "priority=9,tcp,tp_dst=80,actions=output:9,NORMAL",
            "priority=9,tcp6,tp_dst=80,actions=output:9,NORMAL",
        ],
        &[Stranger],
    );
    check(&["priority=9,tcp,tp_dst=80,actions=output:9,NORMAL"], &[]);
    check(
        &["priority=9,tcp,tp_dst=80,actions=output(port=9,max_len=96),NORMAL"],
        &[],
    );
    check(
        &["priority=9,tcp,tp_dst=80,actions=output(port=9,max_len=64),NORMAL"],
        &[Short],
    );
    check(&["priority=9,tcp,tp_dst=80,actions=output:9"], &[Changed]);
    check(
        &["priority=9,tcp,tp_dst=80,actions=output:9,output:2,NORMAL"],
        &[Changed],
    );
    check(
        &["priority=9,tcp,tp_dst=80,actions=output:9,output:9,NORMAL"],
        &[Repeated],
    );
    check(
        &["priority=9,tcp,tp_dst=80/0xfff0,actions=output:9,NORMAL"],
        &[Stranger],
    );
    check(
        &["priority=9,tcp,tp_dst=80,tcp_flags=+syn,actions=output:9,NORMAL"],
        &[Missing],
    );
    check(
        &["priority=9,tcp,tp_dst=80,actions=output:9,resubmit(,0)"],
        &[Repeated, Changed, Doubt],
    );
    check(
        &[
            "priority=9,tcp,tp_dst=80,actions=output:9,NORMAL",
            "priority=9,tcp,tp_src=1,actions=NORMAL",
        ],
        &[Overlap],
    );
    check(
        &["priority=9,tcp,tp_dst=80,actions=output:9,mod_vlan_vid:3,NORMAL"],
        &[Changed],
    );
    check(
        &["priority=9,tcp,tp_dst=80,actions=output:9,NORMAL,group:1"],
        &[Changed, Doubt],
    );
}

#[test]
fn a_counterexample_is_readable() {
    let switch = SwitchModel::new(
        "leaf1",
        ports(),
        rules(&[
            "priority=0,actions=resubmit(,1)",
            "table=1,priority=0,actions=NORMAL",
        ]),
    );
    let want = wanted(
        &[&copy(
            1,
            &["tcp,nw_dst=10.0.0.2,tp_dst=80"],
            PacketPart::Whole,
            9,
        )],
        "m",
    );
    let ours = rules(&[
        GUARD,
        "cookie=0x6e61007000010101,priority=9,tcp,tp_dst=80,actions=output:9,resubmit(,1)",
    ]);
    let found = prove(&switch, with(&switch, ours), &want).expect_err("a stranger");
    let text = found[0].to_string();
    let expected = "\
tcp 10.0.0.1:40000 > 138.0.0.2:80 [no flags] at port 1 of leaf1: monitor m receives it without having requested it
  leaf1, in at port 1
    table 0: cookie=0x6e61007000010101,table=0,priority=9,tcp,tp_dst=80,actions=output:9,resubmit(,1)
    table 1: cookie=0x0,table=1,priority=0,actions=NORMAL
    out at port 2
    out at port 3
    out at port 9, to monitor m
";
    assert_eq!(text, expected);
}

/// NORMAL floods to a monitor's port unless disabled, and learns there unless guarded.
#[test]
fn flooding_to_a_monitor_is_found() {
    let normal = rules(&["priority=0,actions=NORMAL"]);
    let copied = "cookie=0x6e61007000010101,priority=9,tcp,tp_dst=80,actions=output:9,NORMAL";
    let want = wanted(&[&copy(1, &["tcp,tp_dst=80"], PacketPart::Whole, 9)], "m");
    let with_port = |port: SwitchPort| {
        let mut ports = ports();
        ports.pop();
        ports.push(port);
        SwitchModel::new("s", ports, normal.clone())
    };
    let open = with_port(SwitchPort {
        flooded: FloodSetting::Yes,
        ..monitor(9, "m")
    });
    let found = prove(&open, with(&open, rules(&[GUARD, copied])), &want);
    assert_eq!(faults(found), [ProofFault::Repeated, ProofFault::Stranger]);
    let shut = with_port(monitor(9, "m"));
    assert_eq!(
        faults(prove(&shut, with(&shut, rules(&[GUARD, copied])), &want)),
        []
    );
    // Without the guard an address may be learned there.
    let found = prove(&shut, with(&shut, rules(&[copied])), &want);
    assert_eq!(faults(found), [ProofFault::Repeated, ProofFault::Stranger]);
    // A separate VLAN prevents flooding there if all other ports are in another one.
    let access = |number, vlan| SwitchPort {
        vlans: mirror::model::PortVlans::Access(vlan),
        ..SwitchPort::new(number, "v", PortNeighbor::Hosts)
    };
    let mut apart = vec![access(1, 1), access(2, 1)];
    apart.push(SwitchPort {
        leads: PortNeighbor::Monitor("m".to_owned()),
        ..access(9, 4000)
    });
    let apart = SwitchModel::new("s", apart, normal);
    assert_eq!(
        faults(prove(&apart, with(&apart, rules(&[GUARD, copied])), &want)),
        []
    );
}
