//! Properties of a parser's tuples besides their columns, declared in the parser's own file. The query language reads
//! them here, so it knows no parser by name. Conditions are texts in that language.

use crate::fold::Fold;

/// What a parser says of its tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Condition for a successful tuple. Tuples for which it is null do not count.
    pub success: Option<&'static str>,
    /// Which tuples stand for the whole of what the parser reports, where others are mere parts.
    pub whole: Option<&'static str>,
    /// What a profile of a workload reads, where tuples are operations.
    pub workload: Option<Workload>,
    /// The fields that a person looks at first; a table shows these first, and the ends of the flow last. Empty: fields are
    /// shown in their order.
    pub first: &'static [&'static str],
    /// Columns that a tuple has where a query names them.
    pub families: &'static [Family],
}

/// What `workload-profile` reads of a parser's tuples: names of fields, and conditions. A field that the parser does not
/// have is left out. Fields of files have the same names with all parsers: `count`, `offset`, `file_handle`, `aligned`,
/// `block_checksums`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What was done.
    pub operation: &'static str,
    /// Which operations read.
    pub reads: &'static str,
    /// Which write.
    pub writes: &'static str,
    /// How they ended.
    pub status: &'static str,
    /// Bytes that a read moved, and that a write moved.
    pub bytes: [&'static str; 2],
}

impl Facts {
    /// Nothing is known.
    pub const NONE: Facts = Facts { success: None, whole: None, workload: None, first: &[], families: &[] };
}

/// A family of text columns, told apart by a key, of which a schema has those that a query names ([`crate::family`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// What its columns' names begin with, up to the point.
    pub name: &'static str,
    /// One line for people; a column's own says the key, too.
    pub doc: &'static str,
    /// How the texts are redacted; `None`: they say nothing of a person.
    pub fold: Option<Fold>,
}

impl Family {
    /// The one way to write a key: in lower case, with `_` for `-`. `None`: it has other characters than letters, digits
    /// and these two.
    #[must_use]
    pub fn key(key: &str) -> Option<String> {
        let plain = |c: char| match c {
            '-' => Some('_'),
            '_' | '0'..='9' | 'a'..='z' | 'A'..='Z' => Some(c.to_ascii_lowercase()),
            _ => None,
        };
        key.chars().map(plain).collect::<Option<String>>().filter(|key| !key.is_empty())
    }
}
