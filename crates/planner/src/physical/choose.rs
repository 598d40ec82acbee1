//! The choice: every mode that answers the query, with monitors at the switches' ports where they can be and with copies to hosts
//! where not, each with what it takes; the cheapest that may be taken is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mirror::compose::{RULES_MAX, Terms};
use mirror::{
    Copy, Layout, Mode, Offer, Others, Part as Bytes, Wanted, Which, asked, compose, offers, prove,
};
use plan::{AddressMatch, Budget, MonitorSpec, Plan};

use super::budget::{Exceeded, exceeded};
use super::costs::Costs;
use super::flows::{self, Part};
use super::model::{self, forwarding, monitor};
use super::rates::{copied, rates};
use super::value::{
    Choice, Covering, MonitorPart, PassedOver, PhysicalPlan, Place, Rates, SwitchPart, Taken, Way,
};
use crate::placement::{Demand, Flow, NOBODY, Process, Strategy, place};
use crate::topology::{Expected, HostId, Network, Reached, Site, Traffic, Weights};

/// A rule that nobody renews is gone after so many seconds.
pub(super) const LEASE: u16 = 30;
/// The job's number in the cookies of rules that are printed.
const JOB: u32 = 1;
/// Of a packet, what is left in results that leave a monitor, where they are windows; rows take what the plan says.
const RESULT_BYTES: f64 = 200.0;

/// What is to be planned.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The query's plan.
    pub plan: &'a Plan,
    /// The network.
    pub site: &'a Site,
    /// Traffic that is expected besides what the site says.
    pub expected: &'a [Expected],
    /// What things cost.
    pub costs: &'a Costs,
    /// Only modes that lack nothing.
    pub exact: bool,
    /// What may be taken.
    pub budget: Budget,
    /// Of placement.
    pub seed: u64,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Unplanned {
    /// The network has no such hosts, or is none.
    NoFlows(Vec<String>),
    /// No way can be gone; each with its reason.
    NoWay(Vec<PassedOver>),
    /// Ways can be gone, and all of them take too much; the cheapest.
    OverBudget(Exceeded),
}

/// The plan.
///
/// # Errors
/// See [`Unplanned`].
pub fn physical(ask: &Ask<'_>) -> Result<PhysicalPlan, Unplanned> {
    let network = ask.site.network().map_err(|unfit| Unplanned::NoFlows(vec![unfit.to_string()]))?;
    let (at, uncovered) = flows::covered(&ask.plan.monitor, ask.site);
    if at.is_empty() {
        return Err(Unplanned::NoFlows(uncovered));
    }
    let mut chooser = Chooser { ask, network, at: BTreeMap::new(), passed_over: Vec::new() };
    let expected: Vec<Expected> = ask.expected.iter().chain(&ask.site.expected).copied().collect();
    for (switch, parts) in at {
        let rates = rates(&parts, ask.site, &expected, ask.costs);
        chooser.at.insert(switch, (parts, rates));
    }
    let (mut all, mut over): (Vec<PhysicalPlan>, Option<Exceeded>) = (Vec::new(), None);
    for (offer, sniff) in chooser.ways() {
        let what = name(offer.as_ref(), sniff);
        match chooser.build(offer.as_ref(), sniff) {
            Err(why) => chooser.pass_over(&what, why),
            Ok(plan) => match exceeded(&plan, ask.budget) {
                Some(exceeded) => {
                    chooser.pass_over(&what, exceeded.to_string());
                    over.get_or_insert(exceeded);
                }
                None => all.push(plan),
            },
        }
    }
    // Of equals the first: modes come with the cheapest first.
    let best = (0..all.len()).min_by(|a, b| chooser.price(&all[*a]).total_cmp(&chooser.price(&all[*b])));
    let Some(best) = best else {
        return Err(over.map_or(Unplanned::NoWay(chooser.passed_over), Unplanned::OverBudget));
    };
    let mut plan = all.remove(best);
    let price = chooser.price(&plan);
    for other in &all {
        let why = format!("{}, against {}", chooser.words(other), chooser.words(&plan));
        let why = if chooser.price(other) > price { why } else { format!("no cheaper: {why}") };
        chooser.passed_over.push(PassedOver { what: what_of(other), why });
    }
    plan.choice.why = match (all.is_empty(), chooser.passed_over.is_empty()) {
        (true, true) => "there is no other way".to_owned(),
        (true, false) => format!("it is the only way that can be gone: {}", chooser.words(&plan)),
        (false, _) => format!("it takes least: {}", chooser.words(&plan)),
    };
    plan.choice.passed_over = chooser.passed_over;
    plan.uncovered = uncovered;
    Ok(plan)
}

