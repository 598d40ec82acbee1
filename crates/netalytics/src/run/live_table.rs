//! Refreshes open windows on a terminal that shows a table.

use std::io;
use std::time::{Duration, Instant};

use monitor::MonitorJob;
use sinks::Sink;
use stream::{EngineOutput, OutputConsumer};

use crate::run::progress::ReadProgress;

/// Interval between refreshes.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum bytes of a worker's open windows to copy for display.
pub const BYTES_MAX: usize = 4 << 20;

/// Whether open windows are displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveTable {
    /// Not displayed.
    Nobody,
    /// Displayed, with the time of the next refresh.
    Somebody(Instant),
}

impl LiveTable {
    /// Displayed from now on.
    pub fn begin() -> LiveTable {
        LiveTable::Somebody(Instant::now())
    }

    /// Maximum bytes of open windows copied by workers.
    pub fn bytes_max(self) -> Option<usize> {
        (self != LiveTable::Nobody).then_some(BYTES_MAX)
    }

    /// Must be called regularly; shows open windows if due. Hides the progress bar meanwhile.
    pub fn tick(
        &mut self,
        job: &mut MonitorJob,
        sink: &mut dyn Sink,
        progress: &ReadProgress,
    ) -> io::Result<()> {
        let LiveTable::Somebody(next) = self else {
            return Ok(());
        };
        let now = Instant::now();
        if now < *next {
            return Ok(());
        }
        let mut rows = OpenWindowRows(Vec::new());
        let is_known = job.open_rows(&mut rows);
        if is_known {
            *next = now + EVERY;
            return progress.aside(|| sink.show_open(&rows.0));
        }
        Ok(())
    }
}

/// Collects rows of open windows.
struct OpenWindowRows(Vec<(usize, tuple::Batch)>);

impl OutputConsumer for OpenWindowRows {
    fn take(
        &mut self,
        EngineOutput {
            pipeline, batch, ..
        }: EngineOutput,
    ) {
        self.0.extend(pipeline.map(|pipeline| (pipeline, batch)));
    }
}
