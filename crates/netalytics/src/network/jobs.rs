//! Jobs of a server in a network: each is planned for the agents in the network file. The mirroring of all jobs is one
//! [`SwitchFabric`], with one owner number on the switches for the lifetime of a data directory. It exists while there are
//! such jobs; the next job connects to the switches again.

mod view;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use plan::{NetworkBudget, Plan};
use planner::physical::{
    AggregatorMode, MonitorPart, MonitorPlace, NetworkMode, PlanCosts, PlanRequest, physical,
};
use planner::topology::{NetworkSite, SwitchAccess};
use server::{
    AgentShare, CopiesState, JobId, MirrorSession, NetworkBackend, NetworkJob, NetworkView,
};
use steer::{CopyJob, NetworkMap, RunningCopies, SwitchFabric};

use crate::network::plan::NetworkPlan;
use crate::network::run::port_names::{SwitchPortNames, interface_of};
use crate::network::run::rule_owners::RuleOwnerKind;
use crate::network::run::switches::{PlanSwitches, all_ways_are_known, one_line};

/// File of the owner number in the data directory.
const NUMBER: &str = "switches.number";
/// A job has 20 bits of a rule's cookie; 0 is not used.
const NUMBERS: u64 = (1 << 20) - 1;
/// Maximum hosts of a proof over the whole path; with more, each switch is proved separately.
const HOSTS_MAX: usize = 24;
/// Fixed seed: equally good placements are resolved in the same way after a restart.
const SEED: u64 = 1;

/// See the module documentation.
pub struct JobNetwork {
    shared: Arc<JobNetworkState>,
    costs: PlanCosts,
}

/// State shared by jobs.
struct JobNetworkState {
    /// The part of the network reachable by agents.
    site: NetworkSite,
    number: PathBuf,
    wires: Mutex<Option<Arc<SwitchConnections>>>,
    /// Locked while switches are being connected, which is slow.
    reaching: Mutex<()>,
    jobs: Mutex<BTreeMap<JobId, NetworkJob>>,
}

/// Connected switches.
struct SwitchConnections {
    ports: SwitchPortNames,
    fabric: SwitchFabric,
}

impl JobNetwork {
    /// The network of a server with its data in this folder. No switch is contacted yet.
    pub fn new(site: NetworkSite, costs: PlanCosts, folder: &Path) -> JobNetwork {
        let (wires, reaching, jobs) = Default::default();
        let shared = JobNetworkState {
            site: by_agents(site),
            number: folder.join(NUMBER),
            wires,
            reaching,
            jobs,
        };
        JobNetwork {
            shared: Arc::new(shared),
            costs,
        }
    }

    fn try_plan(
        &self,
        job: JobId,
        plan: &Plan,
        budget: NetworkBudget,
    ) -> anyhow::Result<server::PlannedJob> {
        let shared = &self.shared;
        let site = &shared.site;
        // Agents send results in their own sessions.
        let aggregate = AggregatorMode::Never;
        let costs = &self.costs;
        let ask = PlanRequest {
            plan,
            site,
            expected: &[],
            costs,
            exact: false,
            mode: NetworkMode::Packets,
            sampling: None,
            occupied: &[],
            aggregate,
            budget,
            seed: SEED,
        };
        let plan = physical(&ask)
            .map_err(|why| anyhow::anyhow!("no plan for the network is possible: {why}"))?;
        let planned = NetworkPlan {
            site: site.clone(),
            plan,
        };
        let mut agents: Vec<String> = Vec::new();
        for part in &planned.plan.monitors {
            let agent = agent(site, part)?;
            if agents.contains(&agent) {
                bail!("agent {agent} would need two monitors for one job, and supports one");
            }
            agents.push(agent);
        }
        // From here on the job is in the network until its copies are dropped; the last job releases the switches.
        let lacks = planned.plan.lacks.clone();
        let is_mirrored = planned.plan.choice.mode.is_some();
        let mut copies = JobMirroring::new(job, planned, shared.clone())?;
        let parts = copies.parts(agents)?;
        Ok(server::PlannedJob {
            parts,
            lacks,
            is_mirrored,
            copies: Box::new(copies),
        })
    }
}

