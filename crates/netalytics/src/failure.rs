//! How the program ends, and how it says that something went wrong: once, in one line with its causes.

use std::fmt;
use std::process::ExitCode;

use crate::output;

/// How a verb ended that did not fail altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All was done.
    Done,
    /// Something failed on the way and has been reported; the result is incomplete.
    Incomplete,
}

/// The author of the query or of the flags has to act.
#[derive(Debug)]
pub enum WrongUse {
    /// What is wrong with the flags, as a sentence.
    Flags(String),
    /// What is wrong with the query, already laid out.
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

/// None of the inputs can be read; why, a sentence each.
#[derive(Debug)]
pub struct Unreadable(pub Vec<String>);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Unreadable {}

/// An error about the flags.
pub fn wrong_flags(sentence: impl Into<String>) -> anyhow::Error {
    WrongUse::Flags(sentence.into()).into()
}

/// Reports an error, if there is one, and says how the process ends.
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
        // A counterexample has a line for each rule on the packet's way.
        (None, None) if error.is::<steer::NotStarted>() => {
            output::complain_lines(format!("error: {error:#}").trim_end());
        }
        (None, None) => output::complain(&format!("error: {error:#}")),
    }
    ExitCode::from(if error.is::<WrongUse>() { 2 } else { 1 })
}
