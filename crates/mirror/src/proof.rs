//! Proves that rules do what is requested and nothing else: over the whole path through the network, a requested packet
//! reaches its monitor exactly once, any other never, and all other behavior of a switch is unchanged. A counterexample
//! is one packet with its path.
//!
//! A packet that a switch drops before it leaves through a host's port is not requested. Ports for copies are outside
//! the network: packets from them are ignored, and packets to them are copies.

use std::collections::BTreeSet;
use std::fmt;

use crate::mode::PacketPart;
use crate::model::network::{At, numbers};
use crate::model::{
    PacketBehavior, PacketClass, PacketEffect, PathState, PortNeighbor, SwitchModel, SwitchNetwork,
    UnmodeledTerms,
};
use crate::openflow::FlowRule;
use crate::packets::{MatchField, ModelPacket, PacketCube, PacketRegion, well_formed};

/// Whether other packets may reach a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StrayPolicy {
    /// No.
    Never,
    /// Other packets may arrive; the monitor filters them, as with port mirrors.
    Tolerated,
}

/// Packets requested for a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyExpectation {
    /// Name of the monitor.
    pub monitor: String,
    /// Index of the switch at which the packets enter; `None`: any.
    pub enters: Option<usize>,
    /// Requested packets.
    pub asked: Vec<PacketCube>,
    /// Minimum part of each.
    pub part: PacketPart,
    /// Whether other packets may arrive.
    pub others: StrayPolicy,
}

impl CopyExpectation {
    /// Whether the expectation applies to packets that enter at this port.
    fn counts_at(&self, at: At) -> bool {
        self.enters.is_none_or(|switch| switch == at.0)
    }
}

/// Kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProofFault {
    /// A requested packet does not arrive.
    Missing,
    /// The packet arrives more than once.
    Repeated,
    /// The packet arrives shorter than requested.
    Short,
    /// An unrequested packet arrives.
    Stranger,
    /// The packet leaves by ports other than before, or modified.
    Changed,
    /// Two rules of equal priority match the packet, and netalytics installed one of them.
    Overlap,
    /// The effect on the packet is unknown.
    Doubt,
}

/// A packet with a wrong treatment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// Kind of error.
    pub fault: ProofFault,
    /// The packet.
    pub packet: ModelPacket,
    /// Conditions outside the model that the packet meets.
    pub conditions: Vec<String>,
    /// Name of the switch that it enters; the port is the packet's.
    pub switch: String,
    /// Description.
    pub what: String,
    /// Path, one line per rule.
    pub way: String,
}

/// A packet of a class with equal treatment, to be traced by other tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketWitness {
    /// Index of the switch.
    pub switch: usize,
    /// The packet, as it enters.
    pub packet: ModelPacket,
}

/// Result of a proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProofResult {
    /// Number of classes of packets examined.
    pub classes: usize,
    /// One packet for each path through the tables of each switch.
    pub witnesses: Vec<PacketWitness>,
}

/// Maximum counterexamples reported per kind.
const TOLD_MAX: usize = 8;

/// Proves the rules: `before` is the network without them, `after` with them; `is_ours` identifies our rules.
///
/// # Errors
/// Counterexamples.
pub fn prove(
    before: &SwitchNetwork,
    after: &SwitchNetwork,
    wanted: &[CopyExpectation],
    is_ours: &dyn Fn(&FlowRule) -> bool,
) -> Result<ProofResult, Vec<Counterexample>> {
    let mut proof = ProofRun {
        after,
        wanted,
        packets: well_formed(),
        terms: UnmodeledTerms::default(),
        found: Vec::new(),
        proved: ProofResult::default(),
    };
    for (place, switch) in after.switches.iter().enumerate() {
        proof.overlaps(place, switch, is_ours);
    }
    for (place, (old, new)) in before.switches.iter().zip(&after.switches).enumerate() {
        proof.unchanged(place, old, new);
    }
    proof.copies();
    if proof.terms.are_too_many() {
        let what = "the rules have more than 128 conditions that are not modeled".to_owned();
        proof.tell(ProofFault::Doubt, (0, 0), &PacketRegion::default(), what);
    }
    if proof.found.is_empty() {
        Ok(proof.proved)
    } else {
        Err(proof.found)
    }
}

struct ProofRun<'a> {
    after: &'a SwitchNetwork,
    wanted: &'a [CopyExpectation],
    /// All possible packets. Tables are evaluated with a larger set that needs fewer boxes.
    packets: Vec<PacketCube>,
    terms: UnmodeledTerms,
    found: Vec<Counterexample>,
    proved: ProofResult,
}

