//! Packets requested by a query, as boxes: FROM and TO, both directions, over the protocols that its parsers read. In
//! every fragment of a datagram, including the first, a switch sees port 0, so with ports in the conditions, fragments
//! of UDP are requested by address; the monitor filters them by port after reassembly.

use std::net::IpAddr;

use plan::{AddressMatch, MonitorSpec};
use wire::packet::TcpFlags;

use crate::mode::PacketSelection;
use crate::packets::field::{IPV4, IPV6, UDP};
use crate::packets::{MaskedBits, MatchField, PacketCube};
use crate::transports::Transports;

/// Packets that a plan requests in a mode. Boxes may overlap.
#[must_use]
pub fn asked(spec: &MonitorSpec, which: PacketSelection) -> Vec<PacketCube> {
    let any = [AddressMatch {
        net: None,
        port: None,
    }];
    let open = |list: &'_ [AddressMatch]| {
        if list.is_empty() {
            any.to_vec()
        } else {
            list.to_vec()
        }
    };
    let clients = open(&spec.clients);
    let servers = open(&spec.servers);
    let transports = match which {
        PacketSelection::Flags(_) => Transports::Tcp,
        PacketSelection::Port | PacketSelection::Flow => Transports::of(spec),
    };
    let mut cubes = Vec::new();
    for client in &clients {
        for server in &servers {
            for (source, destination) in [(client, server), (server, client)] {
                add(&mut cubes, source, destination, transports);
            }
        }
    }
    cubes = match which {
        PacketSelection::Flags(flags) => {
            cubes.iter().flat_map(|cube| any_of(cube, flags)).collect()
        }
        PacketSelection::Port | PacketSelection::Flow => cubes,
    };
    largest(cubes)
}

/// Adds the packets from one endpoint to the other.
fn add(
    cubes: &mut Vec<PacketCube>,
    source: &AddressMatch,
    destination: &AddressMatch,
    transports: Transports,
) {
    let has_ports = source.port.is_some() || destination.port.is_some();
    for version in [IPV4, IPV6] {
        let ends = [
            (source, MatchField::Source, MatchField::SourcePort),
            (
                destination,
                MatchField::Destination,
                MatchField::DestinationPort,
            ),
        ];
        let network = PacketCube::ALL
            .with(MatchField::EthType, version)
            .canonical();
        let Some(between) = ends.iter().try_fold(network, |cube, (end, address, port)| {
            let cube = match end.net {
                None => cube,
                Some((ip, length)) => prefix(cube, *address, ip, length)?,
            };
            Some(
                end.port
                    .map_or(cube, |number| cube.with(*port, number.into())),
            )
        }) else {
            continue;
        };
        for protocol in transports.protocols(has_ports) {
            cubes.push(
                protocol.map_or(between, |number| between.with(MatchField::Protocol, number)),
            );
            if has_ports && *protocol == Some(UDP) {
                let fragments = between
                    .with(MatchField::Protocol, UDP)
                    .with(MatchField::SourcePort, 0);
                cubes.push(fragments.with(MatchField::DestinationPort, 0));
            }
        }
    }
}

/// Whether these are fragments of datagrams, as seen by a switch.
#[must_use]
pub fn are_fragments(cube: &PacketCube) -> bool {
    let none = MaskedBits::new(0, MatchField::SourcePort.full());
    [MatchField::SourcePort, MatchField::DestinationPort]
        .iter()
        .all(|field| cube.get(*field) == none)
}

/// Packets with an address in a network; `None`: of the other IP version.
#[must_use]
pub fn prefix(
    cube: PacketCube,
    field: MatchField,
    network: IpAddr,
    length: u8,
) -> Option<PacketCube> {
    let (version, number, of) = match network {
        IpAddr::V4(v4) => (IPV4, u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (IPV6, u128::from(v6), 128),
    };
    cube.get(MatchField::EthType)
        .admits(version)
        .then(|| cube.with_prefix(field, number, (length.into(), of)))
}

/// Packets of a TCP box with any of these flags, as disjoint boxes.
fn any_of(cube: &PacketCube, flags: TcpFlags) -> Vec<PacketCube> {
    let mut seen = 0;
    let mut found = Vec::new();
    for bit in (0..8)
        .map(|i| 1u128 << i)
        .filter(|bit| u128::from(flags.0) & bit != 0)
    {
        // Packets with this flag and without the previous ones.
        found.push(cube.with_bits(MatchField::TcpFlags, MaskedBits::new(bit, bit | seen)));
        seen |= bit;
    }
    found
}

/// Removes boxes contained in others.
fn largest(mut cubes: Vec<PacketCube>) -> Vec<PacketCube> {
    cubes.sort_by_key(PacketCube::given);
    let mut kept: Vec<PacketCube> = Vec::new();
    for cube in cubes {
        if !kept.iter().any(|other| other.contains(&cube)) {
            kept.push(cube);
        }
    }
    kept
}
