//! Simulated switches: hosts at ports 1 to 3, a monitor at port 9.

use mirror::model::{PortNeighbor, SwitchModel, SwitchNetwork, SwitchPort};
use mirror::openflow::{FlowRule, read_match, read_rule};
use mirror::proof::Counterexample;
use mirror::{
    CopyExpectation, PacketCube, PacketPart, ProofFault, ProofResult, RuleLayout, StrayPolicy,
    SwitchCopy, compose,
};

pub const SERVER: u16 = 7;

pub fn plan(query: &str) -> plan::Plan {
    let checked = query::check(query, &parsers::registry::schemas(), &());
    planner::lower(&checked.unwrap_or_else(|e| panic!("{query}: {e:?}")))
}

pub fn rules(texts: &[&str]) -> Vec<FlowRule> {
    texts
        .iter()
        .map(|text| read_rule(text).unwrap_or_else(|e| panic!("{e}")))
        .collect()
}

pub fn cube(text: &str) -> PacketCube {
    read_match(text).cube
}

pub fn ports() -> Vec<SwitchPort> {
    let host = |n| SwitchPort::new(n, &format!("v{n}"), PortNeighbor::Hosts);
    vec![host(1), host(2), host(3), monitor(9, "m")]
}

/// Port of a monitor, without flooding.
pub fn monitor(number: u32, name: &str) -> SwitchPort {
    let flooded = mirror::model::FloodSetting::No;
    SwitchPort {
        flooded,
        ..SwitchPort::new(number, name, PortNeighbor::Monitor(name.to_owned()))
    }
}

pub fn copy(job: u32, asked: &[&str], part: PacketPart, target: u32) -> SwitchCopy {
    let asked = asked.iter().map(|text| cube(text)).collect();
    SwitchCopy {
        job,
        generation: 1,
        asked,
        ports: Vec::new(),
        part,
        target,
    }
}

pub fn wanted(copies: &[&SwitchCopy], monitor: &str) -> Vec<CopyExpectation> {
    let want = |copy: &&SwitchCopy| CopyExpectation {
        monitor: monitor.to_owned(),
        enters: None,
        asked: copy.asked.clone(),
        part: copy.part,
        others: StrayPolicy::Never,
    };
    copies.iter().map(want).collect()
}

pub fn terms(layout: RuleLayout) -> mirror::compose::CopyTerms {
    mirror::compose::CopyTerms {
        server: SERVER,
        lease: 30,
        layout,
        rules_max: mirror::compose::RULES_MAX,
    }
}

/// Our table 0, and the original tables from 1 on.
pub fn first_table(copies: &[SwitchCopy]) -> Vec<FlowRule> {
    compose(copies, &terms(RuleLayout::FirstTable { next: 1 })).expect("rules")
}

pub fn prove(
    before: &SwitchModel,
    after: Vec<FlowRule>,
    wanted: &[CopyExpectation],
) -> Result<ProofResult, Vec<Counterexample>> {
    let old = SwitchNetwork::of(before.clone());
    let new = SwitchNetwork::of(before.with_rules(after));
    mirror::prove(&old, &new, wanted, &|rule| rule.cookie.is_of(SERVER))
}

/// Rules of the switch and ours.
pub fn with(switch: &SwitchModel, ours: Vec<FlowRule>) -> Vec<FlowRule> {
    switch.rules.iter().cloned().chain(ours).collect()
}

pub fn faults(result: Result<ProofResult, Vec<Counterexample>>) -> Vec<ProofFault> {
    let mut faults: Vec<ProofFault> = result
        .err()
        .unwrap_or_default()
        .iter()
        .map(|found| found.fault)
        .collect();
    faults.sort();
    faults.dedup();
    faults
}
