//! Reasons why a fleet rejects a job.

/// Reason for the rejection of a job, with a message for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetRefusal {
    /// No agent has the labels.
    #[error("{0}")]
    NoAgent(String),
    /// Agents have the labels, but lack a parser or a permission.
    #[error("{0}")]
    Unable(String),
    /// Temporarily unavailable.
    #[error("{0}")]
    Busy(String),
}
