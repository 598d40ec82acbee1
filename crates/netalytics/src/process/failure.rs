//! Exit status of the program, and error messages: one line with all causes.

use std::fmt;
use std::process::ExitCode;

use crate::process::output;

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

/// Prints an error, if any, and returns the exit status.
pub fn exit_code(ended: anyhow::Result<CommandOutcome>) -> ExitCode {
    let error = match ended {
        Ok(CommandOutcome::Done) => return ExitCode::SUCCESS,
        Ok(CommandOutcome::Incomplete) => return ExitCode::from(1),
        Err(error) => error,
    };
    match (error.downcast_ref::<UsageError>(), error.downcast_ref::<UnreadableInputs>()) {
        (Some(UsageError::Query(text)), _) => output::complain_lines(text.trim_end()),
        (Some(UsageError::Flags(text)), _) => output::complain_lines(format!("error: {text}").trim_end()),
        (None, Some(UnreadableInputs(why))) => {
            why.iter().for_each(|why| output::complain(&format!("error: {why}")));
        }
        // A counterexample has a line per rule on the packet's path.
        (None, None) if error.is::<steer::JobStartError>() => {
            output::complain_lines(format!("error: {error:#}").trim_end());
        }
        (None, None) => output::complain(&format!("error: {error:#}")),
    }
    ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
}
