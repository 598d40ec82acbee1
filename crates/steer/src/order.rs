//! The copies of a job in a network, by names of switches and ports.

use std::net::IpAddr;

use mirror::ovsdb::Tunnel;
use mirror::{Cube, Part};

use crate::backend::Backend;

/// A switch of a network.
pub struct Site {
    /// Its name, by which all else speaks of it.
    pub name: String,
    /// How it is reached.
    pub backend: Box<dyn Backend + Send>,
    /// Where tunnels to it end; none: none can.
    pub tunnel_address: Option<IpAddr>,
}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The switch's name.
    pub switch: String,
    /// The port's.
    pub port: String,
}

impl Place {
    /// By names.
    #[must_use]
    pub fn new(switch: &str, port: &str) -> Place {
        Place { switch: switch.to_owned(), port: port.to_owned() }
    }
}

/// What is known of a network besides its switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Which ports are joined.
    pub cables: Vec<(Place, Place)>,
    /// Which hosts are where. Of others it is supposed that they may be anywhere.
    pub hosts: Vec<(IpAddr, Place)>,
}

/// What one job has copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number; 20 bits, 0 is none.
    pub id: u32,
    /// Its generation.
    pub generation: u8,
    /// What is copied, where, and to whom.
    pub taps: Vec<Tap>,
}

/// Jobs by their numbers.
pub type Jobs = std::collections::BTreeMap<u32, Job>;

/// What one switch copies to one monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// The switch.
    pub switch: String,
    /// Which packets.
    pub asked: Vec<Cube>,
    /// How it selects them.
    pub how: How,
    /// How much of each.
    pub part: Part,
    /// The monitor.
    pub monitor: String,
    /// The way to it.
    pub to: To,
}

/// How a switch selects packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// By rules: those that are asked for, where they enter the network at these ports; none: all that pass.
    Rules(Vec<String>),
    /// By a mirror of ports: all that enters or leaves there; the monitor leaves out what is not asked for.
    Mirror(Vec<String>),
}

/// The way to a monitor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// A port of the switch, by name, that leads only to the monitor.
    Port(String),
    /// An interface that this process makes on the switch's host; see [`crate::Running::interfaces`].
    Interface,
    /// A tunnel to a port of another switch that leads only to the monitor.
    Switch(Tunnel, Place),
    /// A tunnel that the monitor's host unwraps.
    Host(Tunnel, IpAddr),
}
