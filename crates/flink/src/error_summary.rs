//! Summary of Flink's Java stack traces: one sentence from the innermost cause, with the position in the statement, and
//! a remedy for known causes.

mod cause;

use std::fmt;

pub use cause::KnownCause;

/// Maximum length of the sentence, in characters.
const LONGEST: usize = 500;

/// Summary of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorSummary {
    /// One sentence.
    pub sentence: String,
    /// Position in the statement.
    pub place: Option<StatementPosition>,
    /// Known cause.
    pub cause: Option<KnownCause>,
}

/// Position in a statement, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementPosition {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for ErrorSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Some(cause) => write!(f, "{} ({})", cause.remedy(), self.sentence),
            None => f.write_str(&self.sentence),
        }
    }
}

impl ErrorSummary {
    /// Summarizes a stack trace or any other text.
    #[must_use]
    pub fn of(text: &str) -> ErrorSummary {
        let causes = causes(text);
        let last = causes
            .iter()
            .rev()
            .map(|cause| tidy(cause))
            .find(|cause| !cause.is_empty());
        ErrorSummary {
            sentence: short(&last.unwrap_or_else(|| "no cause given".into())),
            place: causes.iter().rev().find_map(|cause| place(cause)),
            cause: KnownCause::of(text),
        }
    }
}

/// Messages of the exceptions of a stack trace, outermost first. Lines of frames are skipped.
fn causes(text: &str) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        let is_frame = trimmed.starts_with("at ") && line.starts_with(char::is_whitespace)
            || trimmed.starts_with("... ") && trimmed.ends_with(" more");
        let is_frame_of_ours = trimmed.starts_with("End of exception on server side")
            || trimmed.starts_with("<Exception on server side")
            || trimmed == "]";
        if is_frame || is_frame_of_ours {
            continue;
        }
        match (trimmed.strip_prefix("Caused by: "), causes.last_mut()) {
            (Some(cause), _) => causes.push(cause.to_owned()),
            (None, Some(open)) => {
                open.push('\n');
                open.push_str(trimmed);
            }
            (None, None) => causes.push(trimmed.to_owned()),
        }
    }
    causes
}

/// Message of a cause on one line, without Java class names and lists of expected tokens.
fn tidy(cause: &str) -> String {
    let mut rest = cause.trim_start_matches('[').trim();
    while let Some((class, behind)) = rest.split_once(':')
        && is_class(class)
    {
        rest = behind.trim_start();
    }
    if is_class(rest) {
        // An exception without a message: its class name is better than nothing.
        return rest
            .rsplit('.')
            .next()
            .filter(|name| name.starts_with("OutOfMemory"))
            .unwrap_or_default()
            .into();
    }
    let rest = rest.split("Was expecting").next().unwrap_or_default();
    // Repeated for each statement of a set.
    let rest = rest
        .trim_start_matches("SQL validation failed. ")
        .trim_start_matches("SQL parse failed. ");
    rest.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `org.apache.flink.table.api.ValidationException`.
fn is_class(text: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$')
    };
    text.contains('.') && text.split('.').all(is_name)
}

fn place(cause: &str) -> Option<StatementPosition> {
    let mut rest = cause;
    while let Some((_, behind)) = rest.split_once("line ") {
        let number = |text: &str| {
            let end = text
                .bytes()
                .position(|b| !b.is_ascii_digit())
                .unwrap_or(text.len());
            text[..end].parse::<u32>().ok().map(|number| (number, end))
        };
        let found = number(behind).and_then(|(line, end)| {
            let (column, _) = number(behind[end..].strip_prefix(", column ")?)?;
            Some(StatementPosition { line, column })
        });
        if found.is_some() {
            return found;
        }
        rest = behind;
    }
    None
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "error_summary/tests.rs"]
mod tests;
