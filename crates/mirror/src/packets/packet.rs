//! A single packet, as counterexample; and the set of possible packets.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::cube::{MaskedBits, PacketCube, without_all};
use super::field::{
    ARP, FIELDS, ICMP, ICMPV6, IPV4, IPV6, MatchField, SCTP, TAGGED, TCP, UDP, WITHOUT_TYPE,
};

/// A value for every field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModelPacket([u128; FIELDS.len()]);

impl ModelPacket {
    /// A packet of a box. Free bits are 0, except in ports and addresses, for readability.
    #[must_use]
    pub fn of(cube: &PacketCube) -> ModelPacket {
        let mut packet = ModelPacket::default();
        for field in FIELDS {
            let bits = cube.get(field);
            packet.0[field as usize] = bits.value | (usual(field, cube) & !bits.mask);
        }
        packet
    }

    /// Value of a field.
    #[must_use]
    pub fn get(&self, field: MatchField) -> u128 {
        self.0[field as usize]
    }

    /// The packet with another value of a field.
    #[must_use]
    pub fn with(mut self, field: MatchField, value: u128) -> ModelPacket {
        self.0[field as usize] = value & field.full();
        self
    }

    /// The box with only this packet.
    #[must_use]
    pub fn cube(&self) -> PacketCube {
        FIELDS.iter().fold(PacketCube::ALL, |cube, field| {
            cube.with(*field, self.get(*field))
        })
    }

    /// Whether a box contains the packet.
    #[must_use]
    pub fn is_in(&self, cube: &PacketCube) -> bool {
        FIELDS
            .iter()
            .all(|field| cube.get(*field).admits(self.get(*field)))
    }
}

/// Default value of a free field.
fn usual(field: MatchField, cube: &PacketCube) -> u128 {
    let is = |f: MatchField, value| cube.get(f).mask == f.full() && cube.get(f).value == value;
    let has_ports = [TCP, UDP, SCTP]
        .iter()
        .any(|p| is(MatchField::Protocol, *p));
    let is_ip = is(MatchField::EthType, IPV4) || is(MatchField::EthType, IPV6);
    match field {
        // An unused hardware address, which no switch has learned.
        MatchField::MacSource => 0x02_6e_61_00_00_01,
        MatchField::MacDestination => 0x02_6e_61_00_00_02,
        MatchField::Source if is_ip => 0x0a00_0001,
        MatchField::Destination if is_ip => 0x0a00_0002,
        MatchField::SourcePort | MatchField::DestinationPort if has_ports && is_ip => 0x9c40,
        _ => 0,
    }
}

