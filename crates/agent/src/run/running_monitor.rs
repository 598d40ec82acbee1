//! A running monitor with its state: the jobs that it serves, messages, progress, and end.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;
use std::time::Instant;

use bytes::Bytes;
use collect::{MonitorFrame, ReportContent, ReportPart, TAKEN, WAITING, WorkerReport};
use control::{AgentEvent, MonitorEnd};
use link::{DataRecord, PayloadFormat, RecordLane, Spool};
use plan::{JobCost, TapTable};
use stream::{LimitedStretch, LossCount};
use wire::Timestamp;

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
    /// `None`: it serves one job only.
    identity: Option<MonitorIdentity>,
    pub lanes: Vec<MonitorLane>,
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
    phase: CapturePhase,
    /// Its tap table.
    taps: TapTable,
    /// End of its lease: that of the last job.
    until: Instant,
    /// Number of the last flush.
    flushes: u64,
}

/// A job that a monitor serves.
#[derive(Debug)]
pub struct MonitorLane {
    pub lane: RecordLane,
    pub course: StopMode,
    /// Its tap table.
    pub taps: TapTable,
    /// End of its lease.
    pub until: Instant,
    /// Reason to leave before the end of the job.
    early: Option<String>,
    /// It leaves the monitor after this flush.
    leaving: Option<u64>,
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

/// Whether a monitor continues after the end of one of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorGoesOn {
    Yes,
    No,
}

/// Phase of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CapturePhase {
    /// It does not capture yet.
    Opening,
    Capturing,
    /// It was asked for its last results.
    Stopping,
}

impl MonitorLane {
    pub fn new(lane: RecordLane, taps: TapTable, until: Instant) -> MonitorLane {
        MonitorLane {
            lane,
            course: StopMode::Going,
            taps,
            until,
            early: None,
            leaving: None,
        }
    }

    fn stays(&self) -> bool {
        self.course == StopMode::Going && self.early.is_none()
    }
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
            counters: BTreeMap::new(),
            tuples: 0,
            watermark_ns: i64::MIN,
            loss: LossCount::default(),
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

