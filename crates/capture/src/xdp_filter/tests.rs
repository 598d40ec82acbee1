//! Compares the program with the decoder and a plain filter, in an interpreter that rejects every access a verifier
//! would.

use std::collections::HashMap;

use proptest::prelude::*;
use testkit::{SentPacket, TransportCarrier};
use wire::packet::TcpFlags;
use wire::{CapturedPacket, Endpoint, FiveTuple, LinkType, Packet, Timestamp};

use super::assembler::code;
use super::*;

const DATA: u64 = 0x10_0000;
const CTX: u64 = 0x1000;
const STACK_END: u64 = 0x8000;
const QUEUE: u32 = 3;
const MAP: i32 = 77;

/// Whether `program` redirects `packet`. Panics on an invalid access.
fn redirects(program: &[EbpfInstruction], packet: &[u8]) -> bool {
    let mut r = [0u64; 11];
    r[1] = CTX;
    r[10] = STACK_END;
    let mut stack: HashMap<u64, u8> = HashMap::new();
    let mut at = 0;
    for _ in 0..100_000 {
        let insn = program[at];
        let dst = usize::from(insn.registers & 15);
        let src = usize::from(insn.registers >> 4);
        let value = insn.immediate as u32;
        let address = |base: u64| base.wrapping_add_signed(i64::from(insn.offset));
        let mut jump = false;
        match insn.code {
            code::MOV_64 => r[dst] = r[src],
            code::MOV_32 => r[dst] = u64::from(r[src] as u32),
            code::ADD_64 => r[dst] += r[src],
            code::ADD_IMMEDIATE_64 => {
                r[dst] = r[dst].wrapping_add_signed(i64::from(insn.immediate))
            }
            code::LOAD_IMMEDIATE_64 => {
                assert_eq!(insn.registers >> 4, assembler::PSEUDO_MAP_FD);
                r[dst] = u64::from(value);
                at += 1;
            }
            code::STORE_IMMEDIATE => store(&mut stack, address(r[dst]), &value.to_ne_bytes()),
            0x63 => store(&mut stack, address(r[dst]), &(r[src] as u32).to_ne_bytes()),
            0x61 if r[src] == CTX => r[dst] = context_field(insn.offset, packet.len()),
            0x61 | 0x69 | 0x71 => r[dst] = load(&stack, packet, address(r[src]), insn.code),
            code::JUMP => jump = true,
            code::JUMP_MORE => jump = r[dst] > r[src],
            code::CALL => {
                assert_eq!(
                    (insn.immediate, r[1], r[2], r[3]),
                    (51, MAP as u64, u64::from(QUEUE), 2)
                );
                return true;
            }
            code::EXIT => {
                assert_eq!(r[0], 2, "the stack gets it");
                return false;
            }
            c if c == AluOperation::Mov as u8 => r[dst] = u64::from(value),
            c if c == AluOperation::Add as u8 => {
                r[dst] = u64::from((r[dst] as u32).wrapping_add(value))
            }
            c if c == AluOperation::And as u8 => r[dst] = u64::from(r[dst] as u32 & value),
            c if c == AluOperation::Xor as u8 => r[dst] = u64::from(r[dst] as u32 ^ value),
            c if c == AluOperation::ShiftLeft as u8 => r[dst] = u64::from((r[dst] as u32) << value),
            c if c == AluOperation::ShiftRight as u8 => r[dst] = u64::from(r[dst] as u32 >> value),
            c if c == JumpTest::Eq as u8 => jump = r[dst] as u32 == value,
            c if c == JumpTest::NotEq as u8 => jump = r[dst] as u32 != value,
            c if c == JumpTest::Less as u8 => jump = (r[dst] as u32) < value,
            other => panic!("{other:#x} is no instruction that is used"),
        }
        at = if jump {
            at.checked_add_signed(1 + isize::from(insn.offset))
                .expect("a place")
        } else {
            at + 1
        };
    }
    panic!("the program does not end");
}

