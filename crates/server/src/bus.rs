//! The door to a bus: of a job with one, agents say here only how far they are and what they have counted. What they find they publish, and
//! whoever is behind this door reads and merges that.
//!
//! What the server promises: [`Bus::merge`] is called by a thread of the job's own, and again where it has failed, with how far the job's
//! rows were published. What comes is kept together with that, so that no window is told twice.

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

    /// Deletes topics of a job that is over.
    ///
    /// # Errors
    /// Why some of it stays.
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

    /// Nothing more will be published: it is over once all has been read.
    ///
    /// # Errors
    /// Why it does not know yet what there is; it may be told again.
    fn come_to_the_end(&mut self) -> Result<(), String>;

    /// What is to be told of it now, in a sentence.
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
