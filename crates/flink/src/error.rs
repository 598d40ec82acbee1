//! Why something was not done, as sentences for a person, and as cases for a program.

use std::fmt;

use crate::said::Said;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An address or an option that cannot be meant.
    #[error("{0}")]
    WrongUse(String),
    /// Nobody answers; later somebody may. Nothing was done.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody answers, but not as Flink does.
    #[error("{0}")]
    Foreign(String),
    /// Flink, or a proxy in front of it, does not let us.
    #[error("{0}")]
    Refused(String),
    /// It is too old.
    #[error("{0}")]
    TooOld(String),
    /// Flink has something against a statement.
    #[error("{0}")]
    Statement(Box<StatementError>),
    /// The gateway went away while it was at it: whether it was done is not known.
    #[error("{0}")]
    Unclear(String),
    /// It was asked to end, again and again, and still runs.
    #[error("{0}")]
    StillRuns(String),
}

/// What Flink has against a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementError {
    /// The statement.
    pub statement: String,
    /// What is said of it.
    pub said: Said,
}

impl StatementError {
    /// The statement's line that is meant, if that is told.
    #[must_use]
    pub fn line(&self) -> Option<&str> {
        let place = self.said.place?;
        self.statement.lines().nth(usize::try_from(place.line).ok()?.checked_sub(1)?)
    }
}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 160;
        let short = |text: &str| match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        write!(f, "Flink: {}", self.said)?;
        match self.said.place.zip(self.line()) {
            Some((place, line)) => {
                write!(f, " (line {}, column {} of: {})", place.line, place.column, short(line.trim()))
            }
            None => {
                let words: Vec<&str> = self.statement.split_whitespace().collect();
                write!(f, " (statement: {})", short(&words.join(" ")))
            }
        }
    }
}

impl Error {
    /// Whether asking once more may help, later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Unreachable(_) | Error::Unclear(_))
    }
}
