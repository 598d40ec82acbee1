//! The switches of a plan while it is at work: asked what their ports are called, told what to copy, renewed, and rid of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use mirror::Copy;
use planner::physical::{LEASE, SwitchPart, Way};
use planner::topology::Reached;
use steer::{Backend, Installed, OpenVSwitch, Wish};

use crate::failure::wrong_flags;
use crate::networked::Planned;

/// How many numbers there are for those who have rules on switches: 12 bits of a cookie.
const SERVERS: u16 = 1 << 12;
/// The number of the job in rules' cookies.
const JOB: u32 = 1;

/// A switch of the plan.
struct Reach {
    part: SwitchPart,
    backend: OpenVSwitch,
    /// Where its sockets are, and its bridge.
    at: (PathBuf, String),
    /// Numbers and names of its ports.
    ports: Vec<(u32, String)>,
    installed: Option<Installed>,
}

/// A number for rules that nobody else has there. Looked for from a place that differs by process, for those who begin at the same time.
fn free_number(taken: &BTreeSet<u16>) -> Option<u16> {
    let first = std::process::id() as u16;
    (0..SERVERS).map(|nth| first.wrapping_add(nth) % SERVERS).find(|number| !taken.contains(number))
}

/// See the module's text.
#[derive(Default)]
pub struct Switches {
    server: u16,
    all: Vec<Reach>,
    renewing: Option<(Sender<()>, JoinHandle<()>)>,
    lost: Arc<Mutex<Option<String>>>,
}

impl Switches {
    /// Asks each switch of a plan what it has. Nothing is changed yet.
    pub fn reach(planned: &Planned) -> anyhow::Result<Switches> {
        let mut all = Vec::new();
        let mut taken = BTreeSet::new();
        for part in &planned.plan.switches {
            let switch = &planned.site.switches[part.switch];
            let name = &switch.name;
            let Reached::Ovsdb(address) = &switch.reached else {
                return Err(wrong_flags(format!(
                    "{name} is not reached by its database (ovsdb), which this takes"
                )));
            };
            let socket = address.strip_prefix("unix:").map(Path::new);
            let folder = socket.and_then(Path::parent).ok_or_else(|| {
                wrong_flags(format!("{name}: {address:?} is no address of a database on this machine, as unix:/run/openvswitch/db.sock"))
            })?;
            let at = (folder.to_owned(), switch.bridge.clone().unwrap_or_else(|| "br0".to_owned()));
            let mut backend = OpenVSwitch::new(&at.0, &at.1);
            let seen = backend.list().with_context(|| format!("cannot ask {name}"))?;
            taken.extend(seen.rules.iter().filter_map(|rule| rule.cookie.owner()).map(|owner| owner.server));
            let ports = seen.ports.into_iter().map(|(number, name, ..)| (number, name)).collect();
            all.push(Reach { part: part.clone(), backend, at, ports, installed: None });
        }
        let server = free_number(&taken).context("rules of 4096 others stand on these switches")?;
        Ok(Switches { server, all, renewing: None, lost: Arc::default() })
    }

    /// The names of the ports at which the monitor of a switch reads.
    pub fn ports(&self, switch: usize) -> anyhow::Result<Vec<String>> {
        let Some(of) = self.all.iter().find(|of| of.part.switch == switch) else { return Ok(Vec::new()) };
        let name = |number: &u32| {
            let port = of.ports.iter().find(|port| port.0 == *number).map(|port| port.1.clone());
            port.ok_or_else(|| {
                wrong_flags(format!("{} has no port {number}, which the network file names", of.part.name))
            })
        };
        of.part.ports.iter().map(name).collect()
    }

    /// Has them copy. Where one refuses, those before it lose what they were given.
    pub fn install(&mut self, planned: &Planned) -> anyhow::Result<()> {
        let Some(mode) = planned.plan.choice.mode else { return Ok(()) };
        let server = self.server;
        let installed = self.all.iter_mut().try_for_each(|of| {
            let Way::Rules { port } = of.part.way else { return Ok(()) };
            let monitor = format!("monitor of {}", of.part.name);
            let copy = Copy {
                job: JOB,
                generation: 1,
                asked: of.part.asked.clone(),
                ports: Vec::new(),
                part: mode.part,
                target: port,
            };
            let wish = Wish {
                server,
                switch: of.part.name.clone(),
                copies: vec![copy],
                monitors: vec![(port, monitor)],
                lease: LEASE,
            };
            let installed = steer::install(&mut of.backend, &wish)
                .with_context(|| format!("{} copies nothing", of.part.name))?;
            of.installed = Some(installed);
            anyhow::Ok(())
        });
        if installed.is_err() {
            // What is left goes with its lease.
            let _ = self.remove();
        }
        installed?;
        self.keep()
    }

    /// Renews leases from now on.
    fn keep(&mut self) -> anyhow::Result<()> {
        let mut kept: Vec<(String, OpenVSwitch, Installed)> = self
            .all
            .iter()
            .filter_map(|of| {
                // The thread asks the switch by itself.
                let backend = OpenVSwitch::new(&of.at.0, &of.at.1);
                Some((of.part.name.clone(), backend, of.installed.clone()?))
            })
            .collect();
        let every = kept.iter().filter_map(|(.., installed)| installed.renew_every).min();
        let Some(every) = every else { return Ok(()) };
        let (stop, stopped) = mpsc::channel::<()>();
        let lost = self.lost.clone();
        let renew = move || {
            let mut failed = 0_u32;
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let renewed = kept.iter_mut().try_for_each(|(name, backend, installed)| {
                    steer::renew(backend, &installed.rules).map_err(|why| format!("{name}: {why}"))
                });
                failed = if renewed.is_ok() { 0 } else { failed + 1 };
                if let (Err(why), 2..) = (renewed, failed) {
                    let text = format!("rules could not be renewed, and are gone: {why}");
                    *lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("leases".into()).spawn(renew).context("no more threads")?;
        self.renewing = Some((stop, thread));
        Ok(())
    }

    /// What has been lost since this was asked last.
    pub fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What they do, in words.
    pub fn words(&self) -> String {
        let installed = || self.all.iter().filter_map(|of| of.installed.as_ref());
        let rules: usize = installed().map(|installed| installed.rules.len()).sum();
        match installed().count() {
            0 => "no switch copies anything".to_owned(),
            count => format!("{count} switches copy, by {rules} rules"),
        }
    }

    /// Takes away all that was given.
    pub fn remove(&mut self) -> anyhow::Result<()> {
        if let Some((stop, thread)) = self.renewing.take() {
            drop(stop);
            let _ = thread.join();
        }
        let mut result = Ok(());
        for of in &mut self.all {
            if of.installed.take().is_some() {
                let removed = steer::remove(&mut of.backend, self.server).map(drop);
                result = result.and(removed.with_context(|| of.part.name.clone()));
            }
        }
        result
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        // Nobody hears of it; leases end.
        let _ = self.remove();
    }
}
