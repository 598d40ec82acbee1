//! Requested mirroring of a job in a network, by names of switches and ports.

use std::net::IpAddr;

use mirror::ovsdb::TunnelKind;
use mirror::{PacketCube, PacketPart};

use crate::backend::SwitchBackend;

/// A switch of a network.
pub struct SwitchSite {
    /// Name used in all references.
    pub name: String,
    /// Control channel.
    pub backend: Box<dyn SwitchBackend + Send>,
    /// Tunnel endpoint address; none: no tunnels.
    pub tunnel_address: Option<IpAddr>,
}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortPlace {
    /// Name of the switch.
    pub switch: String,
    /// Name of the port.
    pub port: String,
}

impl PortPlace {
    /// By names.
    #[must_use]
    pub fn new(switch: &str, port: &str) -> PortPlace {
        PortPlace {
            switch: switch.to_owned(),
            port: port.to_owned(),
        }
    }
}

/// Links and hosts of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkMap {
    /// Links between ports.
    pub cables: Vec<(PortPlace, PortPlace)>,
    /// Locations of hosts. Other hosts may be anywhere.
    pub hosts: Vec<(IpAddr, PortPlace)>,
}

/// Mirroring of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyJob {
    /// Number; 20 bits, not 0.
    pub id: u32,
    /// Generation.
    pub generation: u8,
    /// Mirrored packets with location and monitor.
    pub taps: Vec<CopyTap>,
}

/// Jobs by number.
pub type Jobs = std::collections::BTreeMap<u32, CopyJob>;

/// Mirroring from one switch to one monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTap {
    /// Name of the switch.
    pub switch: String,
    /// Requested packets.
    pub asked: Vec<PacketCube>,
    /// Kind of selection.
    pub how: SelectionMethod,
    /// Part of each packet.
    pub part: PacketPart,
    /// Name of the monitor.
    pub monitor: String,
    /// Path to it.
    pub to: CopyRoute,
}

/// Kind of selection of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionMethod {
    /// Rules for the requested packets that enter the network at these ports; empty: any port.
    Rules(Vec<String>),
    /// A port mirror of all traffic at these ports; the monitor filters it.
    Mirror(Vec<String>),
}

/// Path to a monitor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyRoute {
    /// A port of the switch, by name, connected only to the monitor.
    Port(String),
    /// An interface created by this process on the switch's host; see [`crate::RunningCopies::interfaces`].
    Interface,
    /// A tunnel to a port of another switch, connected only to the monitor.
    Switch(TunnelKind, PortPlace),
    /// A tunnel that ends at the monitor's host.
    Host(TunnelKind, IpAddr),
}
