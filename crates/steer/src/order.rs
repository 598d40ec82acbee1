//! Requested mirroring of a job in a network, by names of switches and ports.

use std::net::IpAddr;

use mirror::ovsdb::Tunnel;
use mirror::{Cube, Part};

use crate::backend::Backend;

/// A switch of a network.
pub struct Site {
    /// Name used in all references.
    pub name: String,
    /// Control channel.
    pub backend: Box<dyn Backend + Send>,
    /// Tunnel endpoint address; none: no tunnels.
    pub tunnel_address: Option<IpAddr>,
}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the switch.
    pub switch: String,
    /// Name of the port.
    pub port: String,
}

impl Place {
    /// By names.
    #[must_use]
    pub fn new(switch: &str, port: &str) -> Place {
        Place { switch: switch.to_owned(), port: port.to_owned() }
    }
}

/// Links and hosts of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Links between ports.
    pub cables: Vec<(Place, Place)>,
    /// Locations of hosts. Other hosts may be anywhere.
    pub hosts: Vec<(IpAddr, Place)>,
}

/// Mirroring of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number; 20 bits, not 0.
    pub id: u32,
    /// Generation.
    pub generation: u8,
    /// Mirrored packets with location and monitor.
    pub taps: Vec<Tap>,
}

/// Jobs by number.
pub type Jobs = std::collections::BTreeMap<u32, Job>;

/// Mirroring from one switch to one monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Name of the switch.
    pub switch: String,
    /// Requested packets.
    pub asked: Vec<Cube>,
    /// Kind of selection.
    pub how: How,
    /// Part of each packet.
    pub part: Part,
    /// Name of the monitor.
    pub monitor: String,
    /// Path to it.
    pub to: To,
}

/// Kind of selection of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// Rules for the requested packets that enter the network at these ports; empty: any port.
    Rules(Vec<String>),
    /// A port mirror of all traffic at these ports; the monitor filters it.
    Mirror(Vec<String>),
}

/// Path to a monitor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// A port of the switch, by name, connected only to the monitor.
    Port(String),
    /// An interface created by this process on the switch's host; see [`crate::Running::interfaces`].
    Interface,
    /// A tunnel to a port of another switch, connected only to the monitor.
    Switch(Tunnel, Place),
    /// A tunnel that ends at the monitor's host.
    Host(Tunnel, IpAddr),
}
