//! Port mirrors and ports for copies in OVSDB: operations as arguments of `ovs-vsctl`, one transaction each. A mirror
//! changes no flow table, and copies each packet once; it can only select by port.

use std::net::IpAddr;

use crate::openflow::CookieOwner;

/// A mirror to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMirror {
    /// Owner, encoded in the mirror's name.
    pub owner: CookieOwner,
    /// Names of the mirrored ports, both directions.
    pub ports: Vec<String>,
    /// Output port for copies. It carries no other traffic while the mirror exists.
    pub output: String,
    /// Maximum bytes per copy; 0: all.
    pub snaplen: u16,
}

/// Prefix of the names of a server's mirrors.
#[must_use]
pub fn prefix(server: u16) -> String {
    format!("netalytics-{server:03x}-")
}

/// Server number in a mirror's name; `None`: not ours.
#[must_use]
pub fn server_of(name: &str) -> Option<u16> {
    u16::from_str_radix(name.strip_prefix("netalytics-")?.split('-').next()?, 16).ok()
}

/// Key in an interface's `external_ids` by which a process records that it created the port, or that it disabled
/// flooding to it.
pub const RECORD: &str = "netalytics";

/// Value of [`RECORD`]: a server's number, and seconds since 1970.
#[must_use]
pub fn record(server: u16, since: u64) -> String {
    format!("{server:03x}@{since}")
}

/// Server and time of a [`record`].
#[must_use]
pub fn read_record(value: &str) -> Option<(u16, u64)> {
    let (server, since) = value.split_once('@')?;
    Some((u16::from_str_radix(server, 16).ok()?, since.parse().ok()?))
}

/// Arguments that set the record of an interface.
#[must_use]
pub fn set_record(interface: &str, record: &str) -> Vec<String> {
    format!("-- set interface {interface} external_ids:{RECORD}={record}")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// Arguments that remove the record of an interface, if both exist.
#[must_use]
pub fn clear_record(interface: &str) -> Vec<String> {
    format!("-- --if-exists remove interface {interface} external_ids {RECORD}")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// Job number in a mirror's name; `None`: not ours.
#[must_use]
pub fn job_of(name: &str) -> Option<u32> {
    let mut words = name.strip_prefix("netalytics-")?.split('-').skip(1);
    u32::from_str_radix(words.next()?, 16).ok()
}

impl PortMirror {
    /// Name of the mirror.
    #[must_use]
    pub fn name(&self) -> String {
        let CookieOwner {
            server,
            job,
            generation,
            actions,
        } = self.owner;
        format!("{}{job:05x}-{generation:02x}-{actions:02x}", prefix(server))
    }

    /// Arguments of `ovs-vsctl` that create the object on a bridge, in one transaction.
    #[must_use]
    pub fn create(&self, bridge: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut say = |text: &str| words.extend(text.split(' ').map(str::to_owned));
        for (i, port) in self.ports.iter().enumerate() {
            say(&format!("-- --id=@p{i} get port {port}"));
        }
        say(&format!("-- --id=@out get port {}", self.output));
        let sources: Vec<String> = (0..self.ports.len()).map(|i| format!("@p{i}")).collect();
        let sources = sources.join(",");
        say(&format!(
            "-- --id=@m create mirror name={} select-src-port={sources} select-dst-port={sources} output-port=@out",
            self.name()
        ));
        if self.snaplen != 0 {
            say(&format!("snaplen={}", self.snaplen));
        }
        say(&format!("-- add bridge {bridge} mirrors @m"));
        words
    }
}

/// Prefix of the names of a server's ports.
#[must_use]
pub fn port_prefix(server: u16) -> String {
    format!("na{:03x}-", server & 0xfff)
}

/// Server number in a port's name; `None`: not ours.
#[must_use]
pub fn port_server(name: &str) -> Option<u16> {
    let (server, _) = name.strip_prefix("na")?.split_once('-')?;
    u16::from_str_radix(server, 16).ok()
}

/// A reserved VLAN, in which no port floods to a new port.
const NOBODYS_VLAN: u16 = 4095;

/// A port to create for copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPort {
    /// Name of the port and its interface.
    pub name: String,
    /// Kind.
    pub kind: PortKind,
}

/// Kind of a port for copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A tunnel to another address.
    Tunnel {
        /// Encapsulation.
        kind: TunnelKind,
        /// Address of the other end.
        remote: IpAddr,
        /// Key that distinguishes tunnels between the same ends.
        key: u32,
        /// Whether the other end is a port of ours, too.
        is_ours: bool,
    },
    /// An interface on the switch's host.
    Interface,
}

/// Encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TunnelKind {
    /// VXLAN, over UDP.
    Vxlan,
    /// GRE, with Ethernet frames inside.
    Gre,
}

impl NewPort {
    /// Arguments of `ovs-vsctl` that create the object on a bridge, in one transaction.
    #[must_use]
    pub fn create(&self, bridge: &str) -> Vec<String> {
        let name = &self.name;
        let kind = match &self.kind {
            PortKind::Interface => String::new(),
            PortKind::Tunnel {
                kind,
                remote,
                key,
                is_ours,
            } => {
                let kind = if *kind == TunnelKind::Vxlan {
                    "vxlan"
                } else {
                    "gre"
                };
                // Copies flow in one direction. A switch that receives nothing from the other end for five minutes
                // forgets its port and then floods copies; so both ends send keepalives each second (RFC 5880).
                let heard = if *is_ours { " bfd:enable=true" } else { "" };
                format!(
                    " -- set interface {name} type={kind} options:remote_ip={remote} options:key={key}{heard}"
                )
            }
        };
        let text = format!("-- add-port {bridge} {name} tag={NOBODYS_VLAN}{kind}");
        text.split(' ').map(str::to_owned).collect()
    }
}

/// Arguments that remove a port, if it exists.
#[must_use]
pub fn remove_port(bridge: &str, name: &str) -> Vec<String> {
    format!("-- --if-exists del-port {bridge} {name}")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// Arguments that remove an existing mirror.
#[must_use]
pub fn remove(bridge: &str, name: &str) -> Vec<String> {
    let words = format!("-- --id=@m get mirror {name} -- remove bridge {bridge} mirrors @m");
    words.split(' ').map(str::to_owned).collect()
}
