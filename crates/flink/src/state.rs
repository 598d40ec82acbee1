//! State of a job, common to Flink's two APIs.

use crate::error_summary::ErrorSummary;

/// State of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlinkJobState {
    /// Tasks are being started, or wait for a slot.
    Starting {
        /// Running tasks.
        at_work: u64,
        /// Total tasks.
        tasks: u64,
    },
    /// All known tasks are running.
    Running,
    /// A failure occurred; Flink restarts the job from its last checkpoint.
    Restarting {
        /// Reason, if the REST API is available.
        why: Option<ErrorSummary>,
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
        why: Option<ErrorSummary>,
    },
    /// Canceled.
    Canceled,
    /// Unknown to the cluster, for example after a restart of the JobManager.
    Gone,
}

impl FlinkJobState {
    /// Converts Flink's name of a state.
    pub(crate) fn of(word: &str) -> FlinkJobState {
        match word {
            "RUNNING" => FlinkJobState::Running,
            "RESTARTING" | "SUSPENDED" => FlinkJobState::Restarting {
                why: None,
                since_ms: None,
            },
            "FAILING" | "CANCELLING" => FlinkJobState::Ending,
            "FINISHED" => FlinkJobState::Finished,
            "FAILED" => FlinkJobState::Failed { why: None },
            "CANCELED" => FlinkJobState::Canceled,
            _ => FlinkJobState::Starting {
                at_work: 0,
                tasks: 0,
            },
        }
    }

    /// Whether the state is final.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(
            self,
            FlinkJobState::Finished
                | FlinkJobState::Failed { .. }
                | FlinkJobState::Canceled
                | FlinkJobState::Gone
        )
    }
}
