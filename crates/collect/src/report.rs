//! What a worker says: at the end of every epoch, and before it where much was found.

use stream::{Limited, Loss, Partials, Stretch};
use tuple::Batch;
use wire::Timestamp;

/// What was found in an epoch or a part of it.
#[derive(Default)]
pub struct Part {
    /// Raw tuples that passed, of a query without processors, in the order in which they were made.
    pub rows: Vec<Batch>,
    /// Content of finished windows.
    pub windows: Vec<Partials>,
    /// Memory that all of it takes, about.
    pub bytes: usize,
}

/// What a worker has to say of an epoch.
pub struct Report {
    /// Which epoch; never less than the one before.
    pub epoch: u64,
    /// Event time: nothing from before it will follow.
    pub watermark: Timestamp,
    /// Results since the previous report.
    pub part: Part,
    /// Bytes of TCP streams that its packets have and seem to lack so far.
    pub loss: Loss,
    /// Losses of its source since the previous report, from the worker that reads the source.
    pub lost: Option<Stretch>,
    /// The time in which limits of its data path and engines took effect since its last report.
    pub limited: Option<Limited>,
    /// Content of open windows, if they are displayed.
    pub open: Option<Partials>,
}

impl Part {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.windows.is_empty()
    }

    /// Adds what was found later.
    pub fn append(&mut self, mut later: Part) {
        self.rows.append(&mut later.rows);
        self.windows.append(&mut later.windows);
        self.bytes += later.bytes;
    }

    /// Adds the content of some windows.
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
