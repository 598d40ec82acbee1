//! Runs a query in a network from this machine: starts monitors where the plan places them, installs mirror rules on
//! switches, and merges the monitors' results. Monitors start before mirroring, unless a monitor captures at an
//! interface created for it; at the end, mirroring is removed first. Rules have leases, mirrors and interfaces are
//! removed with this process, and monitors end with their standard input, so everything is removed if this process is
//! killed. Aggregators of the plan start the monitors of their pods and are one lane each.

pub mod aggregator_orders;
pub mod port_names;
pub mod process_group;
mod process_problems;
mod processes;
pub mod rule_owners;
mod sampling;
pub mod switches;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use collect::{Collector, IgnoreCoverage};
use mirror::PacketSelection;
use monitor::MonitorProgress;
use monitor::sampling_control::RateHistory;
use plan::message::{CaptureSpec, JobOrder};
use plan::{MonitorSpec, Plan, TapTable};
use planner::physical::{MonitorPart, MonitorPlace, PacketPath};
use planner::topology::NetworkSite;
use runner::{FedInput, InputError, TupleFeed};
use stream::{Engine, EngineConfig, EngineSet, OutputConsumer};
use tuple::AgentOrigin;
use wire::Timestamp;

use crate::network::plan::NetworkPlan;
use crate::process::failure::wrong_flags;
use aggregator_orders::{AggregatorMember, AggregatorOrders};
use process_group::ProcessGroup;
use processes::{ProcessStart, RemoteProcess};
use sampling::NetworkSampling;
use switches::PlanSwitches;

/// Interval at which the run checks whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Time limit for a monitor to open its capture.
const START_MAX: Duration = Duration::from_secs(20);
/// Time limit for a monitor to send its last results after the request to end.
const END_MAX: Duration = Duration::from_secs(10);
/// Time for the arrival of packets mirrored before the rules were removed.
const LAST_PACKETS: Duration = Duration::from_millis(100);
/// Memory limit of a monitor, in bytes.
const MEMORY_MAX: u64 = 256 << 20;

/// A running query in a network.
pub struct NetworkRun {
    team: ProcessGroup,
    /// Hosts of the monitors, as text.
    monitors: String,
    switches: PlanSwitches,
    sharing: NetworkSampling,
    /// Gaps of the result in the chosen mode.
    lacks: Vec<String>,
    /// End of LIMIT, counted from the start of copying; `None`: without LIMIT, or monitors count it.
    until: Option<Instant>,
    is_over: bool,
}

/// Starts the query; `program`: path of the program on monitors' hosts, if different.
pub fn start(
    plan: &Plan,
    planned: &NetworkPlan,
    config: &EngineConfig,
    program: Option<&Path>,
) -> anyhow::Result<NetworkRun> {
    if plan.monitor.limit.packets.is_some() && planned.plan.monitors.len() > 1 {
        return Err(wrong_flags(
            "LIMIT in packets is not supported with several monitors: limit the time, as in LIMIT 90s",
        ));
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let program: PathBuf = program.map_or(own, Path::to_owned);
    // The plan names ports; their numbers are read from the switches.
    let mut switches = PlanSwitches::reach(planned)?;
    // An interface must exist before packets are mirrored to it.
    let has_interfaces = planned
        .plan
        .switches
        .iter()
        .any(|part| part.way == PacketPath::Interface);
    if has_interfaces {
        switches.install(planned)?;
    }
    let engines = EngineSet::new(std::slice::from_ref(&plan.dataflow), config);
    let started = now();
    // Other packets reach monitors only when these have started and switches copy. LIMIT counts from then on.
    let copies_later = !has_interfaces && planned.plan.choice.mode.is_some();
    let mut ordered = plan.clone();
    if copies_later {
        ordered.monitor.limit.nanos = None;
    }
    let mut collector = Collector::of_lanes(engines, config.window_bytes_max);
    if planned
        .plan
        .choice
        .mode
        .is_some_and(|mode| matches!(mode.which, PacketSelection::Flags(_)))
    {
        collector.expect_partial_flows();
    }
    let mut team = ProcessGroup::new(collector);
    let mut members = Vec::new();
    for (at, part) in planned.plan.monitors.iter().enumerate() {
        members.push(AggregatorMember {
            host: part.host.clone(),
            via: starts(&planned.site, part)?.to_vec(),
            interfaces: interfaces(planned, part, &switches)?,
            order: order(&ordered, part, at).encode(),
        });
    }
    for (at, member) in members.iter().enumerate() {
        if !planned
            .plan
            .aggregators
            .iter()
            .any(|aggregator| aggregator.monitors.contains(&at))
        {
            team.start(&member.starting(&program, &member.input()))?;
        }
    }
    let mut hosts = members
        .iter()
        .map(|member| member.host.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    for aggregator in &planned.plan.aggregators {
        let host = &planned.site.hosts[aggregator.host as usize];
        let member = |at: &usize| match planned.plan.monitors[*at].place {
            // The aggregator starts a monitor on its own host.
            MonitorPlace::Host(host) if host == aggregator.host => AggregatorMember {
                via: Vec::new(),
                ..members[*at].clone()
            },
            _ => members[*at].clone(),
        };
        let members: Vec<AggregatorMember> = aggregator.monitors.iter().map(member).collect();
        let input = AggregatorOrders {
            program: program.clone(),
            members,
        }
        .encode();
        let via = host.starts.via.as_deref().unwrap_or_default();
        team.start(&ProcessStart {
            what: "aggregator",
            host: &host.name,
            via,
            program: &program,
            interfaces: &[],
            input: &input,
        })?;
        hosts += &format!(
            ", {} of them merged on {}",
            aggregator.monitors.len(),
            host.name
        );
    }
    team.wait_for_start(START_MAX)?;
    let mut until = None;
    if !has_interfaces {
        switches.install(planned)?;
        if copies_later {
            // A result without windows covers the run only.
            let mut pipelines = plan.dataflow.pipelines.iter();
            if pipelines.all(|pipeline| pipeline.window.is_some()) {
                team.mark_partial(started, now());
            }
            let limit = plan.monitor.limit.nanos.map(i64::unsigned_abs);
            until = limit.and_then(|ns| Instant::now().checked_add(Duration::from_nanos(ns)));
        }
    }
    let mut sharing = NetworkSampling::new(plan, planned);
    sharing.notes.extend(switches.repaired());
    sharing.notes.extend(
        planned
            .plan
            .lacks
            .iter()
            .map(|lack| format!("the result is incomplete: {lack}")),
    );
    let lacks = planned.plan.lacks.clone();
    Ok(NetworkRun {
        team,
        monitors: hosts,
        switches,
        sharing,
        lacks,
        until,
        is_over: false,
    })
}

/// Current time of the system's clock.
fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Command prefix of a monitor.
fn starts<'s>(site: &'s NetworkSite, part: &MonitorPart) -> anyhow::Result<&'s [String]> {
    let via = part.starts(site).and_then(|starts| starts.via.as_deref());
    via.ok_or_else(|| {
        let host = &part.host;
        wrong_flags(format!(
            "no monitor can be started on {host} from here: the network file has an agent and no via for it"
        ))
    })
}

