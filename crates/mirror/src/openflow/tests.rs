//! Parses dumps of `ovs-ofctl` 3.1; printed text round-trips.

use proptest::prelude::*;

use super::*;
use crate::packets::field::{IPV4, IPV6, TAGGED, TCP, UDP};
use crate::packets::{MaskedBits, MatchField, PacketCube};

/// Printed as dumped, without counters.
#[test]
fn dumps_are_read() {
    let dump = "\
OFPST_FLOW reply (OF1.3) (xid=0x2):
 cookie=0x6e61001000020100, duration=3.284s, table=0, n_packets=7, n_bytes=518, hard_timeout=30, idle_age=2, priority=16384,tcp,in_port=1,nw_src=10.0.0.0/8,tp_dst=80 actions=output:3,resubmit(,1)
 cookie=0x0, duration=3.2s, table=1, n_packets=7, n_bytes=518, send_flow_rem priority=0 actions=NORMAL
 cookie=0x0, duration=1s, table=0, n_packets=0, n_bytes=0, priority=5,tcp,tcp_flags=+syn-ack,tp_src=0x3e8/0xfff8 actions=output(port=3,max_len=96),drop
 cookie=0x0, duration=1s, table=2, n_packets=0, n_bytes=0, reset_counts priority=9,ct_state=+est+trk,ip,reg0=0x1 actions=ct(commit,zone=1,exec(load:0x1->NXM_NX_CT_MARK[])),group:4
 cookie=0x0, table=0, priority=1,arp,arp_tpa=10.0.0.1,arp_op=1 actions=CONTROLLER:65535
 cookie=0x0, table=0, priority=1,udp6,ipv6_src=fd00::/8,dl_vlan=7 actions=strip_vlan,LOCAL
";
    let rules = read_dump(dump).expect("a dump");
    let printed: Vec<String> = rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        [
            "cookie=0x6e61001000020100,table=0,priority=16384,hard_timeout=30,tcp,in_port=1,nw_src=10.0.0.0/8,tp_dst=80,actions=output:3,resubmit(,1)",
            "cookie=0x0,table=1,priority=0,actions=NORMAL",
            "cookie=0x0,table=0,priority=5,tcp,tp_src=0x3e8/0xfff8,tcp_flags=+syn-ack,actions=output(port=3,max_len=96)",
            "cookie=0x0,table=2,priority=9,ip,ct_state=+est+trk,reg0=0x1,actions=ct(commit,zone=1,exec(load:0x1->NXM_NX_CT_MARK[])),group:4",
            "cookie=0x0,table=0,priority=1,arp,arp_op=1,arp_tpa=10.0.0.1,actions=CONTROLLER:65535",
            "cookie=0x0,table=0,priority=1,udp6,dl_vlan=7,ipv6_src=fd00::/8,actions=strip_vlan,LOCAL",
        ]
    );
    assert!(matches!(
        rules[3].actions[..],
        [FlowAction::Unknown(_), FlowAction::Unknown(_)]
    ));
    let owner = CookieOwner {
        server: 1,
        job: 2,
        generation: 1,
        actions: 0,
    };
    assert_eq!(rules[0].cookie.owner(), Some(owner));
    assert_eq!(rules[1].cookie.owner(), None);
    assert!(!rules[0].cookie.is_of_exploration() && !rules[1].cookie.is_of_exploration());
    assert!(
        RuleCookie::of_exploration(1).is_of_exploration() && RuleCookie::of_exploration(1).is_of(1)
    );
}

#[test]
fn malformed_rules_are_reported() {
    for line in [
        "",
        "priority=1,ip",
        "priority=99999 actions=drop",
        "cookie=x,actions=drop",
        "table=256 actions=drop",
    ] {
        assert_eq!(read_rule(line), Err(RuleReadError(line.to_owned())));
    }
}

/// Matches that Open vSwitch would parse as wider ones.
#[test]
fn inexpressible_matches_are_reported() {
    let tcp = PacketCube::ALL
        .with(MatchField::EthType, IPV4)
        .with(MatchField::Protocol, TCP);
    for (cube, fits) in [
        (PacketCube::ALL, true),
        (tcp.with(MatchField::SourcePort, 80), true),
        (PacketCube::ALL.with(MatchField::SourcePort, 80), false),
        (
            PacketCube::ALL
                .with(MatchField::EthType, IPV4)
                .with(MatchField::SourcePort, 80),
            false,
        ),
        (
            tcp.with_bits(MatchField::InPort, MaskedBits::new(1, 1)),
            false,
        ),
        (
            tcp.with(MatchField::Protocol, UDP)
                .with(MatchField::TcpFlags, 2),
            false,
        ),
        (PacketCube::ALL.with(MatchField::Source, 9), false),
    ] {
        assert_eq!(
            FlowMatch::from(cube).check().is_ok(),
            fits,
            "{}",
            FlowMatch::from(cube)
        );
    }
}

fn bits(field: MatchField) -> impl Strategy<Value = MaskedBits> {
    let full = field.full();
    let mask = prop_oneof![
        Just(0),
        Just(full),
        any::<u128>().prop_map(move |m| m & full)
    ];
    (any::<u128>(), mask).prop_map(move |(value, mask)| MaskedBits::new(value, mask & full))
}

