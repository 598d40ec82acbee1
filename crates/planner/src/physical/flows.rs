//! Assignment of flows to switches: each flow is covered at the switch of its server, or of its client if the network
//! does not contain the server. Each flow is thus covered by one switch, whatever path its packets take.

use std::collections::BTreeMap;
use std::net::IpAddr;

use plan::{AddressMatch, MonitorSpec};

use crate::query_text;
use crate::topology::{HostId, NetworkSite};

/// Flows of one switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SwitchFlows {
    pub(super) clients: Vec<AddressMatch>,
    pub(super) servers: Vec<AddressMatch>,
    pub(super) hosts: Vec<HostId>,
}

/// The covered flows by switch, and a description of those not covered.
pub(super) fn covered(
    spec: &MonitorSpec,
    site: &NetworkSite,
) -> (BTreeMap<usize, Vec<SwitchFlows>>, Vec<String>) {
    let mut at: BTreeMap<usize, Vec<SwitchFlows>> = BTreeMap::new();
    let mut uncovered = Vec::new();
    let any = vec![AddressMatch {
        net: None,
        port: None,
    }];
    let servers = if spec.servers.is_empty() {
        &any
    } else {
        &spec.servers
    };
    let mut found: BTreeMap<usize, SwitchFlows> = BTreeMap::new();
    for end in servers {
        let of = by_switch(site, std::slice::from_ref(end));
        if of.is_empty() {
            let clients = by_switch(site, &spec.clients);
            if clients.is_empty() {
                let ends = query_text::end(end);
                uncovered.push(format!(
                    "flows to {ends}: the network file has neither such servers nor their clients"
                ));
            }
            for (switch, hosts) in clients {
                let clients = ends_of(
                    site,
                    &hosts,
                    &AddressMatch {
                        net: None,
                        port: None,
                    },
                );
                let clients = with_ports(clients, &spec.clients);
                at.entry(switch).or_default().push(SwitchFlows {
                    clients,
                    servers: vec![*end],
                    hosts,
                });
            }
            continue;
        }
        if end.net.is_none_or(|net| !is_one(net)) {
            let ends = query_text::end(end);
            uncovered.push(format!(
                "flows to {ends}: the network file does not name their server"
            ));
        }
        for (switch, hosts) in of {
            let part = found.entry(switch).or_default();
            part.clients.clone_from(&spec.clients);
            part.servers.extend(ends_of(site, &hosts, end));
            part.hosts.extend(hosts);
        }
    }
    for (switch, mut part) in found {
        part.hosts.sort_unstable();
        part.hosts.dedup();
        at.entry(switch).or_default().insert(0, part);
    }
    (at, uncovered)
}

/// The hosts that match the endpoints, by switch; spare hosts only if named.
fn by_switch(site: &NetworkSite, ends: &[AddressMatch]) -> BTreeMap<usize, Vec<HostId>> {
    let mut found: BTreeMap<usize, Vec<HostId>> = BTreeMap::new();
    for (index, host) in site.hosts.iter().enumerate() {
        let is_meant = |end: &AddressMatch| match end.net {
            None => !host.spare && !host.addresses.is_empty(),
            Some(net) => {
                let is_named = is_one(net);
                (is_named || !host.spare)
                    && host.addresses.iter().any(|address| is_in(*address, net))
            }
        };
        if ends.is_empty()
            && is_meant(&AddressMatch {
                net: None,
                port: None,
            })
            || ends.iter().any(is_meant)
        {
            found
                .entry(host.at.switch)
                .or_default()
                .push(index as HostId);
        }
    }
    found
}

/// The endpoint restricted to the addresses of these hosts, but not its whole network, which may include hosts
/// elsewhere.
fn ends_of(site: &NetworkSite, hosts: &[HostId], end: &AddressMatch) -> Vec<AddressMatch> {
    let addresses = hosts
        .iter()
        .flat_map(|host| &site.hosts[*host as usize].addresses);
    let own = addresses.filter(|address| end.net.is_none_or(|net| is_in(**address, net)));
    own.map(|address| AddressMatch {
        net: Some((*address, bits(*address))),
        port: end.port,
    })
    .collect()
}

/// Adds the port of the requested clients, if they all share one.
fn with_ports(mut ends: Vec<AddressMatch>, asked: &[AddressMatch]) -> Vec<AddressMatch> {
    if let Some(port) = asked.first().and_then(|end| end.port)
        && asked.iter().all(|end| end.port == Some(port))
    {
        ends.iter_mut().for_each(|end| end.port = Some(port));
    }
    ends
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn is_one((address, length): (IpAddr, u8)) -> bool {
    length == bits(address)
}

/// An address as a 128-bit number, left-aligned.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => v6.into(),
    }
}

/// Whether an address belongs to a network.
pub(super) fn is_in(address: IpAddr, (net, length): (IpAddr, u8)) -> bool {
    let differ = number(address) ^ number(net);
    address.is_ipv4() == net.is_ipv4() && differ.leading_zeros() >= u32::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_networks() {
        for (address, net, length, expected) in [
            ("10.0.0.3", "10.0.0.0", 30, true),
            ("10.0.0.4", "10.0.0.0", 30, false),
            ("10.0.0.4", "0.0.0.0", 0, true),
            ("fd00::1", "0.0.0.0", 0, false),
            ("fd00::1", "fd00::", 8, true),
            ("fd00::1", "fd00::1", 128, true),
        ] {
            let of = |text: &str| text.parse().expect("an address");
            assert_eq!(
                is_in(of(address), (of(net), length)),
                expected,
                "{address} in {net}/{length}"
            );
        }
    }
}
