//! A running monitor with its state: the jobs that it serves, messages, progress, and end.

use std::io;
use std::process::ExitStatus;
use std::time::Instant;

use bytes::Bytes;
use collect::{MonitorFrame, ReportContent, ReportPart, TAKEN, WAITING, WorkerReport};
use control::{AgentEvent, MonitorEnd};
use link::{DataRecord, PayloadFormat, RecordLane, Spool};
use plan::{JobCost, TapTable};
use stream::LimitedStretch;
use wire::Timestamp;

use super::monitor_lane::{LaneResults, MonitorCounts, MonitorLane, StopMode};
use crate::process::MonitorProcess;
use crate::sharing::MonitorIdentity;

/// Exit code of a monitor whose request cannot be carried out.
const WRONG_USE: i32 = 2;
/// Counter of the jobs that a monitor serves, if there are several.
const MONITOR_JOBS: &str = "monitor_jobs";
const OTHER_TAPS: &str =
    "the agents of the job differ from those of the jobs that share its monitor";

/// A running monitor with its state, and the jobs that it serves.
pub struct RunningMonitor {
    pub monitor: MonitorProcess,
    /// `None`: the monitor serves one job only.
    identity: Option<MonitorIdentity>,
    pub lanes: Vec<MonitorLane>,
    counts: MonitorCounts,
    tuples: u64,
    watermark_ns: i64,
    /// Set after the monitor's last message; contains the reason of an early end.
    closing: Option<Option<String>>,
    /// Reason why the agent has killed the monitor.
    pub ended: Option<String>,
    /// Estimated cost.
    pub cost: JobCost,
    phase: CapturePhase,
    /// Tap table of the job.
    taps: TapTable,
    /// End of its lease: that of the last job.
    until: Instant,
    /// Number of the last flush.
    flushes: u64,
}

/// Whether a monitor continues after the end of one of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorGoesOn {
    Yes,
    No,
}

/// Phase of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CapturePhase {
    /// The monitor does not capture yet.
    Opening,
    Capturing,
    /// The monitor was asked to send its last results.
    Stopping,
}

impl RunningMonitor {
    pub fn new(
        monitor: MonitorProcess,
        cost: JobCost,
        identity: Option<MonitorIdentity>,
        lane: MonitorLane,
    ) -> RunningMonitor {
        RunningMonitor {
            monitor,
            identity,
            counts: MonitorCounts::default(),
            tuples: 0,
            watermark_ns: i64::MIN,
            closing: None,
            ended: None,
            cost,
            phase: CapturePhase::Opening,
            taps: lane.taps.clone(),
            until: lane.until,
            flushes: 0,
            lanes: vec![lane],
        }
    }

    /// Whether the monitor can serve another job.
    pub fn can_serve(&self, identity: Option<&MonitorIdentity>, taps: &TapTable) -> bool {
        self.phase != CapturePhase::Stopping
            && self.ended.is_none()
            && self.identity.is_some()
            && self.identity.as_ref() == identity
            && self.taps == *taps
    }

    /// Serves another job. If it captures already, the job gets the results after a flush.
    pub fn join(&mut self, lane: MonitorLane) {
        let results = match self.phase {
            CapturePhase::Opening => LaneResults::All,
            CapturePhase::Capturing | CapturePhase::Stopping => {
                self.flushes += 1;
                self.monitor.flush(self.flushes);
                LaneResults::AfterFlush(self.flushes)
            }
        };
        self.lanes.push(MonitorLane { results, ..lane });
    }

    /// Last reported number of packets read.
    pub fn packets(&self) -> u64 {
        self.counts.counters.get("packets").copied().unwrap_or(0)
    }

    /// Kills the monitor; only the first reason is stored.
    pub fn kill(&mut self, why: String) {
        self.ended.get_or_insert(why);
        self.monitor.kill();
    }

    /// Applies changes of its lanes to the process: jobs that end while others continue leave after a flush; the last ones
    /// end the process. The process has the longest lease and the tap table of those that stay.
    pub fn settle(&mut self) {
        let Some(table) = self
            .lanes
            .iter()
            .find(|lane| lane.stays())
            .map(|lane| lane.taps.clone())
        else {
            if self.phase != CapturePhase::Stopping {
                self.phase = CapturePhase::Stopping;
                self.monitor.stop();
            }
            return;
        };
        if table != self.taps {
            self.monitor.retap(&table);
            self.taps = table;
        }
        for lane in self
            .lanes
            .iter_mut()
            .filter(|lane| lane.stays() && lane.taps != self.taps)
        {
            lane.early = Some(OTHER_TAPS.into());
        }
        let staying = self.lanes.iter().filter(|lane| lane.stays());
        let until = staying.map(|lane| lane.until).max().unwrap_or(self.until);
        if until > self.until {
            self.until = until;
            self.monitor
                .renew(until.saturating_duration_since(Instant::now()));
        }
        let mut leaving = self
            .lanes
            .iter_mut()
            .filter(|lane| !lane.stays() && lane.leaving.is_none())
            .peekable();
        if leaving.peek().is_some() {
            self.flushes += 1;
            leaving.for_each(|lane| lane.leaving = Some(self.flushes));
            self.monitor.flush(self.flushes);
        }
    }

