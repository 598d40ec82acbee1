//! The switches of a plan while it is at work: asked what their ports are called, told what to copy as one job of a [`Fabric`], and rid of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use anyhow::Context;
use mirror::ovsdb::Tunnel;
use mirror::sliced::sliced;
use plan::Slice;
use planner::physical::{LEASE, Proof, SwitchPart, Way};
use planner::topology::{Forwarding, HostId, Reached, Site as Network, SiteHost, SitePort, SiteSwitch};
use steer::{
    Backend, Controller, Fabric, How, Job, Map, NotStarted, OpenVSwitch, Place, Running, Site, Tap, To,
};

use crate::failure::wrong_flags;
use crate::networked::Planned;

/// How many numbers there are for those who have rules on switches: 12 bits of a cookie.
const SERVERS: u16 = 1 << 12;
/// The number of the job in rules' cookies.
const JOB: u32 = 1;

/// A number for rules that nobody else has there. Looked for from a place that differs by process, for those who begin at the same time.
pub fn free_number(taken: &BTreeSet<u16>) -> Option<u16> {
    let first = std::process::id() as u16;
    (0..SERVERS).map(|nth| first.wrapping_add(nth) % SERVERS).find(|number| !taken.contains(number))
}

/// See the module's text.
#[derive(Default)]
pub struct Switches {
    server: u16,
    /// Those that are asked, until they are a fabric's.
    sites: Vec<Site>,
    /// Names of ports, by the switches' indices.
    ports: BTreeMap<SitePort, String>,
    fabric: Option<Arc<Fabric>>,
    running: Option<Running>,
    /// What they copy, where they copy all that is asked.
    taps: Vec<Tap>,
    generation: u8,
    /// How it goes with a change on which a thread is at work.
    changing: Option<Receiver<Result<Running, NotStarted>>>,
}

impl Switches {
    /// Asks each switch that matters what it has. Nothing is changed yet.
    pub fn reach(planned: &Planned) -> anyhow::Result<Switches> {
        let matters = |index| {
            planned.plan.switch(index).is_some()
                || is_end(planned, index)
                || is_proved_over_the_whole_way(planned)
        };
        Switches::reach_those(&planned.site, &matters)
    }

    /// The same of these switches, by their indices.
    pub fn reach_those(site: &Network, matters: &dyn Fn(usize) -> bool) -> anyhow::Result<Switches> {
        let mut switches = Switches::default();
        let mut taken = BTreeSet::new();
        for (index, switch) in site.switches.iter().enumerate().filter(|(index, _)| matters(*index)) {
            let name = &switch.name;
            let mut backend = backend(switch, &[])?;
            let seen = backend.list().with_context(|| format!("cannot ask {name}"))?;
            taken.extend(seen.rules.iter().filter_map(|rule| rule.cookie.owner()).map(|owner| owner.server));
            for (port, name, ..) in seen.ports {
                switches.ports.insert(SitePort { switch: index, port }, name);
            }
            if matches!(switch.reached, Reached::Controller { .. }) {
                let quiet = site.hosts.iter().filter(|host| host.quiet);
                let quiet: Vec<&str> =
                    quiet.filter_map(|host| switches.ports.get(&host.at)).map(String::as_str).collect();
                backend = self::backend(switch, &quiet)?;
            }
            switches.sites.push(Site { name: name.clone(), backend, tunnel_address: switch.tunnel });
        }
        switches.server = free_number(&taken).context("rules of 4096 others stand on these switches")?;
        Ok(switches)
    }

    fn place(&self, site: &Network, at: SitePort) -> anyhow::Result<Place> {
        let switch = &site.switches[at.switch].name;
        let port = self.ports.get(&at).ok_or_else(|| {
            wrong_flags(format!("{switch} has no port {}, which the network file names", at.port))
        })?;
        Ok(Place::new(switch, port))
    }

    fn names(&self, site: &Network, part: &SwitchPart) -> anyhow::Result<Vec<String>> {
        let of = |port: &u32| self.place(site, SitePort { switch: part.switch, port: *port });
        part.ports.iter().map(|port| of(port).map(|place| place.port)).collect()
    }

