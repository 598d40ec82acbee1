//! Evaluation of rows in the commit that stores them: its changes and the rows are stored in one transaction, or
//! neither is.

use serde_json::Value;
use tuple::Batch;

use crate::job::JobId;
use crate::store::sqlite::{ActionChange, RuleChange};

/// Rows of a result, by its index, and the agents that they lack.
pub type ResultRows<'r> = (usize, &'r Batch, &'r [String]);

/// Rows of a job that are about to be committed.
pub struct UncommittedRows<'r> {
    /// The job.
    pub job: JobId,
    /// The rows.
    pub results: &'r [ResultRows<'r>],
    /// Watermark of the job after the commit.
    pub watermark_ns: i64,
    /// Agents behind the watermark.
    pub lacking: &'r [String],
}

/// Evaluates rows before their commit.
pub trait CommitParticipant: Send + Sync {
    /// The changes that the rows cause. Evaluations of one participant do not overlap: the next one waits until these
    /// changes are adopted or dropped.
    fn evaluate(&self, rows: &UncommittedRows<'_>) -> Box<dyn PendingChanges + '_>;
}

/// Changes to commit with the rows; dropped without an effect if the commit fails.
pub trait PendingChanges {
    /// Changes of alert rules.
    fn rules(&self) -> &[RuleChange];

    /// Changes of actions.
    fn actions(&self) -> &[ActionChange];

    /// Adopts the changes after the commit; returns the events for subscribers of the job.
    fn adopt(self: Box<Self>) -> Vec<Value>;
}
