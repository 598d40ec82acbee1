//! Merges the results of several workers: each reports its results and progress in a [`WorkerReport`], and a [`Collector`]
//! computes the rows that a single worker would have emitted.

#![forbid(unsafe_code)]

mod collector;
mod exporter_counts;
#[cfg(test)]
mod fixture;
mod frame;
mod lanes;
mod message;
mod report;
mod rows;

pub use collector::{Collector, IgnoreCoverage, TakeRows};
pub use exporter_counts::{EXPORTS, ExporterCounts};
pub use frame::{
    BlockError, FRAME_BYTES_MAX, MonitorFrame, TAKEN, WAITING, encode_block, read_block,
};
pub use lanes::{CollectorLanes, LaneActivity, LaneCoverage, LaneId};
pub use message::{REPORT_BYTES_MAX, ReportContent, ReportError, ReportHead, head, since};
pub use report::{ReportPart, WorkerReport};