impl ProofRun<'_> {
    /// Reports one of these packets, if the set is not empty.
    fn tell(&mut self, fault: ProofFault, at: At, region: &PacketRegion, what: String) {
        if self
            .found
            .iter()
            .filter(|found| found.fault == fault)
            .count()
            >= TOLD_MAX
        {
            return;
        }
        let Some(cube) = region.find(&self.packets) else {
            return;
        };
        let packet = ModelPacket::of(&cube).with(MatchField::InPort, at.1.into());
        let way = self.after.narrate(at, packet.cube(), &mut self.terms);
        let conditions = self
            .terms
            .holding(packet.get(MatchField::Other))
            .map(str::to_owned)
            .collect();
        let switch = self
            .after
            .switches
            .get(at.0)
            .map_or_else(String::new, |switch| switch.name.clone());
        self.found.push(Counterexample {
            fault,
            packet,
            conditions,
            switch,
            what,
            way,
        });
    }

    /// Reports rules of equal priority: a switch may apply either.
    fn overlaps(
        &mut self,
        place: usize,
        switch: &SwitchModel,
        is_ours: &dyn Fn(&FlowRule) -> bool,
    ) {
        for (i, one) in switch.rules.iter().enumerate() {
            let alike =
                |other: &&FlowRule| (other.table, other.priority) == (one.table, one.priority);
            for other in switch.rules[i + 1..].iter().take_while(alike) {
                let Some(both) = one.matched.cube.and(&other.matched.cube) else {
                    continue;
                };
                if one.actions == other.actions || !is_ours(one) && !is_ours(other) {
                    continue;
                }
                let is_above = |rule: &&FlowRule| {
                    rule.table == one.table
                        && rule.priority > one.priority
                        && rule.matched.other.is_empty()
                };
                let above: Vec<PacketCube> = switch
                    .rules
                    .iter()
                    .filter(is_above)
                    .map(|rule| rule.matched.cube)
                    .collect();
                let port = both.get(MatchField::InPort).value as u32;
                let what = format!("two rules of equal priority match: {one}; {other}");
                if let Some(either) = PacketRegion::from(both).without_all(&above) {
                    self.tell(ProofFault::Overlap, (place, port), &either, what);
                }
            }
        }
    }

    /// Checks that the output of a switch, without copies, is unchanged.
    fn unchanged(&mut self, place: usize, old: &SwitchModel, new: &SwitchModel) {
        if old == new {
            return;
        }
        let mut ways = BTreeSet::new();
        for port in new.entrances() {
            let entered =
                PacketRegion::from(PacketCube::ALL.with(MatchField::InPort, port.number.into()));
            let entered = PacketClass::new(entered, PathState::default());
            for class in new.run(entered, &mut self.terms) {
                self.proved.classes += 1;
                let is_known = ways.contains(&(port.number, class.steps.clone()));
                if let Some(cube) = (!is_known)
                    .then(|| class.region.find(&self.packets))
                    .flatten()
                {
                    ways.insert((port.number, class.steps.clone()));
                    self.proved.witnesses.push(PacketWitness {
                        switch: place,
                        packet: ModelPacket::of(&cube),
                    });
                }
                self.compare((place, port.number), old, new, &class);
            }
        }
    }

    fn compare(&mut self, at: At, old: &SwitchModel, new: &SwitchModel, class: &PacketClass) {
        let left = effects(new, &class.effects);
        for earlier in old.run(
            PacketClass::new(class.region.clone(), PathState::default()),
            &mut self.terms,
        ) {
            let before = effects(new, &earlier.effects);
            if before != left {
                let what = format!("before: {}; after: {}", words(&before), words(&left));
                self.tell(ProofFault::Changed, at, &earlier.region, what);
            }
        }
    }

    /// Checks every packet from the hosts to the monitors.
    fn copies(&mut self) {
        let network = self.after;
        for (place, switch) in network.switches.iter().enumerate() {
            for port in switch
                .entrances()
                .filter(|port| port.leads == PortNeighbor::Hosts)
            {
                self.enter((place, port.number));
            }
        }
    }

    fn enter(&mut self, at: At) {
        let network = self.after;
        self.others(at);
        for wanted in self.wanted.iter().filter(|wanted| wanted.counts_at(at)) {
            for part in wanted
                .asked
                .iter()
                .flat_map(|part| between_hosts(network, at, *part))
            {
                self.arrive(at, &part, wanted);
            }
        }
    }

    /// Checks that no other packet arrives.
    fn others(&mut self, at: At) {
        for behavior in self
            .after
            .behaviors(at, &PacketRegion::default(), &mut self.terms)
        {
            self.proved.classes += 1;
            self.doubts(at, &behavior);
            let mut monitors: Vec<&String> =
                behavior.copies.iter().map(|(monitor, _)| monitor).collect();
            monitors.dedup();
            for monitor in monitors {
                let for_it: Vec<&CopyExpectation> = self
                    .wanted
                    .iter()
                    .filter(|wanted| wanted.monitor == *monitor && wanted.counts_at(at))
                    .collect();
                if for_it
                    .iter()
                    .any(|wanted| wanted.others == StrayPolicy::Tolerated)
                {
                    continue;
                }
                let asked = for_it.iter().flat_map(|wanted| &wanted.asked);
                if let Some(strangers) = behavior.region.without_all(asked) {
                    let what = format!("monitor {monitor} receives it without having requested it");
                    self.tell(ProofFault::Stranger, at, &strangers, what);
                }
            }
        }
    }

    /// Checks that requested packets arrive once.
    fn arrive(&mut self, at: At, region: &PacketRegion, wanted: &CopyExpectation) {
        let name = &wanted.monitor;
        for behavior in self.after.behaviors(at, region, &mut self.terms) {
            self.proved.classes += 1;
            self.doubts(at, &behavior);
            let mut arrived = behavior
                .copies
                .iter()
                .filter(|(monitor, _)| monitor == name);
            let (fault, what) = match (arrived.next(), arrived.count()) {
                // A switch on its path drops it, and no other host receives it.
                (None, _) if !behavior.is_delivered => continue,
                (None, _) => (
                    ProofFault::Missing,
                    format!("monitor {name} requests it and does not receive it"),
                ),
                (Some(_), more @ 1..) => (
                    ProofFault::Repeated,
                    format!("monitor {name} receives it {} times", more + 1),
                ),
                (Some((_, len)), 0) if is_short(*len, wanted.part) => (
                    ProofFault::Short,
                    format!("monitor {name} receives less of it than requested"),
                ),
                (Some(_), 0) => continue,
            };
            self.tell(fault, at, &behavior.region, what);
        }
    }

    fn doubts(&mut self, at: At, behavior: &PacketBehavior) {
        if let Some(doubt) = behavior.doubts.first() {
            self.tell(ProofFault::Doubt, at, &behavior.region, doubt.clone());
        }
    }
}

