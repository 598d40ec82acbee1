//! A switch: ports, tables, mirrors.

use crate::openflow::Rule;
use crate::packets::field::TAGGED;
use crate::packets::{Bits, Field};

/// Where a port leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To hosts.
    Hosts,
    /// To another switch of the network; see [`super::Network::links`].
    Switch,
    /// To a monitor, directly or through a tunnel.
    Monitor(String),
    /// To another switch, for copies alone: a tunnel.
    Copies,
}

impl Leads {
    /// Whether nothing else goes there.
    #[must_use]
    pub fn is_for_copies(&self) -> bool {
        matches!(self, Leads::Monitor(_) | Leads::Copies)
    }
}

/// Whether what is flooded leaves through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flooded {
    /// It does.
    Yes,
    /// The port is `no-flood`.
    No,
}

/// Which VLANs a port carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Vlans {
    /// All of them, tagged.
    #[default]
    All,
    /// These, tagged.
    Some(Vec<u16>),
    /// One, without tags.
    Access(u16),
}

impl Vlans {
    /// In which VLAN a packet with this tag is that entered here.
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

/// What is known of a packet that came to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It is in this VLAN.
    In(u16),
    /// It is in this VLAN, or was not let in.
    InOrRefused(u16),
    /// It may be in any.
    InAny,
    /// It was not let in.
    Refused,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// OpenFlow's number.
    pub number: u32,
    /// Its interface.
    pub name: String,
    /// Where it leads.
    pub leads: Leads,
    /// Whether it is flooded to.
    pub flooded: Flooded,
    /// Its VLANs.
    pub vlans: Vlans,
}

impl Port {
    /// One that is flooded to, in all VLANs.
    #[must_use]
    pub fn new(number: u32, name: &str, leads: Leads) -> Port {
        Port { number, name: name.to_owned(), leads, flooded: Flooded::Yes, vlans: Vlans::All }
    }
}

/// A mirror as OVSDB has it: of ports, not of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// Its name.
    pub name: String,
    /// What enters at these is copied.
    pub entering: Vec<u32>,
    /// What leaves by these is copied.
    pub leaving: Vec<u32>,
    /// Where copies go. NORMAL uses the port for nothing else.
    pub output: u32,
    /// Maximum bytes of each.
    pub max_len: Option<u32>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its rules, of all tables.
    pub rules: Vec<Rule>,
    /// Its mirrors.
    pub mirrors: Vec<Mirror>,
    /// Ports that are one port to what forwards: a packet leaves by one of them at most.
    pub bonds: Vec<Vec<u32>>,
}

impl Switch {
    /// One with these ports.
    #[must_use]
    pub fn new(name: &str, ports: Vec<Port>, mut rules: Vec<Rule>) -> Switch {
        rules.sort_by_key(|rule| (rule.table, std::cmp::Reverse(rule.priority)));
        Switch { name: name.to_owned(), ports, rules, mirrors: Vec::new(), bonds: Vec::new() }
    }

    /// With other rules.
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

    /// Ports at which traffic enters: all but those of copies, and those of mirrors, where a switch takes nothing in.
    pub fn entrances(&self) -> impl Iterator<Item = &Port> {
        let ports = self.ports.iter().filter(|port| !port.leads.is_for_copies());
        ports.filter(|port| !self.is_mirror_output(port.number))
    }

    /// Whether a port is for copies.
    #[must_use]
    pub fn is_for_copies(&self, number: u32) -> bool {
        self.port(number).is_some_and(|port| port.leads.is_for_copies())
    }

    /// Whether copies of a mirror go out of a port.
    #[must_use]
    pub fn is_mirror_output(&self, number: u32) -> bool {
        self.mirrors.iter().any(|mirror| mirror.output == number)
    }

    /// The bond that a port is of.
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
