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

#[cfg(test)]
mod tests {
    use recording::TableKind;

    use super::*;

    /// Notes about files with these keys.
    fn notes(query: &str, keys: &[Option<u64>]) -> Vec<String> {
        let checked = query::check(query, &parsers::registry::schemas(), &()).expect("a query");
        let plan = planner::lower(&checked);
        let heads: Vec<_> = keys
            .iter()
            .map(|key| FileMetadata {
                redacted: *key,
                ..FileMetadata::of("http", TableKind::Tuples)
            })
            .collect();
        let mut notes = Vec::new();
        mention(&plan.dataflow, heads.iter(), &mut |note| {
            notes.push(note.to_owned())
        });
        notes
    }

    const READS_TEXT: &str = "PARSE http PROCESS (group-count: group=path, w=1s)";

    #[test]
    fn texts_with_several_hashes_are_mentioned() {
        for keys in [
            vec![Some(1), Some(2)],
            vec![Some(1), None],
            vec![None, Some(1), Some(1)],
        ] {
            let notes = notes(READS_TEXT, &keys);
            assert_eq!(notes.len(), 1, "{keys:?}");
            assert!(notes[0].contains("different keys"), "{notes:?}");
        }
        for keys in [vec![], vec![None, None], vec![Some(1), Some(1)]] {
            assert!(notes(READS_TEXT, &keys).is_empty(), "{keys:?}");
        }
    }

    /// Numbers are not redacted.
    #[test]
    fn queries_of_numbers_have_no_notes() {
        let query = "PARSE tcp_conn_time PROCESS (group-count: group=server_port, w=1s)";
        assert!(notes(query, &[Some(1), Some(2)]).is_empty());
    }

    #[test]
    fn conditions_on_redacted_texts_are_mentioned() {
        let query = "PARSE http WHERE path = '/a' PROCESS (group-count: group=status, w=1s)";
        let found = notes(query, &[Some(1)]);
        assert!(
            found
                .iter()
                .any(|note| note.contains("WHERE applies to the redacted text")),
            "{found:?}"
        );
        assert!(notes(query, &[None]).is_empty());
    }
}
