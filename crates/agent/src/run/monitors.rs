//! The agent's monitors: started if the host's owner allows what they are to do, what they say put into the spool, ended where they
//! take too much; and how each of them has ended.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use collect::{Brings, Frame, Part, Report, TAKEN, WAITING};
use control::{AgentEvent, End};
use link::{Data, Form, Lane, Spool};
use plan::message::JobOrder;
use plan::{Burden, Cost, TapTable};
use stream::Loss;
use tuple::Origin;
use wire::Timestamp;

use super::Loop;
use super::connection::Connection;
use crate::bounds::Bounds;
use crate::orders::{Asked, Borne, asked};
use crate::process::{Monitor, News, Start};

/// A monitor ends so when what it is asked for cannot be.
const WRONG_USE: i32 = 2;

/// A monitor, and what is known of it.
pub struct Running {
    pub monitor: Monitor,
    counters: BTreeMap<String, u64>,
    tuples: u64,
    watermark_ns: i64,
    loss: Loss,
    /// Whether it said that it had said everything.
    closing: Option<Option<String>>,
    /// Why we have ended it.
    ended: Option<String>,
    /// What it takes, as estimated.
    cost: Cost,
    course: Course,
}

/// Whether a monitor was told to end although the server wants it to go on: its lease was over, or the agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Whole,
    Cut,
}

impl Loop {
    /// Starts a monitor, if the host's owner allows what it is to do.
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

    /// What the host bears already.
    fn borne(&self) -> Borne {
        let packets_per_second = self.packets_per_second();
        let takes = self.monitors.values().map(|running| running.cost.at(packets_per_second));
        let burden = takes.fold(Burden::default(), Burden::and);
        Borne { jobs: self.monitors.len(), burden, packets_per_second }
    }

    /// What tuples found here say of where they come from.
    fn origin(&self) -> Origin {
        Origin { agent: Some(self.config.name.clone()), labels: self.config.policy.labels.clone() }
    }

    /// Asks a monitor to say what it has and to end.
    pub fn stop(&mut self, lane: Lane) {
        let course = if self.agent.wants(lane.job) { Course::Cut } else { Course::Whole };
        self.with(lane, |running| {
            running.course = course;
            running.monitor.stop();
        });
    }

    /// Changes a monitor that is still there.
    pub fn with(&mut self, lane: Lane, change: impl FnOnce(&mut Running)) {
        if let Some(running) = self.monitors.get_mut(&lane) {
            change(running);
        }
    }

    /// What a monitor says goes into the spool.
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
            // Another server's.
            None if lane.boot != self.boot => End::Clean,
            None => End::Crashed("it was not known".into()),
            Some(running) => {
                let end = running.ending(status, complaint);
                if end == End::Clean {
                    let course = running.course;
                    self.spool.push(running.last_words(lane));
                    if course == Course::Cut {
                        // What goes by until the next one begins is seen by nobody.
                        self.spool.push_lost(lane, self.now().wall_ns, None, true);
                    }
                }
                end
            }
        };
        log_end(lane, &end);
        AgentEvent::Exited { lane, end }
    }

    /// Ends monitors that take more than they were given.
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

impl Running {
    fn new(monitor: Monitor, cost: Cost) -> Running {
        Running {
            monitor,
            counters: BTreeMap::new(),
            tuples: 0,
            watermark_ns: i64::MIN,
            loss: Loss::default(),
            closing: None,
            ended: None,
            cost,
            course: Course::Whole,
        }
    }

    /// Ends it at once; the first reason counts.
    pub fn kill(&mut self, why: String) {
        self.ended.get_or_insert(why);
        self.monitor.kill();
    }

    fn on_frame(&mut self, lane: Lane, frame: Frame, spool: &mut Spool) -> Option<AgentEvent> {
        match frame {
            Frame::Started => None,
            Frame::Report(payload) => {
                let head = collect::head(&payload)
                    .inspect_err(|why| tracing::warn!("job {}: {why}", lane.job))
                    .ok()?;
                let watermark_ns = head.watermark.0;
                // Of windows it is known by the monitor's last account only.
                let counted = self.counters.get("tuples").copied().unwrap_or(0);
                let (form, tuples) = match head.brings {
                    Brings::Rows(n) => (Form::Tuples, n),
                    Brings::Windows => (Form::Partial, counted.saturating_sub(self.tuples)),
                };
                spool.push(Data {
                    lane,
                    watermark_ns,
                    from_ns: self.watermark_ns.min(watermark_ns),
                    tuples,
                    form: form.into(),
                    counters: self.counters.clone(),
                    payload: payload.into(),
                    ..Data::default()
                });
                (self.tuples, self.watermark_ns, self.loss) = (counted, watermark_ns, head.loss);
                Some(AgentEvent::Reported(lane))
            }
            Frame::Account(counts) => {
                self.counters = counts.into_iter().collect();
                let used = self.counters.get(TAKEN).copied()?;
                let waits = self.counters.get(WAITING).is_some_and(|waiting| *waiting > 0);
                Some(AgentEvent::Used { lane, used, waits })
            }
            Frame::TookBack { grant, taken } => Some(AgentEvent::TookBack { lane, allowed: taken, grant }),
            Frame::Closing { cut_short, .. } => {
                self.closing = Some(cut_short);
                None
            }
        }
    }

    /// The last record of one that has said everything: how far it came, and its last counts.
    fn last_words(self, lane: Lane) -> Data {
        let report = Report {
            epoch: 0,
            watermark: Timestamp(self.watermark_ns),
            part: Part::default(),
            loss: self.loss,
            lost: None,
            open: None,
        };
        Data {
            lane,
            watermark_ns: self.watermark_ns,
            from_ns: self.watermark_ns,
            form: Form::Partial.into(),
            is_last: self.course == Course::Whole,
            counters: self.counters,
            payload: report.encode().into(),
            ..Data::default()
        }
    }

    /// How it has ended.
    fn ending(&self, status: &io::Result<ExitStatus>, complaint: &str) -> End {
        let why = match (&self.ended, &self.closing, status) {
            (Some(why), _, _) => why.clone(),
            _ if self.monitor.was_killed_for_memory() => "the kernel ended it for want of memory".to_owned(),
            (None, Some(None), Ok(_)) => return End::Clean,
            // It has said everything that it had, and why there is no more.
            (None, Some(Some(why)), Ok(_)) => {
                tracing::warn!("{why}");
                return End::Clean;
            }
            // What is asked for cannot be: it would say so again.
            (None, None, Ok(status)) if status.code() == Some(WRONG_USE) => {
                return End::Refused(complaint.strip_prefix("error: ").unwrap_or(complaint).to_owned());
            }
            (None, None, Ok(status)) if complaint.is_empty() => format!("its process ended: {status}"),
            (None, None, Ok(status)) => format!("its process ended ({status}): {complaint}"),
            (None, _, Err(why)) => format!("its process cannot be waited for: {why}"),
        };
        End::Crashed(why)
    }
}

/// Says how a monitor has ended, or why none was started.
pub fn log_end(lane: Lane, end: &End) {
    match end {
        End::Clean => tracing::info!("job {}: ended", lane.job),
        End::Crashed(why) | End::Refused(why) | End::Crowded(why) => {
            tracing::warn!("job {}: {why}", lane.job)
        }
    }
}
