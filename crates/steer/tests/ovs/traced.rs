//! Random rules on a real switch: the model of a packet equals the output of `ofproto/trace`.

use mirror::model::{PortNeighbor, SwitchModel, SwitchNetwork, SwitchPort, UnmodeledTerms};
use mirror::openflow::{FlowRule, read_rule};
use mirror::{MatchField, ModelPacket, PacketCube, RuleOperation};
use steer::{OpenVSwitch, SwitchBackend};
use testkit::SeededRng;

use crate::bed::{BRIDGE, Bed, Which};

const TABLES: u64 = 3;
const PIPELINES: u64 = 12;
const PACKETS: u64 = 25;

fn pick<'a>(rng: &mut SeededRng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}

fn matched(rng: &mut SeededRng) -> String {
    let mut terms = vec![pick(
        rng,
        &[
            "",
            "ip",
            "ip",
            "tcp",
            "tcp",
            "udp",
            "tcp6",
            "icmp",
            "arp",
            "ipv6",
            "dl_type=0x88cc",
        ],
    )];
    let kind = terms[0];
    if rng.chance(0.3) {
        terms.push(pick(
            rng,
            &["in_port=1", "in_port=2", "in_port=9", "in_port=LOCAL"],
        ));
    }
    if rng.chance(0.2) {
        terms.push(pick(
            rng,
            &[
                "dl_vlan=5",
                "vlan_tci=0/0x1fff",
                "vlan_tci=0x1000/0x1000",
                "dl_vlan=7",
            ],
        ));
    }
    if rng.chance(0.2) {
        terms.push(pick(
            rng,
            &[
                "dl_dst=ff:ff:ff:ff:ff:ff",
                "dl_src=02:00:00:00:00:01",
                "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
            ],
        ));
    }
    if ["ip", "tcp", "udp", "icmp"].contains(&kind) && rng.chance(0.5) {
        terms.push(pick(
            rng,
            &[
                "nw_src=10.0.0.0/8",
                "nw_src=10.9.0.1",
                "nw_dst=10.9.0.0/24",
                "nw_dst=10.9.0.2",
                "nw_src=0.0.0.1/0.0.0.1",
            ],
        ));
    }
    if ["tcp", "udp", "tcp6"].contains(&kind) && rng.chance(0.5) {
        terms.push(pick(
            rng,
            &[
                "tp_dst=80",
                "tp_src=80",
                "tp_dst=0x50/0xfff0",
                "tp_src=0x1/0x1",
                "tp_src=1000,tp_dst=80",
            ],
        ));
    }
    if kind.starts_with("tcp") && rng.chance(0.4) {
        terms.push(pick(
            rng,
            &[
                "tcp_flags=+syn",
                "tcp_flags=+syn-ack",
                "tcp_flags=-fin+rst",
                "tcp_flags=+psh",
                "tcp_flags=syn|ack",
            ],
        ));
    }
    if kind == "arp" && rng.chance(0.5) {
        terms.push(pick(
            rng,
            &["arp_op=1", "arp_tpa=10.9.0.2", "arp_spa=10.9.0.0/24"],
        ));
    }
    terms.retain(|term| !term.is_empty());
    terms.join(",")
}

fn actions(rng: &mut SeededRng, table: u64) -> String {
    let mut list = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let further = format!("resubmit(,{})", table + 1);
        let action = match rng.below(14) {
            0 | 1 => "output:1",
            2 => "output:2",
            3 | 4 => "output:9",
            5 => "output(port=9,max_len=96)",
            6 => "output(port=3,max_len=64)",
            7 => "NORMAL",
            8 => "FLOOD",
            9 => pick(rng, &["IN_PORT", "ALL", "LOCAL"]),
            10 => pick(
                rng,
                &["set_field:02:00:00:00:00:09->eth_dst", "set_queue:1"],
            ),
            _ if table + 1 < TABLES => &further,
            _ => "output:3",
        };
        list.push(action.to_owned());
    }
    if rng.chance(0.1) {
        "drop".to_owned()
    } else {
        list.join(",")
    }
}

