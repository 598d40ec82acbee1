//! Compares boxes with an enumeration of every packet in a small universe.

use proptest::prelude::*;

use super::cube::{prefixes, without_all};
use super::*;

/// The universe: two bits of four fields, so 256 packets.
const SMALL: [MatchField; 4] = [
    MatchField::InPort,
    MatchField::Source,
    MatchField::DestinationPort,
    MatchField::TcpFlags,
];

fn world() -> impl Iterator<Item = ModelPacket> {
    (0u128..256).map(|n| {
        SMALL
            .iter()
            .enumerate()
            .fold(ModelPacket::default(), |packet, (i, field)| {
                packet.with(*field, n >> (2 * i) & 3)
            })
    })
}

fn cube() -> impl Strategy<Value = PacketCube> {
    proptest::collection::vec((0u128..4, 0u128..4), 4).prop_map(|bits| {
        SMALL
            .iter()
            .zip(bits)
            .fold(PacketCube::ALL, |cube, (field, (value, mask))| {
                cube.with_bits(*field, MaskedBits::new(value, mask))
            })
    })
}

fn members(cube: &PacketCube) -> Vec<ModelPacket> {
    world().filter(|packet| packet.is_in(cube)).collect()
}

proptest! {
    #[test]
    fn boxes_are_sets(a in cube(), b in cube(), c in cube()) {
        let both: Vec<ModelPacket> = a.and(&b).map_or(Vec::new(), |both| members(&both));
        let expected: Vec<ModelPacket> = world().filter(|p| p.is_in(&a) && p.is_in(&b)).collect();
        prop_assert_eq!(&both, &expected);
        prop_assert_eq!(a.contains(&b), members(&b).iter().all(|p| p.is_in(&a)));
        let rest = without_all(vec![a], [&b, &c]);
        for packet in world() {
            let times = rest.iter().filter(|piece| packet.is_in(piece)).count();
            let expected = usize::from(packet.is_in(&a) && !packet.is_in(&b) && !packet.is_in(&c));
            prop_assert_eq!(times, expected, "{}", packet);
        }
        prop_assert!(rest.iter().all(|piece| ModelPacket::of(piece).is_in(piece)));
    }

    #[test]
    fn a_range_is_its_prefixes(a: u16, b: u16) {
        let range = a.min(b)..=a.max(b);
        let found = prefixes(range.clone());
        prop_assert!(found.len() <= 30);
        for port in [0, 1, a, b, a.wrapping_sub(1), b.wrapping_sub(1), a.wrapping_add(1), b.wrapping_add(1), u16::MAX] {
            let times = found.iter().filter(|bits| bits.admits(port.into())).count();
            prop_assert_eq!(times, usize::from(range.contains(&port)), "{} in {:?}", port, range);
        }
    }
}

#[test]
fn ranges_take_as_few_prefixes_as_can_be() {
    for (range, count) in [
        (0..=0xffff, 1),
        (80..=80, 1),
        (1..=0xfffe, 30),
        (1024..=0xffff, 6),
        (1000..=1999, 7),
    ] {
        assert_eq!(prefixes(range.clone()).len(), count, "{range:?}");
    }
}

/// Example of the ovs-ofctl manual.
#[test]
fn ranges_equal_the_manual() {
    let found: Vec<(u128, u128)> = prefixes(1000..=1999)
        .iter()
        .map(|bits| (bits.value, bits.mask))
        .collect();
    let expected = [
        (0x03e8, 0xfff8),
        (0x03f0, 0xfff0),
        (0x0400, 0xfe00),
        (0x0600, 0xff00),
        (0x0700, 0xff80),
        (0x0780, 0xffc0),
        (0x07c0, 0xfff0),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_packet_is_in_one_box_of_all_that_there_can_be() {
    let all = well_formed();
    let ip = |kind, protocol| {
        ModelPacket::default()
            .with(MatchField::EthType, kind)
            .with(MatchField::Protocol, protocol)
    };
    for packet in [
        ip(0x0800, 6)
            .with(MatchField::Source, 0x0a00_0001)
            .with(MatchField::TcpFlags, 0x12)
            .with(MatchField::SourcePort, 80),
        ip(0x86dd, 17)
            .with(MatchField::Source, 1 << 127)
            .with(MatchField::DestinationPort, 53),
        ip(0x86dd, 58).with(MatchField::SourcePort, 128),
        ip(0x0800, 47).with(MatchField::Vlan, 0x1005),
        ip(0x0806, 1),
        ModelPacket::default().with(MatchField::EthType, 0x88cc),
    ] {
        assert_eq!(
            all.iter().filter(|cube| packet.is_in(cube)).count(),
            1,
            "{packet}"
        );
    }
    let impossible = ip(0x0800, 6).with(MatchField::Source, 1 << 40);
    assert!(all.iter().all(|cube| !impossible.is_in(cube)));
    for (i, cube) in all.iter().enumerate() {
        assert!(
            all[i + 1..].iter().all(|other| cube.and(other).is_none()),
            "{cube:?}"
        );
    }
}

#[test]
fn packets_are_readable() {
    let tcp = PacketCube::ALL
        .with(MatchField::EthType, 0x0800)
        .with(MatchField::Protocol, 6)
        .canonical();
    let syn = tcp
        .with(MatchField::TcpFlags, 2)
        .with(MatchField::DestinationPort, 80)
        .with(MatchField::InPort, 3);
    for (cube, expected) in [
        (syn, "tcp 10.0.0.1:40000 > 10.0.0.2:80 [SYN] at port 3"),
        (
            PacketCube::ALL.with(MatchField::EthType, 0x88cc),
            "ethernet 0x88cc at port 0",
        ),
        (
            PacketCube::ALL
                .with(MatchField::EthType, 0x86dd)
                .with(MatchField::Protocol, 17),
            "udp [::a00:1]:40000 > [::a00:2]:40000 at port 0",
        ),
    ] {
        assert_eq!(ModelPacket::of(&cube).to_string(), expected);
    }
}
