//! Redaction of texts that are stored or leave for another machine. [`RedactionRule`] defines the method per field, and a
//! [`Redactor`] applies it to batches for any sink.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};

use crate::batch::Batch;
pub use crate::fold::{HASH, PATH, RedactionSecret, TextFold};
use crate::schema::{FieldId, RedactionRule};

/// Maximum distinct texts per batch with a cached result.
const KNOWN_MAX: usize = 1024;

/// Redacts batches. Equal if both have the same key.
#[derive(Clone, Debug)]
pub struct Redactor {
    secret: RedactionSecret,
}

impl Redactor {
    /// Creates a redactor with the key `secret`.
    #[must_use]
    pub fn new(secret: RedactionSecret) -> Redactor {
        Redactor { secret }
    }

    /// Redacts the texts of a batch as defined by their fields.
    #[must_use]
    pub fn redact(&self, batch: &Batch) -> Batch {
        let column = |id: FieldId| -> Option<ArrayRef> {
            let column = batch.column(id)?;
            Some(match &batch.schema().field(id).redact {
                RedactionRule::Keep => column.clone(),
                RedactionRule::Fold(fold) => self.fold(column.as_string(), |_| Some(*fold)),
                RedactionRule::Where(by, folds) => {
                    let by = batch.text(*by);
                    self.fold(column.as_string(), |row| {
                        folds.iter().find(|(text, _)| text == by.value(row)).map(|(_, fold)| *fold)
                    })
                }
            })
        };
        let columns = batch.schema().ids().map(column).collect();
        Batch::new(batch.schema().clone(), batch.rows(), columns)
    }

    /// Redacts the given columns of a batch, if present, regardless of their fields.
    #[must_use]
    pub fn fold_columns(&self, batch: &Batch, columns: &[(FieldId, TextFold)]) -> Batch {
        let column =
            |id: FieldId| -> Option<ArrayRef> {
                let column = batch.column(id)?;
                let fold = columns.iter().find(|(folded, _)| *folded == id);
                Some(fold.map_or_else(
                    || column.clone(),
                    |(_, fold)| self.fold(column.as_string(), |_| Some(*fold)),
                ))
            };
        Batch::new(batch.schema().clone(), batch.rows(), batch.schema().ids().map(column).collect())
    }

    fn fold(&self, texts: &StringArray, how: impl Fn(usize) -> Option<TextFold>) -> ArrayRef {
        let mut folded = StringBuilder::with_capacity(texts.len(), texts.value_data().len());
        // Texts repeat within a batch.
        let mut known: HashMap<(&str, &str), String> = HashMap::new();
        let mut out = Vec::new();
        for (row, text) in texts.iter().enumerate() {
            let (Some(text), Some(fold)) = (text, how(row)) else {
                folded.append_option(text);
                continue;
            };
            if let Some(value) = known.get(&(fold.name, text)) {
                folded.append_value(value);
                continue;
            }
            out.clear();
            (fold.fold)(&self.secret, text.as_bytes(), &mut out);
            let value = String::from_utf8_lossy(&out);
            folded.append_value(&value);
            if known.len() < KNOWN_MAX {
                known.insert((fold.name, text), value.into_owned());
            }
        }
        Arc::new(folded.finish())
    }
}

impl PartialEq for Redactor {
    fn eq(&self, other: &Redactor) -> bool {
        self.secret.name() == other.secret.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Field, Schema, TupleWriter, Unit};

    fn secret() -> RedactionSecret {
        RedactionSecret::new(&std::array::from_fn(|i| i as u8))
    }

    fn of(fold: TextFold, text: &str) -> String {
        let mut out = Vec::new();
        (fold.fold)(&secret(), text.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    /// Reference test vector (Aumasson and Bernstein, SipHash, appendix A): bytes 0 to 14 with the key 0 to 15.
    #[test]
    fn hashes_are_those_of_siphash() {
        let bytes: Vec<u8> = (0..15).collect();
        let mut out = Vec::new();
        secret().push_hash(&bytes, &mut out);
        assert_eq!(out, b"~a129ca6149be45e5");
    }

    #[test]
    fn paths_keep_their_shape() {
        let [a, b] = ["a", "b c"].map(|name| of(HASH, name));
        assert_ne!(a, b);
        assert_eq!(of(PATH, "/a/b c/../a"), format!("/{a}/{b}/../{a}"));
        assert_eq!(of(PATH, "a"), a);
        assert_eq!((of(PATH, ""), of(PATH, "/")), (String::new(), "/".into()));
    }

    #[test]
    fn columns_are_folded_as_their_fields_say() {
        let text = |name, redact| Field { redact, ..Field::new(name, DataType::Text, Unit::None, "") };
        let by = RedactionRule::Where(FieldId(0), vec![("b".into(), HASH)]);
        let fields =
            vec![text("a", RedactionRule::Keep), text("h", RedactionRule::Fold(HASH)), text("w", by)];
        let schema = Schema {
            name: "t".into(),
            version: 1,
            doc: "".into(),
            fields,
            measure: None,
            key: None,
            parts: &[],
            facts: &crate::SchemaFacts::NONE,
        };
        let schema = Arc::new(schema);
        let mut w = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
        for row in [["a", "x", "x"], ["b", "x", "x"], ["b", "y", "z"]] {
            for (id, text) in schema.ids().zip(row) {
                w.text(id, text.as_bytes());
            }
            w.end_row();
        }
        w.text(FieldId(0), b"b");
        w.end_row();
        let redacted = Redactor::new(secret()).redact(&w.finish());
        let [x, y, z] = ["x", "y", "z"].map(|text| Some(of(HASH, text)));
        let column = |i| -> Vec<Option<String>> {
            redacted.text(FieldId(i)).iter().map(|text| text.map(str::to_owned)).collect()
        };
        assert_eq!(column(0), ["a", "b", "b", "b"].map(|text| Some(text.to_owned())));
        assert_eq!(column(1), [x.clone(), x.clone(), y, None]);
        assert_eq!(column(2), [Some("x".into()), x, z, None]);
    }
}
