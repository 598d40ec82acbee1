//! Summary of a run: the outcome of every packet, losses caused by limits, duration. A short text for people, and
//! complete JSON for programs.

mod counts;
mod fed;
mod json;
mod line;
mod rate;
mod text;

use std::time::Duration;

use capture::PacketFileCounts;
use monitor::sampling_control::RateHistory;
use monitor::{MonitorOutcome, PacketAccounting};
use plan::Plan;
use recording::RecordingTotals;
use sinks::DeliveryOutcome;
use wire::Timestamp;

use crate::memory::MemoryDivision;
use crate::rate_regulator::RegulatedRate;

pub(crate) use counts::{export_trouble, exports};
pub use fed::{FedInput, MonitorInput, PublishedInput};

/// Version of the summary's JSON (`--summary-json`); see docs/compatibility.md for the rules of change.
pub const SUMMARY_FORMAT: u64 = 1;

/// Counters of a run.
pub struct RunSummary {
    /// The query as written.
    pub query: String,
    /// Outcome of every packet.
    pub accounting: PacketAccounting,
    /// Counters of the source.
    pub source: capture::SourceCounters,
    /// Input other than packets.
    pub fed: Option<FedInput>,
    /// Counters of the stream operators.
    pub stream: stream::EngineCounters,
    /// Empty windows of results with groups, which have no rows for them.
    pub silences: Vec<stream::EmptyWindows>,
    /// Requests by tap.
    pub taps: Option<stream::TapCounts>,
    /// Records sent to Kafka.
    pub sent: Option<::bus::ProducerCounters>,
    /// Rows written.
    pub rows: u64,
    /// Recorded data.
    pub kept: Option<RecordingTotals>,
    /// Rows delivered to other programs.
    pub delivered: Vec<DeliveryOutcome>,
    /// Written packets.
    pub packets_kept: Option<PacketFileCounts>,
    /// Time of the first packet, and of the last.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Division of memory.
    pub memory: Option<MemoryDivision>,
    /// Epochs with rows printed before their end for lack of memory.
    pub epochs_cut: u64,
    /// Whether LIMIT ended the run.
    pub limit_reached: bool,
    /// Changes of sampling rates by SAMPLE auto.
    pub sampling: RateHistory,
    /// Goal of the sampling rate, and whether it was held.
    pub regulated: Option<RegulatedRate>,
    /// Gaps of the answer caused by the kind of input.
    pub lacks: Vec<String>,
    /// Problems with the inputs.
    pub errors: Vec<InputError>,
    /// Reason of an end before the end of the input.
    pub cut_short: Option<String>,
    /// Messages of panicked workers: bugs.
    pub panics: Vec<String>,
    /// Errors of the output of results or packets.
    pub output_errors: Vec<String>,
    /// Duration of the run.
    pub elapsed: Duration,
}

/// A problem with an input.
pub struct InputError {
    /// Path of the file.
    pub path: String,
    /// Byte offset, if known.
    pub offset: Option<u64>,
    /// Message with the position, one line.
    pub text: String,
    /// Packets of this input delivered before.
    pub after_packets: u64,
}

impl RunSummary {
    /// Summary of a job over packets, without rows.
    #[must_use]
    pub fn of(plan: &Plan, ended: MonitorOutcome, elapsed: Duration) -> RunSummary {
        let error = |e: &capture::SourceError| InputError {
            path: e.path.display().to_string(),
            offset: e.offset,
            text: e.to_string(),
            after_packets: e.after_packets,
        };
        RunSummary {
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
            regulated: None,
            lacks: Vec::new(),
            errors: ended.errors.iter().map(error).collect(),
            cut_short: None,
            panics: ended.panics,
            output_errors: Vec::new(),
            elapsed,
        }
    }

    /// Counters of a recording, if that was the input.
    #[must_use]
    pub fn replayed(&self) -> Option<recording::ReplayCounters> {
        self.fed.and_then(|fed| {
            if let FedInput::Recording(counters) = fed {
                Some(counters)
            } else {
                None
            }
        })
    }

    /// Counters of published data, if that was the input.
    #[must_use]
    pub fn published(&self) -> Option<PublishedInput> {
        self.fed.and_then(|fed| {
            if let FedInput::Published(counts) = fed {
                Some(counts)
            } else {
                None
            }
        })
    }

    /// Counters of monitors on other hosts, if they were the input.
    #[must_use]
    pub fn monitored(&self) -> Option<MonitorInput> {
        self.fed.and_then(|fed| {
            if let FedInput::Monitored(counts) = fed {
                Some(counts)
            } else {
                None
            }
        })
    }

    /// Whether nothing failed.
    pub fn is_complete(&self) -> bool {
        self.complaints().next().is_none()
    }

    /// Failures, one line each.
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
