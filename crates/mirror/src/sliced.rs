//! Restricts requested packets to a slice of flows ([`plan::FlowSlice`]), so that a switch copies only these.

use plan::{FlowSlice, SliceSource};

use crate::asked::are_fragments;
use crate::packets::field::{TCP, UDP};
use crate::packets::{MaskedBits, MatchField, PacketCube};

/// Maximum boxes of sliced packets.
pub const SLICED_MAX: usize = 128;

/// The two fields whose bits select the flows of a slice.
fn fields(coin: SliceSource) -> [MatchField; 2] {
    match coin {
        SliceSource::Ports => [MatchField::SourcePort, MatchField::DestinationPort],
        SliceSource::Addresses => [MatchField::Source, MatchField::Destination],
    }
}

/// Fields for slices of these packets: ports, if all packets have ports and not both are fixed; addresses, if both
/// ports are fixed and not both addresses. `None`: a switch cannot distinguish slices.
#[must_use]
pub fn coin(asked: &[PacketCube]) -> Option<SliceSource> {
    let is_given = |cube: &PacketCube, field: MatchField| cube.get(field).mask & 0xffff == 0xffff;
    let both = |coin| {
        let [one, other] = fields(coin);
        move |cube: &PacketCube| is_given(cube, one) && is_given(cube, other)
    };
    let has_ports = |cube: &PacketCube| {
        let protocol = cube.get(MatchField::Protocol);
        protocol.mask == MatchField::Protocol.full() && [TCP, UDP].contains(&protocol.value)
    };
    // Fragments are copied completely, or sliced by addresses like the others.
    let whole = || asked.iter().filter(|cube| !are_fragments(cube));
    if whole().next().is_none() || !asked.iter().all(has_ports) {
        None
    } else if !whole().any(both(SliceSource::Ports)) {
        Some(SliceSource::Ports)
    } else if whole().all(both(SliceSource::Ports))
        && !asked.iter().any(both(SliceSource::Addresses))
    {
        Some(SliceSource::Addresses)
    } else {
        None
    }
}

/// Packets of these whose flows are in the slice. If no endpoint's bits are fixed, each of their values needs its own
/// box.
#[must_use]
pub fn sliced(asked: &[PacketCube], slice: FlowSlice) -> Vec<PacketCube> {
    let of = |cube: &PacketCube| match slice.coin {
        // The monitor determines their flow after reassembly.
        SliceSource::Ports if are_fragments(cube) => vec![*cube],
        _ => of_one(cube, slice),
    };
    asked.iter().flat_map(of).collect()
}

/// Highest level with at most [`SLICED_MAX`] boxes.
#[must_use]
pub fn level_max(asked: &[PacketCube], slice: FlowSlice) -> u8 {
    let fits = |level: &u8| sliced(asked, slice.at(*level)).len() <= SLICED_MAX;
    (1..=FlowSlice::LEVEL_MAX)
        .take_while(fits)
        .last()
        .unwrap_or(0)
}

