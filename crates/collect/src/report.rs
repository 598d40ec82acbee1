//! Reports of a worker: at the end of every epoch, and earlier if there are many results.

use stream::{Limited, Loss, Partials, Stretch};
use tuple::Batch;
use wire::Timestamp;

/// Results of an epoch or a part of it.
#[derive(Default)]
pub struct Part {
    /// Raw tuples of a query without processors, in order of creation.
    pub rows: Vec<Batch>,
    /// Content of finished windows.
    pub windows: Vec<Partials>,
    /// Approximate memory in bytes.
    pub bytes: usize,
}

/// Report of a worker on an epoch.
pub struct Report {
    /// Epoch; never decreases.
    pub epoch: u64,
    /// Watermark: no earlier data follows.
    pub watermark: Timestamp,
    /// Results since the previous report.
    pub part: Part,
    /// Bytes of TCP byte streams captured and missing so far.
    pub loss: Loss,
    /// Losses of its source since the previous report, from the worker that reads the source.
    pub lost: Option<Stretch>,
    /// Period in which limits of its data path and engines took effect since its last report.
    pub limited: Option<Limited>,
    /// Content of open windows, if they are displayed.
    pub open: Option<Partials>,
}

impl Part {
    /// Whether there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.windows.is_empty()
    }

    /// Appends later results.
    pub fn append(&mut self, mut later: Part) {
        self.rows.append(&mut later.rows);
        self.windows.append(&mut later.windows);
        self.bytes += later.bytes;
    }

    /// Adds the content of windows.
    pub fn add_windows(&mut self, windows: Partials) {
        self.bytes += windows.bytes();
        self.windows.push(windows);
    }

    /// Adds rows.
    pub fn add_rows(&mut self, rows: Batch) {
        self.bytes += rows.bytes();
        self.rows.push(rows);
    }
}
