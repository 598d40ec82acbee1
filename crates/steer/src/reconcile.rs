//! State of the jobs of a process on the switches of a network, with atomic changes of the set of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::thread;

use mirror::compose::{CopyTerms, RULES_MAX};
use mirror::diff::{others, ours, owners, renewals};
use mirror::model::{FloodSetting, PortNeighbor, SwitchModel, SwitchNetwork};
use mirror::openflow::FlowRule;
use mirror::ovsdb::{self, PortMirror};
use mirror::{
    MatchField, PacketCube, ProofResult, RuleLayout, RuleOperation, compose_ends, diff, prove,
};

use crate::backend::{CopyPortRecord, ObservedSwitch, OwnedRules, SwitchError};
use crate::copy_job::{CopyJob, CopyRoute, CopyTap, Jobs, NetworkMap, SwitchSite};
use crate::desired_rules::{DesiredInputs, DesiredRules, DesiredSwitch, planned};
use crate::install::{InstallError, JobStartError, follow, none_clash, on_paper};
use crate::orphans::orphans;
use crate::ports::{CopyPath, CopyPorts, failed, find};

/// Maximum attempts of a change with concurrent changes by others.
const TRIES_MAX: u32 = 3;
/// Maximum switches queried in parallel.
const AT_A_TIME: usize = 16;

/// See the module documentation.
pub struct RuleReconciler {
    server: u16,
    lease: u16,
    sites: Vec<SwitchSite>,
    map: NetworkMap,
    jobs: Jobs,
    ports: CopyPorts,
    /// State of each switch after the last change.
    seen: Vec<ObservedSwitch>,
    /// State of each switch at the start of a change.
    begun: Vec<ObservedSwitch>,
    /// Whether a switch was changed since the last complete proof.
    is_touched: bool,
    /// Whether switches still have rules of a stopped job because one of them did not respond.
    is_behind: bool,
    /// Ports to which the current change has disabled flooding.
    held: Vec<(usize, String)>,
    /// Removed objects of processes that no longer run.
    repaired: Vec<String>,
    /// Jobs removed without a stop request, with the reason.
    lost: Lost,
}

/// Ended jobs with their generations, and the reason.
pub type Lost = BTreeMap<(u32, u8), String>;

impl RuleReconciler {
    pub fn new(server: u16, lease: u16, sites: Vec<SwitchSite>, map: NetworkMap) -> RuleReconciler {
        let (jobs, ports, seen, begun, is_touched, is_behind) = Default::default();
        let (held, repaired, lost) = Default::default();
        RuleReconciler {
            server,
            lease,
            sites,
            map,
            jobs,
            ports,
            seen,
            begun,
            is_touched,
            is_behind,
            held,
            repaired,
            lost,
        }
    }

    /// See [`crate::SwitchFabric::start`].
    pub fn start(&mut self, job: CopyJob) -> Result<ProofResult, JobStartError> {
        let mut jobs = self.jobs.clone();
        jobs.insert(job.id, job);
        self.held.clear();
        let made = self.ports.make(self.server, &mut self.sites, &jobs)?;
        match self.install(&jobs) {
            Ok(proved) => {
                self.jobs = jobs;
                // An unused port left over is removed with the next change.
                let _ = self.ports.sweep(&mut self.sites, &self.jobs);
                Ok(proved)
            }
            Err(why) => {
                if self.is_touched {
                    self.restore();
                } else {
                    self.release_held();
                }
                for way in made {
                    let _ = self.ports.remove(&mut self.sites, &way);
                }
                Err(why)
            }
        }
    }

    /// Restores the previous jobs.
    fn restore(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        if jobs.is_empty() {
            let _ = self.clear();
        } else if let Err(why) = self.install(&jobs) {
            self.lose(&jobs, &why.to_string());
            return;
        }
        self.jobs = jobs;
    }

    /// Enables flooding to the ports held by a change that has not reached any switch.
    fn release_held(&mut self) {
        for (site, port) in std::mem::take(&mut self.held) {
            // The record stays on a switch that does not respond, and a later start repairs it.
            let _ = self.sites[site].backend.release_port(&port);
        }
    }

