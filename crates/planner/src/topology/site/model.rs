//! Switches, hosts, and links by name, and their conversion for placement.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mirror::ovsdb::TunnelKind;

use super::super::network::{
    HostId, HostResources, PodSpec, RackId, RackSpec, TopologyError, TreeNetwork,
};
use super::expected::ExpectedTraffic;

/// A network described by a file.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSite {
    /// All switches, in the order of the file.
    pub switches: Vec<SiteSwitch>,
    /// All hosts by rack; the index is the host's number in the [`TreeNetwork`].
    pub hosts: Vec<SiteHost>,
    /// Links between switches, the lower end first.
    pub links: Vec<SiteLink>,
    /// The switch of each rack, by pod.
    pub racks: Vec<usize>,
    /// Number of racks per pod.
    pub pods: Vec<usize>,
    /// Expected traffic.
    pub expected: Vec<ExpectedTraffic>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteSwitch {
    /// Name in the file.
    pub name: String,
    /// Tier in the tree.
    pub tier: SwitchTier,
    /// Name of its bridge.
    pub bridge: Option<String>,
    /// Method of installing rules.
    pub reached: SwitchAccess,
    /// Source of its forwarding decisions.
    pub forwarding: ForwardingMode,
    /// Usage of the switch's first table.
    pub first_table: FirstTable,
    /// Address of the end of tunnels to it; `None` if tunnels are not supported.
    pub tunnel: Option<IpAddr>,
    /// Encapsulation of tunnels to it.
    pub tunnel_kind: TunnelKind,
    /// Host of the switch, if programs may run there to read packets at its ports.
    pub sniffer: Option<SwitchSniffer>,
}

/// The host of a switch, for monitors that read at its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSniffer {
    /// Resources.
    pub has: HostResources,
    /// Method of starting programs.
    pub starts: HostLauncher,
}

/// Method of starting programs on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLauncher {
    /// The agent on the host, if any.
    pub agent: Option<String>,
    /// Command prefix to run a command there: `["ssh", "leaf1"]`; an empty list runs it here.
    pub via: Option<Vec<String>>,
}

impl HostLauncher {
    /// Whether programs can be started there.
    #[must_use]
    pub fn can(&self) -> bool {
        self.agent.is_some() || self.via.is_some()
    }
}

/// Usage of a switch's first table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstTable {
    /// Other programs have rules in it; new rules are added.
    #[default]
    Shared,
    /// The table has only a rule that sends all packets to another table.
    Free,
}

/// Tier of a switch in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwitchTier {
    /// Connected to hosts.
    Edge,
    /// Connects edge switches.
    Aggregation,
    /// Connects pods.
    Core,
}

/// Method of installing rules on a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchAccess {
    /// The switch cannot mirror.
    Not,
    /// Through its database, at this address.
    Ovsdb(String),
    /// Through a controller's HTTP interface.
    Controller {
        /// URL of the controller.
        url: String,
        /// The controller's name for the switch.
        datapath: String,
        /// File with the access token.
        token_file: Option<String>,
    },
}

/// Source of a switch's forwarding decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForwardingMode {
    /// The switch, by learned addresses.
    #[default]
    Normal,
    /// Rules of a controller.
    Controller,
}

/// A port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SitePort {
    /// Index of the switch.
    pub switch: usize,
    /// OpenFlow port number.
    pub port: u32,
}

/// A host.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteHost {
    /// Name in the file.
    pub name: String,
    /// Addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// Port at the other end of its link.
    pub at: SitePort,
    /// Resources.
    pub has: HostResources,
    /// Method of starting programs.
    pub starts: HostLauncher,
    /// Interface of the link; required for hosts of monitors.
    pub interface: Option<String>,
    /// Reserved for monitors: while a monitor runs there, its port receives only copies.
    pub spare: bool,
    /// The switch floods nothing to it; behind a controller, netalytics cannot configure that.
    pub quiet: bool,
}

/// A link between two switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiteLink {
    /// Ends of the link, the lower tier first.
    pub ends: [SitePort; 2],
    /// Capacity per direction, in Mb/s.
    pub mbps: f64,
}

impl NetworkSite {
    /// The input of placement.
    ///
    /// # Errors
    /// If there are no hosts, or too many racks.
    pub fn network(&self) -> Result<TreeNetwork, TopologyError> {
        let mut hosts = self.hosts.iter().peekable();
        let mut rack = |switch: usize| {
            let mut here = Vec::new();
            while let Some(host) = hosts.next_if(|host| host.at.switch == switch) {
                here.push(host.has);
            }
            RackSpec {
                hosts: here,
                up_mbps: self.up_mbps(&[switch], SwitchTier::Edge),
            }
        };
        let mut racks = self.racks.as_slice();
        let mut pods = Vec::new();
        for count in &self.pods {
            let (mine, others) = racks.split_at(*count);
            racks = others;
            let above: Vec<usize> = self
                .links_of(mine)
                .map(|link| link.ends[1].switch)
                .collect();
            let up_mbps = self.up_mbps(&above, SwitchTier::Aggregation);
            pods.push(PodSpec {
                racks: mine.iter().map(|switch| rack(*switch)).collect(),
                up_mbps,
            });
        }
        TreeNetwork::new(&pods)
    }

    /// The host with an address.
    #[must_use]
    pub fn host_at(&self, address: IpAddr) -> Option<HostId> {
        self.hosts
            .iter()
            .position(|host| host.addresses.contains(&address))
            .map(|index| index as HostId)
    }

    /// The switch of a rack.
    #[must_use]
    pub fn switch_of(&self, rack: RackId) -> &SiteSwitch {
        &self.switches[self.racks[usize::from(rack)]]
    }

    /// The rack of an edge switch.
    #[must_use]
    pub fn rack_of(&self, switch: usize) -> Option<RackId> {
        self.racks
            .iter()
            .position(|of| *of == switch)
            .map(|rack| rack as RackId)
    }

    /// Upward links of some switches.
    fn links_of<'a>(&'a self, switches: &'a [usize]) -> impl Iterator<Item = &'a SiteLink> {
        self.links
            .iter()
            .filter(|link| switches.contains(&link.ends[0].switch))
    }

    /// Total capacity of the upward links of some switches of a tier.
    fn up_mbps(&self, switches: &[usize], tier: SwitchTier) -> f64 {
        let of_tier = |link: &&SiteLink| self.switches[link.ends[0].switch].tier == tier;
        self.links_of(switches)
            .filter(of_tier)
            .map(|link| link.mbps)
            .sum()
    }
}

/// The racks of each pod: edge switches connected through a common tier.
pub(super) fn pods(switches: &[SiteSwitch], links: &[SiteLink]) -> Vec<Vec<usize>> {
    // Without an aggregation tier, the core connects racks.
    let has_aggregation = switches
        .iter()
        .any(|switch| switch.tier == SwitchTier::Aggregation);
    let joins = |tier: SwitchTier| tier != SwitchTier::Core || !has_aggregation;
    let mut group: Vec<usize> = (0..switches.len()).collect();
    for link in links
        .iter()
        .filter(|link| joins(switches[link.ends[1].switch].tier))
    {
        let [a, b] = link.ends.map(|end| group[end.switch]);
        group
            .iter_mut()
            .filter(|group| **group == a.max(b))
            .for_each(|group| *group = a.min(b));
    }
    let mut pods: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, _) in switches
        .iter()
        .enumerate()
        .filter(|(_, switch)| switch.tier == SwitchTier::Edge)
    {
        pods.entry(group[index]).or_default().push(index);
    }
    pods.into_values().collect()
}
