//! How a job does, in the words of neither of Flink's two ways to ask.

use crate::said::Said;

/// How a job does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its tasks are being started, or wait for a slot.
    Starting {
        /// Tasks that are at work.
        at_work: u64,
        /// All tasks.
        tasks: u64,
    },
    /// All that is known to be at work, is.
    Running,
    /// Something failed; Flink starts it again from its last checkpoint.
    Restarting {
        /// What failed, where Flink's REST API can be asked.
        why: Option<Said>,
        /// When it began to, in milliseconds since 1970, by the cluster's clock; likewise.
        since_ms: Option<u64>,
    },
    /// It is being ended.
    Ending,
    /// It came to its end, or was drained.
    Finished,
    /// Flink has given up.
    Failed {
        /// Why, where Flink's REST API can be asked.
        why: Option<Said>,
    },
    /// It was cancelled.
    Cancelled,
    /// The cluster does not know it, any more: the JobManager was started anew.
    Gone,
}

impl State {
    /// Of Flink's word.
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

    /// Whether nothing more will become of it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, State::Finished | State::Failed { .. } | State::Cancelled | State::Gone)
    }
}
