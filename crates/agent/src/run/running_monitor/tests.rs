//! Monitors of several jobs, with a script in place of the process; and how the end of a process is judged.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use stream::LossCount;

use super::*;
use crate::cgroups::ProcessBounds;
use crate::process::MonitorStart;
use crate::sharing::tests::{order, windowed};

#[test]
fn monitors_finish_on_success_or_request_only() {
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
        let process =
            (0..100).find_map(
                |_| match MonitorProcess::start(FIRST, &start, None, news.clone()) {
                    Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy => {
                        std::thread::sleep(Duration::from_millis(10));
                        None
                    }
                    started => Some(started.expect("it starts")),
                },
            );
        let identity = MonitorIdentity::of(&order(&[parser]), &[]);
        let until = Instant::now();
        let lane = |lane| MonitorLane::new(lane, TapTable::default(), until);
        let process = process.expect("no other process writes it");
        let mut running =
            RunningMonitor::new(process, JobCost::default(), identity.clone(), lane(FIRST));
        assert!(running.can_serve(identity.as_ref(), &TapTable::default()) && identity.is_some());
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
        // The input is closed: the text is complete when it no longer changes.
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

#[test]
fn a_late_job_gets_the_results_after_a_flush_and_its_open_windows_are_approximate() {
    const LATE: RecordLane = RecordLane {
        boot: 1,
        job: 9,
        attempt: 1,
    };
    let mut shared = SharedMonitor::start("http");
    let until = Instant::now();
    let late = MonitorLane::new(LATE, TapTable::default(), until);
    let identity = MonitorIdentity::of(&windowed(&["http"], 1_000), &[]);
    shared.running.identity.clone_from(&identity);
    let taps = TapTable::default();
    assert!(shared.running.can_serve(identity.as_ref(), &taps));
    shared.running.join(late);
    shared.running.watermark_ns = 5_000;
    shared.running.counts.loss = LossCount { seen: 70, lost: 7 };
    let SharedMonitor { running, spool, .. } = &mut shared;
    let records = |spool: &Spool| {
        let lanes = spool.lanes();
        lanes
            .iter()
            .find(|of| of.lane == LATE)
            .map_or(0, |of| of.newest)
    };
    let report = |loss| {
        let report = WorkerReport {
            epoch: 0,
            watermark: Timestamp(6_000),
            part: ReportPart::default(),
            loss,
            lost: None,
            limited: None,
            open: None,
        };
        MonitorFrame::Report(report.encode())
    };
    let loss = LossCount { seen: 100, lost: 8 };
    let reported = running.on_frame(report(running.counts.loss), spool);
    assert_eq!(reported, [FIRST, SECOND].map(AgentEvent::Reported));
    let last = running.last_words(&running.lanes[2], MonitorGoesOn::No);
    assert_eq!(
        collect::head(&last.payload).map(|head| head.loss),
        Ok(LossCount::default())
    );
    assert!(running.begin_late(0, Timestamp(5_500), spool).is_empty());
    assert_eq!(records(spool), 0, "an earlier flush");
    let begun = running.begin_late(1, Timestamp(6_500), spool);
    assert_eq!(begun, [AgentEvent::Reported(LATE)]);
    assert_eq!(records(spool), 1);
    assert_eq!(
        running.open_windows(Timestamp(6_500)),
        Some(stretch(Timestamp(5_000), Timestamp(6_500)))
    );
    let reported = running.on_frame(report(loss), spool);
    assert_eq!(reported, [FIRST, SECOND, LATE].map(AgentEvent::Reported));
    let last = running.last_words(&running.lanes[2], MonitorGoesOn::No);
    assert_eq!(
        collect::head(&last.payload).map(|head| head.loss),
        Ok(LossCount { seen: 30, lost: 1 })
    );
    assert!(running.begin_late(2, Timestamp(9_000), spool).is_empty());
    shared.lane(LATE).course = StopMode::Whole;
    shared.running.settle();
    let left = shared.running.take_flushed(2);
    assert_eq!(
        left.iter().map(|lane| lane.lane).collect::<Vec<_>>(),
        [LATE]
    );
    assert_eq!(shared.said(), ["flush", "flush"]);
}