    /// Whether it can serve another job: only while it does not capture, so that all its jobs begin with the same packet.
    pub fn can_serve(&self, identity: Option<&MonitorIdentity>, taps: &TapTable) -> bool {
        self.phase == CapturePhase::Opening
            && self.ended.is_none()
            && self.identity.is_some()
            && self.identity.as_ref() == identity
            && self.taps == *taps
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
        let lanes = self.lanes.iter().map(|lane| lane.lane);
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
                let counted = self.counters.get("tuples").copied().unwrap_or(0);
                let (form, tuples) = match head.brings {
                    ReportContent::Rows(n) => (PayloadFormat::Tuples, n),
                    ReportContent::Windows => {
                        (PayloadFormat::Partial, counted.saturating_sub(self.tuples))
                    }
                };
                let payload = Bytes::from(payload);
                for lane in lanes.clone() {
                    spool.push(DataRecord {
                        lane,
                        watermark_ns,
                        from_ns: self.watermark_ns.min(watermark_ns),
                        tuples,
                        form: form.into(),
                        counters: self.counters.clone(),
                        payload: payload.clone(),
                        ..DataRecord::default()
                    });
                }
                (self.tuples, self.watermark_ns, self.loss) = (counted, watermark_ns, head.loss);
                lanes.map(AgentEvent::Reported).collect()
            }
            MonitorFrame::Account(counts) => {
                self.counters = counts.into_iter().collect();
                let jobs = self.lanes.len() as u64;
                self.counters
                    .extend((jobs > 1).then(|| (MONITOR_JOBS.to_owned(), jobs)));
                let Some(used) = self.counters.get(TAKEN).copied() else {
                    return Vec::new();
                };
                let waits = self
                    .counters
                    .get(WAITING)
                    .is_some_and(|waiting| *waiting > 0);
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
            MonitorFrame::Problem(_) | MonitorFrame::Flushed(_) => Vec::new(),
        }
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
        let lacks_unanswered = goes_on == MonitorGoesOn::Yes
            && self.watermark_ns > i64::MIN
            && self
                .identity
                .as_ref()
                .is_some_and(MonitorIdentity::reports_unanswered);
        let (from_ns, to_ns) = (self.watermark_ns, self.watermark_ns);
        let report = WorkerReport {
            epoch: 0,
            watermark: Timestamp(self.watermark_ns),
            part: ReportPart::default(),
            loss: self.loss,
            lost: None,
            limited: lacks_unanswered.then_some(LimitedStretch {
                from_ns,
                to_ns,
                times: 1,
            }),
            open: None,
        };
        DataRecord {
            lane: lane.lane,
            watermark_ns: self.watermark_ns,
            from_ns: self.watermark_ns,
            form: PayloadFormat::Partial.into(),
            is_last: true,
            counters: self.counters.clone(),
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

impl MonitorLane {
    /// The end of a monitor as that of this lane, which may leave before the end of its job.
    pub fn ended(&self, end: MonitorEnd) -> MonitorEnd {
        match &self.early {
            Some(why) if end == MonitorEnd::Clean && self.course == StopMode::Going => {
                MonitorEnd::Early(why.clone())
            }
            _ => end,
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
        // Also if its source or a worker failed: its results are complete, but the input was not.
        (_, Ok(status)) if complaint.is_empty() => format!("its process ended: {status}"),
        (_, Ok(status)) => format!("its process ended ({status}): {complaint}"),
        (_, Err(why)) => format!("its process cannot be waited for: {why}"),
    };
    MonitorEnd::Crashed(why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    use super::*;
    use crate::cgroups::ProcessBounds;
    use crate::process::MonitorStart;
    use crate::sharing::tests::order;

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
            (
                said(None),
                Going,
                1,
                1,
                "",
                crashed("its process ended: exit status: 1"),
            ),
            (said(None), Whole, 1, 1, failed, MonitorEnd::Clean),
            (said(None), Cut, 1, 1, failed, MonitorEnd::Clean),
            (
                said(Some("its lease")),
                Going,
                1,
                1,
                "",
                MonitorEnd::Early("its lease".into()),
            ),
            (said(Some("its lease")), Cut, 1, 1, "", MonitorEnd::Clean),
            (
                None,
                Going,
                1,
                2,
                "error: no",
                MonitorEnd::Refused("no".into()),
            ),
            (None, Going, 2, 2, "error: no", crashed(missing)),
            (
                None,
                Whole,
                1,
                0,
                "",
                crashed("its process ended: exit status: 0"),
            ),
        ] {
            let status = Ok(ExitStatus::from_raw(code << 8));
            assert_eq!(
                judge(closing.as_ref(), (course, attempt), &status, complaint),
                expected,
                "{closing:?} {course:?} {code}"
            );
        }
    }

    const FIRST: RecordLane = RecordLane {
        boot: 1,
        job: 7,
        attempt: 1,
    };
    const SECOND: RecordLane = RecordLane {
        boot: 1,
        job: 8,
        attempt: 4,
    };

    /// A monitor of two jobs, and its commands in the order in which it receives them.
    struct SharedMonitor {
        running: RunningMonitor,
        folder: tempfile::TempDir,
        spool: Spool,
    }

    impl SharedMonitor {
        fn start(parser: &str) -> SharedMonitor {
            let folder = tempfile::tempdir().expect("a folder");
            let program = folder.path().join("monitor");
            let said = folder.path().join("said");
            let script = format!(
                "#!/bin/sh\nhead -c 4 >/dev/null\nexec cat >{}\n",
                said.display()
            );
            std::fs::write(&program, script).expect("written");
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a mode");
            let (news, _) = tokio::sync::mpsc::channel(1);
            let bounds = ProcessBounds {
                memory_max: 1 << 40,
                cores: 1,
            };
            let start = MonitorStart {
                program: &program,
                arguments: &[],
                order: b"",
                bounds,
            };
            // A process forked concurrently by another test may briefly hold the file open for writing.
            let process = (0..100).find_map(|_| {
                match MonitorProcess::start(FIRST, &start, None, news.clone()) {
                    Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy => {
                        std::thread::sleep(Duration::from_millis(10));
                        None
                    }
                    started => Some(started.expect("it starts")),
                }
            });
            let identity = MonitorIdentity::of(&order(&[parser]), &[]);
            let until = Instant::now();
            let lane = |lane| MonitorLane::new(lane, TapTable::default(), until);
            let process = process.expect("no other process writes it");
            let mut running =
                RunningMonitor::new(process, JobCost::default(), identity.clone(), lane(FIRST));
            assert!(
                running.can_serve(identity.as_ref(), &TapTable::default()) && identity.is_some()
            );
            running.lanes.push(lane(SECOND));
            let limits = link::SpoolLimits::default();
            let spool = Spool::open(Box::new(link::NoDisk), limits, 1);
            let mut shared = SharedMonitor {
                running,
                folder,
                spool,
            };
            let report = shared
                .running
                .last_words(&shared.running.lanes[0], MonitorGoesOn::No)
                .payload;
            let started = shared
                .running
                .on_frame(MonitorFrame::Started, &mut shared.spool);
            assert_eq!(started, [FIRST, SECOND].map(AgentEvent::Reported));
            assert!(
                !shared
                    .running
                    .can_serve(identity.as_ref(), &TapTable::default()),
                "it captures"
            );
            shared.running.on_frame(
                MonitorFrame::Account(vec![("tuples".into(), 3)]),
                &mut shared.spool,
            );
            shared
                .running
                .on_frame(MonitorFrame::Report(report.to_vec()), &mut shared.spool);
            shared
        }

        fn lane(&mut self, lane: RecordLane) -> &mut MonitorLane {
            self.running
                .lanes
                .iter_mut()
                .find(|one| one.lane == lane)
                .expect("it is served")
        }

        /// Commands; the process ends.
        fn said(self) -> Vec<String> {
            let SharedMonitor {
                running, folder, ..
            } = self;
            drop(running);
            let path = folder.path().join("said");
            let mut before = None;
            // Its input is closed: the text is complete when it no longer changes.
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(50));
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                if !text.is_empty() && before.as_ref() == Some(&text) {
                    break;
                }
                before = Some(text);
            }
            before
                .unwrap_or_default()
                .lines()
                .map(|line| line.split(' ').next().unwrap_or(line).into())
                .collect()
        }
    }