fn pipeline(rng: &mut SeededRng) -> Vec<FlowRule> {
    let mut rules: Vec<FlowRule> = Vec::new();
    for table in 0..TABLES {
        for place in 0..2 + rng.below(7) {
            // With equal priorities the switch may apply either rule.
            let priority = 10 * place + rng.below(9);
            let text = format!(
                "table={table},priority={priority},{},actions={}",
                matched(rng),
                actions(rng, table)
            );
            rules.push(read_rule(&text.replace(",,", ",")).expect("a rule"));
        }
        let last = if table + 1 < TABLES {
            format!("resubmit(,{})", table + 1)
        } else {
            "NORMAL".to_owned()
        };
        rules.push(read_rule(&format!("table={table},priority=0,actions={last}")).expect("a rule"));
    }
    rules.sort();
    rules.dedup_by(|a, b| a.key() == b.key());
    rules
}

/// A packet in the intersection of several rules' matches.
fn packet(rng: &mut SeededRng, rules: &[FlowRule]) -> ModelPacket {
    let all = mirror::packets::well_formed();
    loop {
        let mut cube = PacketCube::ALL;
        for _ in 0..1 + rng.below(4) {
            let rule = &rules[rng.below(rules.len() as u64) as usize];
            cube = cube.and(&rule.matched.cube).unwrap_or(cube);
        }
        let fit: Vec<PacketCube> = all.iter().filter_map(|kind| kind.and(&cube)).collect();
        if fit.is_empty() {
            continue;
        }
        let packet = ModelPacket::of(&fit[rng.below(fit.len() as u64) as usize]);
        let is_said = cube.get(MatchField::InPort).mask != 0;
        return if is_said {
            packet
        } else {
            packet.with(MatchField::InPort, 1 + u128::from(rng.below(3)))
        };
    }
}

fn replace(switch: &mut OpenVSwitch, rules: &[FlowRule]) -> Vec<FlowRule> {
    let there = switch.list().expect("it lists").rules;
    let operations: Vec<RuleOperation> = there
        .into_iter()
        .map(RuleOperation::Delete)
        .chain(rules.iter().cloned().map(RuleOperation::Add))
        .collect();
    switch.apply(&operations).expect("accepted");
    switch.list().expect("it lists").rules
}

#[test]
fn model_equals_the_switch() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    // VLANs, and a port without flooding.
    bed.vsctl(Which::Near, "set port v3 tag=5");
    let mut switch = bed.switch();
    switch.keep_floods_from(9).expect("it does");
    let mut compared = 0;
    let mut unknown = 0;
    for seed in 0..PIPELINES {
        let mut rng = SeededRng::new(seed);
        let rules = pipeline(&mut rng);
        let dumped = replace(&mut switch, &rules);
        let mut sorted = dumped.clone();
        sorted.sort();
        let texts = |rules: &[FlowRule]| {
            rules
                .iter()
                .map(|rule| format!("{rule}\n"))
                .collect::<String>()
        };
        assert_eq!(
            texts(&sorted),
            texts(&rules),
            "seed {seed}: the dump reads as what was given"
        );
        let seen = switch.list().expect("it lists");
        let ports = seen
            .ports
            .iter()
            .map(|(number, name, flooded, vlans)| SwitchPort {
                flooded: *flooded,
                vlans: vlans.clone(),
                ..SwitchPort::new(*number, name, PortNeighbor::Hosts)
            });
        let network = SwitchNetwork::of(SwitchModel::new(BRIDGE, ports.collect(), dumped));
        for _ in 0..PACKETS {
            let packet = packet(&mut rng, &rules);
            let told = switch
                .trace(&packet)
                .unwrap_or_else(|e| panic!("seed {seed}, {packet}: {e}"));
            let Some(told) = told else {
                unknown += 1;
                continue;
            };
            let port = packet.get(MatchField::InPort) as u32;
            let said = network.outputs((0, port), &packet, &mut UnmodeledTerms::default());
            let way = || network.narrate((0, port), packet.cube(), &mut UnmodeledTerms::default());
            // The switch has learned nothing: the first possible behavior is flooding.
            assert_eq!(
                Some(&told),
                said.first(),
                "seed {seed}, {packet}\n{}",
                way()
            );
            compared += 1;
        }
    }
    assert_eq!((compared, unknown), (PIPELINES * PACKETS, 0));
    bed.vsctl(Which::Near, "remove port v3 tag 5");
}
