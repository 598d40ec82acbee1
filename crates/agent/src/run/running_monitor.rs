//! A running monitor with its state: messages, progress, and end.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;

use collect::{MonitorFrame, ReportContent, ReportPart, TAKEN, WAITING, WorkerReport};
use control::{AgentEvent, MonitorEnd};
use link::{DataRecord, PayloadFormat, RecordLane, Spool};
use plan::JobCost;
use stream::LossCount;
use wire::Timestamp;

use crate::process::MonitorProcess;

/// Exit code of a monitor whose request cannot be carried out.
const WRONG_USE: i32 = 2;

/// A running monitor with its state.
pub struct RunningMonitor {
    pub monitor: MonitorProcess,
    counters: BTreeMap<String, u64>,
    tuples: u64,
    watermark_ns: i64,
    loss: LossCount,
    /// Set after its last message; with the reason of an early end.
    closing: Option<Option<String>>,
    /// Reason why the agent has killed it.
    pub ended: Option<String>,
    /// Estimated cost.
    pub cost: JobCost,
    pub course: StopMode,
}

/// Whether a monitor has been asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// No.
    Going,
    /// Yes, with its job.
    Whole,
    /// Yes, although the server wants the job to continue: the lease has expired, or the agent ends.
    Cut,
}

impl RunningMonitor {
    pub fn new(monitor: MonitorProcess, cost: JobCost) -> RunningMonitor {
        RunningMonitor {
            monitor,
            counters: BTreeMap::new(),
            tuples: 0,
            watermark_ns: i64::MIN,
            loss: LossCount::default(),
            closing: None,
            ended: None,
            cost,
            course: StopMode::Going,
        }
    }

    /// Last reported number of packets read.
    pub fn packets(&self) -> u64 {
        self.counters.get("packets").copied().unwrap_or(0)
    }

    /// Kills it; only the first reason is kept.
    pub fn kill(&mut self, why: String) {
        self.ended.get_or_insert(why);
        self.monitor.kill();
    }

    pub fn on_frame(
        &mut self,
        lane: RecordLane,
        frame: MonitorFrame,
        spool: &mut Spool,
    ) -> Option<AgentEvent> {
        match frame {
            MonitorFrame::Started => Some(AgentEvent::Reported(lane)),
            MonitorFrame::Report(payload) => {
                let head = collect::head(&payload)
                    .inspect_err(|why| tracing::warn!("job {}: {why}", lane.job))
                    .ok()?;
                let watermark_ns = head.watermark.0;
                // With windows, the number is known only from the monitor's last account.
                let counted = self.counters.get("tuples").copied().unwrap_or(0);
                let (form, tuples) = match head.brings {
                    ReportContent::Rows(n) => (PayloadFormat::Tuples, n),
                    ReportContent::Windows => (PayloadFormat::Partial, counted.saturating_sub(self.tuples)),
                };
                spool.push(DataRecord {
                    lane,
                    watermark_ns,
                    from_ns: self.watermark_ns.min(watermark_ns),
                    tuples,
                    form: form.into(),
                    counters: self.counters.clone(),
                    payload: payload.into(),
                    ..DataRecord::default()
                });
                (self.tuples, self.watermark_ns, self.loss) = (counted, watermark_ns, head.loss);
                Some(AgentEvent::Reported(lane))
            }
            MonitorFrame::Account(counts) => {
                self.counters = counts.into_iter().collect();
                let used = self.counters.get(TAKEN).copied()?;
                let waits = self.counters.get(WAITING).is_some_and(|waiting| *waiting > 0);
                Some(AgentEvent::Used { lane, used, waits })
            }
            MonitorFrame::TookBack { grant, taken } => {
                Some(AgentEvent::TookBack { lane, allowed: taken, grant })
            }
            MonitorFrame::Closing { cut_short, .. } => {
                self.closing = Some(cut_short);
                None
            }
            // Sent by aggregators, not by monitors.
            MonitorFrame::Problem(_) => None,
        }
    }

