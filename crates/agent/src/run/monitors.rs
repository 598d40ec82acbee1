//! The agent's monitors: starts them if the policy allows, stores their messages in the spool, kills those above their
//! limits. A monitor is identified by the lane that it was started for.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use capture::packet_relay::PacketRelay;
use collect::MonitorFrame;
use control::{AgentEvent, MonitorEnd};
use link::{DataRecord, RecordLane};
use plan::message::JobOrder;
use plan::{ResourceUsage, TapTable};
use tuple::AgentOrigin;

use super::connection::ServerConnection;
use super::monitor_lane::{MonitorLane, StopMode};
use super::running_monitor::{MonitorGoesOn, RunningMonitor};
use super::{AgentEnding, AgentLoop};
use crate::cgroups::ProcessBounds;
use crate::orders::{AgentInputs, HostLoad, PreparedOrder, asked};
use crate::process::{MonitorProcess, MonitorStart, ProcessEvent};
use crate::sharing::MonitorIdentity;

impl AgentLoop {
    /// Starts a monitor if the policy allows it, or adds the job to a running monitor of the same identity.
    pub fn start(
        &mut self,
        lane: RecordLane,
        (body, taps): (&[u8], TapTable),
        lasts: Duration,
        allowed: Option<u64>,
    ) -> Result<(), MonitorEnd> {
        let policy = &self.config.policy;
        let demo = self.config.demo.as_ref();
        let borne = |identity: Option<&MonitorIdentity>| self.borne(identity, &taps);
        let inputs = AgentInputs {
            demo,
            exports: self.config.exports.as_ref().map(PacketRelay::path),
            folder: &self.config.folder,
        };
        let asked = asked(body, policy, &self.host, &inputs, self.origin(), borne);
        let PreparedOrder {
            order,
            mut arguments,
            cost,
            identity,
        } = asked?;
        let served = MonitorLane::new(lane, taps.clone(), Instant::now() + lasts);
        let mut running = self.monitors.iter_mut();
        if let Some((first, running)) =
            running.find(|(_, one)| one.can_serve(identity.as_ref(), &taps))
        {
            tracing::info!("job {}: shares the monitor of job {}", lane.job, first.job);
            running.join(served);
            return Ok(());
        }
        let packets_max = allowed.or(order.packets_max);
        let order = JobOrder {
            attempt: lane.attempt,
            packets_max,
            taps,
            ..order
        };
        let bounds = ProcessBounds {
            memory_max: order.memory_max,
            cores: order.workers.max(1),
        };
        arguments.extend(["--lease".to_owned(), format!("{}ms", lasts.as_millis())]);
        let start = MonitorStart {
            program: &self.config.program,
            arguments: &arguments,
            order: &order.encode(),
            bounds,
        };
        let monitor = MonitorProcess::start(lane, &start, self.groups.as_ref(), self.news.clone())
            .map_err(|why| MonitorEnd::Crashed(format!("the monitor cannot be started: {why}")))?;
        tracing::info!("job {}: started", lane.job);
        self.monitors
            .insert(lane, RunningMonitor::new(monitor, cost, identity, served));
        Ok(())
    }

    /// Current load of the host by jobs; monitors count once.
    fn borne(&self, identity: Option<&MonitorIdentity>, taps: &TapTable) -> HostLoad {
        let packets_per_second = self.traffic.packets_per_second;
        let takes = self
            .monitors
            .values()
            .map(|running| running.cost.at(packets_per_second));
        let burden = takes.fold(ResourceUsage::default(), ResourceUsage::and);
        let jobs = self
            .monitors
            .values()
            .map(|running| running.lanes.len())
            .sum();
        let can_share = self
            .monitors
            .values()
            .any(|running| running.can_serve(identity, taps));
        HostLoad {
            jobs,
            burden,
            packets_per_second,
            can_share,
        }
    }

    /// Origin for tuples of this host.
    fn origin(&self) -> AgentOrigin {
        AgentOrigin {
            agent: Some(self.config.name.clone()),
            labels: self.config.policy.labels.clone(),
        }
    }

    /// Requests the last results of a lane and its end, with [`AgentLoop::settle`].
    pub fn stop(&mut self, lane: RecordLane) {
        let course = if self.agent.wants(lane.job) {
            StopMode::Cut
        } else {
            StopMode::Whole
        };
        self.with(lane, |_, of_lane| of_lane.course = course);
    }

    /// Changes a lane and its monitor, if they still exist.
    pub fn with(
        &mut self,
        lane: RecordLane,
        change: impl FnOnce(&mut MonitorProcess, &mut MonitorLane),
    ) {
        let mut all = self.monitors.values_mut().flat_map(|running| {
            let RunningMonitor { monitor, lanes, .. } = running;
            lanes
                .iter_mut()
                .find(|one| one.lane == lane)
                .map(|found| (monitor, found))
        });
        if let Some((monitor, found)) = all.next() {
            change(monitor, found);
        }
    }

