//! A switch: ports, tables, mirrors.

use crate::openflow::Rule;
use crate::packets::field::TAGGED;
use crate::packets::{Bits, Field};

/// Peer of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// Hosts.
    Hosts,
    /// Another switch of the network; see [`super::Network::links`].
    Switch,
    /// A monitor, directly or through a tunnel.
    Monitor(String),
    /// A tunnel for copies to another switch.
    Copies,
}

impl Leads {
    /// Whether the port is only for copies.
    #[must_use]
    pub fn is_for_copies(&self) -> bool {
        matches!(self, Leads::Monitor(_) | Leads::Copies)
    }
}

/// Whether a port is part of flooding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flooded {
    /// It does.
    Yes,
    /// No, because the port is `no-flood`.
    No,
}

/// VLANs of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Vlans {
    /// All, tagged.
    #[default]
    All,
    /// These, tagged.
    Some(Vec<u16>),
    /// One, untagged.
    Access(u16),
}

impl Vlans {
    /// VLAN of a packet with this tag that enters here.
    #[must_use]
    pub fn entered(&self, tag: Bits) -> Entered {
        let is_tagged = tag.value & TAGGED != 0;
        let number = (tag.mask == Field::Vlan.full()).then_some((tag.value & 0xfff) as u16);
        match (self, number) {
            (Vlans::Access(own), Some(0)) => Entered::In(*own),
            (Vlans::Access(_), Some(_)) => Entered::Refused,
            (Vlans::Access(own), None) => Entered::InOrRefused(*own),
            (Vlans::All, Some(number)) => Entered::In(number),
            (Vlans::Some(list), Some(number)) if list.contains(&number) => Entered::In(number),
            (Vlans::Some(_), Some(_)) => Entered::Refused,
            (Vlans::All | Vlans::Some(_), None) if is_tagged || tag.mask & TAGGED == 0 => Entered::InAny,
            (Vlans::All | Vlans::Some(_), None) => Entered::In(0),
        }
    }

    /// Whether packets of a VLAN leave here.
    #[must_use]
    pub fn carry(&self, vlan: u16) -> bool {
        match self {
            Vlans::All => true,
            Vlans::Some(list) => list.contains(&vlan),
            Vlans::Access(own) => *own == vlan,
        }
    }
}

/// VLAN of a packet entering a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// This VLAN.
    In(u16),
    /// This VLAN, or rejected.
    InOrRefused(u16),
    /// Any VLAN.
    InAny,
    /// Rejected.
    Refused,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// OpenFlow port number.
    pub number: u32,
    /// Name of its interface.
    pub name: String,
    /// Peer.
    pub leads: Leads,
    /// Whether it is part of flooding.
    pub flooded: Flooded,
    /// VLANs.
    pub vlans: Vlans,
}

impl Port {
    /// A port with flooding and all VLANs.
    #[must_use]
    pub fn new(number: u32, name: &str, leads: Leads) -> Port {
        Port { number, name: name.to_owned(), leads, flooded: Flooded::Yes, vlans: Vlans::All }
    }
}

/// A port mirror in OVSDB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// Name.
    pub name: String,
    /// Ports whose incoming packets are copied.
    pub entering: Vec<u32>,
    /// Ports whose outgoing packets are copied.
    pub leaving: Vec<u32>,
    /// Output port; NORMAL does not use it.
    pub output: u32,
    /// Maximum bytes per copy.
    pub max_len: Option<u32>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Name.
    pub name: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Rules of all tables.
    pub rules: Vec<Rule>,
    /// Its mirrors.
    pub mirrors: Vec<Mirror>,
    /// Bonds: groups of ports that forwarding treats as one; a packet leaves by at most one of them.
    pub bonds: Vec<Vec<u32>>,
}

impl Switch {
    /// A switch with these ports and rules.
    #[must_use]
    pub fn new(name: &str, ports: Vec<Port>, mut rules: Vec<Rule>) -> Switch {
        rules.sort_by_key(|rule| (rule.table, std::cmp::Reverse(rule.priority)));
        Switch { name: name.to_owned(), ports, rules, mirrors: Vec::new(), bonds: Vec::new() }
    }

    /// The switch with other rules.
    #[must_use]
    pub fn with_rules(&self, rules: Vec<Rule>) -> Switch {
        let switch = Switch::new(&self.name, self.ports.clone(), rules);
        Switch { mirrors: self.mirrors.clone(), bonds: self.bonds.clone(), ..switch }
    }

    /// A port.
    #[must_use]
    pub fn port(&self, number: u32) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }

    /// Ports at which traffic enters: all but those of copies and outputs of mirrors, which accept nothing.
    pub fn entrances(&self) -> impl Iterator<Item = &Port> {
        let ports = self.ports.iter().filter(|port| !port.leads.is_for_copies());
        ports.filter(|port| !self.is_mirror_output(port.number))
    }

    /// Whether a port is only for copies.
    #[must_use]
    pub fn is_for_copies(&self, number: u32) -> bool {
        self.port(number).is_some_and(|port| port.leads.is_for_copies())
    }

    /// Whether a port is the output of a mirror.
    #[must_use]
    pub fn is_mirror_output(&self, number: u32) -> bool {
        self.mirrors.iter().any(|mirror| mirror.output == number)
    }

    /// Bond of a port.
    pub(super) fn bond(&self, number: u32) -> Option<&Vec<u32>> {
        self.bonds.iter().find(|bond| bond.contains(&number))
    }

    /// The monitor at a port.
    #[must_use]
    pub fn monitor(&self, number: u32) -> Option<&str> {
        match &self.port(number)?.leads {
            Leads::Monitor(name) => Some(name),
            _ => None,
        }
    }
}
