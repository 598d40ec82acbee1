//! Simulated switches: hosts at ports 1 to 3, a monitor at port 9.

use mirror::model::{Leads, Network, Port, Switch};
use mirror::openflow::{Rule, read_match, read_rule};
use mirror::proof::Counterexample;
use mirror::{Copy, Cube, Fault, Layout, Others, Part, Proved, Wanted, compose};

pub const SERVER: u16 = 7;

pub fn plan(query: &str) -> plan::Plan {
    let checked = query::check(query, &parsers::registry::schemas(), &());
    planner::lower(&checked.unwrap_or_else(|e| panic!("{query}: {e:?}")))
}

pub fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| read_rule(text).unwrap_or_else(|e| panic!("{e}"))).collect()
}

pub fn cube(text: &str) -> Cube {
    read_match(text).cube
}

pub fn ports() -> Vec<Port> {
    let host = |n| Port::new(n, &format!("v{n}"), Leads::Hosts);
    vec![host(1), host(2), host(3), monitor(9, "m")]
}

/// Port of a monitor, without flooding.
pub fn monitor(number: u32, name: &str) -> Port {
    let flooded = mirror::model::Flooded::No;
    Port { flooded, ..Port::new(number, name, Leads::Monitor(name.to_owned())) }
}

pub fn copy(job: u32, asked: &[&str], part: Part, target: u32) -> Copy {
    let asked = asked.iter().map(|text| cube(text)).collect();
    Copy { job, generation: 1, asked, ports: Vec::new(), part, target }
}

pub fn wanted(copies: &[&Copy], monitor: &str) -> Vec<Wanted> {
    let want = |copy: &&Copy| Wanted {
        monitor: monitor.to_owned(),
        enters: None,
        asked: copy.asked.clone(),
        part: copy.part,
        others: Others::Never,
    };
    copies.iter().map(want).collect()
}

pub fn terms(layout: Layout) -> mirror::compose::Terms {
    mirror::compose::Terms { server: SERVER, lease: 30, layout, rules_max: mirror::compose::RULES_MAX }
}

/// Our table 0, and the original tables from 1 on.
pub fn first_table(copies: &[Copy]) -> Vec<Rule> {
    compose(copies, &terms(Layout::FirstTable { next: 1 })).expect("rules")
}

pub fn prove(before: &Switch, after: Vec<Rule>, wanted: &[Wanted]) -> Result<Proved, Vec<Counterexample>> {
    let (old, new) = (Network::of(before.clone()), Network::of(before.with_rules(after)));
    mirror::prove(&old, &new, wanted, &|rule| rule.cookie.is_of(SERVER))
}

/// Rules of the switch and ours.
pub fn with(switch: &Switch, ours: Vec<Rule>) -> Vec<Rule> {
    switch.rules.iter().cloned().chain(ours).collect()
}

pub fn faults(result: Result<Proved, Vec<Counterexample>>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = result.err().unwrap_or_default().iter().map(|found| found.fault).collect();
    faults.sort();
    faults.dedup();
    faults
}