fn of_one(cube: &PacketCube, slice: FlowSlice) -> Vec<PacketCube> {
    let mask = u128::from(slice.mask());
    let bits = u128::from(slice.bits());
    let free = |field: &MatchField| mask & !cube.get(*field).mask;
    let mut ends = fields(slice.coin);
    // The endpoint with the most fixed bits has the fewest values.
    ends.sort_by_key(|field| free(field).count_ones());
    let [known, other] = ends;
    let open = free(&known);
    let mut found = Vec::new();
    // All numbers within the free bits.
    let mut value = 0;
    loop {
        let known_bits = MaskedBits::new(cube.get(known).value | value, mask);
        let within = PacketCube::ALL
            .with_bits(known, known_bits)
            .with_bits(other, MaskedBits::new(known_bits.value ^ bits, mask));
        found.extend(cube.and(&within));
        value = value.wrapping_sub(open) & open;
        if value == 0 {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use plan::{AddressMatch, MonitorSpec};

    use super::*;
    use crate::packets::ModelPacket;
    use crate::{PacketSelection, asked};

    fn of(query: [Option<u16>; 2], has_nets: bool) -> Vec<PacketCube> {
        let net = |last: u8| has_nets.then(|| ([10, 0, 0, last].into(), 32));
        let end = |port, last| {
            vec![AddressMatch {
                net: net(last),
                port,
            }]
        };
        let clients = if query[0].is_some() {
            vec![AddressMatch {
                net: None,
                port: query[0],
            }]
        } else {
            Vec::new()
        };
        let spec = MonitorSpec {
            clients,
            servers: end(query[1], 1),
            ..MonitorSpec::default()
        };
        asked(&spec, PacketSelection::Flags(wire::packet::TcpFlags::SYN))
    }

    /// A packet of a connection in each direction.
    fn both(client: u16, server: u16) -> [ModelPacket; 2] {
        let packet = |source: (u128, u16), destination: (u128, u16)| {
            let cube = PacketCube::ALL
                .with(MatchField::EthType, crate::packets::field::IPV4)
                .with(MatchField::Protocol, TCP)
                .with(MatchField::TcpFlags, 2)
                .with(MatchField::Source, source.0)
                .with(MatchField::Destination, destination.0)
                .with(MatchField::SourcePort, source.1.into())
                .with(MatchField::DestinationPort, destination.1.into());
            ModelPacket::of(&cube)
        };
        let client = (0x0a00_0200 + u128::from(client % 251), client);
        let server = (0x0a00_0001, server);
        [packet(client, server), packet(server, client)]
    }

    #[test]
    fn switch_and_monitor_agree_on_slices() {
        for (query, has_nets, expected) in [
            ([None, Some(80)], true, Some(SliceSource::Ports)),
            ([None, Some(80)], false, Some(SliceSource::Ports)),
            ([None, None], true, Some(SliceSource::Ports)),
            ([Some(123), Some(123)], true, Some(SliceSource::Addresses)),
        ] {
            let asked = of(query, has_nets);
            assert_eq!(coin(&asked), expected, "{asked:?}");
            let Some(coin) = expected else { continue };
            let all = FlowSlice {
                coin,
                level: 0,
                drawn: 0x1a7,
            };
            let most = level_max(&asked, all);
            assert!(most >= 5, "{most}");
            for level in 0..=most {
                let slice = all.at(level);
                let boxes = sliced(&asked, slice);
                assert!(boxes.len() <= SLICED_MAX);
                for client in (32_768..60_000).step_by(97) {
                    let client = query[0].unwrap_or(client);
                    for server in [query[1].unwrap_or(8080), query[1].unwrap_or(22)] {
                        let packets = both(client, server);
                        let low = |field| packets[0].get(field) as u16;
                        let ends = fields(coin).map(low);
                        let is_in = packets.map(|packet| {
                            boxes
                                .iter()
                                .filter(|cube| cube.contains(&packet.cube()))
                                .count()
                        });
                        let is_asked = asked.iter().any(|cube| cube.contains(&packets[0].cube()));
                        assert_eq!(
                            is_in,
                            [usize::from(slice.admits(ends) && is_asked); 2],
                            "{slice}: {client}"
                        );
                    }
                }
            }
        }
    }

    /// Fragments have no ports visible to a switch.
    #[test]
    fn fragments_are_copied_whole_where_slices_are_of_ports() {
        let servers = vec![AddressMatch {
            net: Some(([10, 0, 0, 1].into(), 32)),
            port: Some(53),
        }];
        let asked = asked(
            &MonitorSpec {
                servers,
                ..MonitorSpec::default()
            },
            PacketSelection::Flow,
        );
        assert_eq!(coin(&asked), Some(SliceSource::Ports));
        let sliced = sliced(
            &asked,
            FlowSlice {
                coin: SliceSource::Ports,
                level: 3,
                drawn: 0x1a7,
            },
        );
        let fragments = |cubes: &[PacketCube]| {
            cubes
                .iter()
                .copied()
                .filter(are_fragments)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (fragments(&sliced), fragments(&asked).len()),
            (fragments(&asked), 2)
        );
    }

    #[test]
    fn some_packets_have_no_slices() {
        let protocols = asked(&MonitorSpec::default(), PacketSelection::Flow);
        assert_eq!(coin(&protocols), None, "not all have ports");
        assert_eq!(coin(&[]), None);
        // One address and port to another: a single flow.
        let one = of([Some(1), Some(2)], true)
            .iter()
            .map(|cube| {
                cube.with(MatchField::Source, 1)
                    .with(MatchField::Destination, 2)
            })
            .collect::<Vec<_>>();
        assert_eq!(coin(&one), None);
    }
}
