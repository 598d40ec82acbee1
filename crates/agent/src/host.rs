//! Properties of the host: interfaces, cores, memory, and capture methods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::num::NonZero;
use std::path::Path;

use capture::interfaces::{InterfaceState, NetworkInterface, interfaces};
use control::taps::tells_hosts_apart;

/// Properties of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentHost {
    /// Interfaces that are up.
    pub interfaces: Vec<String>,
    /// Addresses that can identify the host, with their interface.
    pub addresses: Vec<(String, IpAddr)>,
    /// Interfaces that carry the traffic of an interface with addresses: the ports of a bridge, the device below a VLAN
    /// or a bond.
    pub below: BTreeMap<String, BTreeSet<String>>,
    /// Cores available to the agent.
    pub cores: u32,
    /// Memory of the machine in bytes; 0: unknown.
    pub memory_bytes: u64,
    /// Capabilities.
    pub capabilities: Vec<HostCapability>,
}

/// A capability of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostCapability {
    /// Capture with the kernel's packet ring.
    AfPacket,
    /// Capture with AF_XDP.
    AfXdp,
    /// The host has an Open vSwitch.
    OpenVswitch,
    /// The host receives export messages of switches and routers, as permitted by its policy.
    Exports,
    /// The host keeps packets, as permitted by its policy.
    Packets,
}

/// Linux capabilities by number (`capabilities(7)`).
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const BPF: u32 = 39;

impl HostCapability {
    /// Name for output and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HostCapability::AfPacket => "af_packet",
            HostCapability::AfXdp => "af_xdp",
            HostCapability::OpenVswitch => "open_vswitch",
            HostCapability::Exports => "exports",
            HostCapability::Packets => link::KEEPS_PACKETS,
        }
    }
}

impl AgentHost {
    /// Properties of this host.
    #[must_use]
    pub fn look() -> AgentHost {
        let interfaces: Vec<NetworkInterface> = interfaces()
            .unwrap_or_default()
            .into_iter()
            .filter(|i| i.state != InterfaceState::Down)
            .collect();
        let addresses = addresses(&interfaces);
        AgentHost {
            below: below(
                addresses.iter().map(|(owner, _)| owner),
                Path::new("/sys/class/net"),
            ),
            addresses,
            interfaces: interfaces.into_iter().map(|i| i.name).collect(),
            cores: std::thread::available_parallelism().map_or(1, NonZero::get) as u32,
            memory_bytes: fs::read_to_string("/proc/meminfo")
                .ok()
                .and_then(|text| memory(&text))
                .unwrap_or(0),
            capabilities: capabilities(
                &fs::read_to_string("/proc/self/status").unwrap_or_default(),
                Path::new("/run/openvswitch/db.sock").exists(),
            ),
        }
    }
}

impl AgentHost {
    /// Addresses whose traffic passes the matching interfaces, with their interface.
    #[must_use]
    pub fn addresses_on(&self, is_meant: impl Fn(&str) -> bool) -> Vec<(String, IpAddr)> {
        let passes = |owner: &String| {
            is_meant(owner)
                || self
                    .below
                    .get(owner)
                    .is_some_and(|all| all.iter().any(|name| is_meant(name)))
        };
        self.addresses
            .iter()
            .filter(|(owner, _)| passes(owner))
            .cloned()
            .collect()
    }
}

/// Relations between interfaces, from sysfs.
fn below<'a>(
    owners: impl Iterator<Item = &'a String>,
    net: &Path,
) -> BTreeMap<String, BTreeSet<String>> {
    let of = |owner: &String| {
        let mut found = BTreeSet::new();
        let mut next = vec![owner.clone()];
        while let Some(name) = next.pop() {
            let entries = fs::read_dir(net.join(name)).into_iter().flatten().flatten();
            let lower = |entry: fs::DirEntry| {
                Some(
                    entry
                        .file_name()
                        .to_str()?
                        .strip_prefix("lower_")?
                        .to_owned(),
                )
            };
            next.extend(
                entries
                    .filter_map(lower)
                    .filter(|name| found.insert(name.clone())),
            );
        }
        (owner.clone(), found)
    };
    owners
        .map(of)
        .filter(|(_, found)| !found.is_empty())
        .collect()
}

