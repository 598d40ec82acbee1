//! Rows of a job on their way to a sink.

use std::collections::BTreeMap;
use std::io;

use serde_json::Value;
use sinks::Sink;
use tuple::Batch;

use super::rows::{Coverage, Served, without_coverage};

/// For whom rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// For programs: every column, always.
    Exactly,
    /// For people.
    AsTable,
    /// For people who look on: also what is still open.
    Watched,
}

/// Where rows go, and what is known of them.
pub struct Printer<'r> {
    /// Where they go.
    pub sink: &'r mut dyn Sink,
    shown: Shown,
    /// What is still open, by result.
    open: BTreeMap<usize, Batch>,
    has_new_open: bool,
    /// Rows that were written.
    pub rows: u64,
    /// What they lack.
    pub coverage: Coverage,
}

impl<'r> Printer<'r> {
    /// Nothing was written yet.
    pub fn new(sink: &'r mut dyn Sink, shown: Shown) -> Printer<'r> {
        Printer {
            sink,
            shown,
            open: BTreeMap::new(),
            has_new_open: false,
            rows: 0,
            coverage: Coverage::default(),
        }
    }

    /// Writes rows.
    ///
    /// # Errors
    /// The sink's.
    pub fn write(&mut self, batches: Vec<(usize, Batch)>) -> io::Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        for (result, batch) in batches {
            self.coverage.note(&batch);
            let shown = if self.shown != Shown::Exactly { without_coverage(&batch) } else { batch };
            self.sink.write(result, &shown)?;
            self.open.remove(&result);
            self.rows += shown.rows() as u64;
        }
        self.sink.flush()
    }

    /// Notes what is open of a result.
    pub fn note_open(&mut self, served: &[Served], result: usize, rows: &Value) {
        let rows = rows.as_array().filter(|_| self.shown == Shown::Watched);
        let batch = rows.zip(served.get(result)).and_then(|(rows, of)| server::read_rows(rows, &of.schema));
        if let Some(batch) = batch {
            self.open.insert(result, without_coverage(&batch));
            self.has_new_open = true;
        }
    }

    /// Shows what is open, where that is news.
    ///
    /// # Errors
    /// The sink's.
    pub fn show_open(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.has_new_open) {
            return Ok(());
        }
        let rows: Vec<(usize, Batch)> = self.open.iter().map(|(of, batch)| (*of, batch.clone())).collect();
        self.sink.show_open(&rows)
    }
}
