//! Expected traffic of flows, and the amount copied by each mode.

use mirror::{MirrorMode, PacketPart as Bytes, PacketSelection};
use plan::AddressMatch;

use super::costs::{PlanCosts, TrafficShape};
use super::flows::{SwitchFlows, is_in};
use super::physical_plan::TrafficRates;
use crate::topology::{ExpectedTraffic, HostId, NetworkSite};

/// Bytes of a packet at the start or end of a connection.
const END_BYTES: f64 = 74.0;
/// Packets at the start and end of a connection.
const END_PACKETS: f64 = 4.0;
/// Packets of an exchange that end a message.
const PUSHED_PACKETS: f64 = 2.0;

/// Expected traffic of flows at one switch.
pub(super) fn rates(
    parts: &[SwitchFlows],
    site: &NetworkSite,
    expected: &[ExpectedTraffic],
    costs: &PlanCosts,
) -> TrafficRates {
    let mut rates = TrafficRates::default();
    let mut hosts: Vec<HostId> = parts
        .iter()
        .flat_map(|part| part.hosts.iter().copied())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    for part in parts {
        let of_servers = part
            .servers
            .iter()
            .any(|end| part.hosts.iter().any(|host| is_of(site, *host, end)));
        for host in &part.hosts {
            let said: Vec<(f64, Option<f64>)> = expected
                .iter()
                .filter_map(|known| of_host(known, part, (site, *host), of_servers))
                .collect();
            if said.is_empty() {
                rates.mbps += supposed(site, *host, costs);
                rates.supposed = true;
            }
            for (mbps, connections) in said {
                rates.mbps += mbps;
                rates.connections +=
                    connections.unwrap_or_else(|| connections_of(mbps, &costs.traffic));
            }
        }
    }
    if rates.supposed && rates.connections == 0.0 {
        rates.connections = connections_of(rates.mbps, &costs.traffic);
    }
    rates.packets = packets(rates.mbps, &costs.traffic);
    let passing: f64 = hosts
        .iter()
        .map(|host| passing(site, *host, expected, costs))
        .sum();
    rates.passing_mbps = passing.max(rates.mbps);
    rates
}

/// The share of an expectation for one host of a part; divided equally between all matching hosts.
fn of_host(
    known: &ExpectedTraffic,
    part: &SwitchFlows,
    (site, host): (&NetworkSite, HostId),
    of_servers: bool,
) -> Option<(f64, Option<f64>)> {
    let (own, own_asked, other, other_asked) = if of_servers {
        (&known.servers, &part.servers, &known.clients, &part.clients)
    } else {
        (&known.clients, &part.clients, &known.servers, &part.servers)
    };
    let asked = own_asked.is_empty() || own_asked.iter().any(|end| meet(end, own));
    let answered = other_asked.is_empty() || other_asked.iter().any(|end| meet(end, other));
    if !(asked && answered && is_of(site, host, own)) {
        return None;
    }
    let count = (0..site.hosts.len())
        .filter(|other| is_of(site, *other as HostId, own))
        .count()
        .max(1) as f64;
    Some((
        known.mbps / count,
        known.connections.map(|rate| rate / count),
    ))
}

/// Whether two endpoints overlap.
fn meet(a: &AddressMatch, b: &AddressMatch) -> bool {
    let ports = a.port.is_none() || b.port.is_none() || a.port == b.port;
    let nets = match (a.net, b.net) {
        (Some(a), Some(b)) => is_in(a.0, b) || is_in(b.0, a),
        _ => true,
    };
    ports && nets
}

fn is_of(site: &NetworkSite, host: HostId, end: &AddressMatch) -> bool {
    let host = &site.hosts[host as usize];
    end.net.map_or(!host.spare, |net| {
        host.addresses.iter().any(|address| is_in(*address, net))
    })
}

fn supposed(site: &NetworkSite, host: HostId, costs: &PlanCosts) -> f64 {
    site.hosts[host as usize].has.mbps * costs.traffic.link_share
}

/// Total traffic at a host's port.
fn passing(
    site: &NetworkSite,
    host: HostId,
    expected: &[ExpectedTraffic],
    costs: &PlanCosts,
) -> f64 {
    let of = |known: &ExpectedTraffic| {
        let meant = |end: &AddressMatch| {
            let count = (0..site.hosts.len())
                .filter(|other| is_of(site, *other as HostId, end))
                .count();
            let is_meant = end.net.is_some() && is_of(site, host, end);
            if is_meant {
                known.mbps / count.max(1) as f64
            } else {
                0.0
            }
        };
        meant(&known.clients) + meant(&known.servers)
    };
    let known: f64 = expected.iter().map(of).sum();
    if known > 0.0 {
        known
    } else {
        supposed(site, host, costs)
    }
}

fn packets(mbps: f64, shape: &TrafficShape) -> f64 {
    mbps * 1e6 / 8.0 / shape.packet_bytes
}

fn connections_of(mbps: f64, shape: &TrafficShape) -> f64 {
    packets(mbps, shape) / shape.connection_packets
}

/// Mb/s and packets per second copied by a mode.
pub(super) fn copied(mode: MirrorMode, rates: &TrafficRates, costs: &PlanCosts) -> (f64, f64) {
    let shape = &costs.traffic;
    let (packets_copied, bytes) = match mode.which {
        PacketSelection::Port => (packets(rates.passing_mbps, shape), shape.packet_bytes),
        PacketSelection::Flow => (rates.packets, shape.packet_bytes),
        _ if mode == MirrorMode::ENDS => (
            (rates.connections * END_PACKETS).min(rates.packets),
            END_BYTES,
        ),
        _ if mode == MirrorMode::PUSHED => (
            rates.packets * (PUSHED_PACKETS / shape.exchange_packets).min(1.0),
            shape.packet_bytes,
        ),
        // All but the first packets of connections.
        PacketSelection::Flags(_) => (
            (rates.packets - rates.connections).max(0.0),
            shape.packet_bytes,
        ),
    };
    let bytes = match mode.part {
        Bytes::Whole => bytes,
        Bytes::First(most) => bytes.min(most.into()),
    };
    (packets_copied * bytes * 8.0 / 1e6, packets_copied)
}