    /// A change has failed, and these jobs should continue. If no switch was changed, they continue unchanged: if one
    /// only did not answer, the next round tries again.
    fn keep_or_lose(&mut self, jobs: &Jobs, why: &JobStartError) {
        if !self.is_touched && matches!(why.why, InstallError::Failed(_)) {
            self.is_behind = true;
        } else {
            self.lose(jobs, &why.to_string());
        }
    }

    /// Notes that all jobs are lost; only objects that could not be removed remain.
    fn lose(&mut self, jobs: &Jobs, why: &str) {
        self.lost.extend(
            jobs.values()
                .map(|job| ((job.id, job.generation), why.to_owned())),
        );
        self.jobs.clear();
        let _ = self.clear();
        let _ = self.ports.sweep(&mut self.sites, &self.jobs);
    }

    /// Removes a job; others are unchanged unless they cannot be proved without it.
    pub fn stop(&mut self, (id, generation): (u32, u8)) -> Result<(), JobStartError> {
        self.lost.remove(&(id, generation));
        if self
            .jobs
            .get(&id)
            .is_none_or(|job| job.generation != generation)
        {
            return Ok(());
        }
        self.jobs.remove(&id);
        let jobs = self.jobs.clone();
        let taken = if jobs.is_empty() {
            self.clear()
        } else {
            self.install(&jobs).map(drop)
        };
        if let (Err(why), false) = (&taken, jobs.is_empty()) {
            self.keep_or_lose(&jobs, why);
        }
        if self.is_behind {
            // Rules still send to its ports.
            return taken;
        }
        taken.and(self.ports.sweep(&mut self.sites, &self.jobs))
    }

    /// Ended jobs.
    pub fn lost(&self) -> &Lost {
        &self.lost
    }

    /// Our objects on each switch, as last read.
    pub fn ours(&self) -> Vec<OwnedRules> {
        // Without jobs nothing is left; the last state read is older.
        let seen = if self.jobs.is_empty() {
            &[][..]
        } else {
            &self.seen
        };
        let prefix = ovsdb::prefix(self.server);
        let of = |(site, seen): (&SwitchSite, &ObservedSwitch)| {
            let mirrors = seen
                .mirrors
                .iter()
                .filter(|mirror| mirror.name.starts_with(&prefix));
            OwnedRules {
                switch: site.name.clone(),
                rules: ours(&seen.rules, self.server),
                mirrors: mirrors
                    .map(|mirror| (ovsdb::job_of(&mirror.name), mirror.clone()))
                    .collect(),
            }
        };
        self.sites.iter().zip(seen).map(of).collect()
    }

    /// Names of the interfaces created for a job, by monitor.
    pub fn interfaces(&self, id: u32) -> BTreeMap<String, String> {
        let taps = self
            .jobs
            .get(&id)
            .map(|job| job.taps.as_slice())
            .unwrap_or_default();
        let name = |tap: &CopyTap| {
            let site = find(&self.sites, &tap.switch).ok()?;
            let way = CopyPath {
                site,
                monitor: tap.monitor.clone(),
                to: tap.to.clone(),
            };
            let made = self
                .ports
                .made
                .get(&way)
                .filter(|_| tap.to == CopyRoute::Interface)?;
            Some((tap.monitor.clone(), made.near.name.clone()))
        };
        taps.iter().filter_map(name).collect()
    }

    /// Renews all leases. If a switch has changed, everything is proved and installed again, or removed.
    pub fn renew(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        // First, because the rest may take long; expired rules are not restored by it.
        for (site, seen) in self.sites.iter_mut().zip(&self.seen) {
            // A switch that does not respond keeps its lease; the next round retries.
            let _ = site
                .backend
                .apply(&renewals(&ours(&seen.rules, self.server)));
        }
        let Ok(now) = self.list() else { return };
        if self.is_behind
            || !self
                .seen
                .iter()
                .zip(&now)
                .all(|(before, now)| is_alike(before, now))
        {
            let jobs = self.jobs.clone();
            match self.install(&jobs) {
                // Ports of jobs stopped in the meantime.
                Ok(_) => drop(self.ports.sweep(&mut self.sites, &self.jobs)),
                Err(why) => self.keep_or_lose(&jobs, &why),
            }
        }
    }

