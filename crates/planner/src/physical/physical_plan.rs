//! A physical plan: tasks, reasons, and cost. Only values.

use mirror::openflow::FlowRule;
use mirror::{MirrorMode, PacketCube};
use plan::{AddressMatch, Dataflow, MonitorSpec};

use super::export_part::ExportPart;
use crate::topology::{HostId, HostLauncher, LinkTraffic, NetworkSite, SitePort};

/// Seconds after which rules expire unless renewed.
pub const LEASE: u16 = 10;

/// A physical plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PhysicalPlan {
    /// The query.
    pub query: String,
    /// The switch of each covered flow.
    pub covered: Vec<CoveredFlows>,
    /// Description of flows not covered.
    pub uncovered: Vec<String>,
    /// The way of packets to monitors.
    pub choice: ModeChoice,
    /// The export that takes the place of copies and monitors, which are then empty.
    pub export: Option<ExportPart>,
    /// Tasks of switches.
    pub switches: Vec<SwitchPart>,
    /// The monitors.
    pub monitors: Vec<MonitorPart>,
    /// Aggregators.
    pub aggregators: Vec<AggregatorPart>,
    /// Reason for having no aggregator although one was requested.
    pub unaggregated: Option<String>,
    /// Processing of the tuples.
    pub dataflow: Dataflow,
    /// Description of missing results.
    pub lacks: Vec<String>,
    /// Resources used.
    pub taken: PlanResources,
    /// Result of the proof on a model of the network.
    pub proof: CopyProof,
}

/// Result of proving a plan's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyProof {
    /// No switch copies packets.
    NotNeeded,
    /// Too many covered hosts for a proof in acceptable time: the switches' own rules are proved at installation.
    TooManyHosts,
    /// Every packet is copied once or not at all, as required; the number of packet classes proved.
    Holds(usize),
}

/// Flows covered at one switch.
#[derive(Clone, Debug, PartialEq)]
pub struct CoveredFlows {
    /// Index of the switch in the site.
    pub switch: usize,
    /// Name in the network file.
    pub name: String,
    /// Client endpoints; if empty, any.
    pub clients: Vec<AddressMatch>,
    /// Server endpoints.
    pub servers: Vec<AddressMatch>,
    /// The hosts of these flows at the switch.
    pub hosts: Vec<HostId>,
    /// Expected traffic.
    pub rates: TrafficRates,
}

/// Expected traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrafficRates {
    /// Mb/s of the flows, both directions.
    pub mbps: f64,
    /// Packets per second.
    pub packets: f64,
    /// New connections per second.
    pub connections: f64,
    /// Mb/s of all traffic at the ports of the flows' hosts.
    pub passing_mbps: f64,
    /// Whether it is assumed as a share of the hosts' links.
    pub supposed: bool,
}

/// The way of packets to monitors, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeChoice {
    /// The copied packets and their copied part; `None` if monitors read at the switches' ports without copies.
    pub mode: Option<MirrorMode>,
    /// The reason.
    pub why: String,
    /// Rejected alternatives.
    pub passed_over: Vec<RejectedMode>,
}

/// A rejected way.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectedMode {
    /// The way.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// The way of a switch's packets to its monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketPath {
    /// The monitor reads at the switch's ports, on the switch's host.
    Sniffer,
    /// Rules copy to the port of a host.
    Rules {
        /// The port.
        port: u32,
    },
    /// Rules copy to an interface of the switch's host, which is this machine; the interface is created when the plan
    /// is executed.
    Interface,
    /// Rules copy to a tunnel, and from its end to the port of a host behind another switch.
    Tunnel {
        /// The port of the switch.
        end: SitePort,
    },
    /// A port mirror copies to the port of a host.
    Mirror {
        /// The port.
        port: u32,
    },
}