fn context_field(offset: i16, packet_len: usize) -> u64 {
    match offset {
        context::DATA => DATA,
        context::DATA_END => DATA + packet_len as u64,
        context::RX_QUEUE => u64::from(QUEUE),
        other => panic!("no field at {other} is read"),
    }
}

fn store(stack: &mut HashMap<u64, u8>, at: u64, bytes: &[u8]) {
    assert!(
        at + bytes.len() as u64 <= STACK_END && at >= STACK_END - 512,
        "{at:#x} is no stack"
    );
    stack.extend(bytes.iter().zip(at..).map(|(&b, at)| (at, b)));
}

fn load(stack: &HashMap<u64, u8>, packet: &[u8], at: u64, code: u8) -> u64 {
    let len = match code {
        0x61 => 4,
        0x69 => 2,
        _ => 1,
    };
    let mut bytes = [0; 8];
    for (i, byte) in bytes.iter_mut().take(len).enumerate() {
        let at = at + i as u64;
        *byte = match at.checked_sub(DATA) {
            Some(at) => packet[at as usize],
            None => stack[&at],
        };
    }
    u64::from_le_bytes(bytes)
}

fn ends(list: &[&str]) -> Vec<XdpEndMatch> {
    list.iter().map(|text| end(text)).collect()
}

/// `net/prefix port`, either may be `*`.
fn end(text: &str) -> XdpEndMatch {
    let (net, port) = text.split_once(' ').expect("an address and a port");
    let net = net.split_once('/').map(|(ip, prefix)| {
        (
            ip.parse().expect("an address"),
            prefix.parse().expect("a prefix length"),
        )
    });
    XdpEndMatch {
        net,
        port: port.parse().ok(),
    }
}

fn program(clients: &[&str], servers: &[&str]) -> Vec<EbpfInstruction> {
    XdpFilter {
        clients: ends(clients),
        servers: ends(servers),
    }
    .program(MAP)
    .expect("short")
}

fn tcp(src: &str, dst: &str) -> SentPacket {
    let parse = |s: &str| s.parse().expect("an address with a port");
    let carrier = TransportCarrier::Tcp(testkit::packet::tcp_info(1, 1, TcpFlags::ACK));
    SentPacket::new(Timestamp(0), (parse(src), parse(dst)), carrier, b"x")
}

fn check(clients: &[&str], servers: &[&str], sent: &SentPacket, expected: bool) {
    let got = redirects(&program(clients, servers), &sent.wire_bytes());
    assert_eq!(got, expected, "{clients:?} {servers:?} {sent:?}");
}

#[test]
fn both_directions_and_nothing_else() {
    let web = &["10.0.0.9/32 80", "fd00::/8 *"];
    check(&[], web, &tcp("10.0.0.1:5000", "10.0.0.9:80"), true);
    check(&[], web, &tcp("10.0.0.9:80", "10.0.0.1:5000"), true);
    check(&[], web, &tcp("10.0.0.1:5000", "10.0.0.9:81"), false);
    check(&[], web, &tcp("10.0.0.1:5000", "10.0.0.8:80"), false);
    check(&[], web, &tcp("[fe80::1]:5", "[fd77::1]:1"), true);
    check(&[], web, &tcp("[fe80::1]:5", "[fe77::1]:1"), false);
    let from = &["10.0.0.0/24 *"];
    check(from, web, &tcp("10.0.0.7:1", "10.0.0.9:80"), true);
    check(from, web, &tcp("10.0.1.7:1", "10.0.0.9:80"), false);
    check(&["* 1"], &["* 80"], &tcp("10.0.1.7:80", "10.0.0.9:1"), true);
    check(
        &["* 1"],
        &["* 80"],
        &tcp("10.0.1.7:80", "10.0.0.9:80"),
        false,
    );
    check(
        &["::/0 *"],
        &["* *"],
        &tcp("10.0.1.7:80", "10.0.0.9:80"),
        true,
    );
}