/// Excludes packets from hosts at other locations; separates those to each host with a known location.
fn between_hosts(network: &SwitchNetwork, at: At, cube: PacketCube) -> Vec<PacketRegion> {
    let with = |field, address| {
        let (number, version) = numbers(address);
        PacketCube::ALL
            .with(MatchField::EthType, version)
            .with(field, number)
    };
    let hosts = &network.hosts;
    let elsewhere: Vec<PacketCube> = hosts
        .iter()
        .filter(|host| host.at != at)
        .map(|host| with(MatchField::Source, host.address))
        .collect();
    let Some(here) = PacketRegion::from(cube).without_all(&elsewhere) else {
        return Vec::new();
    };
    let known: Vec<PacketCube> = hosts
        .iter()
        .map(|host| with(MatchField::Destination, host.address))
        .collect();
    let rest = here.without_all(&known);
    known
        .iter()
        .filter_map(|host| here.and(host))
        .chain(rest)
        .collect()
}

fn is_short(len: Option<u32>, part: PacketPart) -> bool {
    match (len, part) {
        (None, _) => false,
        (Some(_), PacketPart::Whole) => true,
        (Some(len), PacketPart::First(bytes)) => len < bytes.into(),
    }
}

/// Effects other than copies, unordered.
fn effects(switch: &SwitchModel, all: &[PacketEffect]) -> Vec<PacketEffect> {
    let is_copy = |effect: &&PacketEffect| matches!(effect, PacketEffect::Output { port, .. } if switch.is_for_copies(*port));
    let mut rest: Vec<PacketEffect> = all
        .iter()
        .filter(|effect| !is_copy(effect))
        .cloned()
        .collect();
    rest.sort();
    rest
}

fn words(effects: &[PacketEffect]) -> String {
    let word = |effect: &PacketEffect| match effect {
        PacketEffect::Output {
            port,
            max_len: None,
            ..
        } => format!("leave by port {port}"),
        PacketEffect::Output {
            port,
            max_len: Some(bytes),
            ..
        } => {
            format!("leave by port {port}, cut to {bytes} bytes")
        }
        PacketEffect::Normal(_) => "go the normal way".to_owned(),
        PacketEffect::Controller(..) => "go to the controller".to_owned(),
        PacketEffect::Unknown(text) => text.clone(),
    };
    let all: Vec<String> = effects.iter().map(word).collect();
    if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(" and ")
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {}: {}", self.packet, self.switch, self.what)?;
        for condition in &self.conditions {
            writeln!(f, "  where {condition}")?;
        }
        f.write_str(&self.way)
    }
}
