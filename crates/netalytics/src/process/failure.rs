//! Outcomes of commands, and errors with an exit status of their own.

use std::fmt;

/// Result of a verb that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Complete.
    Done,
    /// Something failed on the way and has been reported; the result is incomplete.
    Incomplete,
}

/// Errors of the user.
#[derive(Debug)]
pub enum UsageError {
    /// Wrong flags, with a message.
    Flags(String),
    /// Wrong query, with the formatted message.
    Query(String),
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::Flags(text) | UsageError::Query(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for UsageError {}

/// No input can be read; messages.
#[derive(Debug)]
pub struct UnreadableInputs(pub Vec<String>);

impl fmt::Display for UnreadableInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for UnreadableInputs {}

/// Creates an error about flags.
pub fn wrong_flags(sentence: impl Into<String>) -> anyhow::Error {
    UsageError::Flags(sentence.into()).into()
}
