//! Processes of one query, each a lane of one collector: started, read, and stopped. A query has such a team, and an
//! aggregator has one of its pod's monitors. A process that ends early is reported as a problem, and the others
//! continue.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use collect::{
    Collector, IgnoreCoverage, LaneId, MonitorFrame, ReportPart, TakeRows, WorkerReport,
};
use runner::MonitorInput;
use stream::{EngineOutput, LimitedStretch, LossCount, OutputConsumer};
use wire::Timestamp;

use super::process_problems::ProcessProblems;
use super::processes::{ProcessEventSink, ProcessStart, RemoteProcess, RemoteProcessEvent};

/// Maximum messages not read yet; further senders wait. It also holds messages that arrive before all processes have
/// started.
const SAID_MAX: usize = 64;

/// See the module documentation.
pub struct ProcessGroup {
    /// Running processes.
    pub processes: Vec<RemoteProcess>,
    /// Merge of their results.
    pub collector: Collector,
    /// Problems.
    pub problems: ProcessProblems,
    counts: Vec<MonitorInput>,
    ears: ProcessEventSink,
    started: Receiver<(usize, Result<(), String>)>,
    said: Receiver<(usize, RemoteProcessEvent)>,
}

/// Messages other than results, each with the number of the process.
pub enum ProcessReport {
    /// Counters.
    Counted(usize, Vec<(String, u64)>),
    /// The process has ended.
    Gone(usize),
}

impl ProcessGroup {
    /// An empty team.
    pub fn new(collector: Collector) -> ProcessGroup {
        let (tell, said) = mpsc::sync_channel(SAID_MAX);
        let (tell_start, started) = mpsc::channel();
        let ears = ProcessEventSink {
            started: tell_start,
            said: tell,
        };
        let (processes, problems, counts) = Default::default();
        ProcessGroup {
            processes,
            collector,
            problems,
            counts,
            ears,
            started,
            said,
        }
    }

    /// Starts a process.
    pub fn start(&mut self, starting: &ProcessStart<'_>) -> anyhow::Result<()> {
        let at = self.processes.len();
        let process = RemoteProcess::start(at, starting, self.ears.clone())
            .with_context(|| format!("cannot start the {} on {}", starting.what, starting.host))?;
        self.processes.push(process);
        self.counts.push(MonitorInput::default());
        self.collector.join(lane(at));
        Ok(())
    }

    /// Waits until all processes have opened their captures.
    pub fn wait_for_start(&mut self, most: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        while let Some(waiting) = self.processes.iter().find(|process| !process.is_started) {
            let name = waiting.name.clone();
            match self
                .started
                .recv_timeout(most.saturating_sub(begun.elapsed()))
            {
                Ok((at, Ok(()))) => self.processes[at].is_started = true,
                Ok((at, Err(why))) => bail!("{} has ended: {why}", self.processes[at].name),
                Err(_) => bail!("{name} has not started for {} s", most.as_secs()),
            }
        }
        Ok(())
    }

    /// Marks the windows of a period in which packets were not copied yet as approximate, before the first message is
    /// handled.
    pub fn mark_partial(&mut self, from: Timestamp, to: Timestamp) {
        let limited = LimitedStretch {
            from_ns: from.0,
            to_ns: to.0,
            times: 1,
        };
        let report = WorkerReport {
            epoch: 0,
            watermark: Timestamp::MIN,
            part: ReportPart::default(),
            loss: LossCount::default(),
            lost: None,
            limited: Some(limited),
            open: None,
        };
        self.collector
            .take(lane(0), report, &mut IgnoreCoverage(&mut NoRows));
    }

    /// Whether the output of all processes is complete.
    pub fn is_over(&self) -> bool {
        self.processes.iter().all(|process| process.has_said_all)
    }

    /// Handles the next message, waiting up to `patience`.
    pub fn hear(&mut self, patience: Duration, out: &mut dyn TakeRows) -> Option<ProcessReport> {
        let (at, said) = self.said.recv_timeout(patience).ok()?;
        let name = &self.processes[at].name;
        match said {
            RemoteProcessEvent::Frame(MonitorFrame::Report(bytes)) => {
                let counts = &mut self.counts[at];
                (counts.reports, counts.bytes) =
                    (counts.reports + 1, counts.bytes + bytes.len() as u64);
                match self.collector.decode(&bytes) {
                    Ok(report) => self.collector.take(lane(at), report, out),
                    Err(why) => {
                        counts.malformed += 1;
                        self.problems.add(format!("{name} has sent a {why}"));
                    }
                }
                None
            }
            RemoteProcessEvent::Frame(MonitorFrame::Account(counted)) => {
                let counts = &mut self.counts[at];
                for (name, n) in &counted {
                    match name.as_str() {
                        "packets" => counts.packets = *n,
                        "tuples" => counts.tuples = *n,
                        "lost" => counts.lost = *n,
                        "sampled_out" => counts.sampled_out = *n,
                        "cut_off" => counts.cut_off = *n,
                        _ => {}
                    }
                }
                Some(ProcessReport::Counted(at, counted))
            }
            RemoteProcessEvent::Frame(MonitorFrame::Problem(text)) => {
                self.problems.add(format!("{name}: {text}"));
                None
            }
            RemoteProcessEvent::Frame(MonitorFrame::Closing { .. }) => {
                self.processes[at].has_said_all = true;
                self.collector.finish(lane(at), out);
                Some(ProcessReport::Gone(at))
            }
            RemoteProcessEvent::Frame(
                MonitorFrame::Started
                | MonitorFrame::TookBack { .. }
                | MonitorFrame::Flushed { .. },
            ) => None,
            RemoteProcessEvent::Gone(why) => {
                if !self.processes[at].has_said_all {
                    self.problems.add(format!("{name} ended early: {why}"));
                    self.processes[at].has_said_all = true;
                    self.collector.lost(lane(at), out);
                }
                Some(ProcessReport::Gone(at))
            }
        }
    }