    /// Installs exactly the rules of these jobs on the switches. Retries after concurrent changes by others or expired
    /// leases, when the state read at the start differs from the one proved at the end.
    fn install(&mut self, jobs: &Jobs) -> Result<ProofResult, JobStartError> {
        let mut tries = 1;
        loop {
            let tried = self.install_once(jobs);
            let begun = std::mem::take(&mut self.begun);
            // Switches that could not be listed are not retried.
            if tried.is_ok() || tries == TRIES_MAX || begun.is_empty() {
                return tried;
            }
            let is_old = matches!(
                &tried,
                Err(JobStartError {
                    why: InstallError::NotAsGiven(_),
                    ..
                })
            );
            let now = self.list()?;
            let as_before =
                |(begun, now)| is_alike(&foreign(begun, self.server), &foreign(now, self.server));
            if !is_old && begun.iter().zip(&now).all(as_before) {
                return tried;
            }
            tries += 1;
        }
    }

    fn install_once(&mut self, jobs: &Jobs) -> Result<ProofResult, JobStartError> {
        let server = self.server;
        let mut seen = self.list()?;
        if self.repair(&seen) {
            seen = self.list()?;
        }
        self.begun = seen.clone();
        // The rest may take long.
        for (site, seen) in self.sites.iter_mut().zip(&seen) {
            let renewed = site.backend.apply(&renewals(&ours(&seen.rules, server)));
            renewed.map_err(|why| failed(site, why.into()))?;
        }
        let RuleReconciler {
            sites, map, ports, ..
        } = &*self;
        let wishes = DesiredInputs {
            server,
            sites,
            map,
            ports,
        }
        .wishes(jobs, &seen)?;
        let mut desired = Vec::new();
        for ((site, share), seen) in self.sites.iter().zip(&wishes.shares).zip(&seen) {
            let layout = RuleLayout::of(&owners(&seen.rules));
            let terms = CopyTerms {
                server,
                lease: self.lease,
                layout,
                rules_max: RULES_MAX,
            };
            let rules =
                compose_ends(&share.copies, &share.landings, &terms).map_err(InstallError::from);
            let rules =
                rules.and_then(|rules| none_clash(&rules, &seen.rules, server).map(|()| rules));
            desired.push(rules.map_err(|why| failed(site, why))?);
        }
        self.hold(&wishes, &mut seen)?;
        let planned: Vec<ObservedSwitch> = seen
            .iter()
            .zip(wishes.shares.iter().zip(&desired))
            .map(|(seen, (share, rules))| planned(seen, share, rules, server))
            .collect();
        self.prove(&wishes, &planned)
            .map_err(|why| self.anywhere(InstallError::NotProved(why)))?;
        self.is_touched = true;
        self.apply(&desired, &seen)?;
        self.mirrors(&wishes, &seen)?;
        self.release(&wishes.shares, &seen)?;
        let now = self.list()?;
        let proved = self
            .prove(&wishes, &now)
            .map_err(|why| self.anywhere(InstallError::NotAsGiven(why)))?;
        self.follow(&wishes, &now, &proved)?;
        self.seen = now;
        self.is_touched = false;
        self.is_behind = false;
        Ok(proved)
    }

    fn anywhere(&self, why: InstallError) -> JobStartError {
        let names: Vec<&str> = self.sites.iter().map(|site| site.name.as_str()).collect();
        let found = match &why {
            InstallError::NotProved(found) | InstallError::NotAsGiven(found) => found.first(),
            _ => None,
        };
        let switch = found.map_or_else(|| names.join(", "), |found| found.switch.clone());
        JobStartError { switch, why }
    }