fn matched() -> impl Strategy<Value = FlowMatch> {
    let tag = prop_oneof![
        Just(MaskedBits::default()),
        Just(MaskedBits::new(0, 0x1fff)),
        (0u128..4096).prop_map(|v| MaskedBits::new(v | TAGGED, 0x1fff))
    ];
    let kind = (
        prop_oneof![Just(IPV4), Just(IPV6)],
        prop_oneof![Just(TCP), Just(UDP)],
        tag,
        prop::option::of(0u128..99),
    );
    let v4 = |b: MaskedBits| MaskedBits::new(b.value, b.mask & 0xffff_ffff);
    (
        kind,
        bits(MatchField::Source),
        bits(MatchField::Destination),
        bits(MatchField::SourcePort),
        bits(MatchField::TcpFlags),
        bits(MatchField::MacSource),
    )
        .prop_map(
            move |((kind, protocol, tag, port), source, destination, ports, flags, mac)| {
                let narrow = |b| if kind == IPV4 { v4(b) } else { b };
                let cube = PacketCube::ALL
                    .with(MatchField::EthType, kind)
                    .with(MatchField::Protocol, protocol)
                    .with_bits(MatchField::Vlan, tag)
                    .with_bits(MatchField::Source, narrow(source))
                    .with_bits(MatchField::Destination, narrow(destination))
                    .with_bits(MatchField::SourcePort, ports)
                    .with_bits(MatchField::MacSource, mac);
                let cube = if protocol == TCP {
                    cube.with_bits(MatchField::TcpFlags, flags)
                } else {
                    cube
                };
                FlowMatch::from(port.map_or(cube, |port| cube.with(MatchField::InPort, port)))
            },
        )
}

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "actions=",
        "actions=drop",
        "ip",
        "tcp",
        "udp6",
        "arp",
        "in_port=1",
        "in_port=1/3",
        "dl_vlan=5",
        "vlan_tci=0x3005",
        "nw_src=1.2.3.4/7",
        "ipv6_src=::1/ff::",
        "tp_dst=80/0xf0",
        "tcp_flags=+syn-ack",
        "tcp_flags=syn|",
        "priority=9",
        "cookie=0x5",
        "table=1",
        "output:3",
        "output(port=3,max_len=9)",
        "resubmit(,1)",
        "ct(a,b",
        ")",
        "x=y",
        "z",
        "dl_src=00:00:00:00:00:01",
        "set_field:1->reg0",
    ])
}

#[test]
fn actions_with_unbalanced_parentheses_are_refused() {
    for actions in ["),IN_PORT,actions=( actions=", "ct(commit", "NORMAL)"] {
        assert!(
            read_rule(&format!("actions={actions}")).is_err(),
            "{actions}"
        );
    }
}

proptest! {
    #[test]
    fn printed_rules_round_trip(matched in matched(), cookie: u64, priority: u16, table in 0u8..254) {
        prop_assert_eq!(read_match(&matched.to_string()), matched.clone());
        prop_assert!(matched.check().is_ok());
        let actions = read_actions("output:3,output(port=4,max_len=96),resubmit(,1),resubmit:2,NORMAL,FLOOD,ALL,IN_PORT,LOCAL,goto_table:9");
        let rule = FlowRule { table, priority, cookie: RuleCookie(cookie), matched, actions, idle_timeout: 3, hard_timeout: 0 };
        prop_assert_eq!(read_rule(&rule.to_string()), Ok(rule));
    }

    #[test]
    fn any_text_is_read_or_refused(text: String) {
        // Matches that OpenFlow cannot express are printed for people only.
        if let Some(rule) = read_rule(&text).ok().filter(|rule| rule.matched.check().is_ok()) {
            // Printed text round-trips.
            let printed = rule.to_string();
            prop_assert_eq!(read_rule(&printed).map(|rule| rule.to_string()), Ok(printed));
        }
        let _ = read_match(&text);
        let _ = read_actions(&text);
    }

    /// Words of the language in any order.
    #[test]
    fn any_words_are_read_or_refused(words in prop::collection::vec((word(), "[, (]{1,2}"), 0..12)) {
        let text: String = words.iter().map(|(word, border)| format!("{word}{border}")).collect();
        // Matches that OpenFlow cannot express are printed for people only.
        if let Some(rule) = read_rule(&text).ok().filter(|rule| rule.matched.check().is_ok()) {
            let printed = rule.to_string();
            prop_assert_eq!(read_rule(&printed).map(|rule| rule.to_string()), Ok(printed));
        }
    }

    #[test]
    fn cookies_identify_their_owner(server in 0u16..4096, job in 0u32..1 << 20, generation: u8, actions: u8) {
        let owner = CookieOwner { server, job, generation, actions };
        let cookie = RuleCookie::of(owner);
        prop_assert_eq!(cookie.owner(), Some(owner));
        prop_assert_eq!(cookie.0 & RuleCookie::SERVER_MASK, RuleCookie::of(CookieOwner { server, job: 0, generation: 0, actions: 0 }).0);
    }
}
