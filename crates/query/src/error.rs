//! Errors of a query for its author: position, message, expected syntax, and hint.

use std::ops::Range;

/// Maximum errors reported for one query.
const DIAGNOSTICS_MAX: usize = 50;
/// Maximum characters of the query quoted in a message.
const QUOTED_CHARS_MAX: usize = 48;

/// A byte range of the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextSpan {
    /// First byte.
    pub start: usize,
    /// End, exclusive.
    pub end: usize,
}

impl TextSpan {
    /// From `start` to `end` (exclusive).
    #[must_use]
    pub fn new(start: usize, end: usize) -> TextSpan {
        TextSpan { start, end }
    }

    /// From the start of this range to the end of `other`.
    #[must_use]
    pub fn to(self, other: TextSpan) -> TextSpan {
        TextSpan {
            start: self.start,
            end: self.end.max(other.end),
        }
    }

    /// The range.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Position.
    pub span: TextSpan,
    /// The error, as a sentence without a period.
    pub message: String,
    /// Valid alternatives.
    pub expected: Option<String>,
    /// A suggestion for the author.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Creates an error at `span`.
    #[must_use]
    pub fn new(span: TextSpan, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            span,
            message: message.into(),
            expected: None,
            hint: None,
        }
    }

    /// Adds the expected syntax.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Diagnostic {
        self.expected = Some(expected.into());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds an optional hint.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Diagnostic {
        self.hint = hint;
        self
    }

    /// The text after the carets.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.expected, &self.hint) {
            (Some(expected), Some(hint)) => format!("expected {expected}; {hint}"),
            (Some(expected), None) => format!("expected {expected}"),
            (None, Some(hint)) => hint.clone(),
            (None, None) => String::new(),
        }
    }
}

/// The distinct errors in the order of the text, at most [`DIAGNOSTICS_MAX`].
pub(crate) fn in_order(mut errors: Vec<Diagnostic>) -> Vec<Diagnostic> {
    errors.sort_by_key(|e| e.span);
    errors.dedup();
    errors.truncate(DIAGNOSTICS_MAX);
    errors
}

/// A part of the query for a message: in backticks, with limited length and without terminal control characters.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED_CHARS_MAX).map(visible).collect();
    if text.chars().nth(QUOTED_CHARS_MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// The character, or a replacement for one that controls the terminal.
pub(crate) fn visible(c: char) -> char {
    let directs_text =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || directs_text {
        char::REPLACEMENT_CHARACTER
    } else {
        c
    }
}