    /// State of all switches, queried in parallel. Rules of an exploration are omitted: they are temporary, and match
    /// no packet that a query may request.
    fn list(&mut self) -> Result<Vec<ObservedSwitch>, JobStartError> {
        let list = |site: &mut SwitchSite| {
            let mut listed = site
                .backend
                .list()
                .map_err(|why| failed(site, why.into()))?;
            listed.rules.retain(|rule| !rule.cookie.is_of_exploration());
            Ok(listed)
        };
        let mut listed = Vec::new();
        for some in self.sites.chunks_mut(AT_A_TIME) {
            thread::scope(|scope| {
                let asked: Vec<_> = some
                    .iter_mut()
                    .map(|site| scope.spawn(move || list(site)))
                    .collect();
                let answers = asked
                    .into_iter()
                    .map(|asked| asked.join().unwrap_or_else(|why| resume_unwind(why)));
                listed.extend(answers);
            });
        }
        listed.into_iter().collect()
    }

    /// Installs rules at tunnel ends first, so that copies have a destination, then those that send into tunnels; rules
    /// at ends of removed tunnels are deleted last.
    fn apply(
        &mut self,
        desired: &[Vec<FlowRule>],
        seen: &[ObservedSwitch],
    ) -> Result<(), JobStartError> {
        let mut changes: Vec<(u8, usize, Vec<RuleOperation>)> = Vec::new();
        for (at, (rules, seen)) in desired.iter().zip(seen).enumerate() {
            for operation in diff(rules, &seen.rules, self.server) {
                let ends_there =
                    |rule: &FlowRule| rule.priority == u16::MAX && !rule.actions.is_empty();
                let turn = match &operation {
                    RuleOperation::Add(rule) if ends_there(rule) => 0,
                    RuleOperation::Delete(rule) if ends_there(rule) => 2,
                    _ => 1,
                };
                match changes
                    .iter_mut()
                    .find(|(when, place, _)| (*when, *place) == (turn, at))
                {
                    Some((.., operations)) => operations.push(operation),
                    None => changes.push((turn, at, vec![operation])),
                }
            }
        }
        changes.sort_by_key(|(turn, at, _)| (*turn, *at));
        for (_, at, operations) in changes {
            let site = &mut self.sites[at];
            site.backend
                .apply(&operations)
                .map_err(|why| failed(site, why.into()))?;
        }
        Ok(())
    }

    /// Creates new mirrors before old ones are removed.
    fn mirrors(
        &mut self,
        wishes: &DesiredRules,
        seen: &[ObservedSwitch],
    ) -> Result<(), JobStartError> {
        let prefix = ovsdb::prefix(self.server);
        for ((site, share), seen) in self.sites.iter_mut().zip(&wishes.shares).zip(seen) {
            let change = |backend: &mut dyn crate::SwitchBackend| -> Result<(), SwitchError> {
                let there = seen.mirrors.iter().map(|mirror| &mirror.name);
                let there: BTreeSet<&String> =
                    there.filter(|name| name.starts_with(&prefix)).collect();
                let wanted: BTreeSet<String> = share.mirrors.iter().map(PortMirror::name).collect();
                let new = share
                    .mirrors
                    .iter()
                    .filter(|mirror| !there.contains(&mirror.name()));
                for mirror in new {
                    backend.add_mirror(mirror)?;
                }
                let mut old = there.into_iter().filter(|name| !wanted.contains(*name));
                old.try_for_each(|name| backend.remove_mirror(name))
            };
            change(site.backend.as_mut()).map_err(|why| failed(site, why.into()))?;
        }
        Ok(())
    }

    /// Disables flooding to ports of monitors. Takes over ports held by a process that no longer runs.
    fn hold(
        &mut self,
        wishes: &DesiredRules,
        seen: &mut [ObservedSwitch],
    ) -> Result<(), JobStartError> {
        for (at, (share, seen)) in wishes.shares.iter().zip(seen).enumerate() {
            let site = &mut self.sites[at];
            let copies_to = share
                .leads
                .iter()
                .filter(|(_, leads)| leads.is_for_copies());
            for (number, _) in copies_to {
                let Some(port) = seen.ports.iter_mut().find(|port| port.0 == *number) else {
                    continue;
                };
                let is_anothers =
                    |record: &CopyPortRecord| record.port == port.1 && record.server != self.server;
                if port.2 == FloodSetting::Yes || seen.records.iter().any(is_anothers) {
                    let held = site.backend.hold_port(*number, &port.1, self.server);
                    held.map_err(|why| failed(site, why.into()))?;
                    self.held.push((at, port.1.clone()));
                    port.2 = FloodSetting::No;
                }
            }
        }
        Ok(())
    }

