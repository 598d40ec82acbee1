//! The task of each switch in a way, and its monitor: location and resources.

use std::collections::BTreeMap;

use mirror::compose::{CopyTerms, RULES_MAX};
use mirror::openflow::FlowRule;
use mirror::{
    MirrorMode, PacketCube, PacketPart as Bytes, PacketSelection, RuleLayout, SwitchCopy, asked,
    compose, compose_ends,
};
use plan::{AddressMatch, MonitorSpec};
use tuple::Schema;

use super::flows::SwitchFlows;
use super::model::{forwarding, landing, monitor, target};
use super::physical_plan::{
    CoveredFlows, LEASE, MonitorPart, MonitorPlace, PacketPath, SwitchPart, TrafficRates,
    TunnelEndpoint,
};
use super::rates::copied;
use super::request::PlanningProblem;
use crate::placement::{
    NOBODY, PlacementDemand, PlacementFlow, PlacementStrategy, ProcessDemand, place,
};
use crate::topology::{HostId, NetworkLoad, NetworkSite, SiteHost, SwitchAccess, TreeNetwork};

/// The job number in the cookies of printed rules.
const JOB: u32 = 1;
/// Bytes of results per packet that leave a monitor with windows; without windows, the plan determines them.
const RESULT_BYTES: f64 = 200.0;

