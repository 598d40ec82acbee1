//! A line of a summary as text.

/// Label, number, and details.
pub(super) type Line = (&'static str, Option<u64>, String);