    /// Applies changes of lanes to their monitors.
    pub fn settle(&mut self) {
        self.monitors.values_mut().for_each(RunningMonitor::settle);
    }

    /// Ends a lane that has exceeded its lease: kills its monitor, unless that serves other jobs.
    pub fn kill_overdue(&mut self, lane: RecordLane) -> Option<AgentEvent> {
        let why = "it did not end when its lease expired".to_owned();
        let mut all = self.monitors.values_mut();
        let running = all.find(|running| running.lanes.iter().any(|one| one.lane == lane))?;
        let Some(overdue) = running.take_overdue(lane) else {
            running.kill(why);
            return None;
        };
        Some(self.exited(overdue.lane, MonitorEnd::Crashed(why)))
    }

    /// Stores a monitor's message in the spool.
    pub fn on_news(&mut self, news: ProcessEvent, connection: &mut ServerConnection) {
        let events = match news {
            ProcessEvent::Said(first, frame) => match (self.monitors.get_mut(&first), frame) {
                (Some(running), MonitorFrame::Flushed { number, until }) => {
                    let begun = running.begin_late(number, until, &mut self.spool);
                    let left = running.take_flushed(number);
                    let last =
                        |lane: MonitorLane| (running.last_words(&lane, MonitorGoesOn::Yes), lane);
                    let left: Vec<_> = left.into_iter().map(last).collect();
                    let end = |lane: &MonitorLane| lane.ended(MonitorEnd::Clean);
                    let left = left
                        .into_iter()
                        .map(|(last, lane)| self.on_end(&lane, end(&lane), last));
                    begun.into_iter().chain(left).collect()
                }
                (Some(running), frame) => running.on_frame(frame, &mut self.spool),
                (None, _) => Vec::new(),
            },
            ProcessEvent::Gone(first, status, complaint) => {
                self.on_gone(first, &status, &complaint)
            }
            ProcessEvent::Packets(request, selected) => {
                if let (Some(packets), Some(session)) =
                    (&mut self.packets, connection.session_mut())
                {
                    session.reply_packets(packets.selected(request, selected));
                }
                Vec::new()
            }
        };
        events
            .into_iter()
            .for_each(|event| self.happened(event, connection));
        self.settle();
    }

    fn on_gone(
        &mut self,
        first: RecordLane,
        status: &io::Result<ExitStatus>,
        complaint: &str,
    ) -> Vec<AgentEvent> {
        let Some(mut running) = self.monitors.remove(&first) else {
            let is_of_another_server = first.boot != self.boot;
            let unknown = MonitorEnd::Crashed("its process is unknown".into());
            return vec![self.exited(
                first,
                if is_of_another_server {
                    MonitorEnd::Clean
                } else {
                    unknown
                },
            )];
        };
        let lanes = std::mem::take(&mut running.lanes);
        let end = |lane: &MonitorLane| {
            (
                running.ending(lane, status, complaint),
                running.last_words(lane, MonitorGoesOn::No),
            )
        };
        let ends = lanes.iter().map(|lane| (lane, end(lane)));
        ends.map(|(lane, (end, last))| self.on_end(lane, end, last))
            .collect()
    }

    /// Ends a lane; `last`: its last record, if its results are complete.
    fn on_end(&mut self, lane: &MonitorLane, end: MonitorEnd, last: DataRecord) -> AgentEvent {
        if matches!(end, MonitorEnd::Clean | MonitorEnd::Early(_)) {
            let is_early = matches!(end, MonitorEnd::Early(_)) || lane.course == StopMode::Cut;
            self.spool.push(DataRecord {
                is_last: !is_early,
                ..last
            });
            if is_early {
                // No results are lost; packets until the next monitor starts are not captured.
                self.spool
                    .push_lost(lane.lane, self.now().wall_ns, Some(0), true);
            }
        }
        self.exited(lane.lane, end)
    }

    fn exited(&mut self, lane: RecordLane, end: MonitorEnd) -> AgentEvent {
        if !matches!(end, MonitorEnd::Clean | MonitorEnd::Early(_)) {
            self.ending = self.ending.map(|_| AgentEnding::Lossy);
        }
        log_end(lane, &end);
        AgentEvent::Exited { lane, end }
    }

    /// Kills monitors above their memory limit.
    pub fn look_after_memory(&mut self) {
        for (lane, running) in &mut self.monitors {
            if running.ended.is_none()
                && let Some(excess) = running.monitor.excess()
            {
                let why = format!("it exceeded its memory limit by {excess} bytes and was killed");
                tracing::warn!("job {}: {why}", lane.job);
                running.kill(why);
            }
        }
    }
}

/// Logs the end of a monitor, or why it was not started.
pub fn log_end(lane: RecordLane, end: &MonitorEnd) {
    match end {
        MonitorEnd::Clean => tracing::info!("job {}: ended", lane.job),
        MonitorEnd::Early(why)
        | MonitorEnd::Crashed(why)
        | MonitorEnd::Refused(why)
        | MonitorEnd::Crowded(why) => {
            tracing::warn!("job {}: {why}", lane.job)
        }
    }
}