    pub fn on_frame(&mut self, frame: MonitorFrame, spool: &mut Spool) -> Vec<AgentEvent> {
        let served = self.lanes.iter().filter(|lane| lane.gets_results());
        let lanes = served.clone().map(|lane| lane.lane);
        match frame {
            MonitorFrame::Started => {
                if self.phase == CapturePhase::Opening {
                    self.phase = CapturePhase::Capturing;
                }
                lanes.map(AgentEvent::Reported).collect()
            }
            MonitorFrame::Report(payload) => {
                let head = collect::head(&payload);
                let head = head.inspect_err(|why| {
                    lanes
                        .clone()
                        .for_each(|lane| tracing::warn!("job {}: {why}", lane.job));
                });
                let Ok(head) = head else { return Vec::new() };
                let watermark_ns = head.watermark.0;
                // With windows, the number is known only from the monitor's last account.
                let counted = self.counts.counters.get("tuples").copied().unwrap_or(0);
                let (form, tuples) = match head.brings {
                    ReportContent::Rows(n) => (PayloadFormat::Tuples, n),
                    ReportContent::Windows => {
                        (PayloadFormat::Partial, counted.saturating_sub(self.tuples))
                    }
                };
                let payload = Bytes::from(payload);
                for lane in served {
                    spool.push(DataRecord {
                        lane: lane.lane,
                        watermark_ns,
                        from_ns: self.watermark_ns.min(watermark_ns),
                        tuples,
                        form: form.into(),
                        counters: lane.counters(&self.counts),
                        payload: lane.report(&payload),
                        ..DataRecord::default()
                    });
                }
                self.tuples = counted;
                self.watermark_ns = watermark_ns;
                self.counts.loss = head.loss;
                lanes.map(AgentEvent::Reported).collect()
            }
            MonitorFrame::Account(counts) => {
                let counters = &mut self.counts.counters;
                *counters = counts.into_iter().collect();
                let jobs = self.lanes.len() as u64;
                counters.extend((jobs > 1).then(|| (MONITOR_JOBS.to_owned(), jobs)));
                let Some(used) = counters.get(TAKEN).copied() else {
                    return Vec::new();
                };
                let waits = counters.get(WAITING).is_some_and(|waiting| *waiting > 0);
                lanes
                    .map(|lane| AgentEvent::Used { lane, used, waits })
                    .collect()
            }
            MonitorFrame::TookBack { grant, taken } => lanes
                .map(|lane| AgentEvent::TookBack {
                    lane,
                    allowed: taken,
                    grant,
                })
                .collect(),
            MonitorFrame::Closing { cut_short, .. } => {
                self.closing = Some(cut_short);
                Vec::new()
            }
            // Problems are sent by aggregators, not by monitors; flushes are handled by the caller.
            MonitorFrame::Problem(_) | MonitorFrame::Flushed { .. } => Vec::new(),
        }
    }

