//! Switches, hosts and links by name, and what placement needs of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mirror::ovsdb::Tunnel;

use super::super::network::{Host, HostId, Network, Pod, Rack, RackId, Unfit};
use super::expected::Expected;

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// All switches, as the file has them.
    pub switches: Vec<SiteSwitch>,
    /// All hosts, rack by rack: a host's index is its number in the [`Network`].
    pub hosts: Vec<SiteHost>,
    /// Links between switches, the lower end first.
    pub links: Vec<SiteLink>,
    /// The switch of each rack, pod by pod.
    pub racks: Vec<usize>,
    /// How many racks each pod has.
    pub pods: Vec<usize>,
    /// What traffic is expected.
    pub expected: Vec<Expected>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteSwitch {
    /// Its name in the file.
    pub name: String,
    /// Where in the tree it is.
    pub tier: Tier,
    /// The name of its bridge.
    pub bridge: Option<String>,
    /// How rules are brought to it.
    pub reached: Reached,
    /// Who decides where its packets go.
    pub forwarding: Forwarding,
    /// Whose its first table is.
    pub first_table: FirstTable,
    /// Where tunnels to it end; none: none can.
    pub tunnel: Option<IpAddr>,
    /// How packets are wrapped in tunnels that end there.
    pub tunnel_kind: Tunnel,
    /// Its own host, where programs may run: they read packets at its ports.
    pub sniffer: Option<Sniffer>,
}

/// A switch's own host, for monitors that read at its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Sniffer {
    /// What it has.
    pub has: Host,
    /// How programs are started there.
    pub starts: Starts,
}

/// How programs are started on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    /// The agent there, if there is one.
    pub agent: Option<String>,
    /// The words that stand before a command that is to run there: `["ssh", "leaf1"]`; none: it runs here.
    pub via: Option<Vec<String>>,
}

impl Starts {
    /// Whether programs can be started there at all.
    #[must_use]
    pub fn can(&self) -> bool {
        self.agent.is_some() || self.via.is_some()
    }
}

/// Whose the first table of a switch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstTable {
    /// Other programs have rules there; ours are added.
    #[default]
    Shared,
    /// It holds nothing but a rule that sends all packets to another one.
    Free,
}

/// Where in the tree a switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Hosts are on it.
    Edge,
    /// Joins edge switches.
    Aggregation,
    /// Joins pods.
    Core,
}

/// How rules are brought to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Not at all: nothing is mirrored there.
    Not,
    /// By its own database, at this address.
    Ovsdb(String),
    /// By a controller's HTTP interface.
    Controller {
        /// The controller.
        url: String,
        /// What it calls the switch.
        datapath: String,
        /// The file with the token that it asks for.
        token_file: Option<String>,
    },
}

/// Who decides where a switch's packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forwarding {
    /// The switch, by the addresses that it has learned.
    #[default]
    Normal,
    /// A controller's rules.
    Controller,
}

/// A port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SitePort {
    /// The switch's index.
    pub switch: usize,
    /// OpenFlow's number of the port.
    pub port: u32,
}

/// A host.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteHost {
    /// Its name in the file.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Where its link ends.
    pub at: SitePort,
    /// What it has.
    pub has: Host,
    /// How programs are started there.
    pub starts: Starts,
    /// Its interface at that link; of monitors' hosts it has to be known.
    pub interface: Option<String>,
    /// It has nothing else to do: while a monitor runs there its port is for copies alone.
    pub spare: bool,
    /// Its switch floods nothing to it; behind a controller, netalytics cannot configure that.
    pub quiet: bool,
}

/// A link between two switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiteLink {
    /// Its ends, the lower tier first.
    pub ends: [SitePort; 2],
    /// What it bears each way, in Mb/s.
    pub mbps: f64,
}

impl Site {
    /// What placement needs of it.
    ///
    /// # Errors
    /// When it has no host, or too many racks.
    pub fn network(&self) -> Result<Network, Unfit> {
        let mut hosts = self.hosts.iter().peekable();
        let mut rack = |switch: usize| {
            let mut here = Vec::new();
            while let Some(host) = hosts.next_if(|host| host.at.switch == switch) {
                here.push(host.has);
            }
            Rack { hosts: here, up_mbps: self.up_mbps(&[switch], Tier::Edge) }
        };
        let mut racks = self.racks.as_slice();
        let mut pods = Vec::new();
        for count in &self.pods {
            let (mine, others) = racks.split_at(*count);
            racks = others;
            let above: Vec<usize> = self.links_of(mine).map(|link| link.ends[1].switch).collect();
            let up_mbps = self.up_mbps(&above, Tier::Aggregation);
            pods.push(Pod { racks: mine.iter().map(|switch| rack(*switch)).collect(), up_mbps });
        }
        Network::new(&pods)
    }

    /// The host that has an address.
    #[must_use]
    pub fn host_at(&self, address: IpAddr) -> Option<HostId> {
        self.hosts.iter().position(|host| host.addresses.contains(&address)).map(|index| index as HostId)
    }

    /// The switch of a rack.
    #[must_use]
    pub fn switch_of(&self, rack: RackId) -> &SiteSwitch {
        &self.switches[self.racks[usize::from(rack)]]
    }

    /// The rack of an edge switch.
    #[must_use]
    pub fn rack_of(&self, switch: usize) -> Option<RackId> {
        self.racks.iter().position(|of| *of == switch).map(|rack| rack as RackId)
    }

    /// Links that go up from some switches.
    fn links_of<'a>(&'a self, switches: &'a [usize]) -> impl Iterator<Item = &'a SiteLink> {
        self.links.iter().filter(|link| switches.contains(&link.ends[0].switch))
    }

    /// What the links up from some switches of a tier bear together.
    fn up_mbps(&self, switches: &[usize], tier: Tier) -> f64 {
        let of_tier = |link: &&SiteLink| self.switches[link.ends[0].switch].tier == tier;
        self.links_of(switches).filter(of_tier).map(|link| link.mbps).sum()
    }
}

/// The racks of each pod: edge switches that hang together by links to switches that join them.
pub(super) fn pods(switches: &[SiteSwitch], links: &[SiteLink]) -> Vec<Vec<usize>> {
    // Without an aggregation tier the core is what joins racks.
    let has_aggregation = switches.iter().any(|switch| switch.tier == Tier::Aggregation);
    let joins = |tier: Tier| tier != Tier::Core || !has_aggregation;
    let mut group: Vec<usize> = (0..switches.len()).collect();
    for link in links.iter().filter(|link| joins(switches[link.ends[1].switch].tier)) {
        let [a, b] = link.ends.map(|end| group[end.switch]);
        group.iter_mut().filter(|group| **group == a.max(b)).for_each(|group| *group = a.min(b));
    }
    let mut pods: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, _) in switches.iter().enumerate().filter(|(_, switch)| switch.tier == Tier::Edge) {
        pods.entry(group[index]).or_default().push(index);
    }
    pods.into_values().collect()
}
