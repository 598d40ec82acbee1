//! A query whose results are sent to another process: merges the workers' results and writes them as reports in frames.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use capture::live::StopSignal;
use collect::{CollectorLanes, ReportPart, TakeRows};
use monitor::job::{JobConfig, WindowEmission};
use monitor::{JobInput, MonitorJob, MonitorProgress};
use plan::Plan;
use stream::{EngineOutput, LimitedStretch, LossStretch, PartialResultSet};

use crate::frames::FrameWriter;
use crate::summary::RunSummary;

/// Bytes of rows per message.
const PART_BYTES: usize = 256 << 10;
/// Interval at which it checks whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Interval in event time at which open windows are sent, which limits the loss if the process dies.
pub const OPEN_EVERY_NS: i64 = 5_000_000_000;

/// See the module documentation.
pub struct RelayRun<'w> {
    job: Box<MonitorJob>,
    out: RelayOutput<'w>,
    started: Instant,
}

/// Pending output and its destination.
struct RelayOutput<'w> {
    frames: FrameWriter<'w>,
    part: ReportPart,
    rows: u64,
}

impl<'w> RelayRun<'w> {
    /// Starts the threads and writes the start message.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create threads, or of `out`.
    pub fn start(
        plan: &Plan,
        config: &JobConfig,
        input: JobInput,
        out: &'w mut dyn Write,
    ) -> io::Result<RelayRun<'w>> {
        let started = Instant::now();
        let config = JobConfig {
            windows: WindowEmission::HandedOn {
                open_every_ns: OPEN_EVERY_NS,
            },
            ..config.clone()
        };
        let job = Box::new(MonitorJob::start(plan, &config, input)?);
        let frames = FrameWriter::new(out, config.allowance.clone());
        Ok(RelayRun {
            job,
            out: RelayOutput {
                frames,
                part: ReportPart::default(),
                rows: 0,
            },
            started,
        })
    }

    /// Sends results until the input ends, the reader closes, or `stop` is set if the source does not observe it. A
    /// slow reader makes the workers wait.
    pub fn go(&mut self, stop: Option<&StopSignal>) {
        loop {
            if stop.is_some_and(StopSignal::is_asked) {
                self.job.stop();
            }
            let step = self.job.next_parts(PATIENCE, &mut self.out);
            self.report(step);
            self.out.frames.account(&self.job, step, 0);
            if let Some(flush) = self.job.take_flushed() {
                self.out.frames.flushed(&self.job, flush);
            }
            if step == MonitorProgress::Done || self.out.frames.is_unheard() {
                return;
            }
        }
    }

    /// Ends the run and writes the summary; `cut_short`: reason of an early end.
    ///
    /// # Errors
    /// `io::Error` of the output.
    pub fn end(self, plan: &Plan, cut_short: Option<String>) -> io::Result<RunSummary> {
        let rows = self.out.rows;
        let elapsed = self.started.elapsed();
        let summary = RunSummary {
            rows,
            cut_short,
            ..RunSummary::of(plan, self.job.end(), elapsed)
        };
        self.out.frames.close(&summary).map(|()| summary)
    }

    /// Writes the results up to the job's event time, if any.
    fn report(&mut self, step: MonitorProgress) {
        let watermark = self.job.watermark();
        let lost = self.job.take_lost();
        let limited = self.job.take_limited();
        let is_told = lost.is_none() && limited.is_none() && self.out.part.is_empty();
        if self.out.frames.is_behind(watermark) || !is_told || step == MonitorProgress::Done {
            self.out.frames.come_to(watermark, self.job.capture_loss());
            self.out.say_part(lost, limited);
            self.out.frames.flush();
        }
    }
}

impl TakeRows for RelayOutput<'_> {
    fn take(&mut self, output: EngineOutput, _: &CollectorLanes) {
        self.rows += output.batch.rows() as u64;
        self.part.add_rows(output.batch);
        if self.part.bytes >= PART_BYTES {
            self.say_part(None, None);
        }
    }

    fn hand_on(&mut self, windows: PartialResultSet) {
        self.part.add_windows(windows);
    }
}

impl RelayOutput<'_> {
    /// Writes the results so far.
    fn say_part(&mut self, lost: Option<LossStretch>, limited: Option<LimitedStretch>) {
        let part = std::mem::take(&mut self.part);
        self.frames.report(part, lost, limited);
    }
}
