//! Selection of the plan: all modes that answer the query, with monitors at switch ports if possible and otherwise
//! with copies to hosts, each with its resources. The cheapest one within the limits is selected.

use std::fmt;

use mirror::{MirrorMode, ModeOffer, PacketPart as Bytes, PacketSelection, offers};

use super::budget::{BudgetExceeded, exceeded};
use super::export::export_slots;
use super::export_part::ExportPart;
use super::flows;
use super::parts::TWICE;
use super::physical_plan::{
    CopyProof, ModeChoice, PacketPath, PhysicalPlan, PlanResources, RejectedMode,
};
use super::rates::{copied, rates};
use super::request::{NetworkMode, PlanRequest, PlanningProblem};
use super::tunnels::wrapped;
use crate::topology::{ExpectedTraffic, LinkTraffic, LinkWeights, SitePort, SwitchAccess};

/// Location of monitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MonitorLocation {
    /// On spare hosts, with copies to their ports.
    Hosts,
    /// At the ports of switches that support it; otherwise on spare hosts.
    Ports,
    /// On this machine, at interfaces of switches that run on it; otherwise on spare hosts.
    Interfaces,
}

/// Reason why no plan is possible.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanningError {
    /// The network is invalid, or does not contain the hosts.
    NoFlows(Vec<String>),
    /// No way is feasible; each with its reason.
    NoWay(Vec<RejectedMode>),
    /// All feasible ways exceed the limits; the cheapest of them.
    OverBudget(BudgetExceeded),
}