    /// Stops all processes, reads their remaining results, and closes open windows. The callback receives each [`ProcessReport`].
    pub fn end(
        &mut self,
        most: Duration,
        out: &mut dyn TakeRows,
        heed: &mut dyn FnMut(ProcessReport),
    ) {
        self.processes.iter_mut().for_each(RemoteProcess::end);
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < most {
            if let Some(heard) = self.hear(most.saturating_sub(begun.elapsed()), out) {
                heed(heard);
            }
        }
        for silent in self
            .processes
            .iter()
            .filter(|process| !process.has_said_all)
        {
            self.problems
                .add(format!("{} did not stop when requested", silent.name));
        }
        self.collector.end(out);
    }

    /// Sum of all counters.
    pub fn counts(&self) -> MonitorInput {
        let mut all = MonitorInput::default();
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
        all
    }
}

/// Rows before the first message: none.
struct NoRows;

impl OutputConsumer for NoRows {
    fn take(&mut self, _: EngineOutput) {}
}

fn lane(at: usize) -> LaneId {
    LaneId(at as u64)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use stream::{EngineConfig, EngineSet};
    use tempfile::TempDir;

    use super::*;

    /// Test programs: write the first frames, run a command, and write the last frames.
    fn team(
        folder: &TempDir,
        programs: &[(&[MonitorFrame], &str, &[MonitorFrame])],
    ) -> ProcessGroup {
        let mut names = crate::render::hosts::HostNames::default();
        let query = crate::cli::query_text::CommandQuery::new("PARSE tcp_conn_time FROM * TO *");
        let plan = planner::lower(&query.check(&mut names, &[]).expect("a query"));
        let engines = EngineSet::new(
            std::slice::from_ref(&plan.dataflow),
            &EngineConfig::default(),
        );
        let mut team = ProcessGroup::new(Collector::of_lanes(engines, 1 << 20));
        for (at, (before, seconds, after)) in programs.iter().enumerate() {
            let file = |name: &str, frames: &[MonitorFrame]| {
                let path = folder.path().join(format!("{name}{at}"));
                let mut bytes = Vec::new();
                frames
                    .iter()
                    .for_each(|frame| frame.write(&mut bytes).expect("it is memory"));
                std::fs::write(&path, bytes).expect("a file");
                path.display().to_string()
            };
            let script = format!(
                "cat {}; sleep {seconds}; cat {}",
                file("before", before),
                file("after", after)
            );
            let via = ["sh".to_owned(), "-c".to_owned(), script];
            let host = format!("host{at}");
            let program = Path::new("it");
            let what = "monitor";
            let interfaces = &[][..];
            let input = &[][..];
            team.start(&ProcessStart {
                what,
                host: &host,
                via: &via,
                program,
                interfaces,
                input,
            })
            .expect("a shell");
        }
        team
    }

    #[test]
    fn frames_before_all_processes_have_started_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let closing = || MonitorFrame::Closing {
            cut_short: None,
            summary: String::new(),
        };
        let early = [
            MonitorFrame::Started,
            MonitorFrame::Account(vec![("packets".to_owned(), 7)]),
            MonitorFrame::Problem("too late".to_owned()),
            closing(),
        ];
        let late = [MonitorFrame::Started, closing()];
        let mut team = team(&folder, &[(&early, "5", &[]), (&[], "0.3", &late)]);
        team.wait_for_start(Duration::from_secs(10))
            .expect("both do");
        let mut rows: Vec<stream::EngineOutput> = Vec::new();
        let begun = Instant::now();
        while !team.is_over() && begun.elapsed() < Duration::from_secs(10) {
            team.hear(Duration::from_millis(50), &mut IgnoreCoverage(&mut rows));
        }
        assert_eq!(
            (team.counts().packets, team.problems.texts()),
            (7, vec!["the monitor on host0: too late".to_owned()])
        );
    }

    #[test]
    fn processes_that_end_before_starting_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut team = team(
            &folder,
            &[(&[MonitorFrame::Started], "5", &[]), (&[], "0", &[])],
        );
        let why = team
            .wait_for_start(Duration::from_secs(10))
            .expect_err("the second")
            .to_string();
        assert_eq!(why, "the monitor on host1 has ended: its output ended");
    }
}
