//! Limitations of queries over redacted tuples.

use plan::Dataflow;
use recording::FileMetadata;
use tuple::RedactionRule;

/// Notes unexpected results of a query over files with these headers.
pub fn mention<'a>(
    dataflow: &Dataflow,
    heads: impl Iterator<Item = &'a FileMetadata>,
    note: &mut dyn FnMut(&str),
) {
    let mut keys: Vec<Option<u64>> = heads.map(|head| head.redacted).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.iter().all(Option::is_none) {
        return;
    }
    if let Some(name) = planner::compared_folded(dataflow) {
        note(&format!(
            "{name} was redacted when it was recorded; WHERE applies to the redacted text"
        ));
    }
    let mut inputs = dataflow.inputs.iter();
    let reads = inputs.any(|i| {
        i.columns
            .iter()
            .any(|id| i.schema.field(*id).redact != RedactionRule::Keep)
    });
    if reads && keys.len() > 1 {
        note(
            "parts of the recording were redacted with different keys, or not at all: one text has several hashes \
             there (--redact-key keeps them the same)",
        );
    }
}