impl NetworkBackend for JobNetwork {
    fn plan(
        &self,
        job: JobId,
        plan: &Plan,
        budget: NetworkBudget,
    ) -> Result<server::PlannedJob, String> {
        self.try_plan(job, plan, budget)
            .map_err(|why| one_line(&format!("{why:#}")))
    }

    fn view(&self) -> NetworkView {
        let wires = lock(&self.shared.wires).clone();
        let ours = wires.map(|wires| wires.fabric.ours()).unwrap_or_default();
        let jobs = lock(&self.shared.jobs);
        view::network(&self.shared.site, &ours, &jobs)
    }
}

impl JobNetworkState {
    /// Capture interfaces of a monitor.
    fn interfaces(&self, planned: &NetworkPlan, part: &MonitorPart) -> anyhow::Result<Vec<String>> {
        match part.place {
            MonitorPlace::Switch(switch) => {
                let names = || match planned.plan.switch(switch) {
                    Some(part) => self.wires()?.ports.of(&self.site, part),
                    None => Ok(Vec::new()),
                };
                names().with_context(|| {
                    format!(
                        "cannot determine the interface names of the ports of {} for {}",
                        part.host, part.name
                    )
                })
            }
            MonitorPlace::Host(host) => interface_of(&self.site.hosts[host as usize]),
        }
    }

    /// The controllable switches, connected on first use, which only the first caller waits for.
    fn wires(&self) -> anyhow::Result<Arc<SwitchConnections>> {
        let there = || lock(&self.wires).clone();
        if let Some(there) = there() {
            return Ok(there);
        }
        let _reaching = lock(&self.reaching);
        if let Some(there) = there() {
            return Ok(there);
        }
        let reached = Arc::new(self.reach()?);
        *lock(&self.wires) = Some(reached.clone());
        Ok(reached)
    }

    fn reach(&self) -> anyhow::Result<SwitchConnections> {
        let site = &self.site;
        let can_be = |index: usize| site.switches[index].reached != SwitchAccess::Not;
        let switches = PlanSwitches::reach_those(site, &can_be, RuleOwnerKind::Kept)?;
        let number = self.number(switches.server())?;
        let hosts = || {
            site.hosts
                .iter()
                .filter(|host| !host.spare && !host.addresses.is_empty())
        };
        let map = if all_ways_are_known(site) && hosts().count() <= HOSTS_MAX {
            switches.ports().map_of(site, hosts())?
        } else {
            NetworkMap::default()
        };
        let (ports, fabric) = switches.into_fabric(number, map);
        Ok(SwitchConnections { ports, fabric })
    }

    /// Owner number on switches: the stored one, so that rules of an earlier process are replaced; otherwise `free`.
    fn number(&self, free: u16) -> anyhow::Result<u16> {
        let name = self.number.display();
        match fs::read_to_string(&self.number) {
            Ok(text) => {
                let number = text
                    .trim()
                    .parse()
                    .with_context(|| format!("{name} does not contain a number"))?;
                // A number that other processes may choose because they see no rules with it is not kept; remaining
                // rules expire.
                if RuleOwnerKind::Kept.has(number) {
                    return Ok(number);
                }
            }
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => return Err(why).with_context(|| format!("cannot read {name}")),
        }
        fs::write(&self.number, format!("{free}\n"))
            .with_context(|| format!("cannot write {name}"))?;
        Ok(free)
    }

    fn tell(&self, job: JobId, change: impl FnOnce(&mut NetworkJob)) {
        if let Some(told) = lock(&self.jobs).get_mut(&job) {
            change(told);
        }
    }
}

/// Mirroring for one job.
struct JobMirroring {
    job: JobId,
    planned: NetworkPlan,
    shared: Arc<JobNetworkState>,
    running: Option<RunningCopies>,
}

