//! The switches of a plan during a run: reads the names of their ports, installs the mirroring as one job of a
//! [`SwitchFabric`], and removes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use anyhow::Context;
use mirror::sliced::sliced;
use plan::FlowSlice;
use planner::physical::{CopyProof, LEASE, PacketPath};
use planner::topology::{
    ForwardingMode, NetworkSite as Network, SitePort, SiteSwitch, SwitchAccess,
};
use steer::{
    CopyJob, CopyTap, JobStartError, NetworkMap, RunningCopies, SwitchBackend, SwitchController,
    SwitchFabric, SwitchSite,
};

use super::port_names::{SwitchPortNames, monitor};
use super::rule_owners::RuleOwnerKind;
use crate::network::plan::NetworkPlan;
use crate::network::switch_access::open_vswitch;
use crate::process::failure::wrong_flags;

/// Job number in the rules' cookies.
const JOB: u32 = 1;

/// See the module documentation.
#[derive(Default)]
pub struct PlanSwitches {
    server: u16,
    /// Connected switches, until they are moved to the fabric.
    sites: Vec<SwitchSite>,
    ports: SwitchPortNames,
    fabric: Option<Arc<SwitchFabric>>,
    running: Option<RunningCopies>,
    /// Mirrors of all requested flows.
    taps: Vec<CopyTap>,
    generation: u8,
    /// Result of a change in progress on a thread.
    changing: Option<Receiver<Result<RunningCopies, JobStartError>>>,
}

impl PlanSwitches {
    /// Reads the state of each required switch, without changes. For a process without earlier rules.
    pub fn reach(planned: &NetworkPlan) -> anyhow::Result<PlanSwitches> {
        let matters = |index| {
            planned.plan.switch(index).is_some()
                || is_end(planned, index)
                || is_proved_over_the_whole_way(planned)
        };
        PlanSwitches::reach_those(&planned.site, &matters, RuleOwnerKind::Passing)
    }

    /// Like [`PlanSwitches::reach`], for switches with these indexes.
    pub fn reach_those(
        site: &Network,
        matters: &dyn Fn(usize) -> bool,
        half: RuleOwnerKind,
    ) -> anyhow::Result<PlanSwitches> {
        let mut switches = PlanSwitches::default();
        let mut taken = BTreeSet::new();
        for (index, switch) in site
            .switches
            .iter()
            .enumerate()
            .filter(|(index, _)| matters(*index))
        {
            let name = &switch.name;
            let mut backend = backend(switch, &[])?;
            let seen = backend
                .list()
                .with_context(|| format!("cannot query {name}"))?;
            taken.extend(
                seen.rules
                    .iter()
                    .filter_map(|rule| rule.cookie.owner())
                    .map(|owner| owner.server),
            );
            for (port, name, ..) in seen.ports {
                switches.ports.note(
                    SitePort {
                        switch: index,
                        port,
                    },
                    name,
                );
            }
            if matches!(switch.reached, SwitchAccess::Controller { .. }) {
                let quiet = site.hosts.iter().filter(|host| host.quiet);
                let quiet: Vec<&str> = quiet
                    .filter_map(|host| switches.ports.name(host.at))
                    .collect();
                backend = self::backend(switch, &quiet)?;
            }
            switches.sites.push(SwitchSite {
                name: name.clone(),
                backend,
                tunnel_address: switch.tunnel,
            });
        }
        switches.server = half.free_number(&taken)?;
        Ok(switches)
    }

    /// Interfaces of the monitor on a switch's own host: the switch's ports, or the interface created for mirroring.
    pub fn interfaces(&self, planned: &NetworkPlan, switch: usize) -> anyhow::Result<Vec<String>> {
        let Some(part) = planned.plan.switch(switch) else {
            return Ok(Vec::new());
        };
        let made = self
            .running
            .as_ref()
            .and_then(|running| running.interfaces().get(&monitor(part)));
        made.map_or_else(
            || self.ports.of(&planned.site, part),
            |made| Ok(vec![made.clone()]),
        )
    }

    /// Installs the mirroring on all switches or none.
    pub fn install(&mut self, planned: &NetworkPlan) -> anyhow::Result<()> {
        if planned.plan.choice.mode.is_none() {
            return Ok(());
        }
        let taps = self.ports.taps(planned)?;
        let map = if is_proved_over_the_whole_way(planned) {
            self.ports.map(planned)?
        } else {
            NetworkMap::default()
        };
        let fabric = SwitchFabric::new(self.server, LEASE, std::mem::take(&mut self.sites), map);
        self.taps = taps.clone();
        self.generation = 1;
        self.running = Some(fabric.start(CopyJob {
            id: JOB,
            generation: 1,
            taps,
        })?);
        self.fabric = Some(Arc::new(fabric));
        Ok(())
    }

