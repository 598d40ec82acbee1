//! A query at work in a network, from this machine: monitors are started where the plan has them, switches are told what to copy, and what
//! monitors find is put together here. First monitors, then copies, unless a monitor reads at an interface that comes with the copies; at the
//! end copies go first. Rules have leases, mirrors and interfaces go with this process, and monitors end with their standard input: so all
//! of it goes, too, when this process is killed.

mod monitors;
mod shares;
pub mod switches;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use collect::{Collector, Frame, LaneId, Report, Whatever};
use monitor::Step;
use monitor::pressure::History;
use plan::message::{Capture, JobOrder};
use plan::{Plan, TapTable};
use planner::physical::{MonitorPart, Place, Way};
use planner::topology::{Site, Starts};
use runner::{Fed, Feed, InputError, Monitored};
use stream::{Config, Engine, Engines, TakeOutput};
use tuple::Origin;

use crate::failure::wrong_flags;
use crate::networked::Planned;
use monitors::{Monitor, Said};
use shares::Sharing;
use switches::Switches;
pub use switches::free_number;

/// What monitors have said and nobody has taken yet.
const SAID_MAX: usize = 64;
/// Between two looks at whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Until then a monitor has opened its capture.
const START_MAX: Duration = Duration::from_secs(20);
/// Until then it has said all, when it was asked to end.
const END_MAX: Duration = Duration::from_secs(10);
/// Packets that were copied before the rules went have come by then.
const LAST_PACKETS: Duration = Duration::from_millis(100);
/// Memory that a monitor may take, in bytes.
const MEMORY_MAX: u64 = 256 << 20;

/// What a network gives, as it comes.
pub struct Steered {
    collector: Collector,
    switches: Switches,
    monitors: Vec<Monitor>,
    said: Receiver<(usize, Said)>,
    counts: Vec<Monitored>,
    sharing: Sharing,
    problems: Vec<String>,
    is_over: bool,
}

/// Starts it; `program`: what monitors' hosts run, where that is not this program's own path.
pub fn start(
    plan: &Plan,
    planned: &Planned,
    config: &Config,
    program: Option<&Path>,
) -> anyhow::Result<Steered> {
    if plan.monitor.limit.packets.is_some() && planned.plan.monitors.len() > 1 {
        return Err(wrong_flags(
            "several monitors do not count packets together: limit the time, as in LIMIT 90s",
        ));
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let program: PathBuf = program.map_or(own, Path::to_owned);
    // A plan says what is to be; what ports are called the switches know.
    let mut switches = Switches::reach(planned)?;
    // An interface is there when copies come to it.
    let has_interfaces = planned.plan.switches.iter().any(|part| part.way == Way::Interface);
    if has_interfaces {
        switches.install(planned)?;
    }
    let (tell, said) = mpsc::sync_channel(SAID_MAX);
    let mut monitors = Vec::new();
    for (at, part) in planned.plan.monitors.iter().enumerate() {
        let starts = starts(&planned.site, part)?;
        let interfaces = interfaces(planned, part, &switches)?;
        let order = order(plan, part, at).encode();
        let monitor = Monitor::start((at, &part.host), starts, &program, &interfaces, &order, tell.clone());
        monitors.push(monitor.with_context(|| format!("cannot start the monitor on {}", part.host))?);
    }
    drop(tell);
    let engines = Engines::new(std::slice::from_ref(&plan.dataflow), config);
    let mut steered = Steered {
        collector: Collector::of_lanes(engines, config.window_bytes_max),
        counts: vec![Monitored::default(); monitors.len()],
        sharing: Sharing::new(plan, planned),
        switches: Switches::default(),
        monitors,
        said,
        problems: Vec::new(),
        is_over: false,
    };
    (0..steered.monitors.len()).for_each(|at| steered.collector.join(lane(at)));
    steered.wait_for_start()?;
    if !has_interfaces {
        switches.install(planned)?;
    }
    steered.switches = switches;
    Ok(steered)
}

fn lane(at: usize) -> LaneId {
    LaneId(at as u64)
}

/// How a monitor is started.
fn starts<'s>(site: &'s Site, part: &MonitorPart) -> anyhow::Result<&'s [String]> {
    let starts: Option<&Starts> = match part.place {
        Place::Switch(switch) => site.switches[switch].sniffer.as_ref().map(|sniffer| &sniffer.starts),
        Place::Host(host) => Some(&site.hosts[host as usize].starts),
    };
    let via = starts.and_then(|starts| starts.via.as_deref());
    via.ok_or_else(|| {
        let host = &part.host;
        wrong_flags(format!(
            "no monitor can be started on {host} from here: the network file has an agent and no via for it"
        ))
    })
}

/// Where it captures.
fn interfaces(planned: &Planned, part: &MonitorPart, switches: &Switches) -> anyhow::Result<Vec<String>> {
    match part.place {
        Place::Switch(switch) => switches.interfaces(planned, switch),
        Place::Host(host) => {
            let host = &planned.site.hosts[host as usize];
            let interface = host.interface.clone().ok_or_else(|| {
                wrong_flags(format!(
                    "the network file does not say what the interface of {} is called",
                    host.name
                ))
            })?;
            Ok(vec![interface])
        }
    }
}

fn order(plan: &Plan, part: &MonitorPart, at: usize) -> JobOrder {
    let mut plan = plan.clone();
    (plan.monitor.clients, plan.monitor.servers) = (part.spec.clients.clone(), part.spec.servers.clone());
    JobOrder {
        job: 1,
        generation: 1,
        attempt: at as u32 + 1,
        plan,
        redaction: None,
        capture: Capture::default(),
        packets_max: None,
        memory_max: MEMORY_MAX,
        cpu_millis: 0,
        workers: 1,
        taps: TapTable::default(),
        origin: Origin { agent: Some(part.host.clone()), ..Origin::default() },
        topics: Vec::new(),
    }
}

