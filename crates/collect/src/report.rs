//! Reports of a worker: at the end of every epoch, and earlier if there are many results.

use stream::{LimitedStretch, LossCount, LossStretch, PartialResultSet};
use tuple::Batch;
use wire::Timestamp;

/// Results of an epoch or a part of it.
#[derive(Default)]
pub struct ReportPart {
    /// Raw tuples of a query without processors, in order of creation.
    pub rows: Vec<Batch>,
    /// Content of finished windows.
    pub windows: Vec<PartialResultSet>,
    /// Approximate memory in bytes.
    pub bytes: usize,
}

/// Report of a worker on an epoch.
pub struct WorkerReport {
    /// Epoch; never decreases.
    pub epoch: u64,
    /// Watermark: no earlier data follows.
    pub watermark: Timestamp,
    /// Results since the previous report.
    pub part: ReportPart,
    /// Bytes of TCP byte streams captured and missing so far.
    pub loss: LossCount,
    /// Losses of its source since the previous report, from the worker that reads the source.
    pub lost: Option<LossStretch>,
    /// Period in which limits of its data path and engines took effect since its last report.
    pub limited: Option<LimitedStretch>,
    /// Content of open windows, if they are displayed.
    pub open: Option<PartialResultSet>,
}

impl ReportPart {
    /// Whether there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.windows.is_empty()
    }

    /// Appends later results.
    pub fn append(&mut self, mut later: ReportPart) {
        self.rows.append(&mut later.rows);
        self.windows.append(&mut later.windows);
        self.bytes += later.bytes;
    }

    /// Adds the content of windows.
    pub fn add_windows(&mut self, windows: PartialResultSet) {
        self.bytes += windows.bytes();
        self.windows.push(windows);
    }

    /// Adds rows.
    pub fn add_rows(&mut self, rows: Batch) {
        self.bytes += rows.bytes();
        self.rows.push(rows);
    }
}