struct Chooser<'a> {
    ask: &'a Ask<'a>,
    network: Network,
    at: BTreeMap<usize, (Vec<Part>, Rates)>,
    passed_over: Vec<PassedOver>,
}

impl Chooser<'_> {
    fn pass_over(&mut self, what: &str, why: String) {
        self.passed_over.push(PassedOver { what: what.to_owned(), why });
    }

    /// All ways: modes, and whether monitors read at switches' ports where they can. `None`: they do everywhere, and nothing is copied.
    fn ways(&mut self) -> Vec<(Option<Offer>, bool)> {
        let has_sniffer = |switch: &usize| self.ask.site.switches[*switch].sniffer.is_some();
        let (some, all) = (self.at.keys().any(has_sniffer), self.at.keys().all(has_sniffer));
        let mut ways = Vec::new();
        if all {
            ways.push((None, true));
        }
        for offer in offers(&self.ask.plan.monitor) {
            if self.ask.exact && !offer.lacks.is_empty() {
                self.pass_over(
                    &name(Some(&offer), false),
                    "the answer would lack something, and is to be exact".to_owned(),
                );
                continue;
            }
            if offer.mode.part != Bytes::Whole && self.ask.costs.copy_ns(offer.mode.part).is_none() {
                let why =
                    "what cutting copies takes the switch was not measured: netalytics calibrate does that";
                self.pass_over(&name(Some(&offer), false), why.to_owned());
                continue;
            }
            if some && !all {
                ways.push((Some(offer.clone()), true));
            }
            ways.push((Some(offer), false));
        }
        ways
    }

    /// What a plan counts for: cores, links as cores, and what its answer lacks.
    fn price(&self, plan: &PhysicalPlan) -> f64 {
        let links = plan.taken.copied.weighed(Weights::PAPER) + plan.taken.results_mbps;
        let lacking = if plan.lacks.is_empty() { 0.0 } else { self.ask.costs.exact_worth_cores };
        let cores = plan.taken.monitor_cores + plan.taken.switch_cores;
        cores + links / self.ask.costs.link_mbps_per_core + lacking
    }

    fn words(&self, plan: &PhysicalPlan) -> String {
        let Taken { monitor_cores, switch_cores, copied, .. } = plan.taken;
        let copied: f64 = copied.0.iter().sum();
        let lacking = if plan.lacks.is_empty() { "" } else { ", and the answer lacks something" };
        format!("{:.4} cores and {copied:.2} Mb/s of copies{lacking}", monitor_cores + switch_cores)
    }

    /// One way, with all that follows from it; or why it cannot be gone.
    fn build(&self, offer: Option<&Offer>, sniff: bool) -> Result<PhysicalPlan, String> {
        let ask = self.ask;
        let sniffed = |switch: usize| sniff && ask.site.switches[switch].sniffer.is_some();
        let hosts = self.hosts(offer.map(|offer| offer.mode), &sniffed)?;
        let mut plan = PhysicalPlan {
            query: ask.plan.query.clone(),
            covered: Vec::new(),
            uncovered: Vec::new(),
            choice: Choice {
                mode: offer.map(|offer| offer.mode),
                why: String::new(),
                passed_over: Vec::new(),
            },
            switches: Vec::new(),
            monitors: Vec::new(),
            dataflow: ask.plan.dataflow.clone(),
            lacks: offer.iter().flat_map(|offer| &offer.lacks).map(|lack| (*lack).to_owned()).collect(),
            taken: Taken::default(),
            proved: 0,
        };
        for (switch, (parts, rates)) in &self.at {
            plan.covered.push(self.covering(*switch, parts, rates));
            let mode = if sniffed(*switch) { None } else { offer.map(|offer| offer.mode) };
            let part = self.switch(*switch, parts, mode, hosts.get(switch).copied())?;
            let monitor = self.monitor(*switch, parts, rates, mode, hosts.get(switch).copied())?;
            let (mbps, packets) = mode.map_or((0.0, 0.0), |mode| copied(mode, rates, ask.costs));
            let each = mode.map_or(0.0, |mode| match mode.which {
                Which::Port => ask.costs.switch.mirror_ns,
                _ => ask.costs.copy_ns(mode.part).unwrap_or(0.0),
            });
            plan.taken.copied += Traffic::to_host(mbps);
            plan.taken.switch_cores += packets * each / 1e9;
            plan.taken.monitor_cores += monitor.cores;
            plan.taken.delay_us = plan.taken.delay_us.max(each / 1e3);
            plan.taken.results_mbps += self.results(rates);
            plan.switches.push(part);
            plan.monitors.push(monitor);
        }
        plan.lacks.extend(self.twice().then(|| TWICE.to_owned()));
        if ask.exact && !plan.lacks.is_empty() {
            return Err(plan.lacks.swap_remove(0));
        }
        plan.proved = self.prove(&plan)?;
        Ok(plan)
    }

    fn covering(&self, switch: usize, parts: &[Part], rates: &Rates) -> Covering {
        let spec = narrowed(&self.ask.plan.monitor, parts);
        Covering {
            switch,
            name: self.ask.site.switches[switch].name.clone(),
            clients: spec.clients,
            servers: spec.servers,
            hosts: parts.iter().flat_map(|part| part.hosts.iter().copied()).collect(),
            rates: *rates,
        }
    }

    /// Where monitors of switches go whose packets are copied.
    fn hosts(
        &self,
        mode: Option<Mode>,
        sniffed: &dyn Fn(usize) -> bool,
    ) -> Result<BTreeMap<usize, HostId>, String> {
        let (site, costs) = (self.ask.site, self.ask.costs);
        let Some(mode) = mode else { return Ok(BTreeMap::new()) };
        let switches: Vec<usize> = self.at.keys().copied().filter(|switch| !sniffed(*switch)).collect();
        let rack = |switch: usize| site.racks.iter().position(|of| *of == switch).unwrap_or(0) as u16;
        let needs: Vec<(f64, f64)> = switches
            .iter()
            .map(|switch| {
                let (mbps, packets) = copied(mode, &self.at[switch].1, costs);
                (mbps, self.reading(packets, mbps, packets.min(self.at[switch].1.packets)))
            })
            .collect();
        let flows: Vec<Flow> = switches
            .iter()
            .zip(&needs)
            .map(|(switch, (mbps, _))| Flow { racks: [rack(*switch); 2], mbps: *mbps as f32 })
            .collect();
        let most = |of: fn(&(f64, f64)) -> f64| needs.iter().map(of).fold(1e-3, f64::max);
        // Rates are kept in 32 bits: a monitor has room for the largest of them.
        let (mbps, cores) = (most(|need| need.0) * 1.000_001, most(|need| need.1));
        let memory_gb = costs.monitor.memory_gb;
        let small = Process { mbps: f64::MAX, cores: 1e-6, memory_gb: 1e-6 };
        let demand = Demand {
            flows: &flows,
            monitor: Process { mbps, cores, memory_gb },
            aggregator: small,
            processor: small,
            extracted: 1e-9,
            strategy: Strategy::PackedNetwork,
        };
        let network = self.willing();
        let placed = place(&network, &demand, self.ask.seed);
        let mut hosts = BTreeMap::new();
        for ((switch, monitor), (mbps, cores)) in switches.iter().zip(&placed.monitor_of).zip(&needs) {
            let name = &site.switches[*switch].name;
            if *monitor == NOBODY {
                return Err(format!(
                    "no host at {name} that is spare and can start a monitor has room for one: {cores:.3} cores, {memory_gb} GB and {mbps:.1} Mb/s"
                ));
            }
            let host = placed.monitors[*monitor as usize].host;
            // Two monitors would be on one port.
            if hosts.values().any(|other| *other == host) {
                return Err(format!("{name} and another switch would have one host for their monitors"));
            }
            hosts.insert(*switch, host);
        }
        Ok(hosts)
    }

    /// The network of hosts that may have monitors: on others nothing is free.
    fn willing(&self) -> Network {
        let mut site = self.ask.site.clone();
        for host in &mut site.hosts {
            if !(host.spare && host.starts.can()) {
                (host.has.cores_used, host.has.memory_used) = (1.0, 1.0);
            }
        }
        site.network().unwrap_or_else(|_| self.network.clone())
    }

    /// Cores of a monitor that gets so many packets, and looks at so many of them.
    fn reading(&self, packets: f64, mbps: f64, asked: f64) -> f64 {
        let costs = &self.ask.costs.monitor;
        let parse_ns = self.ask.costs.parse_ns(self.ask.plan);
        let bytes = mbps * 1e6 / 8.0;
        (packets * costs.receive_ns
            + bytes * costs.receive_byte_ns
            + (packets - asked).max(0.0) * costs.refuse_ns
            + asked * parse_ns)
            / 1e9
    }

    fn switch(
        &self,
        switch: usize,
        parts: &[Part],
        mode: Option<Mode>,
        host: Option<HostId>,
    ) -> Result<SwitchPart, String> {
        let site = self.ask.site;
        let of = &site.switches[switch];
        let which = mode.map_or(Which::Flow, |mode| mode.which);
        let mut boxes = Vec::new();
        for part in parts {
            boxes.extend(asked(&narrowed(&self.ask.plan.monitor, std::slice::from_ref(part)), which));
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
            way: Way::Sniffer,
            asked: boxes,
            rules: Vec::new(),
            ports,
        };
        let Some((mode, host)) = mode.zip(host) else { return Ok(done) };
        let port = site.hosts[host as usize].at.port;
        match (&of.reached, mode.which) {
            (Reached::Not, _) => {
                return Err(format!(
                    "{} cannot be reached: the network file has neither ovsdb nor controller for it",
                    of.name
                ));
            }
            (Reached::Controller { .. }, Which::Port) => {
                return Err(format!(
                    "a mirror of ports needs the database of {}, and there is its controller only",
                    of.name
                ));
            }
            (Reached::Ovsdb(_), Which::Port) => done.way = Way::Mirror { port },
            (_, Which::Flow | Which::Flags(_)) => {
                done.way = Way::Rules { port };
                let copy = Copy {
                    job: JOB,
                    generation: 1,
                    asked: done.asked.clone(),
                    ports: Vec::new(),
                    part: mode.part,
                    target: port,
                };
                let layout = Layout::of(&forwarding(site, switch));
                let terms = Terms { server: 0, lease: LEASE, layout, rules_max: RULES_MAX };
                done.rules = compose(&[copy], &terms).map_err(|refused| format!("{}: {refused}", of.name))?;
                done.ports.clear();
            }
        }
        Ok(done)
    }

    fn monitor(
        &self,
        switch: usize,
        parts: &[Part],
        rates: &Rates,
        mode: Option<Mode>,
        host: Option<HostId>,
    ) -> Result<MonitorPart, String> {
        let site = self.ask.site;
        let name = &site.switches[switch].name;
        let (mbps, packets) = copied(mode.unwrap_or(Mode::PORT), rates, self.ask.costs);
        let cores = self.reading(packets, mbps, packets.min(rates.packets));
        let (place, at, has) = match (host, &site.switches[switch].sniffer) {
            (Some(host), _) => {
                let on = &site.hosts[host as usize];
                (Place::Host(host), on.name.clone(), on.has)
            }
            (None, Some(sniffer)) => (Place::Switch(switch), name.clone(), sniffer.has),
            (None, None) => return Err(format!("no monitor can read at the ports of {name}")),
        };
        let free_cores = has.cores * (1.0 - has.cores_used);
        let memory_gb = self.ask.costs.monitor.memory_gb;
        let free_gb = has.memory_gb * (1.0 - has.memory_used);
        if cores > free_cores {
            return Err(format!(
                "the monitor on {at} would take {cores:.3} cores, and {free_cores:.3} are free there"
            ));
        }
        if memory_gb > free_gb {
            return Err(format!(
                "the monitor on {at} would take {memory_gb} GB, and {free_gb:.3} are free there"
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

    /// What leaves a monitor, in Mb/s: rows by what the plan says of a packet, groups by how many are new.
    fn results(&self, rates: &Rates) -> f64 {
        let cost = crate::cost(self.ask.plan);
        let rows = rates.packets * cost.sent_bytes_per_1000_packets as f64 / 1000.0;
        // A few groups a second.
        let bytes = if rows > 0.0 { rows } else { RESULT_BYTES };
        bytes * 8.0 / 1e6
    }

    /// Whether a packet that parsers count by itself may be copied at two switches: neither end says by its port who serves.
    fn twice(&self) -> bool {
        let by_packet = |name: &str| ["packet", "tcp_pkt_size"].contains(&name);
        let open = |end: &AddressMatch| end.port.is_none();
        self.at.len() > 1
            && self.ask.plan.monitor.parsers.iter().any(|parser| by_packet(&parser.schema.name))
            && self
                .at
                .values()
                .flat_map(|(parts, _)| parts)
                .any(|part| part.clients.is_empty() && part.servers.iter().any(open))
    }

    /// Proves on the model that every packet that is asked for is copied once, and no other.
    fn prove(&self, plan: &PhysicalPlan) -> Result<usize, String> {
        if plan.switches.iter().all(|part| part.way == Way::Sniffer) {
            return Ok(0);
        }
        let covered: BTreeSet<HostId> =
            plan.covered.iter().flat_map(|covering| covering.hosts.iter().copied()).collect();
        if covered.len() > PROVED_MAX {
            return Ok(0);
        }
        let whole = plan.choice.mode.map_or(Bytes::Whole, |mode| mode.part);
        let wanted: Vec<Wanted> = plan
            .switches
            .iter()
            .filter(|part| part.way != Way::Sniffer)
            .map(|part| Wanted {
                monitor: monitor(&part.name),
                enters: None,
                asked: part.asked.clone(),
                part: whole,
                others: match part.way {
                    Way::Mirror { .. } => Others::Tolerated,
                    Way::Rules { .. } | Way::Sniffer => Others::Never,
                },
            })
            .collect();
        let site = model::small(self.ask.site, &covered);
        let before = model::network(&site, &plan.switches, false);
        let after = model::network(&site, &plan.switches, true);
        let proved = prove(&before, &after, &wanted, &|rule| rule.cookie.is_of(0));
        let proved = proved.map_err(|found| match found.first() {
            Some(example) => format!("the rules would do something else: {example}"),
            None => "the rules could not be proved".to_owned(),
        })?;
        Ok(proved.classes)
    }
}

/// With more hosts the proof takes too long for whoever waits for a plan.
const PROVED_MAX: usize = 24;

const TWICE: &str =
    "no port says which end serves: a packet between two of these hosts is counted at both their switches";

/// The orders for some flows of a query.
fn narrowed(spec: &MonitorSpec, parts: &[Part]) -> MonitorSpec {
    let union = |of: &dyn Fn(&Part) -> Vec<AddressMatch>| -> Vec<AddressMatch> {
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

/// A way in words.
fn name(offer: Option<&Offer>, sniff: bool) -> String {
    match (offer, sniff) {
        (None, _) => SNIFFER.to_owned(),
        (Some(offer), true) => {
            format!("{}, and monitors at the ports of switches that can have them", offer.mode)
        }
        (Some(offer), false) => format!("copies of {}", offer.mode),
    }
}

/// The way of a plan, likewise.
pub(super) fn what_of(plan: &PhysicalPlan) -> String {
    let sniffed = plan.switches.iter().any(|part| part.way == Way::Sniffer);
    let offer = plan.choice.mode.map(|mode| Offer { mode, lacks: Vec::new() });
    name(offer.as_ref(), sniffed)
}

const SNIFFER: &str = "monitors at the switches' ports; nothing is copied";

impl fmt::Display for Unplanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unplanned::NoFlows(why) => write!(f, "nothing can be covered: {}", why.join("; ")),
            Unplanned::NoWay(ways) => {
                f.write_str("no way can be gone:")?;
                ways.iter().try_for_each(|PassedOver { what, why }| write!(f, "\n  {what}: {why}"))
            }
            Unplanned::OverBudget(exceeded) => write!(f, "{exceeded}"),
        }
    }
}

impl std::error::Error for Unplanned {}