/// All possible packets, as disjoint boxes. A field that a packet does not have is 0.
#[must_use]
pub fn well_formed() -> Vec<PacketCube> {
    let none = |cube: PacketCube, fields: &[MatchField]| {
        fields.iter().fold(cube, |cube, field| cube.with(*field, 0))
    };
    let ports = [MatchField::SourcePort, MatchField::DestinationPort];
    let mut all = Vec::new();
    let v4 = |cube: PacketCube| {
        let short = |cube: PacketCube, field| cube.with_prefix(field, 0, (96, 128));
        short(short(cube, MatchField::Source), MatchField::Destination)
    };
    for (network, icmp) in [
        (v4(PacketCube::ALL.with(MatchField::EthType, IPV4)), ICMP),
        (PacketCube::ALL.with(MatchField::EthType, IPV6), ICMPV6),
    ] {
        let of = |protocol| network.with(MatchField::Protocol, protocol);
        let others = without_all(vec![network], &[of(TCP), of(UDP), of(SCTP), of(icmp)]);
        let no_flags = |cube: PacketCube| none(cube, &[MatchField::TcpFlags]);
        let byte = |cube: PacketCube, field| cube.with_prefix(field, 0, (8, 16));
        all.extend([of(TCP), no_flags(of(UDP)), no_flags(of(SCTP))]);
        all.push(
            ports
                .iter()
                .fold(no_flags(of(icmp)), |cube, field| byte(cube, *field)),
        );
        all.extend(others.into_iter().map(|cube| none(no_flags(cube), &ports)));
    }
    all.push(none(
        v4(PacketCube::ALL.with(MatchField::EthType, ARP)),
        &[ports[0], ports[1], MatchField::TcpFlags],
    ));
    let known = [IPV4, IPV6, ARP].map(|kind| PacketCube::ALL.with(MatchField::EthType, kind));
    // Below 0x600 the number is a length; the switch uses one value for all of them.
    let lengths = [(0x0000, 0xfc00), (0x0400, 0xfe00)];
    let lengths = lengths.map(|(value, mask)| {
        PacketCube::ALL.with_bits(MatchField::EthType, MaskedBits::new(value, mask))
    });
    let mut rest = without_all(vec![PacketCube::ALL], known.iter().chain(&lengths));
    rest.push(PacketCube::ALL.with(MatchField::EthType, WITHOUT_TYPE));
    let above = [
        MatchField::Source,
        MatchField::Destination,
        MatchField::Protocol,
        ports[0],
        ports[1],
        MatchField::TcpFlags,
    ];
    all.extend(rest.into_iter().map(|cube| none(cube, &above)));
    // Without a tag there is no VLAN id.
    let tagged = |cube: &PacketCube| {
        [
            cube.with(MatchField::Vlan, 0),
            cube.with_bits(MatchField::Vlan, MaskedBits::new(TAGGED, TAGGED)),
        ]
    };
    all.iter().flat_map(tagged).collect()
}

/// `tcp 10.0.0.1:40000 > 10.0.0.2:80 [SYN] at port 3`.
impl fmt::Display for ModelPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.get(MatchField::EthType);
        let protocol = self.get(MatchField::Protocol);
        let has_ports = [TCP, UDP, SCTP].contains(&protocol);
        match (kind, protocol) {
            (IPV4 | IPV6, TCP) => write!(f, "tcp ")?,
            (IPV4 | IPV6, UDP) => write!(f, "udp ")?,
            (IPV4 | IPV6, SCTP) => write!(f, "sctp ")?,
            (IPV4 | IPV6, _) => write!(f, "ip protocol {protocol} ")?,
            (ARP, _) => write!(f, "arp ")?,
            _ => write!(f, "ethernet 0x{kind:04x}")?,
        }
        if [IPV4, IPV6, ARP].contains(&kind) {
            let ports = (kind != ARP && has_ports).then_some(());
            let end = |address, port| match (kind, ports) {
                (IPV6, None) => Ipv6Addr::from(self.get(address)).to_string(),
                (IPV6, Some(())) => {
                    format!("[{}]:{}", Ipv6Addr::from(self.get(address)), self.get(port))
                }
                (_, None) => Ipv4Addr::from(self.get(address) as u32).to_string(),
                (_, Some(())) => format!(
                    "{}:{}",
                    Ipv4Addr::from(self.get(address) as u32),
                    self.get(port)
                ),
            };
            let from = end(MatchField::Source, MatchField::SourcePort);
            let to = end(MatchField::Destination, MatchField::DestinationPort);
            write!(f, "{from} > {to}")?;
        }
        if protocol == TCP && (kind == IPV4 || kind == IPV6) {
            write!(f, " [{}]", flags(self.get(MatchField::TcpFlags)))?;
        }
        if self.get(MatchField::Vlan) & TAGGED != 0 {
            write!(f, " vlan {}", self.get(MatchField::Vlan) & 0xfff)?;
        }
        write!(f, " at port {}", self.get(MatchField::InPort))
    }
}

/// Names of TCP flags, from the lowest bit.
pub const FLAGS: [&str; 12] = [
    "fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]",
];

fn flags(set: u128) -> String {
    let names = FLAGS.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
    let names: Vec<String> = names.map(|(_, name)| name.to_uppercase()).collect();
    if names.is_empty() {
        "no flags".to_owned()
    } else {
        names.join(" ")
    }
}