/// Selects the plan.
///
/// # Errors
/// See [`PlanningError`].
pub fn physical(ask: &PlanRequest<'_>) -> Result<PhysicalPlan, PlanningError> {
    let network = ask
        .site
        .network()
        .map_err(|unfit| PlanningError::NoFlows(vec![unfit.to_string()]))?;
    let (at, uncovered) = flows::covered(&ask.plan.monitor, ask.site);
    if at.is_empty() {
        return Err(PlanningError::NoFlows(uncovered));
    }
    let expected: Vec<ExpectedTraffic> = ask
        .expected
        .iter()
        .chain(&ask.site.expected)
        .copied()
        .collect();
    let with_rates = |(switch, parts): (usize, Vec<_>)| {
        let rates = rates(&parts, ask.site, &expected, ask.costs);
        (switch, (parts, rates))
    };
    let asked = PlanningProblem {
        ask,
        network,
        at: at.into_iter().map(with_rates).collect(),
    };
    let mut chooser = ModeChooser {
        asked,
        passed_over: Vec::new(),
    };
    if let NetworkMode::Export(slot) = ask.mode {
        let part = chooser.asked.export(slot).map_err(|why| {
            let what = format!("{slot} exports");
            PlanningError::NoWay(vec![RejectedMode { what, why }])
        })?;
        return chooser.export(
            part,
            uncovered,
            format!("requested by --mode {}", slot.column()),
        );
    }
    let mut all: Vec<PhysicalPlan> = Vec::new();
    let mut over: Option<BudgetExceeded> = None;
    for (offer, monitors) in chooser.ways() {
        let what = name(offer.as_ref(), monitors);
        match chooser.build(offer.as_ref(), monitors) {
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
    let exports = match ask.mode {
        NetworkMode::Auto => chooser.exports(),
        _ => Vec::new(),
    };
    if let (true, Some(over)) = (all.is_empty(), &over) {
        let why = format!("other ways exceed the limits: {over}");
        for part in exports {
            match chooser.export(part, uncovered.clone(), why.clone()) {
                Ok(plan) => return Ok(plan),
                // The cheapest way of packets is reported.
                Err(PlanningError::OverBudget(exceeded)) => {
                    chooser.pass_over("exports", exceeded.to_string());
                }
                Err(other) => return Err(other),
            }
        }
    } else {
        for part in exports {
            let slot = part.slot.column();
            let why = format!(
                "approximate; --mode {slot} selects it: {}; {}",
                part.cost(),
                part.accuracy()
            );
            chooser.pass_over(&part.to_string(), why);
        }
    }
    // The first of equally cheap ways: modes are ordered by cost.
    let best =
        (0..all.len()).min_by(|a, b| chooser.price(&all[*a]).total_cmp(&chooser.price(&all[*b])));
    let Some(best) = best else {
        return Err(over.map_or(
            PlanningError::NoWay(chooser.passed_over),
            PlanningError::OverBudget,
        ));
    };
    let mut plan = all.remove(best);
    let price = chooser.price(&plan);
    for other in &all {
        let why = format!("{}, against {}", chooser.words(other), chooser.words(&plan));
        let why = if chooser.price(other) > price {
            why
        } else {
            format!("not cheaper: {why}")
        };
        chooser.passed_over.push(RejectedMode {
            what: description(other),
            why,
        });
    }
    plan.choice.why = match (all.is_empty(), chooser.passed_over.is_empty()) {
        (true, true) => "no alternative".to_owned(),
        (true, false) => format!("only possible mode: {}", chooser.words(&plan)),
        (false, _) => format!("lowest cost: {}", chooser.words(&plan)),
    };
    plan.choice.passed_over = chooser.passed_over;
    plan.uncovered = uncovered;
    Ok(plan)
}

/// State of the selection.
struct ModeChooser<'a> {
    asked: PlanningProblem<'a>,
    passed_over: Vec<RejectedMode>,
}

impl ModeChooser<'_> {
    fn pass_over(&mut self, what: &str, why: String) {
        self.passed_over.push(RejectedMode {
            what: what.to_owned(),
            why,
        });
    }

    /// Possible exports, cheapest first. A query that no export has the tuples for has none.
    fn exports(&mut self) -> Vec<ExportPart> {
        let mut exports = Vec::new();
        for slot in export_slots(self.asked.ask.plan) {
            match self.asked.export(slot) {
                Ok(part) => exports.push(part),
                Err(why) => self.pass_over(&format!("{slot} exports"), why),
            }
        }
        exports
    }

    /// The plan of an export.
    fn export(
        &mut self,
        part: ExportPart,
        uncovered: Vec<String>,
        why: String,
    ) -> Result<PhysicalPlan, PlanningError> {
        let mut plan = self.empty_plan();
        for (switch, (parts, rates)) in &self.asked.at {
            plan.covered
                .push(self.asked.covering(*switch, parts, rates));
        }
        plan.uncovered = uncovered;
        plan.lacks = vec![part.accuracy()];
        plan.taken.results_mbps = part.mbps;
        plan.taken.switch_cores = part.switch_cores;
        plan.taken.monitor_cores = part.receiver_cores;
        plan.choice.why = format!("{why}; {}", part.cost());
        plan.choice.passed_over = std::mem::take(&mut self.passed_over);
        plan.export = Some(part);
        match exceeded(&plan, self.asked.ask.budget) {
            Some(exceeded) => {
                self.passed_over = plan.choice.passed_over;
                Err(PlanningError::OverBudget(exceeded))
            }
            None => Ok(plan),
        }
    }

    /// A plan without a way.
    fn empty_plan(&self) -> PhysicalPlan {
        let plan = self.asked.ask.plan;
        PhysicalPlan {
            query: plan.query.clone(),
            covered: Vec::new(),
            uncovered: Vec::new(),
            choice: ModeChoice {
                mode: None,
                why: String::new(),
                passed_over: Vec::new(),
            },
            export: None,
            switches: Vec::new(),
            monitors: Vec::new(),
            aggregators: Vec::new(),
            unaggregated: None,
            dataflow: plan.dataflow.clone(),
            lacks: Vec::new(),
            taken: PlanResources::default(),
            proof: CopyProof::NotNeeded,
        }
    }

    /// Whether a switch needs no spare host for its monitor.
    fn is_on_its_own(&self, switch: usize, monitors: MonitorLocation) -> bool {
        let of = &self.asked.ask.site.switches[switch];
        let via = of
            .sniffer
            .as_ref()
            .map(|sniffer| sniffer.starts.via.as_deref());
        match monitors {
            MonitorLocation::Hosts => false,
            MonitorLocation::Ports => via.is_some(),
            MonitorLocation::Interfaces => {
                via == Some(Some(&[])) && matches!(of.reached, SwitchAccess::Ovsdb(_))
            }
        }
    }

    /// All combinations of modes and locations of monitors. `None` if all monitors are at switch ports, without
    /// copies.
    fn ways(&mut self) -> Vec<(Option<ModeOffer>, MonitorLocation)> {
        let can = |monitors| {
            self.asked
                .at
                .keys()
                .filter(|switch| self.is_on_its_own(**switch, monitors))
                .count()
        };
        let at_ports = can(MonitorLocation::Ports);
        let here = can(MonitorLocation::Interfaces);
        let some = at_ports > 0;
        let all = at_ports == self.asked.at.len();
        let mut ways = Vec::new();
        if all {
            ways.push((None, MonitorLocation::Ports));
        }
        for offer in offers(&self.asked.ask.plan.monitor) {
            if self.asked.ask.exact && !offer.lacks.is_empty() {
                self.pass_over(
                    &name(Some(&offer), MonitorLocation::Hosts),
                    "the result would not be exact".to_owned(),
                );
                continue;
            }
            if offer.loses_exchanges {
                let why = format!(
                    "exchanges may be missing from the result: {}",
                    offer.lacks.join("; ")
                );
                self.pass_over(&name(Some(&offer), MonitorLocation::Hosts), why);
                continue;
            }
            if offer.mode.part != Bytes::Whole
                && self.asked.ask.costs.copy_ns(offer.mode.part).is_none()
            {
                let why = "the cost of truncating a copy in the switch is unknown; set cut_ns under [switch] in the costs file";
                self.pass_over(&name(Some(&offer), MonitorLocation::Hosts), why.to_owned());
                continue;
            }
            if some && !all {
                ways.push((Some(offer.clone()), MonitorLocation::Ports));
            }
            // At a port, a monitor receives all its traffic without copies.
            if here > 0 && offer.mode.which != PacketSelection::Port {
                ways.push((Some(offer.clone()), MonitorLocation::Interfaces));
            }
            ways.push((Some(offer), MonitorLocation::Hosts));
        }
        ways
    }

    /// The price of a plan: cores, link load converted to cores, and a penalty for incomplete results.
    fn price(&self, plan: &PhysicalPlan) -> f64 {
        let links = plan.taken.copied.weighed(LinkWeights::PAPER) + plan.taken.results_mbps;
        let lacking = if plan.lacks.is_empty() {
            0.0
        } else {
            self.asked.ask.costs.exact_worth_cores
        };
        let cores = plan.taken.monitor_cores + plan.taken.switch_cores;
        cores + links / self.asked.ask.costs.link_mbps_per_core + lacking
    }

    fn words(&self, plan: &PhysicalPlan) -> String {
        let PlanResources {
            monitor_cores,
            switch_cores,
            copied,
            ..
        } = plan.taken;
        let copied: f64 = copied.0.iter().sum();
        let lacking = if plan.lacks.is_empty() {
            ""
        } else {
            ", and the result is incomplete"
        };
        format!(
            "{:.4} cores and {copied:.2} Mb/s of copies{lacking}",
            monitor_cores + switch_cores
        )
    }

    /// Builds the plan for one way, or returns the reason that it is not feasible.
    fn build(
        &self,
        offer: Option<&ModeOffer>,
        monitors: MonitorLocation,
    ) -> Result<PhysicalPlan, String> {
        let ask = self.asked.ask;
        let on_its_own = |switch: usize| self.is_on_its_own(switch, monitors);
        let hosts = self
            .asked
            .hosts(offer.map(|offer| offer.mode), &on_its_own)?;
        let mut plan = self.empty_plan();
        plan.choice.mode = offer.map(|offer| offer.mode);
        let lacks = offer.iter().flat_map(|offer| &offer.lacks);
        plan.lacks = lacks.map(|lack| (*lack).to_owned()).collect();
        for (switch, (parts, rates)) in &self.asked.at {
            plan.covered
                .push(self.asked.covering(*switch, parts, rates));
            let is_sniffed = monitors == MonitorLocation::Ports && on_its_own(*switch);
            let mode = if is_sniffed {
                None
            } else {
                offer.map(|offer| offer.mode)
            };
            let host = hosts.get(switch).copied();
            let at = host.map(|host| ask.site.hosts[host as usize].at);
            let copies = mode.map(|mode| (mode, way(mode, *switch, at)));
            if let (
                Some(MirrorMode {
                    which: PacketSelection::Flags(_),
                    ..
                }),
                Some(end),
            ) = (mode, at)
                && end.switch != *switch
            {
                return Err(REORDERED.to_owned());
            }
            let part = self.asked.switch(*switch, parts, copies)?;
            let monitor = self.asked.monitor(*switch, parts, rates, mode, host)?;
            let (mbps, packets) = mode.map_or((0.0, 0.0), |mode| copied(mode, rates, ask.costs));
            let mut each = mode.map_or(0.0, |mode| match mode.which {
                PacketSelection::Port => ask.costs.switch.mirror_ns,
                _ => ask.costs.copy_ns(mode.part).unwrap_or(0.0),
            });
            if host.is_some() {
                plan.taken.copied += LinkTraffic::to_host(mbps);
            }
            if let PacketPath::Tunnel { end } = part.way {
                // Packets from the tunnel are copied at its end.
                plan.taken.switch_cores += packets * ask.costs.switch.copy_ns / 1e9;
                plan.taken.copied +=
                    self.asked
                        .between(*switch, end.switch, wrapped(mbps, packets));
                each = match mode.map(|mode| mode.part) {
                    Some(Bytes::First(_)) => each + ask.costs.switch.tunnel_ns,
                    _ => ask.costs.switch.tunnel_ns,
                };
            }
            plan.taken.switch_cores += packets * each / 1e9;
            plan.taken.monitor_cores += monitor.cores;
            plan.taken.delay_us = plan.taken.delay_us.max(each / 1e3);
            plan.taken.results_mbps += self.asked.results(rates);
            plan.switches.push(part);
            plan.monitors.push(monitor);
        }
        (plan.aggregators, plan.unaggregated) = self.asked.aggregators(&plan);
        for aggregator in &plan.aggregators {
            plan.taken.results_mbps -= aggregator.saved_mbps();
            plan.taken.monitor_cores += aggregator.cores;
        }
        plan.lacks
            .extend(self.asked.twice().then(|| TWICE.to_owned()));
        if ask.exact && !plan.lacks.is_empty() {
            return Err(plan.lacks.swap_remove(0));
        }
        plan.proof = self.asked.prove(&plan)?;
        Ok(plan)
    }
}