/// Capture interfaces of a monitor.
fn interfaces(
    planned: &NetworkPlan,
    part: &MonitorPart,
    switches: &PlanSwitches,
) -> anyhow::Result<Vec<String>> {
    match part.place {
        MonitorPlace::Switch(switch) => switches.interfaces(planned, switch),
        MonitorPlace::Host(host) => port_names::interface_of(&planned.site.hosts[host as usize]),
    }
}

fn order(plan: &Plan, part: &MonitorPart, at: usize) -> JobOrder {
    let monitor = MonitorSpec {
        clients: part.spec.clients.clone(),
        servers: part.spec.servers.clone(),
        ..plan.monitor.clone()
    };
    let plan = Plan {
        monitor,
        ..plan.clone()
    };
    JobOrder {
        job: 1,
        generation: 1,
        attempt: at as u32 + 1,
        plan,
        redaction: None,
        capture: CaptureSpec::default(),
        packets_max: None,
        memory_max: MEMORY_MAX,
        cpu_millis: 0,
        workers: 1,
        taps: TapTable::default(),
        origin: AgentOrigin {
            agent: Some(part.host.clone()),
            ..AgentOrigin::default()
        },
        topics: Vec::new(),
    }
}

impl NetworkRun {
    /// Description of the running processes.
    pub fn words(&self) -> String {
        format!("monitors on {}; {}", self.monitors, self.switches.words())
    }

    fn problem(&mut self, text: String) {
        self.team.problems.add(text);
    }

    /// Removes the rules, then reads the monitors' last results, then closes windows.
    fn close(&mut self, out: &mut dyn OutputConsumer) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if let Err(why) = self.switches.remove() {
            self.problem(format!(
                "rules could not be removed and expire on their own: {why:#}"
            ));
        }
        if !self.team.is_over() {
            std::thread::sleep(LAST_PACKETS);
        }
        let sharing = &mut self.sharing;
        self.team
            .end(END_MAX, &mut IgnoreCoverage(out), &mut |heard| {
                sharing.heed(&heard)
            });
    }
}

impl TupleFeed for NetworkRun {
    fn next(&mut self, out: &mut dyn OutputConsumer) -> MonitorProgress {
        if let Some(why) = self.switches.lost() {
            self.problem(why);
            self.close(out);
            return MonitorProgress::Done;
        }
        if let Some(heard) = self.team.hear(PATIENCE, &mut IgnoreCoverage(out)) {
            self.sharing.heed(&heard);
        }
        if self.team.is_over() {
            self.close(out);
            return MonitorProgress::Done;
        }
        if self.until.is_some_and(|until| until <= Instant::now()) {
            self.until = None;
            self.team.processes.iter_mut().for_each(RemoteProcess::end);
        }
        self.sharing
            .look(&mut self.team.processes, &mut self.switches);
        MonitorProgress::Going
    }

    fn finish(&mut self, out: &mut dyn OutputConsumer) {
        self.close(out);
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn engine(&self) -> &Engine {
        self.team.collector.engine()
    }

    fn fed(&self) -> FedInput {
        FedInput::Monitored(self.team.counts())
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sharing.notes)
    }

    fn lacks(&self) -> Vec<String> {
        self.lacks.clone()
    }

    fn sampling(&self) -> RateHistory {
        self.sharing.history.clone()
    }

    fn problems(&self) -> Vec<InputError> {
        let told = |text| InputError {
            path: "network".to_owned(),
            offset: None,
            text,
            after_packets: 0,
        };
        self.team.problems.texts().into_iter().map(told).collect()
    }
}