#[test]
fn all_packets_pass_without_from_and_to() {
    assert!(XdpFilter::default().wants_all());
    let arp = [[0xff; 12].as_slice(), &[8, 6], &[0; 28]].concat();
    assert!(redirects(&program(&[], &[]), &arp));
    assert!(redirects(&program(&["* *"], &[]), &[]));
    assert!(!redirects(&program(&[], &["10.0.0.9/32 *"]), &arp));
}

#[test]
fn behind_tags() {
    for n in 0..=vlan::TAGS_MAX + 1 {
        let sent = SentPacket {
            vlans: vec![5; n],
            ..tcp("10.0.0.1:5000", "10.0.0.9:80")
        };
        check(&[], &["10.0.0.9/32 80"], &sent, n <= vlan::TAGS_MAX);
    }
}

#[test]
fn fragments_of_matching_hosts() {
    let mut bytes = tcp("10.0.0.1:5000", "10.0.0.9:81").wire_bytes();
    let wants = |to: &str, bytes: &[u8]| redirects(&program(&[], &[to]), bytes);
    bytes[14 + 6] = 0x20; // the first fragment: it has ports
    assert!(!wants("10.0.0.9/32 80", &bytes));
    bytes[14 + 7] = 1;
    assert!(wants("10.0.0.9/32 80", &bytes));
    assert!(!wants("10.0.0.8/32 80", &bytes));
}

#[test]
fn ipv6_extensions() {
    let plain = tcp("[fd00::1]:5000", "[fd00::9]:80").wire_bytes();
    let with = |next: u8, extensions: &[u8]| {
        let mut bytes = [&plain[..54], extensions, &plain[54..]].concat();
        bytes[14 + 6] = next;
        bytes
    };
    let wants =
        |bytes: &[u8], port| redirects(&program(&[], &[&format!("fd00::9/128 {port}")]), bytes);
    for (next, extensions) in [
        (0, [6, 0, 1, 4, 0, 0, 0, 0].as_slice()),
        (
            60,
            &[[43, 0, 1, 4, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 0]].concat(),
        ),
        (51, &[[6, 1, 0, 0], [0, 0, 0, 1], [0; 4]].concat()),
        (44, &[6, 0, 0, 1, 0, 0, 0, 1]),
    ] {
        assert!(wants(&with(next, extensions), 80), "{next}");
        assert!(!wants(&with(next, extensions), 81), "{next}");
    }
    assert!(
        wants(&with(44, &[6, 0, 0, 8, 0, 0, 0, 1]), 81),
        "a later fragment: the port is not known"
    );
    let chain = |n: usize| {
        [
            [60, 0, 1, 4, 0, 0, 0, 0].repeat(n - 1),
            vec![6, 0, 1, 4, 0, 0, 0, 0],
        ]
        .concat()
    };
    assert!(wants(&with(60, &chain(ipv6::EXTENSIONS_MAX)), 80));
    assert!(!wants(&with(60, &chain(ipv6::EXTENSIONS_MAX + 1)), 80));
}

#[test]
fn long_lists() {
    let list = |n: u32| -> Vec<XdpEndMatch> {
        let host = |i: u32| IpAddr::from((0x0a00_0000 + i).to_be_bytes());
        (0..n)
            .map(|i| XdpEndMatch {
                net: Some((host(i), 32)),
                port: Some(80),
            })
            .collect()
    };
    let filter = |n| XdpFilter {
        clients: Vec::new(),
        servers: list(n),
    };
    let program = filter(700).program(MAP).expect("within the bound");
    assert!(redirects(
        &program,
        &tcp("192.0.2.1:5000", "10.0.2.187:80").wire_bytes()
    ));
    assert!(!redirects(
        &program,
        &tcp("192.0.2.1:5000", "10.0.2.188:80").wire_bytes()
    ));
    assert_eq!(filter(5000).program(MAP), None);
}

