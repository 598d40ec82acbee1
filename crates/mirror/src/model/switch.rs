//! A switch: ports, tables, mirrors.

use crate::openflow::FlowRule;
use crate::packets::field::TAGGED;
use crate::packets::{MaskedBits, MatchField};

/// Peer of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortNeighbor {
    /// Hosts.
    Hosts,
    /// Another switch of the network; see [`super::SwitchNetwork::links`].
    Switch,
    /// A monitor, directly or through a tunnel.
    Monitor(String),
    /// A tunnel for copies to another switch.
    Copies,
}

impl PortNeighbor {
    /// Whether the port is only for copies.
    #[must_use]
    pub fn is_for_copies(&self) -> bool {
        matches!(self, PortNeighbor::Monitor(_) | PortNeighbor::Copies)
    }
}

/// Whether a port is part of flooding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodSetting {
    /// The port is flooded.
    Yes,
    /// No, because the port is `no-flood`.
    No,
}

/// VLANs of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PortVlans {
    /// All, tagged.
    #[default]
    All,
    /// The listed VLANs, tagged.
    Some(Vec<u16>),
    /// One, untagged.
    Access(u16),
}

impl PortVlans {
    /// VLAN of a packet with this tag that enters the port.
    #[must_use]
    pub fn entered(&self, tag: MaskedBits) -> EntryPort {
        let is_tagged = tag.value & TAGGED != 0;
        let number = (tag.mask == MatchField::Vlan.full()).then_some((tag.value & 0xfff) as u16);
        match (self, number) {
            (PortVlans::Access(own), Some(0)) => EntryPort::In(*own),
            (PortVlans::Access(_), Some(_)) => EntryPort::Refused,
            (PortVlans::Access(own), None) => EntryPort::InOrRefused(*own),
            (PortVlans::All, Some(number)) => EntryPort::In(number),
            (PortVlans::Some(list), Some(number)) if list.contains(&number) => {
                EntryPort::In(number)
            }
            (PortVlans::Some(_), Some(_)) => EntryPort::Refused,
            (PortVlans::All | PortVlans::Some(_), None) if is_tagged || tag.mask & TAGGED == 0 => {
                EntryPort::InAny
            }
            (PortVlans::All | PortVlans::Some(_), None) => EntryPort::In(0),
        }
    }

    /// Whether packets of a VLAN leave through the port.
    #[must_use]
    pub fn carry(&self, vlan: u16) -> bool {
        match self {
            PortVlans::All => true,
            PortVlans::Some(list) => list.contains(&vlan),
            PortVlans::Access(own) => *own == vlan,
        }
    }
}

/// VLAN of a packet entering a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPort {
    /// The given VLAN.
    In(u16),
    /// The given VLAN, or rejected.
    InOrRefused(u16),
    /// Any VLAN.
    InAny,
    /// Rejected.
    Refused,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// OpenFlow port number.
    pub number: u32,
    /// Name of its interface.
    pub name: String,
    /// Peer.
    pub leads: PortNeighbor,
    /// Whether the port is part of flooding.
    pub flooded: FloodSetting,
    /// VLANs.
    pub vlans: PortVlans,
}

impl SwitchPort {
    /// A port with flooding and all VLANs.
    #[must_use]
    pub fn new(number: u32, name: &str, leads: PortNeighbor) -> SwitchPort {
        SwitchPort {
            number,
            name: name.to_owned(),
            leads,
            flooded: FloodSetting::Yes,
            vlans: PortVlans::All,
        }
    }
}

/// A port mirror in OVSDB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchMirror {
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
pub struct SwitchModel {
    /// Name.
    pub name: String,
    /// Ports of the switch.
    pub ports: Vec<SwitchPort>,
    /// Rules of all tables.
    pub rules: Vec<FlowRule>,
    /// Mirrors of the switch.
    pub mirrors: Vec<SwitchMirror>,
    /// Bonds: groups of ports that forwarding treats as one; a packet leaves by at most one of them.
    pub bonds: Vec<Vec<u32>>,
}

impl SwitchModel {
    /// A switch with these ports and rules.
    #[must_use]
    pub fn new(name: &str, ports: Vec<SwitchPort>, mut rules: Vec<FlowRule>) -> SwitchModel {
        rules.sort_by_key(|rule| (rule.table, std::cmp::Reverse(rule.priority)));
        SwitchModel {
            name: name.to_owned(),
            ports,
            rules,
            mirrors: Vec::new(),
            bonds: Vec::new(),
        }
    }

    /// The switch with other rules.
    #[must_use]
    pub fn with_rules(&self, rules: Vec<FlowRule>) -> SwitchModel {
        let switch = SwitchModel::new(&self.name, self.ports.clone(), rules);
        SwitchModel {
            mirrors: self.mirrors.clone(),
            bonds: self.bonds.clone(),
            ..switch
        }
    }

    /// A port.
    #[must_use]
    pub fn port(&self, number: u32) -> Option<&SwitchPort> {
        self.ports.iter().find(|port| port.number == number)
    }

    /// Ports at which traffic enters: all but those of copies and outputs of mirrors, which accept nothing.
    pub fn entrances(&self) -> impl Iterator<Item = &SwitchPort> {
        let ports = self.ports.iter().filter(|port| !port.leads.is_for_copies());
        ports.filter(|port| !self.is_mirror_output(port.number))
    }

    /// Whether a port is only for copies.
    #[must_use]
    pub fn is_for_copies(&self, number: u32) -> bool {
        self.port(number)
            .is_some_and(|port| port.leads.is_for_copies())
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
            PortNeighbor::Monitor(name) => Some(name),
            _ => None,
        }
    }
}
