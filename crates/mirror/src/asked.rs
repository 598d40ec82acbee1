//! Packets requested by a query, as boxes: FROM and TO, both directions, over the protocols that its parsers read. In
//! every fragment of a datagram, including the first, a switch sees port 0, so with ports in the conditions, fragments
//! of UDP are requested by address; the monitor filters them by port after reassembly.

use std::net::IpAddr;

use plan::{AddressMatch, MonitorSpec};
use wire::packet::TcpFlags;

use crate::mode::Which;
use crate::packets::field::{IPV4, IPV6, UDP};
use crate::packets::{Bits, Cube, Field};
use crate::transports::Transports;

/// Packets that a plan requests in a mode. Boxes may overlap.
#[must_use]
pub fn asked(spec: &MonitorSpec, which: Which) -> Vec<Cube> {
    let any = [AddressMatch { net: None, port: None }];
    let open = |list: &'_ [AddressMatch]| if list.is_empty() { any.to_vec() } else { list.to_vec() };
    let (clients, servers) = (open(&spec.clients), open(&spec.servers));
    let transports = match which {
        Which::Flags(_) => Transports::Tcp,
        Which::Port | Which::Flow => Transports::of(spec),
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
        Which::Flags(flags) => cubes.iter().flat_map(|cube| any_of(cube, flags)).collect(),
        Which::Port | Which::Flow => cubes,
    };
    largest(cubes)
}

/// Adds the packets from one endpoint to the other.
fn add(cubes: &mut Vec<Cube>, source: &AddressMatch, destination: &AddressMatch, transports: Transports) {
    let has_ports = source.port.is_some() || destination.port.is_some();
    for version in [IPV4, IPV6] {
        let ends = [
            (source, Field::Source, Field::SourcePort),
            (destination, Field::Destination, Field::DestinationPort),
        ];
        let network = Cube::ALL.with(Field::EthType, version).canonical();
        let Some(between) = ends.iter().try_fold(network, |cube, (end, address, port)| {
            let cube = match end.net {
                None => cube,
                Some((ip, length)) => prefix(cube, *address, ip, length)?,
            };
            Some(end.port.map_or(cube, |number| cube.with(*port, number.into())))
        }) else {
            continue;
        };
        for protocol in transports.protocols(has_ports) {
            cubes.push(protocol.map_or(between, |number| between.with(Field::Protocol, number)));
            if has_ports && *protocol == Some(UDP) {
                let fragments = between.with(Field::Protocol, UDP).with(Field::SourcePort, 0);
                cubes.push(fragments.with(Field::DestinationPort, 0));
            }
        }
    }
}

/// Whether these are fragments of datagrams, as seen by a switch.
#[must_use]
pub fn are_fragments(cube: &Cube) -> bool {
    let none = Bits::new(0, Field::SourcePort.full());
    [Field::SourcePort, Field::DestinationPort].iter().all(|field| cube.get(*field) == none)
}

/// Packets with an address in a network; `None`: of the other IP version.
#[must_use]
pub fn prefix(cube: Cube, field: Field, network: IpAddr, length: u8) -> Option<Cube> {
    let (version, number, of) = match network {
        IpAddr::V4(v4) => (IPV4, u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (IPV6, u128::from(v6), 128),
    };
    cube.get(Field::EthType).admits(version).then(|| cube.with_prefix(field, number, (length.into(), of)))
}

/// Packets of a TCP box with any of these flags, as disjoint boxes.
fn any_of(cube: &Cube, flags: TcpFlags) -> Vec<Cube> {
    let mut seen = 0;
    let mut found = Vec::new();
    for bit in (0..8).map(|i| 1u128 << i).filter(|bit| u128::from(flags.0) & bit != 0) {
        // This flag, and none of the previous ones.
        found.push(cube.with_bits(Field::TcpFlags, Bits::new(bit, bit | seen)));
        seen |= bit;
    }
    found
}

/// Removes boxes contained in others.
fn largest(mut cubes: Vec<Cube>) -> Vec<Cube> {
    cubes.sort_by_key(Cube::given);
    let mut kept: Vec<Cube> = Vec::new();
    for cube in cubes {
        if !kept.iter().any(|other| other.contains(&cube)) {
            kept.push(cube);
        }
    }
    kept
}
