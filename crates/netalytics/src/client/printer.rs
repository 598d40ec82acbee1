//! Passes rows of a job to a sink.

use std::collections::BTreeMap;
use std::io;

use serde_json::Value;
use sinks::Sink;
use tuple::Batch;

use super::rows::{JobResultReader, RowCoverage, without_coverage};

/// Format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPresentation {
    /// For programs: all columns.
    Exactly,
    /// For people.
    AsTable,
    /// For a terminal: includes open windows.
    Watched,
}

/// A sink with its state.
pub struct RowPrinter<'r> {
    /// The sink.
    pub sink: &'r mut dyn Sink,
    shown: RowPresentation,
    /// Open windows, by result.
    open: BTreeMap<usize, Batch>,
    has_new_open: bool,
    /// Number of rows written.
    pub rows: u64,
    /// Agents missing in rows.
    pub coverage: RowCoverage,
}

impl<'r> RowPrinter<'r> {
    /// Without rows.
    pub fn new(sink: &'r mut dyn Sink, shown: RowPresentation) -> RowPrinter<'r> {
        RowPrinter {
            sink,
            shown,
            open: BTreeMap::new(),
            has_new_open: false,
            rows: 0,
            coverage: RowCoverage::default(),
        }
    }

    /// Writes rows.
    ///
    /// # Errors
    /// `io::Error` of the sink.
    pub fn write(&mut self, batches: Vec<(usize, Batch)>) -> io::Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        for (result, batch) in batches {
            self.coverage.note(&batch);
            let shown = if self.shown != RowPresentation::Exactly {
                without_coverage(&batch)
            } else {
                batch
            };
            self.sink.write(result, &shown)?;
            self.open.remove(&result);
            self.rows += shown.rows() as u64;
        }
        self.sink.flush()
    }

    /// Notes the open window of a result.
    pub fn note_open(&mut self, served: &[JobResultReader], result: usize, rows: &Value) {
        let rows = rows
            .as_array()
            .filter(|_| self.shown == RowPresentation::Watched);
        let batch = rows
            .zip(served.get(result))
            .and_then(|(rows, of)| server::read_rows(rows, &of.schema));
        if let Some(batch) = batch {
            self.open.insert(result, without_coverage(&batch));
            self.has_new_open = true;
        }
    }

    /// Shows open windows if they have changed.
    ///
    /// # Errors
    /// `io::Error` of the sink.
    pub fn show_open(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.has_new_open) {
            return Ok(());
        }
        let rows: Vec<(usize, Batch)> = self
            .open
            .iter()
            .map(|(of, batch)| (*of, batch.clone()))
            .collect();
        self.sink.show_open(&rows)
    }
}