    #[test]
    fn a_job_leaves_a_monitor_of_several_and_the_last_one_ends_it() {
        let mut shared = SharedMonitor::start("http");
        let records = shared
            .spool
            .lanes()
            .iter()
            .map(|lane| (lane.lane, lane.newest))
            .collect::<Vec<_>>();
        assert_eq!(records, [(FIRST, 1), (SECOND, 1)], "both get each report");
        shared.lane(FIRST).course = StopMode::Whole;
        shared.running.settle();
        shared.running.settle();
        assert!(
            shared.running.take_flushed(0).is_empty(),
            "an earlier flush"
        );
        let left = shared.running.take_flushed(1);
        assert_eq!(
            left.iter().map(|lane| lane.lane).collect::<Vec<_>>(),
            [FIRST]
        );
        assert_eq!(left[0].ended(MonitorEnd::Clean), MonitorEnd::Clean);
        shared.lane(SECOND).until = Instant::now() + Duration::from_secs(60);
        shared.running.settle();
        shared.lane(SECOND).course = StopMode::Whole;
        shared.running.settle();
        assert_eq!(shared.said(), ["flush", "renew", "end"]);
    }

    #[test]
    fn jobs_that_end_together_get_the_last_results() {
        let mut shared = SharedMonitor::start("http");
        shared.lane(FIRST).course = StopMode::Cut;
        shared.running.settle();
        shared.lane(SECOND).course = StopMode::Cut;
        shared.running.settle();
        assert!(
            shared.running.take_flushed(1).is_empty(),
            "it ends, so its last results follow"
        );
        assert_eq!(shared.said(), ["flush", "end"]);
    }

    #[test]
    fn a_job_with_other_taps_leaves_and_one_that_does_not_leave_in_time_is_removed() {
        let mut shared = SharedMonitor::start("http");
        let taps = TapTable {
            own: Vec::new(),
            others: vec!["10.0.0.1".parse().expect("an address")],
        };
        shared.lane(FIRST).taps = taps.clone();
        shared.lane(SECOND).taps = taps.clone();
        shared.running.settle();
        shared.lane(SECOND).taps = TapTable::default();
        shared.running.settle();
        let left = shared.running.take_flushed(1);
        assert_eq!(
            left[0].ended(MonitorEnd::Clean),
            MonitorEnd::Early(OTHER_TAPS.into())
        );
        assert!(
            shared.running.take_overdue(FIRST).is_none(),
            "it is the last one"
        );
        shared.running.lanes.extend(left);
        shared.lane(FIRST).course = StopMode::Whole;
        shared.lane(SECOND).early = None;
        assert_eq!(
            shared.running.take_overdue(FIRST).map(|lane| lane.lane),
            Some(FIRST)
        );
        assert_eq!(shared.said(), ["taps", "flush"]);
    }

    #[test]
    fn the_last_window_of_a_job_that_leaves_lacks_requests_without_a_response() {
        for (parser, goes_on, is_marked) in [
            ("http", MonitorGoesOn::Yes, true),
            ("http", MonitorGoesOn::No, false),
            ("packet", MonitorGoesOn::Yes, false),
        ] {
            let mut shared = SharedMonitor::start(parser);
            shared.running.watermark_ns = 5;
            let last = shared.running.last_words(&shared.running.lanes[0], goes_on);
            // Version 2 of a report has the time of limits.
            assert_eq!(last.payload[0] == 2, is_marked, "{parser} {goes_on:?}");
            assert_eq!(
                (last.lane, last.watermark_ns, last.is_last),
                (FIRST, 5, true)
            );
        }
    }
}
