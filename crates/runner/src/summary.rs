//! What a run has done: where every packet went, what was lost to limits, how long it took. A short text for people,
//! and everything as JSON for programs.

mod counts;
mod fed;
mod json;
mod text;

use std::time::Duration;

use capture::PacketsKept;
use monitor::pressure::History;
use monitor::{Accounting, Ended};
use plan::Plan;
use recording::Kept;
use sinks::Delivered;
use wire::Timestamp;

use crate::memory::Memory;

pub use fed::{Fed, Monitored, Published};

/// Version of the summary's JSON (`--summary-json`): docs/compatibility.md says when it rises.
pub const SUMMARY_FORMAT: u64 = 1;

/// A run in numbers.
pub struct Summary {
    /// The query as written.
    pub query: String,
    /// Where every packet went.
    pub accounting: Accounting,
    /// What the source delivered.
    pub source: capture::Counters,
    /// What was read instead of packets.
    pub fed: Option<Fed>,
    /// Counters of the stream operators.
    pub stream: stream::Counters,
    /// The windows without a tuple of results with groups, which have no rows for them.
    pub silences: Vec<stream::Silence>,
    /// Which requests two taps have seen.
    pub taps: Option<stream::TapCounts>,
    /// What was sent to Kafka.
    pub sent: Option<::bus::Counters>,
    /// Rows written.
    pub rows: u64,
    /// What has been recorded.
    pub kept: Option<Kept>,
    /// What other programs were sent.
    pub delivered: Vec<Delivered>,
    /// The packets that have been kept.
    pub packets_kept: Option<PacketsKept>,
    /// Time of the first packet, and of the last.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// How memory was divided.
    pub memory: Option<Memory>,
    /// Epochs whose rows were printed before their end, as there was no room for all of them.
    pub epochs_cut: u64,
    /// LIMIT ended the run.
    pub limit_reached: bool,
    /// How SAMPLE auto has changed the sampling rates.
    pub sampling: History,
    /// What the answer lacks by the way it was asked.
    pub lacks: Vec<String>,
    /// What went wrong with the inputs.
    pub errors: Vec<InputError>,
    /// What ended the run before its input did.
    pub cut_short: Option<String>,
    /// What workers said that failed: our own bugs.
    pub panics: Vec<String>,
    /// Why the result, or the packets, could not be written.
    pub output_errors: Vec<String>,
    /// The whole run.
    pub elapsed: Duration,
}

/// Something wrong with an input.
pub struct InputError {
    /// Path of the file.
    pub path: String,
    /// Where, in bytes, if that is known.
    pub offset: Option<u64>,
    /// What, with the place, in one line.
    pub text: String,
    /// Packets of this input delivered before.
    pub after_packets: u64,
}

impl Summary {
    /// Of a job over packets, of which no row was written.
    #[must_use]
    pub fn of(plan: &Plan, ended: Ended, elapsed: Duration) -> Summary {
        let error = |e: &capture::SourceError| InputError {
            path: e.path.display().to_string(),
            offset: e.offset,
            text: e.to_string(),
            after_packets: e.after_packets,
        };
        Summary {
            query: plan.query.clone(),
            accounting: ended.accounting,
            source: ended.source,
            fed: None,
            stream: ended.stream,
            silences: ended.silences,
            taps: None,
            sent: None,
            rows: 0,
            kept: None,
            delivered: Vec::new(),
            packets_kept: None,
            seen: ended.seen,
            memory: None,
            epochs_cut: ended.epochs_cut,
            limit_reached: ended.limit_reached,
            sampling: ended.sampling,
            lacks: Vec::new(),
            errors: ended.errors.iter().map(error).collect(),
            cut_short: None,
            panics: ended.panics,
            output_errors: Vec::new(),
            elapsed,
        }
    }

    /// What was read of a recording, if one was.
    #[must_use]
    pub fn replayed(&self) -> Option<recording::Counters> {
        self.fed.and_then(|fed| if let Fed::Recording(counters) = fed { Some(counters) } else { None })
    }

    /// What was read of what others have published, if that was.
    #[must_use]
    pub fn published(&self) -> Option<Published> {
        self.fed.and_then(|fed| if let Fed::Published(counts) = fed { Some(counts) } else { None })
    }

    /// What monitors elsewhere have said, if that was the input.
    #[must_use]
    pub fn monitored(&self) -> Option<Monitored> {
        self.fed.and_then(|fed| if let Fed::Monitored(counts) = fed { Some(counts) } else { None })
    }

    /// Whether nothing failed.
    pub fn is_complete(&self) -> bool {
        self.complaints().next().is_none()
    }

    /// What failed, a line each.
    pub fn complaints(&self) -> impl Iterator<Item = &str> {
        let panics = self.panics.iter().map(String::as_str);
        self.errors
            .iter()
            .map(|e| e.text.as_str())
            .chain(self.cut_short.as_deref())
            .chain(panics)
            .chain(self.output_errors.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests;