impl PlanningProblem<'_> {
    pub(super) fn covering(
        &self,
        switch: usize,
        parts: &[SwitchFlows],
        rates: &TrafficRates,
    ) -> CoveredFlows {
        let spec = narrowed(&self.ask.plan.monitor, parts);
        CoveredFlows {
            switch,
            name: self.ask.site.switches[switch].name.clone(),
            clients: spec.clients,
            servers: spec.servers,
            hosts: parts
                .iter()
                .flat_map(|part| part.hosts.iter().copied())
                .collect(),
            rates: *rates,
        }
    }

    /// The hosts of monitors for switches with copied packets.
    pub(super) fn hosts(
        &self,
        mode: Option<MirrorMode>,
        on_its_own: &dyn Fn(usize) -> bool,
    ) -> Result<BTreeMap<usize, HostId>, String> {
        let site = self.ask.site;
        let costs = self.ask.costs;
        let Some(mode) = mode else {
            return Ok(BTreeMap::new());
        };
        let switches: Vec<usize> = self
            .at
            .keys()
            .copied()
            .filter(|switch| !on_its_own(*switch))
            .collect();
        let needs: Vec<(f64, f64)> = switches
            .iter()
            .map(|switch| {
                let (mbps, packets) = copied(mode, &self.at[switch].1, costs);
                (
                    mbps,
                    self.reading(packets, mbps, packets.min(self.at[switch].1.packets)),
                )
            })
            .collect();
        let flows: Vec<PlacementFlow> = switches
            .iter()
            .zip(&needs)
            .map(|(switch, (mbps, _))| PlacementFlow {
                racks: [self.rack(*switch); 2],
                mbps: *mbps as f32,
            })
            .collect();
        let most = |of: fn(&(f64, f64)) -> f64| needs.iter().map(of).fold(1e-3, f64::max);
        // Rates are stored in 32 bits, so the capacity is slightly larger than the largest rate.
        let mbps = most(|need| need.0) * 1.000_001;
        let cores = most(|need| need.1);
        let memory_gb = costs.monitor.memory_gb;
        let small = ProcessDemand {
            mbps: f64::MAX,
            cores: 1e-6,
            memory_gb: 1e-6,
        };
        let demand = PlacementDemand {
            flows: &flows,
            monitor: ProcessDemand {
                mbps,
                cores,
                memory_gb,
            },
            aggregator: small,
            processor: small,
            extracted: 1e-9,
            strategy: PlacementStrategy::PackedNetwork,
        };
        let network = self.free_on(|host| host.spare && host.starts.can(), 1.0);
        let placed = place(&network, &demand, self.ask.seed);
        let mut hosts = BTreeMap::new();
        let mut elsewhere = Vec::new();
        for ((switch, monitor), (mbps, cores)) in
            switches.iter().zip(&placed.monitor_of).zip(&needs)
        {
            let name = &site.switches[*switch].name;
            if *monitor == NOBODY {
                let none = format!(
                    "{name}: no spare host that can start monitors has capacity for one: {cores:.3} cores, {memory_gb} GB and {mbps:.1} Mb/s"
                );
                elsewhere.push((*switch, *cores, none));
                continue;
            }
            let host = placed.monitors[*monitor as usize].host;
            // Two monitors cannot share a port.
            if hosts.values().any(|other| *other == host) {
                return Err(format!(
                    "{name} and another switch would share one host for their monitors"
                ));
            }
            hosts.insert(*switch, host);
        }
        // Monitors behind their own switch are placed first. Tunnels share links.
        let mut load = NetworkLoad::new(&network);
        for (switch, cores, none) in elsewhere {
            let host = self.behind_another(switch, mode, cores, &mut load, &hosts);
            hosts.insert(switch, host.map_err(|why| format!("{none}; {why}"))?);
        }
        Ok(hosts)
    }

    /// The network in which only these hosts have free capacity, with a maximum share of their cores.
    pub(super) fn free_on(&self, which: impl Fn(&SiteHost) -> bool, most: f64) -> TreeNetwork {
        let mut site = self.ask.site.clone();
        for host in &mut site.hosts {
            if which(host) {
                host.has.cores_used = host.has.cores_used.max(1.0 - most);
            } else {
                host.has.cores_used = 1.0;
                host.has.memory_used = 1.0;
            }
        }
        site.network().unwrap_or_else(|_| self.network.clone())
    }

    /// Cores of a monitor that receives `packets` per second and processes `asked` per second.
    fn reading(&self, packets: f64, mbps: f64, asked: f64) -> f64 {
        let costs = &self.ask.costs.monitor;
        let parse_ns = self.ask.costs.parse_ns(self.ask.plan);
        let bytes = mbps * 1e6 / 8.0;
        let packets_ns = packets * costs.receive_ns
            + bytes * costs.receive_byte_ns
            + (packets - asked).max(0.0) * costs.refuse_ns
            + asked * parse_ns;
        costs.idle_cores + packets_ns / 1e9
    }

    pub(super) fn switch(
        &self,
        switch: usize,
        parts: &[SwitchFlows],
        copies: Option<(MirrorMode, PacketPath)>,
    ) -> Result<SwitchPart, String> {
        let site = self.ask.site;
        let of = &site.switches[switch];
        let which = copies.map_or(PacketSelection::Flow, |(mode, _)| mode.which);
        let mut boxes = Vec::new();
        for part in parts {
            boxes.extend(asked(
                &narrowed(&self.ask.plan.monitor, std::slice::from_ref(part)),
                which,
            ));
        }
        boxes.sort_unstable();
        boxes.dedup();
        let mut ports: Vec<u32> = parts
            .iter()
            .flat_map(|part| &part.hosts)
            .map(|host| site.hosts[*host as usize].at.port)
            .collect();
        ports.sort_unstable();
        ports.dedup();
        let mut done = SwitchPart {
            switch,
            name: of.name.clone(),
            way: PacketPath::Sniffer,
            asked: boxes,
            rules: Vec::new(),
            ports,
            landing: None,
        };
        let Some((mode, way)) = copies else {
            return Ok(done);
        };
        match (&of.reached, way) {
            (SwitchAccess::Not, _) => {
                return Err(format!(
                    "{} cannot be reached: the network file has neither ovsdb nor controller for it",
                    of.name
                ));
            }
            (SwitchAccess::Controller { .. }, PacketPath::Mirror { .. }) => {
                return Err(format!(
                    "a port mirror needs the database of {}; the network file has only its controller",
                    of.name
                ));
            }
            (_, PacketPath::Tunnel { end }) => {
                let at_end = forwarding(site, end.switch);
                let landing = mirror::TunnelExit {
                    job: JOB,
                    generation: 1,
                    tunnel: landing(switch),
                    target: end.port,
                };
                let terms = CopyTerms {
                    server: 0,
                    lease: LEASE,
                    layout: RuleLayout::of(&at_end),
                    rules_max: RULES_MAX,
                };
                let name = site.switches[end.switch].name.clone();
                let rules = compose_ends(&[], &[landing], &terms)
                    .map_err(|refused| format!("{name}: {refused}"))?;
                done.way = way;
                done.landing = Some(TunnelEndpoint { name, rules });
            }
            _ => done.way = way,
        }
        let Some(target) = target(way) else {
            return Ok(done);
        };
        if mode.which == PacketSelection::Port {
            // The target port of copies is not copied itself.
            done.ports.retain(|port| *port != target);
            return Ok(done);
        }
        done.rules = rules_on(site, switch, &done.asked, (mode.part, target))?;
        done.ports.clear();
        Ok(done)
    }

    pub(super) fn monitor(
        &self,
        switch: usize,
        parts: &[SwitchFlows],
        rates: &TrafficRates,
        mode: Option<MirrorMode>,
        host: Option<HostId>,
    ) -> Result<MonitorPart, String> {
        let site = self.ask.site;
        let name = &site.switches[switch].name;
        let (mbps, packets) = copied(mode.unwrap_or(MirrorMode::PORT), rates, self.ask.costs);
        let cores = self.reading(packets, mbps, packets.min(rates.packets));
        let (place, at, has) = match (host, &site.switches[switch].sniffer) {
            (Some(host), _) => {
                let on = &site.hosts[host as usize];
                (MonitorPlace::Host(host), on.name.clone(), on.has)
            }
            (None, Some(sniffer)) => (MonitorPlace::Switch(switch), name.clone(), sniffer.has),
            (None, None) => return Err(format!("no monitor can read at the ports of {name}")),
        };
        let free_cores = has.cores * (1.0 - has.cores_used);
        let memory_gb = self.ask.costs.monitor.memory_gb;
        let free_gb = has.memory_gb * (1.0 - has.memory_used);
        if cores > free_cores {
            return Err(format!(
                "the monitor on {at} needs {cores:.3} cores; {free_cores:.3} are free"
            ));
        }
        if memory_gb > free_gb {
            return Err(format!(
                "the monitor on {at} needs {memory_gb} GB; {free_gb:.3} are free"
            ));
        }
        Ok(MonitorPart {
            name: monitor(name),
            place,
            host: at,
            switch,
            spec: narrowed(&self.ask.plan.monitor, parts),
            mbps,
            cores,
            memory_gb,
            free_cores,
            host_cores: has.cores,
        })
    }

    /// Output of a monitor in Mb/s: rows according to the plan's estimate per packet, groups according to the number
    /// of new groups.
    pub(super) fn results(&self, rates: &TrafficRates) -> f64 {
        let cost = crate::cost(self.ask.plan);
        let rows = rates.packets * cost.sent_bytes_per_1000_packets as f64 / 1000.0;
        // A few groups per second.
        let bytes = if rows > 0.0 { rows } else { RESULT_BYTES };
        bytes * 8.0 / 1e6
    }

    /// Whether a packet counted individually may be copied at two switches, because neither endpoint's port
    /// identifies the server.
    pub(super) fn twice(&self) -> bool {
        let open = |end: &AddressMatch| end.port.is_none();
        self.at.len() > 1
            && self
                .ask
                .plan
                .monitor
                .parsers
                .iter()
                .any(|parser| is_of_packets(&parser.schema))
            && self
                .at
                .values()
                .flat_map(|(parts, _)| parts)
                .any(|part| part.clients.is_empty() && part.servers.iter().any(open))
    }
}

