//! What is wrong with a query: a place, a sentence, what was expected there and a hint. Addressed to its author.

use std::ops::Range;

/// Maximum errors reported for one query.
const DIAGNOSTICS_MAX: usize = 50;
/// Most characters of the query's own text repeated in a sentence.
const QUOTED_CHARS_MAX: usize = 48;

/// A range of bytes of the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Byte behind the last.
    pub end: usize,
}

impl Span {
    /// From `start` up to, not including, `end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Span {
        Span { start, end }
    }

    /// From the start of this to the end of `other`.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: self.end.max(other.end) }
    }

    /// As a range.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub span: Span,
    /// What was found, as a sentence without a full stop.
    pub message: String,
    /// What would have been right.
    pub expected: Option<String>,
    /// What the author may have meant, or how to say it.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    #[must_use]
    pub fn new(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { span, message: message.into(), expected: None, hint: None }
    }

    /// With what was expected.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Diagnostic {
        self.expected = Some(expected.into());
        self
    }

    /// With a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// With a hint, if there is one.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Diagnostic {
        self.hint = hint;
        self
    }

    /// What stands behind the carets.
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

/// The errors in the order of the text, each once, the first [`DIAGNOSTICS_MAX`] of them.
pub(crate) fn in_order(mut errors: Vec<Diagnostic>) -> Vec<Diagnostic> {
    errors.sort_by_key(|e| e.span);
    errors.dedup();
    errors.truncate(DIAGNOSTICS_MAX);
    errors
}

/// A piece of the query for use in a sentence: in back quotes, not too long, nothing a terminal would obey.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED_CHARS_MAX).map(visible).collect();
    if text.chars().nth(QUOTED_CHARS_MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// The character, or a stand-in for one that a terminal would act on rather than show.
pub(crate) fn visible(c: char) -> char {
    let directs_text =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || directs_text { char::REPLACEMENT_CHARACTER } else { c }
}
