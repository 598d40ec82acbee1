//! API views of a network: its file, active rules, and plans of jobs.

use std::collections::BTreeMap;

use mirror::openflow::FlowRule;
use planner::physical::{MonitorPart, ends, mode, to_json};
use planner::topology::{NetworkSite, SiteHost, SiteLink, SiteSwitch, SwitchAccess, SwitchTier};
use server::{
    AgentShare, CopiesState, JobId, NetworkHost, NetworkJob, NetworkLink, NetworkMirror,
    NetworkMonitor, NetworkRule, NetworkSwitch, NetworkView,
};
use steer::OwnedRules;

use super::number_of;
use crate::network::plan::NetworkPlan;

/// View of a planned job, without its agents.
pub fn job(job: JobId, planned: &NetworkPlan) -> NetworkJob {
    NetworkJob {
        job,
        state: CopiesState::Waiting,
        mode: mode(&planned.plan),
        why: planned.plan.choice.why.clone(),
        lacks: planned.plan.lacks.clone(),
        not_covered: planned.plan.uncovered.clone(),
        monitors: Vec::new(),
        proof: String::new(),
        plan: to_json(&planned.plan),
    }
}

/// Monitors with the parts of their agents.
pub fn monitors(planned: &NetworkPlan, parts: &[AgentShare]) -> Vec<NetworkMonitor> {
    let monitor = |(monitor, part): (&MonitorPart, &AgentShare)| NetworkMonitor {
        agent: part.agent.clone(),
        host: monitor.host.clone(),
        switch: planned.site.switches[monitor.switch].name.clone(),
        interfaces: part.interfaces.clone(),
        clients: ends(&part.clients),
        servers: ends(&part.servers),
        mbps: monitor.mbps,
        cores: monitor.cores,
    };
    planned
        .plan
        .monitors
        .iter()
        .zip(parts)
        .map(monitor)
        .collect()
}

/// View of the network.
pub fn network(
    site: &NetworkSite,
    ours: &[OwnedRules],
    jobs: &BTreeMap<JobId, NetworkJob>,
) -> NetworkView {
    let by_number: BTreeMap<u32, JobId> = jobs.keys().map(|job| (number_of(*job), *job)).collect();
    let job = |number: Option<u32>| by_number.get(&number?).copied();
    let switch = |of: &SiteSwitch| {
        let here = ours.iter().find(|ours| ours.switch == of.name);
        let mirrors = here.into_iter().flat_map(|ours| &ours.mirrors);
        NetworkSwitch {
            name: of.name.clone(),
            tier: tier(of.tier).to_owned(),
            reached: reached(&of.reached).map(str::to_owned),
            agent: of
                .sniffer
                .as_ref()
                .and_then(|sniffer| sniffer.starts.agent.clone()),
            rules: here
                .into_iter()
                .flat_map(|ours| &ours.rules)
                .map(|of| rule(of, &job))
                .collect(),
            mirrors: mirrors
                .map(|(number, mirror)| NetworkMirror {
                    job: job(*number),
                    name: mirror.name.clone(),
                    ports: mirror.entering.clone(),
                    to: mirror.output.clone(),
                })
                .collect(),
        }
    };
    NetworkView {
        is_known: true,
        switches: site.switches.iter().map(switch).collect(),
        hosts: site.hosts.iter().map(|of| host(site, of)).collect(),
        links: site.links.iter().map(|of| link(site, of)).collect(),
        jobs: jobs.values().cloned().collect(),
    }
}

fn tier(tier: SwitchTier) -> &'static str {
    match tier {
        SwitchTier::Edge => "edge",
        SwitchTier::Aggregation => "aggregation",
        SwitchTier::Core => "core",
    }
}

fn reached(reached: &SwitchAccess) -> Option<&'static str> {
    match reached {
        SwitchAccess::Not => None,
        SwitchAccess::Ovsdb(_) => Some("ovsdb"),
        SwitchAccess::Controller { .. } => Some("controller"),
    }
}

fn rule(rule: &FlowRule, job: &dyn Fn(Option<u32>) -> Option<JobId>) -> NetworkRule {
    NetworkRule {
        job: job(rule.cookie.owner().map(|owner| owner.job)),
        cookie: rule.cookie.to_string(),
        table: rule.table,
        priority: rule.priority,
        matches: rule.matched.to_string(),
        actions: rule.actions_text(),
        lease_seconds: rule.hard_timeout,
    }
}

fn host(site: &NetworkSite, host: &SiteHost) -> NetworkHost {
    NetworkHost {
        name: host.name.clone(),
        addresses: host.addresses.iter().map(ToString::to_string).collect(),
        switch: site.switches[host.at.switch].name.clone(),
        port: host.at.port,
        spare: host.spare,
        agent: host.starts.agent.clone(),
    }
}

fn link(site: &NetworkSite, link: &SiteLink) -> NetworkLink {
    let [from, to] = link.ends;
    let name = |switch: usize| site.switches[switch].name.clone();
    NetworkLink {
        from: name(from.switch),
        from_port: from.port,
        to: name(to.switch),
        to_port: to.port,
        mbps: link.mbps,
    }
}
