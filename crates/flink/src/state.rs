//! State of a job, common to Flink's two APIs.

use crate::said::Said;

/// State of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Tasks are being started, or wait for a slot.
    Starting {
        /// Running tasks.
        at_work: u64,
        /// Total tasks.
        tasks: u64,
    },
    /// All known tasks are running.
    Running,
    /// A failure occurred; Flink restarts it from its last checkpoint.
    Restarting {
        /// Reason, if the REST API is available.
        why: Option<Said>,
        /// Time of the restart in milliseconds since 1970, by the cluster's clock, if the REST API is available.
        since_ms: Option<u64>,
    },
    /// Ending.
    Ending,
    /// Ended at the end of input, or drained.
    Finished,
    /// Failed permanently.
    Failed {
        /// Reason, if the REST API is available.
        why: Option<Said>,
    },
    /// Canceled.
    Cancelled,
    /// Unknown to the cluster, for example after a restart of the JobManager.
    Gone,
}

impl State {
    /// Converts Flink's name of a state.
    pub(crate) fn of(word: &str) -> State {
        match word {
            "RUNNING" => State::Running,
            "RESTARTING" | "SUSPENDED" => State::Restarting { why: None, since_ms: None },
            "FAILING" | "CANCELLING" => State::Ending,
            "FINISHED" => State::Finished,
            "FAILED" => State::Failed { why: None },
            "CANCELED" => State::Cancelled,
            _ => State::Starting { at_work: 0, tasks: 0 },
        }
    }

    /// Whether the state is final.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, State::Finished | State::Failed { .. } | State::Cancelled | State::Gone)
    }
}