/// Result of the monitor's own filter.
fn oracle(filter: &XdpFilter, five: &FiveTuple) -> bool {
    let matches = |m: &XdpEndMatch, end: &Endpoint| {
        let (mask, net) = m.mask_and_net();
        m.port.is_none_or(|p| p == end.port) && u128::from_be_bytes(end.addr.0) & mask == net
    };
    let any = |list: &[XdpEndMatch], end| list.is_empty() || list.iter().any(|m| matches(m, end));
    let flow = |client, server| any(&filter.clients, client) && any(&filter.servers, server);
    flow(&five.src, &five.dst) || flow(&five.dst, &five.src)
}

/// Few addresses, so that they match.
fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0u8..4, 0u8..2).prop_map(|(a, b)| IpAddr::from([10, 0, b, a])),
        (0u16..4).prop_map(|a| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, a])),
    ]
}

fn end_match() -> impl Strategy<Value = XdpEndMatch> {
    let net = proptest::option::of((address(), 0u8..=128)).prop_map(|net| {
        net.map(|(ip, prefix)| (ip, if ip.is_ipv4() { prefix % 33 } else { prefix }))
    });
    (net, proptest::option::of(0u16..3)).prop_map(|(net, port)| XdpEndMatch { net, port })
}

fn sent() -> impl Strategy<Value = SentPacket> {
    let ends = (address(), address(), 0u16..3, 0u16..3)
        .prop_filter("one family", |(a, b, ..)| a.is_ipv4() == b.is_ipv4())
        .prop_map(|(a, b, p, q)| ((a, p).into(), (b, q).into()));
    let carrier = prop_oneof![
        Just(TransportCarrier::Tcp(testkit::packet::tcp_info(
            1,
            1,
            TcpFlags::ACK
        ))),
        Just(TransportCarrier::Udp),
        Just(TransportCarrier::Icmp(8, 0)),
        Just(TransportCarrier::Other(132)),
    ];
    (ends, carrier, proptest::collection::vec(0u16..4096, 0..3)).prop_map(
        |(ends, carrier, vlans)| SentPacket {
            vlans,
            ..SentPacket::new(Timestamp(0), ends, carrier, b"payload")
        },
    )
}

proptest! {
    #[test]
    fn filter_matches_the_monitors_decision(
        clients in proptest::collection::vec(end_match(), 0..4),
        servers in proptest::collection::vec(end_match(), 0..4),
        sent in sent(),
    ) {
        let filter = XdpFilter { clients, servers };
        let bytes = sent.wire_bytes();
        let captured = CapturedPacket {
            ts: Timestamp(0), link_type: LinkType::Ethernet, original_len: bytes.len() as u32, bytes: &bytes,
        };
        let packet = Packet::decode(&captured).expect("a sound packet");
        let program = filter.program(MAP).expect("short");
        prop_assert_eq!(redirects(&program, &bytes), oracle(&filter, &packet.five_tuple));
    }

    #[test]
    fn never_reads_outside_and_misses_nothing_decodable(
        mut bytes in sent().prop_map(|s| s.wire_bytes()),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        server in end_match(),
    ) {
        changes.into_iter().for_each(|(at, value)| { let at = at.index(bytes.len()); bytes[at] = value; });
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 2);
        let filter = XdpFilter { clients: Vec::new(), servers: vec![server] };
        let taken = redirects(&filter.program(MAP).expect("short"), &bytes);
        let captured = CapturedPacket {
            ts: Timestamp(0), link_type: LinkType::Ethernet, original_len: bytes.len() as u32, bytes: &bytes,
        };
        if let Ok(packet) = Packet::decode(&captured) {
            prop_assert_eq!(taken, oracle(&filter, &packet.five_tuple));
        }
    }
}
