//! Properties of a parser's tuples in addition to their columns, declared by the parser. The query language reads
//! them here and does not depend on any parser by name. Conditions are texts in that language.

use crate::fold::TextFold;

/// Properties of a parser's tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaFacts {
    /// Condition for a successful tuple. Tuples for which it is null do not count.
    pub success: Option<&'static str>,
    /// Condition for a response that found nothing: a missed key, an unknown name. Tuples for which it is null were no
    /// lookups.
    pub not_found: Option<&'static str>,
    /// Condition for tuples that represent the whole of a report rather than a part of it.
    pub whole: Option<&'static str>,
    /// Fields read by a profile of a workload, for tuples that are operations.
    pub workload: Option<WorkloadFacts>,
    /// The most relevant fields. A table shows these first, and the endpoints of the flow last. If empty, fields are
    /// shown in order.
    pub first: &'static [&'static str],
    /// Columns present only if named by a query.
    pub families: &'static [ColumnFamily],
    /// Names of the parser's own fields that were added to this version of its schema: recordings of earlier programs
    /// lack them.
    pub added: &'static [&'static str],
    /// Column with the share of packets that the tuple's counters are estimated from, if these may come from a sampling
    /// exporter.
    pub counter_rate: Option<&'static str>,
}

/// Field names and conditions that `workload-profile` reads from a parser's tuples. Fields missing from the parser
/// are skipped. Fields of files have the same names in all parsers: `count`, `offset`, `file_handle`, `aligned`,
/// `block_checksums`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// Field with the name of the operation.
    pub operation: &'static str,
    /// Condition for reads.
    pub reads: &'static str,
    /// Condition for writes.
    pub writes: &'static str,
    /// Field with the result of the operation.
    pub status: &'static str,
    /// Fields with the bytes transferred by a read and by a write.
    pub bytes: [&'static str; 2],
}

impl SchemaFacts {
    /// No properties.
    pub const NONE: SchemaFacts = SchemaFacts {
        success: None,
        not_found: None,
        whole: None,
        workload: None,
        first: &[],
        families: &[],
        added: &[],
        counter_rate: None,
    };
}

/// A family of text columns that share a prefix and differ in their key. A schema contains those named by the query
/// ([`crate::family`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnFamily {
    /// Prefix of the column names, before the period.
    pub name: &'static str,
    /// Description; that of a column includes the key.
    pub doc: &'static str,
    /// Redaction of the texts; `None` if they contain no personal data.
    pub fold: Option<TextFold>,
}

impl ColumnFamily {
    /// The canonical form of a key: lowercase, with `_` for `-`. `None` if it contains other characters than letters,
    /// digits, and these two.
    #[must_use]
    pub fn key(key: &str) -> Option<String> {
        let plain = |c: char| match c {
            '-' => Some('_'),
            '_' | '0'..='9' | 'a'..='z' | 'A'..='Z' => Some(c.to_ascii_lowercase()),
            _ => None,
        };
        key.chars()
            .map(plain)
            .collect::<Option<String>>()
            .filter(|key| !key.is_empty())
    }
}