    /// Where the monitor on the own host of a switch reads: at its ports, or at the interface that was made when copies began.
    pub fn interfaces(&self, planned: &Planned, switch: usize) -> anyhow::Result<Vec<String>> {
        let Some(part) = planned.plan.switch(switch) else { return Ok(Vec::new()) };
        let made = self.running.as_ref().and_then(|running| running.interfaces().get(&monitor(part)));
        made.map_or_else(|| self.names(&planned.site, part), |made| Ok(vec![made.clone()]))
    }

    /// What they are to copy.
    pub fn taps(&self, planned: &Planned) -> anyhow::Result<Vec<Tap>> {
        let Planned { site, plan } = planned;
        let Some(mode) = plan.choice.mode else { return Ok(Vec::new()) };
        let mut taps = Vec::new();
        for part in &plan.switches {
            let to = |port| {
                let place = self.place(site, SitePort { switch: part.switch, port })?;
                anyhow::Ok(To::Port(place.port))
            };
            let (how, to) = match part.way {
                Way::Sniffer => continue,
                Way::Interface => (How::Rules(Vec::new()), To::Interface),
                Way::Rules { port } => (How::Rules(Vec::new()), to(port)?),
                Way::Mirror { port } => (How::Mirror(self.names(site, part)?), to(port)?),
                Way::Tunnel { end } => {
                    (How::Rules(Vec::new()), To::Switch(Tunnel::Vxlan, self.place(site, end)?))
                }
            };
            taps.push(Tap {
                switch: part.name.clone(),
                asked: part.asked.clone(),
                how,
                part: mode.part,
                monitor: monitor(part),
                to,
            });
        }
        Ok(taps)
    }

    /// Has them copy, all of them or none.
    pub fn install(&mut self, planned: &Planned) -> anyhow::Result<()> {
        if planned.plan.choice.mode.is_none() {
            return Ok(());
        }
        let taps = self.taps(planned)?;
        let map = if is_proved_over_the_whole_way(planned) { self.map(planned)? } else { Map::default() };
        let fabric = self.fabric(map);
        (self.taps, self.generation) = (taps.clone(), 1);
        self.running = Some(fabric.start(Job { id: JOB, generation: 1, taps })?);
        self.fabric = Some(Arc::new(fabric));
        Ok(())
    }

    /// Begins to have them copy these slices of what is asked, by the switches' names. What they copied until then they copy until the
    /// new rules are proved; [`Switches::changed`] tells how that went.
    pub fn slice(&mut self, slices: &BTreeMap<String, Slice>) {
        let Some(fabric) = self.fabric.clone().filter(|_| self.changing.is_none()) else { return };
        let mut taps = self.taps.clone();
        for tap in &mut taps {
            if let Some(slice) = slices.get(&tap.switch) {
                tap.asked = sliced(&tap.asked, *slice);
            }
        }
        self.generation = self.generation.wrapping_add(1);
        let job = Job { id: JOB, generation: self.generation, taps };
        let (tell, told) = mpsc::sync_channel(1);
        // A proof takes a while, and monitors go on talking. When nobody listens any more, it is taken away again.
        thread::spawn(move || tell.send(fabric.start(job)).is_ok());
        self.changing = Some(told);
    }