    /// Enables flooding to ports that no monitor of these shares uses.
    fn release(
        &mut self,
        shares: &[DesiredSwitch],
        seen: &[ObservedSwitch],
    ) -> Result<(), JobStartError> {
        for ((site, share), seen) in self.sites.iter_mut().zip(shares).zip(seen) {
            let is_needed = |name: &String| {
                let port = seen.ports.iter().find(|port| port.1 == *name);
                port.and_then(|port| share.leads.get(&port.0))
                    .is_some_and(PortNeighbor::is_for_copies)
            };
            for record in seen
                .records
                .iter()
                .filter(|record| record.server == self.server)
            {
                let is_made = record.port.starts_with(&ovsdb::port_prefix(self.server));
                if !is_made && !is_needed(&record.port) {
                    let released = site.backend.release_port(&record.port);
                    released.map_err(|why| failed(site, why.into()))?;
                }
            }
        }
        Ok(())
    }

    /// Removes mirrors, ports, and exporters of processes that no longer run, and enables flooding to the ports they held;
    /// returns whether there were any. A failed removal is not reported here: the proof reports it if relevant.
    fn repair(&mut self, seen: &[ObservedSwitch]) -> bool {
        let now = crate::ovs::now();
        let before = self.repaired.len();
        for (at, (site, seen)) in self.sites.iter_mut().zip(seen).enumerate() {
            let ends = self
                .ports
                .made
                .values()
                .flat_map(|ends| std::iter::once(&ends.near).chain(&ends.far));
            let known = ends
                .filter(|made| made.site == at)
                .map(|made| made.name.as_str())
                .collect();
            let orphans = orphans(seen, self.server, &known, now);
            let backend = &mut site.backend;
            let mut note = |what: &str, name: String, removed: Result<(), SwitchError>| {
                if removed.is_ok() {
                    self.repaired.push(format!(
                        "switch {}: {what} {name}, left behind by a process that no longer runs",
                        site.name
                    ));
                }
            };
            for name in orphans.mirrors {
                let removed = backend.remove_mirror(&name);
                note("removed mirror", name, removed);
            }
            for name in orphans.made {
                let removed = backend.remove_port(&name);
                note("removed port", name, removed);
            }
            for name in orphans.held {
                let released = backend.release_port(&name);
                note("re-enabled flooding to port", name, released);
            }
            for slot in backend.remove_stale_exporters().unwrap_or_default() {
                note("removed exporter", slot.to_string(), Ok(()));
            }
        }
        self.repaired.len() > before
    }

    /// Objects of processes that no longer run removed since the last call.
    pub fn take_repaired(&mut self) -> Vec<String> {
        std::mem::take(&mut self.repaired)
    }

    /// Removes all our objects from the switches.
    fn clear(&mut self) -> Result<(), JobStartError> {
        self.is_touched = false;
        self.is_behind = false;
        let nothing: Vec<Vec<FlowRule>> = self.sites.iter().map(|_| Vec::new()).collect();
        let cleared = self.list().and_then(|seen| {
            self.apply(&nothing, &seen)?;
            let shares = self
                .sites
                .iter()
                .map(|_| DesiredSwitch::default())
                .collect();
            let wishes = DesiredRules {
                shares,
                ..DesiredRules::default()
            };
            self.mirrors(&wishes, &seen)?;
            self.release(&wishes.shares, &seen)
        });
        // If a switch fails, the others are still cleared.
        if cleared.is_err() {
            for site in &mut self.sites {
                let _ = crate::install::remove(site.backend.as_mut(), self.server);
            }
        }
        cleared
    }

