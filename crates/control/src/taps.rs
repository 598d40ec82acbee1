//! Owners of addresses among the agents of a job, so that one agent reports a flow seen by several: computes the table
//! by which each agent decides. Addresses of several hosts, and those local to a link or host, are ignored.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use link::HostCapacity;

use crate::pattern::matches;

/// Agents that report a flow seen by several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TapAssignment {
    /// One, by a table of addresses.
    #[default]
    One,
    /// All taps.
    All,
}

/// Maximum addresses of one agent.
const OF_AGENT_MAX: usize = 1024;
/// Maximum addresses of all agents of a job.
const OF_JOB_MAX: usize = 65_536;

/// Owner of each address that belongs to one agent only.
pub(crate) type Owners = BTreeMap<IpAddr, String>;

/// Addresses whose traffic passes these interfaces of a host; empty: all interfaces. If an agent does not report
/// addresses per interface, all its addresses count.
pub(crate) fn seen<'a>(capacity: &'a HostCapacity, interfaces: &[String]) -> Cow<'a, [Bytes]> {
    if interfaces.is_empty() || capacity.passing.is_empty() {
        return Cow::Borrowed(&capacity.addresses);
    }
    let is_meant = |interface: &str| interfaces.iter().any(|pattern| matches(pattern, interface));
    let meant = capacity
        .passing
        .iter()
        .filter(|passing| is_meant(&passing.interface));
    Cow::Owned(
        meant
            .flat_map(|passing| passing.addresses.iter().cloned())
            .collect(),
    )
}

/// Owner of each address that belongs to one agent only.
pub(crate) fn owners<'a>(agents: impl Iterator<Item = (&'a String, Cow<'a, [Bytes]>)>) -> Owners {
    let mut owners: BTreeMap<IpAddr, Option<&String>> = BTreeMap::new();
    for (agent, addresses) in agents {
        for ip in addresses
            .iter()
            .take(OF_AGENT_MAX)
            .filter_map(|bytes| read(bytes))
            .filter(tells_hosts_apart)
        {
            let owner = owners.entry(ip).or_insert(Some(agent));
            owner.take_if(|owner| *owner != agent);
        }
    }
    let owned = owners
        .into_iter()
        .filter_map(|(ip, agent)| Some((ip, agent?.clone())));
    owned.take(OF_JOB_MAX).collect()
}

/// Table of one agent.
pub(crate) fn table(owners: &Owners, agent: &str) -> link::TapTableMessage {
    let (own, others): (Vec<_>, Vec<_>) = owners.iter().partition(|(_, owner)| *owner == agent);
    let all = |list: Vec<(&IpAddr, &String)>| list.into_iter().map(|(ip, _)| write(*ip)).collect();
    link::TapTableMessage {
        own: all(own),
        others: all(others),
    }
}

/// Whether an address can identify a host: not loopback, link-local and similar ones.
#[must_use]
pub fn tells_hosts_apart(ip: &IpAddr) -> bool {
    let is_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(is_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

/// Encodes an address: 4 or 16 bytes.
#[must_use]
pub fn write(ip: IpAddr) -> Bytes {
    match ip {
        IpAddr::V4(ip) => Bytes::copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => Bytes::copy_from_slice(&ip.octets()),
    }
}

/// Decodes an address; `None`: invalid.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|octets| Ipv6Addr::from(octets).to_canonical()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses of agents; checks the table of the first.
    fn check(agents: &[&[&str]], own: &[&str], others: &[&str]) {
        let ips = |list: &[&str]| -> Vec<Bytes> {
            list.iter()
                .map(|ip| write(ip.parse().expect("an address")))
                .collect()
        };
        let all: BTreeMap<String, Vec<Bytes>> = agents
            .iter()
            .enumerate()
            .map(|(i, list)| (i.to_string(), ips(list)))
            .collect();
        let owners = owners(
            all.iter()
                .map(|(agent, list)| (agent, Cow::Borrowed(list.as_slice()))),
        );
        let sorted = |mut list: Vec<Bytes>| {
            list.sort();
            list
        };
        let table = table(&owners, "0");
        assert_eq!(sorted(table.own), sorted(ips(own)), "own: {agents:?}");
        assert_eq!(
            sorted(table.others),
            sorted(ips(others)),
            "others: {agents:?}"
        );
    }

    #[test]
    fn addresses_of_several_agents_are_ignored() {
        check(
            &[&["10.0.0.1"], &["10.0.0.2", "2001:db8::2"]],
            &["10.0.0.1"],
            &["10.0.0.2", "2001:db8::2"],
        );
        check(
            &[
                &["10.0.0.1", "127.0.0.1", "172.17.0.1", "169.254.0.1"],
                &["172.17.0.1", "10.0.0.2", "::1"],
            ],
            &["10.0.0.1"],
            &["10.0.0.2"],
        );
        // A virtual address of two agents, and then of a third.
        check(
            &[
                &["10.0.0.1", "10.0.0.9"],
                &["10.0.0.9"],
                &["10.0.0.9", "fe80::1"],
            ],
            &["10.0.0.1"],
            &[],
        );
        check(
            &[
                &["10.0.0.1", "10.0.0.1"],
                &["::", "ff02::1", "255.255.255.255"],
            ],
            &["10.0.0.1"],
            &[],
        );
        check(&[&[], &["10.0.0.2"]], &[], &["10.0.0.2"]);
    }

    #[test]
    fn jobs_claim_the_addresses_of_their_interfaces() {
        let ips = |list: &[&str]| -> Vec<Bytes> {
            list.iter()
                .map(|ip| write(ip.parse().expect("an address")))
                .collect()
        };
        let passing = |interface: &str, list: &[&str]| link::InterfaceAddresses {
            interface: interface.into(),
            addresses: ips(list),
        };
        // The bridge's address passes the card below it.
        let capacity = HostCapacity {
            addresses: ips(&["10.0.0.1", "10.1.0.1", "10.2.0.1"]),
            passing: vec![
                passing("eth0", &["10.1.0.1"]),
                passing("eth1", &["10.0.0.1"]),
                passing("br-a", &["10.1.0.1"]),
                passing("br-b", &["10.2.0.1"]),
            ],
            ..HostCapacity::default()
        };
        let before = HostCapacity {
            passing: Vec::new(),
            ..capacity.clone()
        };
        for (interfaces, expected) in [
            (&[][..], &["10.0.0.1", "10.1.0.1", "10.2.0.1"][..]),
            (&["eth1"], &["10.0.0.1"]),
            (&["eth0"], &["10.1.0.1"]),
            (&["br-*", "eth1"], &["10.0.0.1", "10.1.0.1", "10.2.0.1"]),
            (&["wlan0"], &[]),
        ] {
            let named: Vec<String> = interfaces.iter().map(|name| (*name).to_owned()).collect();
            let mut found = seen(&capacity, &named).into_owned();
            found.sort();
            assert_eq!(found, ips(expected), "{interfaces:?}");
            assert_eq!(
                *seen(&before, &named),
                *before.addresses,
                "an agent of the version before claims all"
            );
        }
    }

    #[test]
    fn malformed_addresses_are_skipped() {
        for bytes in [&b""[..], b"abc", &[0; 17]] {
            assert_eq!(read(bytes), None);
        }
        assert_eq!(
            read(&Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets()),
            "10.0.0.1".parse().ok()
        );
    }
}