impl JobMirroring {
    /// Adds a job to the network.
    fn new(
        job: JobId,
        planned: NetworkPlan,
        shared: Arc<JobNetworkState>,
    ) -> anyhow::Result<JobMirroring> {
        let number = number_of(job);
        let mut jobs = lock(&shared.jobs);
        if jobs
            .keys()
            .any(|other| *other != job && number_of(*other) == number)
        {
            bail!("a job with a number lower by a million still exists");
        }
        jobs.insert(job, view::job(job, &planned));
        drop(jobs);
        Ok(JobMirroring {
            job,
            planned,
            shared,
            running: None,
        })
    }

    /// Parts of these agents, one per monitor.
    fn parts(&mut self, agents: Vec<String>) -> anyhow::Result<Vec<AgentShare>> {
        let part = |(monitor, agent): (&MonitorPart, String)| {
            let clients = monitor.spec.clients.clone();
            let servers = monitor.spec.servers.clone();
            let interfaces = self.shared.interfaces(&self.planned, monitor)?;
            anyhow::Ok(AgentShare {
                agent,
                clients,
                servers,
                interfaces,
            })
        };
        let parts = self.planned.plan.monitors.iter().zip(agents).map(part);
        let parts = parts.collect::<anyhow::Result<Vec<AgentShare>>>()?;
        self.shared.tell(self.job, |told| {
            told.monitors = view::monitors(&self.planned, &parts)
        });
        Ok(parts)
    }
}

impl MirrorSession for JobMirroring {
    fn begin(&mut self) -> Result<(), String> {
        let begin = || {
            if self.planned.plan.choice.mode.is_none() {
                return Ok(None);
            }
            let wires = self.shared.wires()?;
            let taps = wires.ports.taps(&self.planned)?;
            Ok(Some(wires.fabric.start(CopyJob {
                id: number_of(self.job),
                generation: 1,
                taps,
            })?))
        };
        self.running = begin().map_err(|why: anyhow::Error| one_line(&format!("{why:#}")))?;
        let proof = match &self.running {
            None => "no switch copies anything".to_owned(),
            Some(running) => {
                let proved = format!("proved for {} classes of packets", running.proved().classes);
                std::iter::once(&proved)
                    .chain(running.repaired())
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("; ")
            }
        };
        self.shared.tell(self.job, |told| {
            told.state = CopiesState::Copying;
            told.proof = proof;
        });
        Ok(())
    }

    fn lost(&mut self) -> Option<String> {
        self.running
            .as_ref()?
            .lost()
            .map(|why| format!("switches no longer copy packets: {}", one_line(&why)))
    }

    fn end(&mut self) -> Result<(), String> {
        let ended = self.running.take().map_or(Ok(()), RunningCopies::stop);
        self.shared
            .tell(self.job, |told| told.state = CopiesState::Ended);
        ended.map_err(|why| why.to_string())
    }
}

impl Drop for JobMirroring {
    fn drop(&mut self) {
        drop(self.running.take());
        // Fixed lock order; a concurrent job finds the fabric or creates it.
        let mut wires = lock(&self.shared.wires);
        let mut jobs = lock(&self.shared.jobs);
        jobs.remove(&self.job);
        let gone = if jobs.is_empty() { wires.take() } else { None };
        drop((jobs, wires));
        drop(gone);
    }
}

/// Removes monitors that only commands can start, and the commands of all others.
fn by_agents(mut site: NetworkSite) -> NetworkSite {
    site.hosts
        .iter_mut()
        .for_each(|host| host.starts.via = None);
    for switch in &mut site.switches {
        switch.sniffer = switch
            .sniffer
            .take()
            .filter(|sniffer| sniffer.starts.agent.is_some());
        switch
            .sniffer
            .iter_mut()
            .for_each(|sniffer| sniffer.starts.via = None);
    }
    site
}

/// Agent that runs a monitor.
fn agent(site: &NetworkSite, part: &MonitorPart) -> anyhow::Result<String> {
    let agent = part.starts(site).and_then(|starts| starts.agent.clone());
    agent.with_context(|| format!("the network file has no agent for {}", part.host))
}

/// Number of a job on switches.
fn number_of(job: JobId) -> u32 {
    ((job.0.max(1) - 1) % NUMBERS + 1) as u32
}

/// State remains consistent after a panic.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