fn addresses(interfaces: &[NetworkInterface]) -> Vec<(String, IpAddr)> {
    let of = |interface: &NetworkInterface| {
        let name = interface.name.clone();
        let apart = interface
            .addresses
            .iter()
            .copied()
            .filter(tells_hosts_apart);
        apart.map(move |ip| (name.clone(), ip)).collect::<Vec<_>>()
    };
    interfaces.iter().flat_map(of).collect()
}

/// Memory of the machine, from `/proc/meminfo`.
fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Capabilities by `/proc/self/status` and the presence of Open vSwitch's database.
fn capabilities(status: &str, has_switch: bool) -> Vec<HostCapability> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let has = |n: u32| bits >> n & 1 == 1;
    let all = [
        (HostCapability::AfPacket, has(NET_RAW)),
        (
            HostCapability::AfXdp,
            has(NET_RAW) && has(NET_ADMIN) && has(BPF),
        ),
        (HostCapability::OpenVswitch, has_switch),
    ];
    all.into_iter()
        .filter(|(_, can)| *can)
        .map(|(what, _)| what)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        use HostCapability::{AfPacket, AfXdp, OpenVswitch};
        for (status, has_switch, expected) in [
            (
                "Name:\tx\nCapEff:\t000001ffffffffff\n",
                true,
                vec![AfPacket, AfXdp, OpenVswitch],
            ),
            ("CapEff:\t0000000000002000\n", false, vec![AfPacket]),
            ("CapEff:\t0000000000003000\n", false, vec![AfPacket]),
            ("CapEff:\t0000000000000000\n", false, vec![]),
            ("CapEff:\tnonsense\n", false, vec![]),
            ("", false, vec![]),
        ] {
            assert_eq!(capabilities(status, has_switch), expected, "{status:?}");
        }
        for (text, expected) in [
            (
                "MemTotal:       24576 kB\nMemFree: 1 kB\n",
                Some(24576 * 1024),
            ),
            ("MemTotal: 99999999999999999999 kB\n", None),
            ("MemTotal: 1\n", None),
            ("", None),
        ] {
            assert_eq!(memory(text), expected, "{text:?}");
        }
    }

    #[test]
    fn addresses_include_the_interfaces_below() {
        let net = tempfile::tempdir().expect("a folder");
        // A VLAN of a bridge over a bond of two devices, as in sysfs.
        for (upper, lowers) in [
            ("br0.7", &["br0"][..]),
            ("br0", &["bond0"]),
            ("bond0", &["eth0", "eth1"]),
            ("eth0", &[]),
        ] {
            fs::create_dir(net.path().join(upper)).expect("made");
            for lower in lowers {
                fs::create_dir(net.path().join(upper).join(format!("lower_{lower}")))
                    .expect("made");
            }
        }
        let addresses: Vec<(String, IpAddr)> = [
            ("br0.7", [10, 7, 0, 1]),
            ("eth9", [10, 9, 0, 1]),
            ("eth0", [10, 0, 0, 1]),
        ]
        .map(|(owner, ip)| (owner.to_owned(), ip.into()))
        .into();
        let below = below(addresses.iter().map(|(owner, _)| owner), net.path());
        let host = AgentHost {
            addresses,
            below,
            ..AgentHost::default()
        };
        for (meant, expected) in [
            ("br0.7", &["10.7.0.1"][..]),
            ("bond0", &["10.7.0.1"]),
            ("eth1", &["10.7.0.1"]),
            ("eth0", &["10.7.0.1", "10.0.0.1"]),
            ("eth9", &["10.9.0.1"]),
            ("lo", &[]),
        ] {
            let found = host.addresses_on(|name| name == meant);
            let found: Vec<String> = found.into_iter().map(|(_, ip)| ip.to_string()).collect();
            assert_eq!(found, expected, "{meant}");
        }
    }

    #[test]
    fn this_host_has_something() {
        let host = AgentHost::look();
        assert!(host.interfaces.iter().any(|name| name == "lo"), "{host:?}");
        assert!(host.cores > 0 && host.memory_bytes > 0, "{host:?}");
    }
}
