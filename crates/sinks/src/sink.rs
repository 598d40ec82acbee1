//! The interface of sinks, and the description of their rows.

use std::io;
use std::net::IpAddr;

use recording::{CaptureFacts, RecordingTotals};
use tuple::Batch;

/// Column with the agents that a server's row lacks.
pub const AGENTS_MISSING: &str = "agents_missing";

/// Description of a query's result, known before its first row.
#[derive(Clone, Debug, Default)]
pub struct ResultHead {
    /// Name of the processor, as in [`distinct_names`]; `None` for tuples.
    pub processor: Option<String>,
    /// Names of its columns; for tuples the first batch may have more precise ones.
    pub columns: Vec<String>,
    /// Number of group columns, which follow the window bounds.
    pub keys: usize,
    /// Distance between the starts of windows, if it has windows.
    pub slide_ns: Option<i64>,
    /// Reason why a window may have no rows.
    pub empty: EmptyReason,
    /// Parsers of its tuples.
    pub parsers: Vec<String>,
}

/// State of a run, for sinks that report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunVitals {
    /// Packets received.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets lost before the capture.
    pub lost_packets: u64,
    /// Bytes acknowledged but not captured.
    pub unseen_bytes: u64,
    /// Flows in the table.
    pub flows: u64,
    /// Tuples made.
    pub tuples: u64,
    /// Rows of the result.
    pub rows: u64,
}

/// Outcome of the rows that a sink delivers to another program. `sent` plus all of `lost` is `rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryOutcome {
    /// Destination, without secrets.
    pub to: String,
    /// Rows produced.
    pub rows: u64,
    /// Rows acknowledged.
    pub sent: u64,
    /// Lost rows, by cause.
    pub lost: Vec<(&'static str, u64)>,
    /// Other counters: retries, omitted series.
    pub counts: Vec<(&'static str, u64)>,
    /// Last error.
    pub problem: Option<String>,
}

impl DeliveryOutcome {
    /// Total of lost rows.
    #[must_use]
    pub fn lost_rows(&self) -> u64 {
        self.lost.iter().map(|(_, rows)| rows).sum()
    }
}

/// Reason why a window has no rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyReason {
    /// The result has no tuples.
    #[default]
    NoTuples,
    /// No tuples, or no selected rows.
    NoneChosen,
}

/// Receiver of results. Rows of several results may be interleaved.
pub trait Sink {
    /// Writes rows of the result with index `result`.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()>;

    /// Passes all data to the writer and flushes it.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    fn flush(&mut self) -> io::Result<()>;

    /// Ends the output; nothing is written afterward.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    fn finish(&mut self) -> io::Result<()>;

    /// Passes a host name to sinks that show names.
    fn learn_name(&mut self, _ip: IpAddr, _name: &str) {}

    /// Advances event time: later rows were released at this watermark or after it.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    fn advance(&mut self, _watermark_ns: i64) -> io::Result<()> {
        Ok(())
    }

    /// Shows the content of open windows, replacing what was shown before. For sinks on a terminal.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    fn show_open(&mut self, _rows: &[(usize, Batch)]) -> io::Result<()> {
        Ok(())
    }

    /// Removes the output of [`Sink::show_open`].
    ///
    /// # Errors
    /// `io::Error` of the writer.
    fn hide_open(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Passes facts about the packets so far to sinks that store them.
    fn learn_capture(&mut self, _facts: &CaptureFacts) {}

    /// Passes the state of the run to sinks that report it.
    fn learn_vitals(&mut self, _vitals: &RunVitals) {}

    /// Outcome of the rows, for sinks that deliver to other programs.
    fn delivered(&self) -> Vec<DeliveryOutcome> {
        Vec::new()
    }

    /// Recorded data, for sinks that store it.
    fn kept(&self) -> Option<RecordingTotals> {
        None
    }

    /// Notes about the output, such as columns left out.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Names of processors as in results: as written in the query, with a number for repeated ones (`top-k`, `top-k#2`).
#[must_use]
pub fn distinct_names<'a>(written: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let number = |name: &'a str| {
        seen.push(name);
        match seen.iter().filter(|s| **s == name).count() {
            1 => name.to_owned(),
            n => format!("{name}#{n}"),
        }
    };
    written.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_distinct() {
        assert_eq!(
            distinct_names(["a", "b", "a", "a"]),
            ["a", "b", "a#2", "a#3"]
        );
    }
}
