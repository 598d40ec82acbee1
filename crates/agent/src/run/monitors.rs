//! The agent's monitors: starts them if the policy allows, stores their messages in the spool, kills those above their
//! limits.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use control::{AgentEvent, End};
use link::Lane;
use plan::message::JobOrder;
use plan::{Burden, TapTable};
use tuple::Origin;

use super::connection::Connection;
use super::running::{Course, Running};
use super::{Ending, Loop};
use crate::bounds::Bounds;
use crate::orders::{Asked, Borne, asked};
use crate::process::{Monitor, News, Start};

impl Loop {
    /// Starts a monitor if the policy allows it.
    pub fn start(
        &mut self,
        lane: Lane,
        (body, taps): (&[u8], TapTable),
        lasts: Duration,
        allowed: Option<u64>,
    ) -> Result<(), End> {
        let (policy, demo) = (&self.config.policy, self.config.demo.as_ref());
        let asked = asked(body, policy, &self.host, demo, self.borne());
        let Asked { order, mut arguments, cost } = asked?;
        let packets_max = allowed.or(order.packets_max);
        let order = JobOrder { attempt: lane.attempt, packets_max, origin: self.origin(), taps, ..order };
        let bounds = Bounds { memory_max: order.memory_max, cores: order.workers.max(1) };
        arguments.extend(["--lease".to_owned(), format!("{}ms", lasts.as_millis())]);
        let start =
            Start { program: &self.config.program, arguments: &arguments, order: &order.encode(), bounds };
        let monitor = Monitor::start(lane, &start, self.groups.as_ref(), self.news.clone())
            .map_err(|why| End::Crashed(format!("the monitor cannot be started: {why}")))?;
        tracing::info!("job {}: started", lane.job);
        self.monitors.insert(lane, Running::new(monitor, cost));
        Ok(())
    }

    /// Current load of the host by jobs.
    fn borne(&self) -> Borne {
        let packets_per_second = self.traffic.packets_per_second;
        let takes = self.monitors.values().map(|running| running.cost.at(packets_per_second));
        let burden = takes.fold(Burden::default(), Burden::and);
        Borne { jobs: self.monitors.len(), burden, packets_per_second }
    }

    /// Origin for tuples of this host.
    fn origin(&self) -> Origin {
        Origin { agent: Some(self.config.name.clone()), labels: self.config.policy.labels.clone() }
    }

    /// Requests a monitor's last results and its end.
    pub fn stop(&mut self, lane: Lane) {
        let course = if self.agent.wants(lane.job) { Course::Cut } else { Course::Whole };
        self.with(lane, |running| {
            running.course = course;
            running.monitor.stop();
        });
    }

    /// Changes a monitor if it still exists.
    pub fn with(&mut self, lane: Lane, change: impl FnOnce(&mut Running)) {
        if let Some(running) = self.monitors.get_mut(&lane) {
            change(running);
        }
    }

    /// Stores a monitor's message in the spool.
    pub fn on_news(&mut self, news: News, connection: &mut Connection) {
        let event = match news {
            News::Said(lane, frame) => match self.monitors.get_mut(&lane) {
                Some(running) => running.on_frame(lane, frame, &mut self.spool),
                None => None,
            },
            News::Gone(lane, status, complaint) => Some(self.on_gone(lane, &status, &complaint)),
        };
        if let Some(event) = event {
            self.happened(event, connection);
        }
    }

    fn on_gone(&mut self, lane: Lane, status: &io::Result<ExitStatus>, complaint: &str) -> AgentEvent {
        let end = match self.monitors.remove(&lane) {
            // Of another server.
            None if lane.boot != self.boot => End::Clean,
            None => End::Crashed("it was not known".into()),
            Some(running) => {
                let end = running.ending(lane, status, complaint);
                let is_early = matches!(end, End::Early(_)) || running.course == Course::Cut;
                if matches!(end, End::Clean | End::Early(_)) {
                    self.spool.push(running.last_words(lane, !is_early));
                    if is_early {
                        // None of its results are lost; packets until the next monitor starts are not captured.
                        self.spool.push_lost(lane, self.now().wall_ns, Some(0), true);
                    }
                } else {
                    self.ending = self.ending.map(|_| Ending::Lossy);
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
                let why = format!("it took {excess} bytes of memory more than it may, and was ended");
                tracing::warn!("job {}: {why}", lane.job);
                running.kill(why);
            }
        }
    }
}

/// Logs the end of a monitor, or why it was not started.
pub fn log_end(lane: Lane, end: &End) {
    match end {
        End::Clean => tracing::info!("job {}: ended", lane.job),
        End::Early(why) | End::Crashed(why) | End::Refused(why) | End::Crowded(why) => {
            tracing::warn!("job {}: {why}", lane.job)
        }
    }
}
