//! Terminal output during a query.

use std::io;
use std::time::Instant;

use runner::{QueryRun, RunObserver, RunPosition};
use sinks::Sink;

use crate::process::output;
use crate::run::live_table::LiveTable;
use crate::run::loss_notice::LossNotice;
use crate::run::progress::ReadProgress;
use crate::run::stats::WorkerStats;

/// See the module documentation.
pub struct TerminalDisplay {
    /// Progress of reading.
    pub progress: ReadProgress,
    /// Statistics of workers.
    pub stats: WorkerStats,
    /// Notices of packet loss.
    pub losses: LossNotice,
    /// Live table of open windows.
    pub watch: LiveTable,
    /// Whether rows are flushed immediately.
    pub prompt: bool,
}

impl RunObserver for TerminalDisplay {
    fn look(&mut self, run: &mut QueryRun, sink: &mut dyn Sink) -> io::Result<()> {
        self.progress.tick(|| run.position());
        let Some(job) = run.job() else {
            self.stats
                .tick_without_workers(|| run.position(), &self.progress);
            return Ok(());
        };
        self.watch.tick(job, sink, &self.progress)?;
        self.stats.tick(|| job.readings(), &self.progress);
        match self.losses.tick(job.lost_packets(), Instant::now()) {
            None => Ok(()),
            Some(notice) => self.progress.aside(|| {
                sink.hide_open()?;
                output::complain(&notice);
                Ok(())
            }),
        }
    }

    fn aside(&self, write: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.progress.aside(write)
    }

    fn note(&self, text: &str) {
        self.progress
            .aside(|| output::complain(&format!("note: {text}")));
    }

    fn finish(&mut self, position: RunPosition) {
        self.progress.finish(position);
    }

    fn is_prompt(&self) -> bool {
        self.prompt
    }
}