/// The rules of a switch to copy packets to a port.
pub(super) fn rules_on(
    site: &NetworkSite,
    switch: usize,
    asked: &[PacketCube],
    (part, target): (Bytes, u32),
) -> Result<Vec<FlowRule>, String> {
    let copy = SwitchCopy {
        job: JOB,
        generation: 1,
        asked: asked.to_vec(),
        ports: Vec::new(),
        part,
        target,
    };
    let layout = RuleLayout::of(&forwarding(site, switch));
    let terms = CopyTerms {
        server: 0,
        lease: LEASE,
        layout,
        rules_max: RULES_MAX,
    };
    compose(&[copy], &terms).map_err(|refused| format!("{}: {refused}", site.switches[switch].name))
}

pub(super) const TWICE: &str = "TO has no port, so the server side is unknown: packets between two of these hosts are counted at both switches";

/// The specification restricted to some flows of a query.
fn narrowed(spec: &MonitorSpec, parts: &[SwitchFlows]) -> MonitorSpec {
    let union = |of: &dyn Fn(&SwitchFlows) -> Vec<AddressMatch>| -> Vec<AddressMatch> {
        let lists: Vec<Vec<AddressMatch>> = parts.iter().map(of).collect();
        if lists.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        let mut all: Vec<AddressMatch> = Vec::new();
        for end in lists.into_iter().flatten() {
            if !all.contains(&end) {
                all.push(end);
            }
        }
        all
    };
    MonitorSpec {
        clients: union(&|part| part.clients.clone()),
        servers: union(&|part| part.servers.clone()),
        ..spec.clone()
    }
}

/// Whether a parser reports individual packets: its rows have the length of a packet.
fn is_of_packets(schema: &Schema) -> bool {
    schema.find("packet_bytes").is_some()
}