impl Steered {
    /// What is at work, in words.
    pub fn words(&self) -> String {
        let hosts: Vec<&str> = self.monitors.iter().map(|monitor| monitor.host.as_str()).collect();
        format!("monitors on {}; {}", hosts.join(", "), self.switches.words())
    }

    /// Until all monitors have their captures open.
    fn wait_for_start(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while let Some(waiting) = self.monitors.iter().find(|monitor| !monitor.is_started) {
            let host = waiting.host.clone();
            match self.said.recv_timeout(START_MAX.saturating_sub(begun.elapsed())) {
                Ok((at, Said::Frame(Frame::Started))) => self.monitors[at].is_started = true,
                Ok((at, Said::Gone(why))) => {
                    bail!("the monitor on {} has ended: {why}", self.monitors[at].host)
                }
                Ok(_) => {}
                Err(_) => bail!("the monitor on {host} has not started for {} s", START_MAX.as_secs()),
            }
        }
        Ok(())
    }

    fn take(&mut self, at: usize, said: Said, out: &mut dyn TakeOutput) {
        let host = self.monitors[at].host.clone();
        match said {
            Said::Frame(Frame::Report(bytes)) => {
                let counts = &mut self.counts[at];
                (counts.reports, counts.bytes) = (counts.reports + 1, counts.bytes + bytes.len() as u64);
                match self.collector.decode(&bytes) {
                    Ok(report) => self.report(at, report, out),
                    Err(why) => {
                        self.counts[at].malformed += 1;
                        self.problem(format!("the monitor on {host} has sent a {why}"));
                    }
                }
            }
            Said::Frame(Frame::Account(counted)) => {
                self.sharing.hear(at, &counted);
                let counts = &mut self.counts[at];
                for (name, n) in counted {
                    match name.as_str() {
                        "packets" => counts.packets = n,
                        "tuples" => counts.tuples = n,
                        "lost" => counts.lost = n,
                        "sampled_out" => counts.sampled_out = n,
                        "cut_off" => counts.cut_off = n,
                        _ => {}
                    }
                }
            }
            Said::Frame(Frame::Closing { .. }) => {
                self.monitors[at].has_said_all = true;
                self.sharing.gone(at);
                self.collector.finish(lane(at), &mut Whatever(out));
            }
            Said::Frame(Frame::Started | Frame::TookBack { .. }) => {}
            Said::Gone(why) => {
                self.sharing.gone(at);
                if !std::mem::replace(&mut self.monitors[at].has_said_all, true) {
                    self.collector.lost(lane(at), &mut Whatever(out));
                    self.problem(format!("the monitor on {host} has ended before its time: {why}"));
                }
            }
        }
    }

    fn report(&mut self, at: usize, report: Report, out: &mut dyn TakeOutput) {
        self.collector.take(lane(at), report, &mut Whatever(out));
    }

    fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    /// Rules go, then monitors say what they still have, then windows close.
    fn close(&mut self, out: &mut dyn TakeOutput) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if let Err(why) = self.switches.remove() {
            self.problem(format!("rules could not be taken away, and go by themselves: {why:#}"));
        }
        if self.monitors.iter().any(|monitor| !monitor.has_said_all) {
            std::thread::sleep(LAST_PACKETS);
        }
        self.monitors.iter_mut().for_each(Monitor::end);
        let begun = Instant::now();
        while self.monitors.iter().any(|monitor| !monitor.has_said_all) {
            match self.said.recv_timeout(END_MAX.saturating_sub(begun.elapsed())) {
                Ok((at, said)) => self.take(at, said, out),
                Err(_) => break,
            }
        }
        let silent: Vec<String> =
            self.monitors.iter().filter(|monitor| !monitor.has_said_all).map(|m| m.host.clone()).collect();
        silent
            .iter()
            .for_each(|host| self.problem(format!("the monitor on {host} did not end when it was asked to")));
        self.collector.end(&mut Whatever(out));
    }
}

impl Feed for Steered {
    fn next(&mut self, out: &mut dyn TakeOutput) -> Step {
        if let Some(why) = self.switches.lost() {
            self.problem(why);
            self.close(out);
            return Step::Done;
        }
        match self.said.recv_timeout(PATIENCE) {
            Ok((at, said)) => self.take(at, said, out),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if self.monitors.iter().all(|monitor| monitor.has_said_all) {
            self.close(out);
            return Step::Done;
        }
        self.sharing.look(&mut self.monitors, &mut self.switches);
        Step::Going
    }

    fn finish(&mut self, out: &mut dyn TakeOutput) {
        self.close(out);
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn engine(&self) -> &Engine {
        self.collector.engine()
    }

    fn fed(&self) -> Fed {
        let mut all = Monitored::default();
        for counts in &self.counts {
            all.reports += counts.reports;
            all.bytes += counts.bytes;
            all.packets += counts.packets;
            all.tuples += counts.tuples;
            all.lost += counts.lost;
            all.sampled_out += counts.sampled_out;
            all.cut_off += counts.cut_off;
            all.malformed += counts.malformed;
        }
        Fed::Monitored(all)
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sharing.notes)
    }

    fn sampling(&self) -> History {
        self.sharing.history.clone()
    }

    fn problems(&self) -> Vec<InputError> {
        let told = |text: &String| InputError {
            path: "network".to_owned(),
            offset: None,
            text: text.clone(),
            after_packets: 0,
        };
        self.problems.iter().map(told).collect()
    }
}