/// The way of copies from a switch to a port of a host or to an interface.
fn way(mode: MirrorMode, switch: usize, port: Option<SitePort>) -> PacketPath {
    match (port, mode.which) {
        (None, _) => PacketPath::Interface,
        (Some(end), _) if end.switch != switch => PacketPath::Tunnel { end },
        (Some(SitePort { port, .. }), PacketSelection::Port) => PacketPath::Mirror { port },
        (Some(SitePort { port, .. }), PacketSelection::Flow | PacketSelection::Flags(_)) => {
            PacketPath::Rules { port }
        }
    }
}

/// Description of the way of the packets.
fn name(offer: Option<&ModeOffer>, monitors: MonitorLocation) -> String {
    let Some(ModeOffer { mode, .. }) = offer else {
        return SNIFFER.to_owned();
    };
    match monitors {
        MonitorLocation::Ports => {
            format!("{mode}, and monitors at the ports of switches that can have them")
        }
        MonitorLocation::Interfaces => {
            format!("copies of {mode} to interfaces of this machine, for switches that run on it")
        }
        MonitorLocation::Hosts => format!("copies of {mode}"),
    }
}

/// Description of a plan's way.
fn description(plan: &PhysicalPlan) -> String {
    let has = |way| plan.switches.iter().any(|part| part.way == way);
    let monitors = match (has(PacketPath::Sniffer), has(PacketPath::Interface)) {
        (true, _) => MonitorLocation::Ports,
        (false, true) => MonitorLocation::Interfaces,
        (false, false) => MonitorLocation::Hosts,
    };
    let offer = plan.choice.mode.map(|mode| ModeOffer {
        mode,
        lacks: Vec::new(),
        loses_exchanges: false,
    });
    name(offer.as_ref(), monitors)
}

const REORDERED: &str =
    "a tunnel may reorder copies; connections are lost if packets in between are not copied";

const SNIFFER: &str = "monitors at the switches' ports; nothing is copied";

impl fmt::Display for PlanningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanningError::NoFlows(why) => write!(f, "no flow can be captured: {}", why.join("; ")),
            PlanningError::NoWay(ways) => {
                f.write_str("no mode is possible:")?;
                ways.iter()
                    .try_for_each(|RejectedMode { what, why }| write!(f, "\n  {what}: {why}"))
            }
            PlanningError::OverBudget(exceeded) => write!(f, "{exceeded}"),
        }
    }
}

impl std::error::Error for PlanningError {}
