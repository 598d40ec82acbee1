//! Interface to a bus. Agents of a job with a bus report only their progress and counters; they publish their results,
//! which the implementation of this interface reads and merges.
//!
//! Guarantees of the server: [`Bus::merge`] is called on a thread of the job, and again after a failure, with the
//! position up to which the job's rows were published. Rows are stored together with the position, so no window is
//! reported twice.

use std::sync::Arc;

use plan::Plan;
use stream::Output;

use crate::job::Merger;

/// Has what agents publish merged.
pub trait Bus: Send + Sync {
    /// The topics of a job that goes by this name there: one for the cells of each processor; of tuples one for each parser, which are
    /// everybody's.
    fn topics(&self, plan: &Plan, job: &str) -> Vec<String>;

    /// Whether it can be merged so.
    ///
    /// # Errors
    /// Why not, in words.
    fn check(&self, wanted: &Wanted) -> Result<(), String>;

    /// Begins to merge.
    ///
    /// # Errors
    /// Why that cannot be now.
    fn merge(&self, wanted: &Wanted) -> Result<Box<dyn Merge>, String>;

    /// Deletes the topics of an ended job.
    ///
    /// # Errors
    /// The reason why some of them remain.
    fn forget(&self, topics: &[String]) -> Result<(), String>;
}

/// What is to be merged.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What the job goes by there.
    pub name: String,
    /// The job's plan.
    pub plan: Arc<Plan>,
    /// Where its agents publish.
    pub topics: Vec<String>,
    /// Who merges.
    pub by: Merger,
    /// How far rows have been published: event time, and of each result the start of its last window. `None`: none has.
    pub from: Option<(i64, Vec<Option<i64>>)>,
    /// Memory of all windows that are open.
    pub window_bytes_max: usize,
}

/// What agents publish, being merged.
pub trait Merge {
    /// Waits a little for what comes. Windows that are over by it go to `out`, whole.
    fn next(&mut self, out: &mut Vec<Output>) -> Merged;

    /// Nothing more will be published: merging ends when everything has been read.
    ///
    /// # Errors
    /// The reason why the end is not known yet; the call may be repeated.
    fn come_to_the_end(&mut self) -> Result<(), String>;

    /// Current note for the user, one sentence.
    fn note(&mut self) -> Option<String>;

    /// What of it is in no row, if there is such by now, in words.
    fn left_out(&self) -> Option<String>;
}

/// How merging goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// More may come.
    Going,
    /// That was all.
    Over,
    /// It cannot go on; why. What it gave last counts for nothing.
    Failed(String),
}