/// The task of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchPart {
    /// Index in the site.
    pub switch: usize,
    /// Name in the network file.
    pub name: String,
    /// The way of packets to the monitor.
    pub way: PacketPath,
    /// The packets requested by the monitor.
    pub asked: Vec<PacketCube>,
    /// Added rules, for a network as described by its file.
    pub rules: Vec<FlowRule>,
    /// Ports read by a sniffer, or mirrored.
    pub ports: Vec<u32>,
    /// The other end of the tunnel, if any.
    pub landing: Option<TunnelEndpoint>,
}

/// The end of a tunnel for copies.
#[derive(Clone, Debug, PartialEq)]
pub struct TunnelEndpoint {
    /// The name of that switch.
    pub name: String,
    /// Rules added there.
    pub rules: Vec<FlowRule>,
}

/// Location of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorPlace {
    /// The host of a switch.
    Switch(usize),
    /// A host.
    Host(HostId),
}

/// A monitor.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorPart {
    /// Name in the network file.
    pub name: String,
    /// Location.
    pub place: MonitorPlace,
    /// Name of that host or switch.
    pub host: String,
    /// The switch of its packets.
    pub switch: usize,
    /// Specification of the monitor: the flows of this switch, so that one monitor reports each flow.
    pub spec: MonitorSpec,
    /// Received Mb/s.
    pub mbps: f64,
    /// Required cores.
    pub cores: f64,
    /// Memory in GB.
    pub memory_gb: f64,
    /// Free cores at the location.
    pub free_cores: f64,
    /// Total cores at the location.
    pub host_cores: f64,
}

/// An aggregator: starts the monitors of its pod, merges their results, and forwards a single partial result.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatorPart {
    /// Location.
    pub host: HostId,
    /// Name of that host.
    pub name: String,
    /// Indices of its monitors in the plan.
    pub monitors: Vec<usize>,
    /// Received Mb/s of results.
    pub in_mbps: f64,
    /// Forwarded Mb/s, if its monitors find the same groups.
    pub out_mbps: f64,
    /// Required cores.
    pub cores: f64,
    /// Memory in GB.
    pub memory_gb: f64,
}

/// Resources used by a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlanResources {
    /// Copied packets per link class.
    pub copied: LinkTraffic,
    /// Mb/s of results from all monitors or aggregators to the query.
    pub results_mbps: f64,
    /// Cores of all monitors and aggregators.
    pub monitor_cores: f64,
    /// Cores of all switches.
    pub switch_cores: f64,
    /// Additional delay of packets at a copying switch, in microseconds.
    pub delay_us: f64,
}

impl MonitorPart {
    /// The method of starting it, in the planned network.
    #[must_use]
    pub fn starts<'s>(&self, site: &'s NetworkSite) -> Option<&'s HostLauncher> {
        match self.place {
            MonitorPlace::Switch(switch) => site.switches[switch]
                .sniffer
                .as_ref()
                .map(|sniffer| &sniffer.starts),
            MonitorPlace::Host(host) => Some(&site.hosts[host as usize].starts),
        }
    }
}

impl AggregatorPart {
    /// Reduction of load on links above the pod in Mb/s, if monitors find the same groups.
    #[must_use]
    pub fn saved_mbps(&self) -> f64 {
        self.in_mbps - self.out_mbps
    }
}

impl PhysicalPlan {
    /// The hosts of an aggregator's monitors, as text.
    #[must_use]
    pub fn members(&self, aggregator: &AggregatorPart) -> String {
        let hosts = aggregator
            .monitors
            .iter()
            .filter_map(|at| self.monitors.get(*at));
        hosts
            .map(|part| part.host.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Description of the processes included in the total cores.
    pub(super) fn monitors_are(&self) -> &'static str {
        if self.aggregators.is_empty() {
            "of monitors"
        } else {
            "of monitors and aggregators"
        }
    }

    /// The task of a switch.
    #[must_use]
    pub fn switch(&self, switch: usize) -> Option<&SwitchPart> {
        self.switches.iter().find(|part| part.switch == switch)
    }
}
