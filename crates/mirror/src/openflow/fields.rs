//! Names of fields and packet types in `ovs-ofctl`.

use crate::packets::field::{ARP, ICMP, ICMPV6, IPV4, IPV6, SCTP, TCP, UDP};
use crate::packets::{Cube, Field};

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
pub enum Form {
    Port,
    Mac,
    Number,
    V4,
    V6,
    Flags,
}

/// Names of fields for parsing; the first that applies to a packet is printed.
pub const NAMES: [(&str, Field, Form); 32] = [
    ("in_port", Field::InPort, Form::Port),
    ("dl_src", Field::MacSource, Form::Mac),
    ("dl_dst", Field::MacDestination, Form::Mac),
    ("eth_src", Field::MacSource, Form::Mac),
    ("eth_dst", Field::MacDestination, Form::Mac),
    ("dl_type", Field::EthType, Form::Number),
    ("eth_type", Field::EthType, Form::Number),
    ("vlan_tci", Field::Vlan, Form::Number),
    ("nw_src", Field::Source, Form::V4),
    ("nw_dst", Field::Destination, Form::V4),
    ("ip_src", Field::Source, Form::V4),
    ("ip_dst", Field::Destination, Form::V4),
    ("arp_spa", Field::Source, Form::V4),
    ("arp_tpa", Field::Destination, Form::V4),
    ("ipv6_src", Field::Source, Form::V6),
    ("ipv6_dst", Field::Destination, Form::V6),
    ("nw_proto", Field::Protocol, Form::Number),
    ("ip_proto", Field::Protocol, Form::Number),
    ("arp_op", Field::Protocol, Form::Number),
    ("tp_src", Field::SourcePort, Form::Number),
    ("tp_dst", Field::DestinationPort, Form::Number),
    ("tcp_src", Field::SourcePort, Form::Number),
    ("tcp_dst", Field::DestinationPort, Form::Number),
    ("udp_src", Field::SourcePort, Form::Number),
    ("udp_dst", Field::DestinationPort, Form::Number),
    ("sctp_src", Field::SourcePort, Form::Number),
    ("sctp_dst", Field::DestinationPort, Form::Number),
    ("icmp_type", Field::SourcePort, Form::Number),
    ("icmp_code", Field::DestinationPort, Form::Number),
    ("icmpv6_type", Field::SourcePort, Form::Number),
    ("icmpv6_code", Field::DestinationPort, Form::Number),
    ("tcp_flags", Field::TcpFlags, Form::Flags),
];

/// Value of a field if completely given by a box.
pub fn exact(cube: &Cube, field: Field) -> Option<u128> {
    let bits = cube.get(field);
    (bits.mask == field.full()).then_some(bits.value)
}
