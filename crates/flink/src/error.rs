//! Why something was not done, as sentences for a person, and as cases for a program.

use std::fmt;

use crate::said::Said;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An address or an option that cannot be meant.
    #[error("{0}")]
    WrongUse(String),
    /// No answer, possibly temporarily. Nothing was done.
    #[error("{0}")]
    Unreachable(String),
    /// The server is not Flink.
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
    /// The statement; values of options (`'name'='value'`) are left out, as passwords are among them.
    pub statement: String,
    /// The error message.
    pub said: Said,
}

impl StatementError {
    /// The error of a statement.
    #[must_use]
    pub fn new(statement: &str, said: Said) -> StatementError {
        StatementError { statement: without_values(statement), said }
    }

    /// The line of the statement that is wrong, if known.
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

/// A statement in which each literal that follows a literal and `=` is `'…'`.
fn without_values(statement: &str) -> String {
    let (mut out, mut rest) = (String::new(), statement);
    let mut is_value = false;
    while let Some((before, behind)) = rest.split_once('\'') {
        out.push_str(before);
        // One without an end is hidden whole.
        match literal(behind) {
            Some(length) if !is_value => out.push_str(&rest[before.len()..=before.len() + length]),
            _ => out.push_str("'…'"),
        }
        rest = &behind[literal(behind).unwrap_or(behind.len())..];
        is_value = !is_value && rest.trim_start().starts_with('=');
    }
    out + rest
}

/// Where a literal ends whose first quote was before this text: behind a quote that is not doubled.
fn literal(text: &str) -> Option<usize> {
    let mut end = 0;
    loop {
        end += text[end..].find('\'')? + 1;
        if !text[end..].starts_with('\'') {
            return Some(end);
        }
        end += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_options_are_shown_to_nobody() {
        for (statement, shown) in [
            ("SELECT 1", "SELECT 1"),
            ("WITH ('a'='b','c' = 'it''s' , 'd'='')", "WITH ('a'='…','c' = '…' , 'd'='…')"),
            ("SELECT * FROM t WHERE x = 'y' AND 'a' = z", "SELECT * FROM t WHERE x = 'y' AND 'a' = z"),
            ("SET 'password'='hunter2'", "SET 'password'='…'"),
            ("SET 'password'='hunter2", "SET 'password'='…'"),
            ("'a'='ü''' ü 'b'", "'a'='…' ü 'b'"),
            ("'", "'…'"),
            ("''''='x'", "''''='…'"),
        ] {
            assert_eq!(without_values(statement), shown, "{statement}");
        }
    }
}
