//! The interface of sinks, and the description of their rows.

use std::io;
use std::net::IpAddr;

use recording::{CaptureFacts, Kept};
use tuple::Batch;

/// The column of a server's rows that says which agents a row lacks.
pub const AGENTS_MISSING: &str = "agents_missing";

/// What is known of one result of a query before its first row.
#[derive(Clone, Debug, Default)]
pub struct ResultHead {
    /// The processor that makes it, as [`distinct_names`] has it; `None` for the tuples themselves.
    pub processor: Option<String>,
    /// The names of its columns; of tuples the first batch may know better, and then has the last word.
    pub columns: Vec<String>,
    /// How many of them say which group a row is of; they stand behind the window's bounds.
    pub keys: usize,
    /// From the start of one of its windows to that of the next, if it has windows.
    pub slide_ns: Option<i64>,
    /// Why a window may have no rows.
    pub empty: Empty,
    /// The parsers whose tuples it is of.
    pub parsers: Vec<String>,
}

/// How a run goes, for sinks that tell it to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Packets taken from the source.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that were lost before us.
    pub lost_packets: u64,
    /// Bytes that were acknowledged and not captured.
    pub unseen_bytes: u64,
    /// Flows in the table.
    pub flows: u64,
    /// Tuples made of the packets.
    pub tuples: u64,
    /// Rows of the result.
    pub rows: u64,
}

/// Outcome of the rows that a sink delivers to another program. `sent` plus all of `lost` is `rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Where to, without secrets.
    pub to: String,
    /// Rows that were made.
    pub rows: u64,
    /// Rows that were taken there.
    pub sent: u64,
    /// Rows that were not, by cause.
    pub lost: Vec<(&'static str, u64)>,
    /// What else there is to count: attempts, series left out.
    pub counts: Vec<(&'static str, u64)>,
    /// What the last failure said.
    pub problem: Option<String>,
}

impl Delivered {
    /// Rows that were lost.
    #[must_use]
    pub fn lost_rows(&self) -> u64 {
        self.lost.iter().map(|(_, rows)| rows).sum()
    }
}

/// Why a window has no rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Empty {
    /// It has no tuples.
    #[default]
    NoTuples,
    /// That, or none of its rows was chosen.
    NoneChosen,
}

/// A last consumer. Rows of several results may come in turns.
pub trait Sink {
    /// Takes rows of the result at place `result` of the query's results.
    ///
    /// # Errors
    /// Whatever the writer behind it says.
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()>;

    /// Hands everything taken so far to the writer and flushes it.
    ///
    /// # Errors
    /// Whatever the writer behind it says.
    fn flush(&mut self) -> io::Result<()>;

    /// Ends the output; nothing is written after it.
    ///
    /// # Errors
    /// Whatever the writer behind it says.
    fn finish(&mut self) -> io::Result<()>;

    /// A host's name, for sinks that show names; others ignore it.
    fn learn_name(&mut self, _ip: IpAddr, _name: &str) {}

    /// Event time has come to `watermark_ns`: rows that are written from now on were released then or later.
    ///
    /// # Errors
    /// Whatever the writer behind it says.
    fn advance(&mut self, _watermark_ns: i64) -> io::Result<()> {
        Ok(())
    }

    /// Shows what open windows hold so far, in place of what was shown before; the next rows take its place. For sinks that a
    /// person looks at while it runs.
    ///
    /// # Errors
    /// Whatever the writer behind it says.
    fn show_open(&mut self, _rows: &[(usize, Batch)]) -> io::Result<()> {
        Ok(())
    }

    /// Takes away what [`Sink::show_open`] shows.
    ///
    /// # Errors
    /// Whatever the writer behind it says.
    fn hide_open(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What is known of the packets by now, for sinks that keep it.
    fn learn_capture(&mut self, _facts: &CaptureFacts) {}

    /// How the run goes, for sinks that tell it to others.
    fn learn_vitals(&mut self, _vitals: &Vitals) {}

    /// Outcome of the rows, for sinks that deliver to other programs.
    fn delivered(&self) -> Vec<Delivered> {
        Vec::new()
    }

    /// What has been kept, by sinks that keep.
    fn kept(&self) -> Option<Kept> {
        None
    }

    /// Notes about the output, such as columns left out.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The processors' names as results carry them: as written in the query; a name that came before gets its number
/// (`top-k`, `top-k#2`).
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
        assert_eq!(distinct_names(["a", "b", "a", "a"]), ["a", "b", "a#2", "a#3"]);
    }
}