    /// How the change went that was begun, once that is known.
    pub fn changed(&mut self) -> Option<Result<(), String>> {
        let went = match self.changing.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(went) => went.map_err(|why| why.to_string()),
            Err(TryRecvError::Disconnected) => Err("the change has failed".to_owned()),
        };
        self.changing = None;
        // The one before has been replaced; dropped, it takes nothing away.
        Some(went.map(|running| self.running = Some(running)))
    }

    /// Those that were reached, for jobs that come and go.
    pub fn fabric(&mut self, map: Map) -> Fabric {
        Fabric::new(self.server, LEASE, std::mem::take(&mut self.sites), map)
    }

    /// The number by which they tell our rules from those of others.
    pub fn server(&self) -> u16 {
        self.server
    }

    /// From now on another one: that of an earlier life of whoever has rules there.
    pub fn go_on_as(&mut self, server: u16) {
        self.server = server;
    }

    /// Which ports are joined, and where these hosts are.
    pub fn map_of<'h>(
        &self,
        site: &Network,
        which: impl Iterator<Item = &'h SiteHost>,
    ) -> anyhow::Result<Map> {
        let cable =
            |ends: [SitePort; 2]| anyhow::Ok((self.place(site, ends[0])?, self.place(site, ends[1])?));
        let mut hosts: Vec<(IpAddr, Place)> = Vec::new();
        for host in which {
            let place = self.place(site, host.at)?;
            hosts.extend(host.addresses.iter().map(|address| (*address, place.clone())));
        }
        Ok(Map { cables: site.links.iter().map(|link| cable(link.ends)).collect::<Result<_, _>>()?, hosts })
    }

    /// The same of the hosts whose flows are copied.
    fn map(&self, planned: &Planned) -> anyhow::Result<Map> {
        let Planned { site, plan } = planned;
        let covered: BTreeSet<HostId> =
            plan.covered.iter().flat_map(|covering| covering.hosts.iter().copied()).collect();
        let is_monitors = |at: SitePort| {
            plan.switches.iter().any(|part| match part.way {
                Way::Rules { port } | Way::Mirror { port } => at == SitePort { switch: part.switch, port },
                Way::Tunnel { end } => at == end,
                Way::Sniffer | Way::Interface => false,
            })
        };
        let covered = covered.into_iter().map(|host| &site.hosts[host as usize]);
        self.map_of(site, covered.filter(|host| !is_monitors(host.at)))
    }

    /// Why nothing is copied any more, if so.
    pub fn lost(&self) -> Option<String> {
        // Nobody answers while a change is made.
        self.running
            .as_ref()
            .filter(|_| self.changing.is_none())?
            .lost()
            .map(|why| format!("switches do not copy any more: {why}"))
    }

    /// What they do, in words.
    pub fn words(&self) -> String {
        match &self.running {
            None => "no switch copies anything".to_owned(),
            Some(running) => {
                let (copying, classes) = (self.taps.len(), running.proved().classes);
                let copy = if copying == 1 { "switch copies" } else { "switches copy" };
                format!("{copying} {copy}, proved for {classes} classes of packets")
            }
        }
    }

    /// Takes away all that was given.
    pub fn remove(&mut self) -> anyhow::Result<()> {
        if let Some(Ok(Ok(changed))) = self.changing.take().map(|told| told.recv()) {
            self.running = Some(changed);
        }
        Ok(self.running.take().map_or(Ok(()), Running::stop)?)
    }
}

/// The name of the monitor of a switch.
fn monitor(part: &SwitchPart) -> String {
    format!("monitor of {}", part.name)
}

/// Whether a tunnel of the plan ends at a switch.
fn is_end(planned: &Planned, switch: usize) -> bool {
    planned.plan.switches.iter().any(|part| matches!(part.way, Way::Tunnel { end } if end.switch == switch))
}

/// Whether it is proved that packets come to their monitors wherever they enter the network: where switches forward by themselves, so that the
/// file says which way packets go, and hosts are not too many. Otherwise each switch is proved by itself.
fn is_proved_over_the_whole_way(planned: &Planned) -> bool {
    matches!(planned.plan.proof, Proof::Holds(_)) && all_ways_are_known(&planned.site)
}

/// Whether all switches are reached, and forward by themselves.
pub fn all_ways_are_known(site: &Network) -> bool {
    let is_known =
        |switch: &SiteSwitch| switch.reached != Reached::Not && switch.forwarding == Forwarding::Normal;
    site.switches.iter().all(is_known)
}

/// How a switch is reached; `quiet` are ports to which one behind a controller floods nothing.
fn backend(switch: &SiteSwitch, quiet: &[&str]) -> anyhow::Result<Box<dyn Backend + Send>> {
    let name = &switch.name;
    match &switch.reached {
        Reached::Not => Err(wrong_flags(format!(
            "{name} cannot be reached: the network file has neither ovsdb nor controller for it"
        ))),
        Reached::Controller { url, datapath } => Ok(Box::new(Controller::new(url, datapath, quiet))),
        Reached::Ovsdb(address) => {
            let socket = address.strip_prefix("unix:").map(Path::new);
            let folder = socket.and_then(Path::parent).ok_or_else(|| {
                wrong_flags(format!("{name}: {address:?} is no address of a database on this machine, as unix:/run/openvswitch/db.sock"))
            })?;
            Ok(Box::new(OpenVSwitch::new(folder, switch.bridge.as_deref().unwrap_or("br0"))))
        }
    }
}
