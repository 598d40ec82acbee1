//! Redaction of texts that are stored or leave for another machine. [`RedactionRule`] defines the method per field, and a
//! [`Redactor`] applies it to batches for any sink.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::batch::Batch;
pub use crate::fold::{HASH, PATH, RedactionSecret, TextFold};
use crate::schema::{FieldId, RedactionRule};

/// Maximum distinct texts per batch whose result is found again.
const SLOTS_MAX: usize = 1024;

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
                        folds
                            .iter()
                            .find(|(text, _)| text == by.value(row))
                            .map(|(_, fold)| *fold)
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
        let column = |id: FieldId| -> Option<ArrayRef> {
            let column = batch.column(id)?;
            let fold = columns.iter().find(|(folded, _)| *folded == id);
            Some(fold.map_or_else(
                || column.clone(),
                |(_, fold)| self.fold(column.as_string(), |_| Some(*fold)),
            ))
        };
        Batch::new(
            batch.schema().clone(),
            batch.rows(),
            batch.schema().ids().map(column).collect(),
        )
    }

    /// Folds the texts for which `how` returns a method.
    fn fold(&self, texts: &StringArray, how: impl Fn(usize) -> Option<TextFold>) -> ArrayRef {
        if texts.null_count() == texts.len() {
            return Arc::new(texts.clone());
        }
        let mut folded = FoldedTexts::new(texts);
        for (row, text) in texts.iter().enumerate() {
            match (text, how(row)) {
                (Some(text), Some(fold)) => folded.push(row, text, fold, &self.secret),
                (text, _) => folded
                    .bytes
                    .extend_from_slice(text.unwrap_or_default().as_bytes()),
            }
            folded.end_row();
        }
        Arc::new(folded.finish(texts.nulls().cloned()))
    }
}

/// Folded texts under construction.
struct FoldedTexts<'t> {
    texts: &'t StringArray,
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    /// Texts repeat within a batch: by hash, the latest row with its method.
    latest: Vec<Option<(u32, TextFold)>>,
}

impl<'t> FoldedTexts<'t> {
    fn new(texts: &'t StringArray) -> FoldedTexts<'t> {
        let mut offsets = Vec::with_capacity(texts.len() + 1);
        offsets.push(0);
        let bytes = Vec::with_capacity(texts.value_data().len());
        FoldedTexts {
            texts,
            offsets,
            bytes,
            latest: vec![None; texts.len().min(SLOTS_MAX).next_power_of_two()],
        }
    }

    /// Appends the folded text of a row, from an earlier row if possible.
    fn push(&mut self, row: usize, text: &str, fold: TextFold, secret: &RedactionSecret) {
        let slot = hash(text.as_bytes()) as usize & (self.latest.len() - 1);
        let is_same = |(row, before): &(u32, TextFold)| {
            *before == fold && self.texts.value(*row as usize) == text
        };
        match self.latest[slot].filter(is_same) {
            Some((row, _)) => {
                let [from, to] = [0, 1].map(|end| self.offsets[row as usize + end] as usize);
                self.bytes.extend_from_within(from..to);
            }
            None => {
                (fold.fold)(secret, text.as_bytes(), &mut self.bytes);
                self.latest[slot] = Some((row as u32, fold));
            }
        }
    }

    fn end_row(&mut self) {
        self.offsets
            .push(i32::try_from(self.bytes.len()).expect("the text of a batch is bounded"));
    }

    fn finish(self, nulls: Option<NullBuffer>) -> StringArray {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let bytes = Buffer::from_vec(self.bytes);
        StringArray::try_new(offsets.clone(), bytes.clone(), nulls.clone()).unwrap_or_else(|_| {
            // A method has divided a character.
            let text = |row: usize| {
                let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                let bytes = &bytes[offsets[row] as usize..offsets[row + 1] as usize];
                is_valid.then(|| String::from_utf8_lossy(bytes).into_owned())
            };
            (0..offsets.len() - 1).map(text).collect()
        })
    }
}

/// Hash of a text, to find it again in the same batch. Texts chosen to collide are folded once each, without other effects.
fn hash(text: &[u8]) -> u64 {
    let mix =
        |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (words, rest) = text.as_chunks();
    let hash = words
        .iter()
        .fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(
        hash,
        rest.iter().fold(0, |word, b| word << 8 | u64::from(*b)),
    ) >> 32
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
    fn texts_are_redacted_at_any_position() {
        let halves = TextFold {
            name: "halves",
            fold: |_, text, out| out.extend_from_slice(&text[..text.len().div_ceil(2)]),
        };
        let distinct: Vec<String> = (0..3000)
            .map(|n| format!("{n}/").repeat(1 + n % 5))
            .collect();
        let repeated = (0..9000).map(|n| (n % 7 > 0).then(|| &*distinct[(n * n) % (1 + n / 3)]));
        let texts: StringArray = repeated.collect();
        let how = |row: usize| [Some(HASH), Some(PATH), None][row / 4 % 3];
        let folded = Redactor::new(secret()).fold(&texts, how);
        for (row, text) in texts.iter().enumerate() {
            let expected =
                text.map(|text| how(row).map_or_else(|| text.to_owned(), |fold| of(fold, text)));
            let got = folded
                .is_valid(row)
                .then(|| folded.as_string::<i32>().value(row));
            assert_eq!(got, expected.as_deref(), "row {row}");
        }
        let texts = StringArray::from(vec![Some("ab"), None, Some("\u{ef}"), Some("a\u{ef}b")]);
        let folded = Redactor::new(secret()).fold(&texts, |_| Some(halves));
        let expected = [Some("a"), None, Some("\u{fffd}"), Some("a\u{fffd}")];
        assert_eq!(
            folded.as_string::<i32>().iter().collect::<Vec<_>>(),
            expected
        );
        let nothing = StringArray::new_null(3);
        assert_eq!(
            Redactor::new(secret())
                .fold(&nothing, |_| Some(HASH))
                .null_count(),
            3
        );
    }

    #[test]
    fn columns_are_redacted_as_declared() {
        let text = |name, redact| Field {
            redact,
            ..Field::new(name, DataType::Text, Unit::None, "")
        };
        let by = RedactionRule::Where(FieldId(0), vec![("b".into(), HASH)]);
        let fields = vec![
            text("a", RedactionRule::Keep),
            text("h", RedactionRule::Fold(HASH)),
            text("w", by),
        ];
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
            redacted
                .text(FieldId(i))
                .iter()
                .map(|text| text.map(str::to_owned))
                .collect()
        };
        assert_eq!(
            column(0),
            ["a", "b", "b", "b"].map(|text| Some(text.to_owned()))
        );
        assert_eq!(column(1), [x.clone(), x.clone(), y, None]);
        assert_eq!(column(2), [Some("x".into()), x, z, None]);
    }
}
