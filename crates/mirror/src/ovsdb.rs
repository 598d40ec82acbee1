//! Mirrors of ports, and ports for copies, as OVSDB has them: operations as arguments of `ovs-vsctl`, one transaction each. A mirror touches no flow table,
//! and a packet reaches it once however it is selected; but its ports are all that it selects by.

use std::net::IpAddr;

use crate::openflow::Owner;

/// A mirror that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMirror {
    /// Whose it is; its name says so.
    pub owner: Owner,
    /// The names of the ports, both directions.
    pub ports: Vec<String>,
    /// The port to which copies go. It carries nothing else while the mirror is there.
    pub output: String,
    /// Maximum bytes of each; 0: all.
    pub snaplen: u16,
}

/// What the names of a server's mirrors begin with.
#[must_use]
pub fn prefix(server: u16) -> String {
    format!("netalytics-{server:03x}-")
}

/// The number of the server whose mirror has this name; `None`: it is not ours.
#[must_use]
pub fn server_of(name: &str) -> Option<u16> {
    u16::from_str_radix(name.strip_prefix("netalytics-")?.split('-').next()?, 16).ok()
}

/// Key in an interface's `external_ids` under which a process records that it made the port, or that it withholds floods from it.
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

/// The arguments that write a record of an interface.
#[must_use]
pub fn set_record(interface: &str, record: &str) -> Vec<String> {
    format!("-- set interface {interface} external_ids:{RECORD}={record}")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// The arguments that remove the record of an interface, if both are there.
#[must_use]
pub fn clear_record(interface: &str) -> Vec<String> {
    format!("-- --if-exists remove interface {interface} external_ids {RECORD}")
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// The number of the job whose mirror has this name; `None`: it is not ours.
#[must_use]
pub fn job_of(name: &str) -> Option<u32> {
    let mut words = name.strip_prefix("netalytics-")?.split('-').skip(1);
    u32::from_str_radix(words.next()?, 16).ok()
}

impl PortMirror {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        let Owner { server, job, generation, actions } = self.owner;
        format!("{}{job:05x}-{generation:02x}-{actions:02x}", prefix(server))
    }

    /// The arguments that make it at a bridge, in one transaction.
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

/// What the names of a server's ports begin with.
#[must_use]
pub fn port_prefix(server: u16) -> String {
    format!("na{:03x}-", server & 0xfff)
}

/// The number of the server whose port has this name; `None`: it is not ours.
#[must_use]
pub fn port_server(name: &str) -> Option<u16> {
    let (server, _) = name.strip_prefix("na")?.split_once('-')?;
    u16::from_str_radix(server, 16).ok()
}

/// A reserved VLAN, in which no port floods to a new port.
const NOBODYS_VLAN: u16 = 4095;

/// A port that is made for copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPort {
    /// Its name, and its interface's.
    pub name: String,
    /// What it is.
    pub kind: PortKind,
}

/// What a port for copies is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A tunnel to another address.
    Tunnel {
        /// How packets are wrapped.
        kind: Tunnel,
        /// The other end.
        remote: IpAddr,
        /// Tells tunnels between the same ends apart.
        key: u32,
        /// Whether the other end is a port of ours as well.
        is_ours: bool,
    },
    /// An interface of the switch's host.
    Interface,
}

/// How packets are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tunnel {
    /// VXLAN, over UDP.
    Vxlan,
    /// GRE, with Ethernet frames inside.
    Gre,
}

impl NewPort {
    /// The arguments that make it at a bridge, in one transaction.
    #[must_use]
    pub fn create(&self, bridge: &str) -> Vec<String> {
        let name = &self.name;
        let kind = match &self.kind {
            PortKind::Interface => String::new(),
            PortKind::Tunnel { kind, remote, key, is_ours } => {
                let kind = if *kind == Tunnel::Vxlan { "vxlan" } else { "gre" };
                // Copies go one way. A switch that hears nothing of the other end for five minutes forgets by which port it is reached, and
                // from then on floods copies to everybody: so both ends say each second that they are there (RFC 5880).
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

/// The arguments that take a port away, if it is there.
#[must_use]
pub fn remove_port(bridge: &str, name: &str) -> Vec<String> {
    format!("-- --if-exists del-port {bridge} {name}").split(' ').map(str::to_owned).collect()
}

/// The arguments that take a mirror away which is there.
#[must_use]
pub fn remove(bridge: &str, name: &str) -> Vec<String> {
    let words = format!("-- --id=@m get mirror {name} -- remove bridge {bridge} mirrors @m");
    words.split(' ').map(str::to_owned).collect()
}
