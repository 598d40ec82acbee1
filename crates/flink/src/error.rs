//! Errors, with messages for people and variants for programs.

use std::fmt;

use crate::error_summary::ErrorSummary;

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlinkError {
    /// Invalid address or option.
    #[error("{0}")]
    WrongUse(String),
    /// No answer, possibly temporarily; nothing was done.
    #[error("{0}")]
    Unreachable(String),
    /// The server is not Flink.
    #[error("{0}")]
    Foreign(String),
    /// Flink, or a proxy in front of it, denies access.
    #[error("{0}")]
    Refused(String),
    /// Flink is too old.
    #[error("{0}")]
    TooOld(String),
    /// Flink rejects a statement.
    #[error("{0}")]
    Statement(Box<StatementError>),
    /// The connection was lost during the request: the result is unknown.
    #[error("{0}")]
    Unclear(String),
    /// The job still runs after repeated requests to end it.
    #[error("{0}")]
    StillRuns(String),
}

/// Rejection of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementError {
    /// The statement without values of options (`'name'='value'`), which may be passwords.
    pub statement: String,
    /// The error message.
    pub said: ErrorSummary,
}

impl StatementError {
    /// The error of a statement.
    #[must_use]
    pub fn new(statement: &str, said: ErrorSummary) -> StatementError {
        StatementError {
            statement: without_values(statement),
            said,
        }
    }

    /// The wrong line of the statement, if known.
    #[must_use]
    pub fn line(&self) -> Option<&str> {
        let place = self.said.place?;
        self.statement
            .lines()
            .nth(usize::try_from(place.line).ok()?.checked_sub(1)?)
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
                write!(
                    f,
                    " (line {}, column {} of: {})",
                    place.line,
                    place.column,
                    short(line.trim())
                )
            }
            None => {
                let words: Vec<&str> = self.statement.split_whitespace().collect();
                write!(f, " (statement: {})", short(&words.join(" ")))
            }
        }
    }
}

impl FlinkError {
    /// Whether a later retry may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, FlinkError::Unreachable(_) | FlinkError::Unclear(_))
    }
}

/// Replaces each literal that follows a literal and `=` by `'…'`.
fn without_values(statement: &str) -> String {
    let mut out = String::new();
    let mut rest = statement;
    let mut is_value = false;
    while let Some((before, behind)) = rest.split_once('\'') {
        out.push_str(before);
        // An unterminated literal is hidden completely.
        match literal(behind) {
            Some(length) if !is_value => out.push_str(&rest[before.len()..=before.len() + length]),
            _ => out.push_str("'…'"),
        }
        rest = &behind[literal(behind).unwrap_or(behind.len())..];
        is_value = !is_value && rest.trim_start().starts_with('=');
    }
    out + rest
}

/// Length of a literal after its opening quote: up to a quote that is not doubled.
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
    fn option_values_are_masked() {
        for (statement, shown) in [
            ("SELECT 1", "SELECT 1"),
            (
                "WITH ('a'='b','c' = 'it''s' , 'd'='')",
                "WITH ('a'='…','c' = '…' , 'd'='…')",
            ),
            (
                "SELECT * FROM t WHERE x = 'y' AND 'a' = z",
                "SELECT * FROM t WHERE x = 'y' AND 'a' = z",
            ),
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