    /// Last record of a complete monitor: its watermark and final counters. `is_last`: nothing follows in its lane.
    pub fn last_words(self, lane: RecordLane, is_last: bool) -> DataRecord {
        let report = WorkerReport {
            epoch: 0,
            watermark: Timestamp(self.watermark_ns),
            part: ReportPart::default(),
            loss: self.loss,
            lost: None,
            limited: None,
            open: None,
        };
        DataRecord {
            lane,
            watermark_ns: self.watermark_ns,
            from_ns: self.watermark_ns,
            form: PayloadFormat::Partial.into(),
            is_last,
            counters: self.counters,
            payload: report.encode().into(),
            ..DataRecord::default()
        }
    }

    /// End of the monitor.
    pub fn ending(&self, lane: RecordLane, status: &io::Result<ExitStatus>, complaint: &str) -> MonitorEnd {
        match &self.ended {
            Some(why) => MonitorEnd::Crashed(why.clone()),
            None if self.monitor.was_killed_for_memory() => {
                MonitorEnd::Crashed("the kernel killed it because it ran out of memory".to_owned())
            }
            None => judge(self.closing.as_ref(), (self.course, lane.attempt), status, complaint),
        }
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
        (Some(Some(why)), Ok(_)) if course == StopMode::Going => return MonitorEnd::Early(why.clone()),
        (Some(why), Ok(_)) if course != StopMode::Going => {
            tracing::warn!("{}", why.as_deref().unwrap_or(complaint));
            return MonitorEnd::Clean;
        }
        // A retry would fail in the same way. If an earlier attempt ran, its interface is missing now.
        (None, Ok(status)) if status.code() == Some(WRONG_USE) && attempt == 1 => {
            return MonitorEnd::Refused(complaint.strip_prefix("error: ").unwrap_or(complaint).to_owned());
        }
        // Also if its source or a worker failed: its results are complete, but the input was not.
        (_, Ok(status)) if complaint.is_empty() => format!("its process ended: {status}"),
        (_, Ok(status)) => format!("its process ended ({status}): {complaint}"),
        (_, Err(why)) => format!("its process cannot be waited for: {why}"),
    };
    MonitorEnd::Crashed(why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn only_a_monitor_that_succeeded_or_was_told_to_end_has_finished() {
        use StopMode::{Cut, Going, Whole};
        let crashed = |why: &str| MonitorEnd::Crashed(why.into());
        let said = |why: Option<&str>| Some(why.map(str::to_owned));
        let failed = "error: eth0: the interface is gone";
        let missing = "its process ended (exit status: 2): error: no";
        for (closing, course, attempt, code, complaint, expected) in [
            (said(None), Going, 1, 0, "", MonitorEnd::Clean),
            (said(None), Whole, 1, 0, "", MonitorEnd::Clean),
            (
                said(None),
                Going,
                1,
                1,
                failed,
                crashed(&format!("its process ended (exit status: 1): {failed}")),
            ),
            (said(None), Going, 1, 1, "", crashed("its process ended: exit status: 1")),
            (said(None), Whole, 1, 1, failed, MonitorEnd::Clean),
            (said(None), Cut, 1, 1, failed, MonitorEnd::Clean),
            (said(Some("its lease")), Going, 1, 1, "", MonitorEnd::Early("its lease".into())),
            (said(Some("its lease")), Cut, 1, 1, "", MonitorEnd::Clean),
            (None, Going, 1, 2, "error: no", MonitorEnd::Refused("no".into())),
            (None, Going, 2, 2, "error: no", crashed(missing)),
            (None, Whole, 1, 0, "", crashed("its process ended: exit status: 0")),
        ] {
            let status = Ok(ExitStatus::from_raw(code << 8));
            assert_eq!(
                judge(closing.as_ref(), (course, attempt), &status, complaint),
                expected,
                "{closing:?} {course:?} {code}"
            );
        }
    }
}
