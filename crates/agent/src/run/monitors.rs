//! The agent's monitors: starts them if the policy allows, stores their messages in the spool, kills those above their
//! limits.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use control::{AgentEvent, MonitorEnd};
use link::RecordLane;
use plan::message::JobOrder;
use plan::{ResourceUsage, TapTable};
use tuple::AgentOrigin;

use super::connection::ServerConnection;
use super::running_monitor::{RunningMonitor, StopMode};
use super::{AgentEnding, AgentLoop};
use crate::cgroups::ProcessBounds;
use crate::orders::{HostLoad, PreparedOrder, asked};
use crate::process::{MonitorProcess, MonitorStart, ProcessEvent};

impl AgentLoop {
    /// Starts a monitor if the policy allows it.
    pub fn start(
        &mut self,
        lane: RecordLane,
        (body, taps): (&[u8], TapTable),
        lasts: Duration,
        allowed: Option<u64>,
    ) -> Result<(), MonitorEnd> {
        let policy = &self.config.policy;
        let demo = self.config.demo.as_ref();
        let asked = asked(body, policy, &self.host, demo, self.borne());
        let PreparedOrder { order, mut arguments, cost } = asked?;
        let packets_max = allowed.or(order.packets_max);
        let order = JobOrder { attempt: lane.attempt, packets_max, origin: self.origin(), taps, ..order };
        let bounds = ProcessBounds { memory_max: order.memory_max, cores: order.workers.max(1) };
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
        self.monitors.insert(lane, RunningMonitor::new(monitor, cost));
        Ok(())
    }

    /// Current load of the host by jobs.
    fn borne(&self) -> HostLoad {
        let packets_per_second = self.traffic.packets_per_second;
        let takes = self.monitors.values().map(|running| running.cost.at(packets_per_second));
        let burden = takes.fold(ResourceUsage::default(), ResourceUsage::and);
        HostLoad { jobs: self.monitors.len(), burden, packets_per_second }
    }

    /// Origin for tuples of this host.
    fn origin(&self) -> AgentOrigin {
        AgentOrigin { agent: Some(self.config.name.clone()), labels: self.config.policy.labels.clone() }
    }

    /// Requests a monitor's last results and its end.
    pub fn stop(&mut self, lane: RecordLane) {
        let course = if self.agent.wants(lane.job) { StopMode::Cut } else { StopMode::Whole };
        self.with(lane, |running| {
            running.course = course;
            running.monitor.stop();
        });
    }

    /// Changes a monitor if it still exists.
    pub fn with(&mut self, lane: RecordLane, change: impl FnOnce(&mut RunningMonitor)) {
        if let Some(running) = self.monitors.get_mut(&lane) {
            change(running);
        }
    }

    /// Stores a monitor's message in the spool.
    pub fn on_news(&mut self, news: ProcessEvent, connection: &mut ServerConnection) {
        let event = match news {
            ProcessEvent::Said(lane, frame) => match self.monitors.get_mut(&lane) {
                Some(running) => running.on_frame(lane, frame, &mut self.spool),
                None => None,
            },
            ProcessEvent::Gone(lane, status, complaint) => Some(self.on_gone(lane, &status, &complaint)),
        };
        if let Some(event) = event {
            self.happened(event, connection);
        }
    }

    fn on_gone(&mut self, lane: RecordLane, status: &io::Result<ExitStatus>, complaint: &str) -> AgentEvent {
        let end = match self.monitors.remove(&lane) {
            // Of another server.
            None if lane.boot != self.boot => MonitorEnd::Clean,
            None => MonitorEnd::Crashed("it was not known".into()),
            Some(running) => {
                let end = running.ending(lane, status, complaint);
                let is_early = matches!(end, MonitorEnd::Early(_)) || running.course == StopMode::Cut;
                if matches!(end, MonitorEnd::Clean | MonitorEnd::Early(_)) {
                    self.spool.push(running.last_words(lane, !is_early));
                    if is_early {
                        // None of its results are lost; packets until the next monitor starts are not captured.
                        self.spool.push_lost(lane, self.now().wall_ns, Some(0), true);
                    }
                } else {
                    self.ending = self.ending.map(|_| AgentEnding::Lossy);
                }
                end
            }
        };
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
