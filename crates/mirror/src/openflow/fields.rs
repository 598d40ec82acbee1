//! Names of fields and packet types in `ovs-ofctl`.

use crate::packets::field::{ARP, ICMP, ICMPV6, IPV4, IPV6, SCTP, TCP, UDP};
use crate::packets::{MatchField, PacketCube};

/// Keywords for an EtherType with an optional protocol.
pub const KINDS: [(&str, u128, Option<u128>); 14] = [
    ("tcp", IPV4, Some(TCP)),
    ("udp", IPV4, Some(UDP)),
    ("sctp", IPV4, Some(SCTP)),
    ("icmp", IPV4, Some(ICMP)),
    ("ip", IPV4, None),
    ("tcp6", IPV6, Some(TCP)),
    ("udp6", IPV6, Some(UDP)),
    ("sctp6", IPV6, Some(SCTP)),
    ("icmp6", IPV6, Some(ICMPV6)),
    ("ipv6", IPV6, None),
    ("arp", ARP, None),
    ("rarp", 0x8035, None),
    ("mpls", 0x8847, None),
    ("mplsm", 0x8848, None),
];

/// Format of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFormat {
    Port,
    Mac,
    Number,
    V4,
    V6,
    Flags,
}

/// Names of fields for parsing; the first that applies to a packet is printed.
pub const NAMES: [(&str, MatchField, FieldFormat); 32] = [
    ("in_port", MatchField::InPort, FieldFormat::Port),
    ("dl_src", MatchField::MacSource, FieldFormat::Mac),
    ("dl_dst", MatchField::MacDestination, FieldFormat::Mac),
    ("eth_src", MatchField::MacSource, FieldFormat::Mac),
    ("eth_dst", MatchField::MacDestination, FieldFormat::Mac),
    ("dl_type", MatchField::EthType, FieldFormat::Number),
    ("eth_type", MatchField::EthType, FieldFormat::Number),
    ("vlan_tci", MatchField::Vlan, FieldFormat::Number),
    ("nw_src", MatchField::Source, FieldFormat::V4),
    ("nw_dst", MatchField::Destination, FieldFormat::V4),
    ("ip_src", MatchField::Source, FieldFormat::V4),
    ("ip_dst", MatchField::Destination, FieldFormat::V4),
    ("arp_spa", MatchField::Source, FieldFormat::V4),
    ("arp_tpa", MatchField::Destination, FieldFormat::V4),
    ("ipv6_src", MatchField::Source, FieldFormat::V6),
    ("ipv6_dst", MatchField::Destination, FieldFormat::V6),
    ("nw_proto", MatchField::Protocol, FieldFormat::Number),
    ("ip_proto", MatchField::Protocol, FieldFormat::Number),
    ("arp_op", MatchField::Protocol, FieldFormat::Number),
    ("tp_src", MatchField::SourcePort, FieldFormat::Number),
    ("tp_dst", MatchField::DestinationPort, FieldFormat::Number),
    ("tcp_src", MatchField::SourcePort, FieldFormat::Number),
    ("tcp_dst", MatchField::DestinationPort, FieldFormat::Number),
    ("udp_src", MatchField::SourcePort, FieldFormat::Number),
    ("udp_dst", MatchField::DestinationPort, FieldFormat::Number),
    ("sctp_src", MatchField::SourcePort, FieldFormat::Number),
    ("sctp_dst", MatchField::DestinationPort, FieldFormat::Number),
    ("icmp_type", MatchField::SourcePort, FieldFormat::Number),
    (
        "icmp_code",
        MatchField::DestinationPort,
        FieldFormat::Number,
    ),
    ("icmpv6_type", MatchField::SourcePort, FieldFormat::Number),
    (
        "icmpv6_code",
        MatchField::DestinationPort,
        FieldFormat::Number,
    ),
    ("tcp_flags", MatchField::TcpFlags, FieldFormat::Flags),
];

/// Value of a field if completely given by a box.
pub fn exact(cube: &PacketCube, field: MatchField) -> Option<u128> {
    let bits = cube.get(field);
    (bits.mask == field.full()).then_some(bits.value)
}