    fn prove(
        &self,
        wishes: &DesiredRules,
        after: &[ObservedSwitch],
    ) -> Result<ProofResult, Vec<mirror::Counterexample>> {
        let after = self.network(wishes, after);
        let mut before = after.clone();
        let prefix = ovsdb::prefix(self.server);
        for switch in &mut before.switches {
            *switch = switch.with_rules(others(&switch.rules, self.server));
            switch
                .mirrors
                .retain(|mirror| !mirror.name.starts_with(&prefix));
        }
        let before = SwitchNetwork::new(before.switches, before.links, before.hosts);
        prove(&before, &after, &wishes.wanted, &|rule| {
            rule.cookie.is_of(self.server)
        })
    }

    fn network(&self, wishes: &DesiredRules, seen: &[ObservedSwitch]) -> SwitchNetwork {
        let switches: Vec<SwitchModel> = self
            .sites
            .iter()
            .zip(&wishes.shares)
            .zip(seen)
            .map(|((site, share), seen)| {
                let is_no_hosts = |port| self.is_left_over(seen, port) || is_anothers(seen, port);
                let beyond = |port| {
                    if is_no_hosts(port) {
                        PortNeighbor::Copies
                    } else {
                        PortNeighbor::Hosts
                    }
                };
                on_paper(&site.name, seen, |port| {
                    share
                        .leads
                        .get(&port)
                        .cloned()
                        .unwrap_or_else(|| beyond(port))
                })
            })
            .collect();
        SwitchNetwork::new(switches, wishes.links.clone(), wishes.hosts.clone())
    }

    /// Whether a port was created for copies and no job uses it; until it is removed, nothing is sent to it.
    fn is_left_over(&self, seen: &ObservedSwitch, port: u32) -> bool {
        let prefix = ovsdb::port_prefix(self.server);
        seen.ports
            .iter()
            .any(|(number, name, ..)| *number == port && name.starts_with(&prefix))
    }

    /// Traces one packet of each class, and of each tunnel end, on the switches and compares with the model.
    fn follow(
        &mut self,
        wishes: &DesiredRules,
        now: &[ObservedSwitch],
        proved: &ProofResult,
    ) -> Result<(), JobStartError> {
        let network = self.network(wishes, now);
        for (at, (site, share)) in self.sites.iter_mut().zip(&wishes.shares).enumerate() {
            if share.copies.is_empty() && share.landings.is_empty() {
                continue;
            }
            let witnesses = proved
                .witnesses
                .iter()
                .filter(|witness| witness.switch == at);
            let packets = share
                .arriving
                .iter()
                .chain(witnesses.map(|witness| &witness.packet));
            follow(site.backend.as_mut(), &network, at, packets)
                .map_err(|why| failed(site, why))?;
        }
        Ok(())
    }
}

/// Whether a port is that of another server's monitor: its rule drops all packets from there. Packets to it need no
/// proof: two servers have no rules for the same packets.
fn is_anothers(seen: &ObservedSwitch, port: u32) -> bool {
    let from_there = PacketCube::ALL.with(MatchField::InPort, port.into());
    seen.rules.iter().any(|rule| {
        let drops_all = rule.matched.cube == from_there
            && rule.matched.other.is_empty()
            && rule.actions.is_empty();
        drops_all && (rule.table, rule.priority) == (0, u16::MAX) && rule.cookie.owner().is_some()
    })
}

/// Objects of others on a switch.
fn foreign(seen: &ObservedSwitch, server: u16) -> ObservedSwitch {
    let mut foreign = seen.clone();
    foreign.rules = others(&seen.rules, server);
    foreign
        .mirrors
        .retain(|mirror| !mirror.name.starts_with(&ovsdb::prefix(server)));
    foreign
        .ports
        .retain(|port| !port.1.starts_with(&ovsdb::port_prefix(server)));
    // Flooding is disabled by each job that needs it.
    foreign
        .ports
        .iter_mut()
        .for_each(|port| port.2 = FloodSetting::Yes);
    foreign
}

/// Whether two states are equal, in any order.
fn is_alike(before: &ObservedSwitch, now: &ObservedSwitch) -> bool {
    let sorted = |rules: &[FlowRule]| {
        let mut sorted = rules.to_vec();
        sorted.sort();
        sorted
    };
    sorted(&before.rules) == sorted(&now.rules)
        && before.ports == now.ports
        && before.mirrors == now.mirrors
        && before.bonds == now.bonds
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
