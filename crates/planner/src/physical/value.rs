//! A physical plan: what is done where, why so, and what it costs. Values only.

use mirror::openflow::Rule;
use mirror::{Cube, Mode};
use plan::{AddressMatch, Dataflow, MonitorSpec};

use crate::topology::{HostId, Site, SitePort, Starts, Traffic};

/// Seconds after which rules expire unless renewed.
pub const LEASE: u16 = 10;

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct PhysicalPlan {
    /// The query.
    pub query: String,
    /// Where each flow is covered.
    pub covered: Vec<Covering>,
    /// What is not covered, in words.
    pub uncovered: Vec<String>,
    /// How packets come to monitors.
    pub choice: Choice,
    /// What each switch does.
    pub switches: Vec<SwitchPart>,
    /// The monitors.
    pub monitors: Vec<MonitorPart>,
    /// Who merges what several of them find.
    pub aggregators: Vec<AggregatorPart>,
    /// Reason for having no aggregator although one was requested.
    pub unaggregated: Option<String>,
    /// Processing of the tuples.
    pub dataflow: Dataflow,
    /// What the answer lacks, in words.
    pub lacks: Vec<String>,
    /// What it takes.
    pub taken: Taken,
    /// What is known of the rules, on a model of the network.
    pub proof: Proof,
}

/// What is known of the copies that a plan has switches make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// No switch copies anything.
    NotNeeded,
    /// Too many covered hosts for a proof in acceptable time: the switches' own rules are proved at installation.
    TooManyHosts,
    /// Every packet is copied once or not at all, as required; the number of packet classes proved.
    Holds(usize),
}

/// Flows that are covered at one switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Covering {
    /// The switch, by its index in the site.
    pub switch: usize,
    /// Its name.
    pub name: String,
    /// Who asks; empty: anybody.
    pub clients: Vec<AddressMatch>,
    /// Who answers.
    pub servers: Vec<AddressMatch>,
    /// The hosts there whose flows they are.
    pub hosts: Vec<HostId>,
    /// What is expected of them.
    pub rates: Rates,
}

/// What is expected of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Mb/s of the flows, both directions.
    pub mbps: f64,
    /// Packets of them in a second.
    pub packets: f64,
    /// Connections that begin in a second.
    pub connections: f64,
    /// Mb/s of all that passes the ports of the flows' hosts.
    pub passing_mbps: f64,
    /// Whether it is an assumption: a share of the hosts' links.
    pub supposed: bool,
}

/// How packets come to monitors, and why so.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Which packets are copied, and how much of them; `None`: monitors read at the switches' ports, and nothing is copied.
    pub mode: Option<Mode>,
    /// Why this one.
    pub why: String,
    /// What else there was.
    pub passed_over: Vec<PassedOver>,
}

/// A way that was not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct PassedOver {
    /// The way.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// How packets of a switch come to its monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The monitor reads at the switch's ports, on its own host.
    Sniffer,
    /// Rules copy to the port of a host.
    Rules {
        /// The port.
        port: u32,
    },
    /// Rules copy to an interface of the switch's own host, this machine; it is created when the plan is carried out.
    Interface,
    /// Rules copy into a tunnel, at whose end they go to the port of a host behind another switch.
    Tunnel {
        /// That port.
        end: SitePort,
    },
    /// A mirror of ports copies to the port of a host.
    Mirror {
        /// The port.
        port: u32,
    },
}

/// What a switch does.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchPart {
    /// Its index in the site.
    pub switch: usize,
    /// Its name.
    pub name: String,
    /// How packets leave it.
    pub way: Way,
    /// Which packets the monitor is to get.
    pub asked: Vec<Cube>,
    /// Rules that are added, as they are where the network is as its file says.
    pub rules: Vec<Rule>,
    /// Ports at which a sniffer reads, or that are mirrored.
    pub ports: Vec<u32>,
    /// The other end of the tunnel, if it copies into one.
    pub landing: Option<Landing>,
}

/// Where a tunnel for copies ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Landing {
    /// The name of that switch.
    pub name: String,
    /// Rules that are added there, likewise.
    pub rules: Vec<Rule>,
}

/// Where a monitor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a switch's own host.
    Switch(usize),
    /// On a host.
    Host(HostId),
}

/// A monitor.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorPart {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub place: Place,
    /// The name of that host or switch.
    pub host: String,
    /// The switch whose packets it gets.
    pub switch: usize,
    /// Its specification: the flows of this switch, so that each flow is reported by one monitor.
    pub spec: MonitorSpec,
    /// Mb/s that come to it.
    pub mbps: f64,
    /// Cores that it takes.
    pub cores: f64,
    /// Memory in GB.
    pub memory_gb: f64,
    /// Cores that are free there.
    pub free_cores: f64,
    /// Cores that the host has.
    pub host_cores: f64,
}

/// An aggregator: it starts monitors of its pod, merges what they find, and hands on one partial result instead of theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatorPart {
    /// Where it runs.
    pub host: HostId,
    /// The name of that host.
    pub name: String,
    /// Its monitors, by their indices in the plan.
    pub monitors: Vec<usize>,
    /// Mb/s of results that come to it.
    pub in_mbps: f64,
    /// Mb/s that it hands on, where its monitors find the same groups.
    pub out_mbps: f64,
    /// Cores that it takes.
    pub cores: f64,
    /// Memory in GB.
    pub memory_gb: f64,
}

/// What a plan takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// Copied packets, on each class of links.
    pub copied: Traffic,
    /// Mb/s of results from all monitors or aggregators to the query.
    pub results_mbps: f64,
    /// Cores of all monitors and aggregators.
    pub monitor_cores: f64,
    /// Cores of all switches.
    pub switch_cores: f64,
    /// What a packet waits longer at a switch that copies it, in microseconds.
    pub delay_us: f64,
}

impl MonitorPart {
    /// How it is started, in the network that was planned for.
    #[must_use]
    pub fn starts<'s>(&self, site: &'s Site) -> Option<&'s Starts> {
        match self.place {
            Place::Switch(switch) => site.switches[switch].sniffer.as_ref().map(|sniffer| &sniffer.starts),
            Place::Host(host) => Some(&site.hosts[host as usize].starts),
        }
    }
}

impl AggregatorPart {
    /// Mb/s by which links above the pod carry less, where monitors find the same groups.
    #[must_use]
    pub fn saved_mbps(&self) -> f64 {
        self.in_mbps - self.out_mbps
    }
}

impl PhysicalPlan {
    /// The hosts of an aggregator's monitors, in words.
    #[must_use]
    pub fn members(&self, aggregator: &AggregatorPart) -> String {
        let hosts = aggregator.monitors.iter().filter_map(|at| self.monitors.get(*at));
        hosts.map(|part| part.host.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Whose cores are taken together, in words.
    pub(super) fn monitors_are(&self) -> &'static str {
        if self.aggregators.is_empty() { "of monitors" } else { "of monitors and aggregators" }
    }

    /// The part of a switch.
    #[must_use]
    pub fn switch(&self, switch: usize) -> Option<&SwitchPart> {
        self.switches.iter().find(|part| part.switch == switch)
    }
}