    /// Begins the results of the jobs that waited for this flush. The windows that are open at `until` lack the results
    /// before, so they are approximate.
    pub fn begin_late(
        &mut self,
        number: u64,
        until: Timestamp,
        spool: &mut Spool,
    ) -> Vec<AgentEvent> {
        let open = self.open_windows(until);
        let mut begun = Vec::new();
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at];
            if matches!(lane.results, LaneResults::AfterFlush(flush) if flush <= number) {
                lane.results = LaneResults::Since(Box::new(self.counts.clone()));
                begun.push(AgentEvent::Reported(lane.lane));
                spool.push(self.record(&self.lanes[at], open));
            }
        }
        begun
    }

    /// Removes the lanes that leave after this flush. While the process ends, they wait for its last results.
    pub fn take_flushed(&mut self, number: u64) -> Vec<MonitorLane> {
        if self.phase == CapturePhase::Stopping {
            return Vec::new();
        }
        self.lanes
            .extract_if(.., |lane| {
                lane.leaving.is_some_and(|leaving| leaving <= number)
            })
            .collect()
    }

    /// Removes a lane that has not left in time; `None` if the process serves no other job.
    pub fn take_overdue(&mut self, lane: RecordLane) -> Option<MonitorLane> {
        let has_others = self
            .lanes
            .iter()
            .any(|other| other.lane != lane && other.stays());
        let at = self
            .lanes
            .iter()
            .position(|one| one.lane == lane)
            .filter(|_| has_others)?;
        Some(self.lanes.remove(at))
    }

    /// Last record of a lane whose results are complete: the watermark and the final counters. A monitor that continues has
    /// not reported requests without a response; so the lane's last window is approximate.
    pub fn last_words(&self, lane: &MonitorLane, goes_on: MonitorGoesOn) -> DataRecord {
        let reports_unanswered = || {
            let identity = self.identity.as_ref();
            identity.is_some_and(MonitorIdentity::reports_unanswered)
        };
        let at = Timestamp(self.watermark_ns);
        let limited = match lane.results {
            _ if self.watermark_ns == i64::MIN => None,
            LaneResults::AfterFlush(_) => self.open_windows(at),
            _ if goes_on == MonitorGoesOn::Yes && reports_unanswered() => Some(stretch(at, at)),
            _ => None,
        };
        DataRecord {
            is_last: true,
            ..self.record(lane, limited)
        }
    }

    /// Period of the windows that are open at `until`; `None`: the results have no windows.
    fn open_windows(&self, until: Timestamp) -> Option<LimitedStretch> {
        let lateness_ns = self.identity.as_ref()?.lateness_ns()?;
        let from = Timestamp(self.watermark_ns.saturating_sub(lateness_ns));
        Some(stretch(from, until.max(from)))
    }

    /// A record of the current state without results. `limited`: windows that are approximate.
    fn record(&self, lane: &MonitorLane, limited: Option<LimitedStretch>) -> DataRecord {
        let report = WorkerReport {
            epoch: 0,
            watermark: Timestamp(self.watermark_ns),
            part: ReportPart::default(),
            loss: lane.loss(&self.counts),
            lost: None,
            limited,
            open: None,
        };
        DataRecord {
            lane: lane.lane,
            watermark_ns: self.watermark_ns,
            from_ns: self.watermark_ns,
            form: PayloadFormat::Partial.into(),
            counters: lane.counters(&self.counts),
            payload: report.encode().into(),
            ..DataRecord::default()
        }
    }

    /// End of the monitor for one of its lanes.
    pub fn ending(
        &self,
        lane: &MonitorLane,
        status: &io::Result<ExitStatus>,
        complaint: &str,
    ) -> MonitorEnd {
        match &self.ended {
            Some(why) => MonitorEnd::Crashed(why.clone()),
            None if self.monitor.was_killed_for_memory() => {
                MonitorEnd::Crashed("the kernel killed it because it ran out of memory".to_owned())
            }
            None => {
                let course = (lane.course, lane.lane.attempt);
                lane.ended(judge(self.closing.as_ref(), course, status, complaint))
            }
        }
    }
}

fn stretch(from: Timestamp, to: Timestamp) -> LimitedStretch {
    LimitedStretch {
        from_ns: from.0,
        to_ns: to.0,
        times: 1,
    }
}

/// End of a monitor not killed by the agent. `closing`: set after its last message, with the reason of an early end.
fn judge(
    closing: Option<&Option<String>>,
    (course, attempt): (StopMode, u32),
    status: &io::Result<ExitStatus>,
    complaint: &str,
) -> MonitorEnd {
    let why = match (closing, status) {
        (Some(None), Ok(status)) if status.success() => return MonitorEnd::Clean,
        (Some(Some(why)), Ok(_)) if course == StopMode::Going => {
            return MonitorEnd::Early(why.clone());
        }
        (Some(why), Ok(_)) if course != StopMode::Going => {
            tracing::warn!("{}", why.as_deref().unwrap_or(complaint));
            return MonitorEnd::Clean;
        }
        // A retry would fail in the same way. If an earlier attempt ran, its interface is missing now.
        (None, Ok(status)) if status.code() == Some(WRONG_USE) && attempt == 1 => {
            return MonitorEnd::Refused(
                complaint
                    .strip_prefix("error: ")
                    .unwrap_or(complaint)
                    .to_owned(),
            );
        }
        // Also if the source or a worker failed: the results are complete, but the input was not.
        (_, Ok(status)) if complaint.is_empty() => format!("its process ended: {status}"),
        (_, Ok(status)) => format!("its process ended ({status}): {complaint}"),
        (_, Err(why)) => format!("its process cannot be waited for: {why}"),
    };
    MonitorEnd::Crashed(why)
}

#[cfg(test)]
mod tests;
