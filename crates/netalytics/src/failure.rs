//! Exit status of the program, and error messages: one line with all causes.

use std::fmt;
use std::process::ExitCode;

use crate::output;

/// Result of a verb that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Complete.
    Done,
    /// Something failed on the way and has been reported; the result is incomplete.
    Incomplete,
}

/// Errors of the user.
#[derive(Debug)]
pub enum WrongUse {
    /// Wrong flags, with a message.
    Flags(String),
    /// Wrong query, with the formatted message.
    Query(String),
}

impl fmt::Display for WrongUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongUse::Flags(text) | WrongUse::Query(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for WrongUse {}

/// No input can be read; messages.
#[derive(Debug)]
pub struct Unreadable(pub Vec<String>);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Unreadable {}

/// Creates an error about flags.
pub fn wrong_flags(sentence: impl Into<String>) -> anyhow::Error {
    WrongUse::Flags(sentence.into()).into()
}

/// Prints an error, if any, and returns the exit status.
pub fn exit_code(ended: anyhow::Result<Ended>) -> ExitCode {
    let error = match ended {
        Ok(Ended::Done) => return ExitCode::SUCCESS,
        Ok(Ended::Incomplete) => return ExitCode::from(1),
        Err(error) => error,
    };
    match (error.downcast_ref::<WrongUse>(), error.downcast_ref::<Unreadable>()) {
        (Some(WrongUse::Query(text)), _) => output::complain_lines(text.trim_end()),
        (Some(WrongUse::Flags(text)), _) => output::complain_lines(format!("error: {text}").trim_end()),
        (None, Some(Unreadable(why))) => {
            why.iter().for_each(|why| output::complain(&format!("error: {why}")));
        }
        // A counterexample has a line per rule on the packet's path.
        (None, None) if error.is::<steer::NotStarted>() => {
            output::complain_lines(format!("error: {error:#}").trim_end());
        }
        (None, None) => output::complain(&format!("error: {error:#}")),
    }
    ExitCode::from(if error.is::<WrongUse>() { 2 } else { 1 })
}
