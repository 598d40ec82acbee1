//! Interface to a bus. Agents of a job with a bus report only their progress and counters to the server; they publish
//! their results, which the implementation of this interface reads and merges.
//!
//! Guarantees of the server: [`MergeBackend::merge`] is called on a thread of the job, and again after a failure, with the
//! position up to which the job's rows were published. Rows are stored together with the position, so no window is
//! reported twice.

use std::sync::Arc;

use plan::Plan;
use stream::EngineOutput;

use crate::job::MergeEngine;

/// Merges the results that agents publish.
pub trait MergeBackend: Send + Sync {
    /// Topics of the job with this name: one per processor for cells; for tuples one per parser, shared by all jobs.
    fn topics(&self, plan: &Plan, job: &str) -> Vec<String>;

    /// Checks whether the job can be merged from the bus.
    ///
    /// # Errors
    /// The reason why not.
    fn check(&self, wanted: &MergeRequest) -> Result<(), String>;

    /// Starts to merge.
    ///
    /// # Errors
    /// The reason why it cannot start now.
    fn merge(&self, wanted: &MergeRequest) -> Result<Box<dyn ResultMerge>, String>;

    /// Deletes the topics of an ended job.
    ///
    /// # Errors
    /// The reason why some of them remain.
    fn forget(&self, topics: &[String]) -> Result<(), String>;
}

/// A job to merge.
#[derive(Clone, Debug)]
pub struct MergeRequest {
    /// Name of the job on the bus.
    pub name: String,
    /// The job's plan.
    pub plan: Arc<Plan>,
    /// Topics of its agents.
    pub topics: Vec<String>,
    /// The process that merges.
    pub by: MergeEngine,
    /// Position of the published rows: event time, and the start of the last window of each result. `None`: no rows
    /// were published.
    pub from: Option<(i64, Vec<Option<i64>>)>,
    /// Maximum memory of all open windows, in bytes.
    pub window_bytes_max: usize,
}

/// A merge in progress.
pub trait ResultMerge {
    /// Waits briefly for records. Completed windows are appended to `out`.
    fn next(&mut self, out: &mut Vec<EngineOutput>) -> MergeStatus;

    /// Tells the merge that agents have stopped publishing; it ends when everything has been read.
    ///
    /// # Errors
    /// The reason why the end is not known yet; the call may be repeated.
    fn come_to_the_end(&mut self) -> Result<(), String>;

    /// Current note for the user, one sentence.
    fn note(&mut self) -> Option<String>;

    /// Data missing in the rows so far, as a message.
    fn left_out(&self) -> Option<String>;
}

/// State of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeStatus {
    /// Continues.
    Going,
    /// Finished.
    Over,
    /// Failed, with the reason. Its last output is invalid.
    Failed(String),
}