    /// Starts to change the mirrored slices, by switch name. The previous rules remain until the new ones are proved;
    /// [`PlanSwitches::changed`] returns the result.
    pub fn slice(&mut self, slices: &BTreeMap<String, FlowSlice>) {
        let Some(fabric) = self.fabric.clone().filter(|_| self.changing.is_none()) else {
            return;
        };
        let mut taps = self.taps.clone();
        for tap in &mut taps {
            if let Some(slice) = slices.get(&tap.switch) {
                tap.asked = sliced(&tap.asked, *slice);
            }
        }
        self.generation = self.generation.wrapping_add(1);
        let job = CopyJob {
            id: JOB,
            generation: self.generation,
            taps,
        };
        let (tell, told) = mpsc::sync_channel(1);
        // A proof takes time, and monitors continue to report. If the receiver is gone, the job is removed again.
        thread::spawn(move || tell.send(fabric.start(job)).is_ok());
        self.changing = Some(told);
    }

    /// Result of the change in progress, once known.
    pub fn changed(&mut self) -> Option<Result<(), String>> {
        let went = match self.changing.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(went) => went.map_err(|why| one_line(&why.to_string())),
            Err(TryRecvError::Disconnected) => Err("the change has failed".to_owned()),
        };
        self.changing = None;
        // The previous job was replaced; dropping it removes nothing.
        Some(went.map(|running| self.running = Some(running)))
    }

    /// Converts the connected switches to a fabric for several jobs. `server`: owner number of its rules.
    pub fn into_fabric(self, server: u16, map: NetworkMap) -> (SwitchPortNames, SwitchFabric) {
        (
            self.ports,
            SwitchFabric::new(server, LEASE, self.sites, map),
        )
    }

    /// Names of the switches' ports.
    pub fn ports(&self) -> &SwitchPortNames {
        &self.ports
    }

    /// Owner number of our rules.
    pub fn server(&self) -> u16 {
        self.server
    }

    /// Reason why mirroring has stopped, if it has.
    pub fn lost(&self) -> Option<String> {
        self.running
            .as_ref()?
            .lost()
            .map(|why| format!("switches no longer copy packets: {}", one_line(&why)))
    }

    /// Removed rules of processes that no longer run.
    pub fn repaired(&self) -> Vec<String> {
        self.running
            .as_ref()
            .map(|running| running.repaired().to_vec())
            .unwrap_or_default()
    }

    /// Description of the mirroring.
    pub fn words(&self) -> String {
        match &self.running {
            None => "no switch copies anything".to_owned(),
            Some(running) => {
                let copying = self.taps.len();
                let classes = running.proved().classes;
                let copy = if copying == 1 {
                    "switch copies"
                } else {
                    "switches copy"
                };
                format!("{copying} {copy}, proved for {classes} classes of packets")
            }
        }
    }

    /// Removes all rules.
    pub fn remove(&mut self) -> anyhow::Result<()> {
        if let Some(Ok(Ok(changed))) = self.changing.take().map(|told| told.recv()) {
            self.running = Some(changed);
        }
        Ok(self.running.take().map_or(Ok(()), RunningCopies::stop)?)
    }
}

/// Whether a tunnel of the plan ends at a switch.
fn is_end(planned: &NetworkPlan, switch: usize) -> bool {
    planned
        .plan
        .switches
        .iter()
        .any(|part| matches!(part.way, PacketPath::Tunnel { end } if end.switch == switch))
}

/// Whether the proof covers the whole path from any entry into the network to the monitors. This requires learning
/// switches, so that the file determines the paths, and a limited number of hosts; otherwise each switch is proved
/// separately.
fn is_proved_over_the_whole_way(planned: &NetworkPlan) -> bool {
    matches!(planned.plan.proof, CopyProof::Holds(_)) && all_ways_are_known(&planned.site)
}

/// Whether all switches are controllable and forward by learning.
pub fn all_ways_are_known(site: &Network) -> bool {
    let is_known = |switch: &SiteSwitch| {
        switch.reached != SwitchAccess::Not && switch.forwarding == ForwardingMode::Normal
    };
    site.switches.iter().all(is_known)
}

/// Joins the lines of a message, for notes and JSON.
pub fn one_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// Reads the token of a controller from its file.
pub fn controller_token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the controller's token file {}", file.display()))?;
    Ok(text.trim().to_owned())
}

/// Control channel of a switch; `quiet`: ports to which a switch behind a controller does not flood.
fn backend(switch: &SiteSwitch, quiet: &[&str]) -> anyhow::Result<Box<dyn SwitchBackend + Send>> {
    let name = &switch.name;
    match &switch.reached {
        SwitchAccess::Not => Err(wrong_flags(format!(
            "{name} cannot be reached: the network file has neither ovsdb nor controller for it"
        ))),
        SwitchAccess::Controller {
            url,
            datapath,
            token_file,
        } => {
            let token = token_file
                .as_deref()
                .map(|file| controller_token(Path::new(file)))
                .transpose()?;
            Ok(Box::new(SwitchController::new(
                url,
                datapath,
                token.as_deref(),
                quiet,
            )))
        }
        SwitchAccess::Ovsdb(address) => Ok(Box::new(open_vswitch(switch, address)?)),
    }
}
