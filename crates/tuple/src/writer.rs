//! Fills batches row by row, or many rows of a column at once. A setter for an unneeded column costs one test; a
//! column that a row does not set is null.
//!
//! Text is checked once per batch: invalid UTF-8 becomes `\xNN` when the batch is finished.

use std::sync::Arc;

use crate::column_builder::ColumnBuilder;
use crate::{AgentOrigin, Batch, FieldId, Schema};

/// Number of rows for which [`TupleWriter::is_full`] returns true.
pub const BATCH_ROWS: usize = 4096;
/// Bytes of text and hashes for which it returns true.
pub const BATCH_TEXT_BYTES: usize = 1 << 20;

/// Collects rows of one schema and projection.
pub struct TupleWriter {
    schema: Arc<Schema>,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    text_bytes: usize,
}

/// Defines the setters of a type with plain list columns.
macro_rules! setters {
    ($($kind:ident, $set:ident, $extend:ident, $t:ty, $name:literal;)*) => {$(
        #[doc = concat!("Sets ", $name, " column of the row being written. Setting twice in one row is a bug.")]
        #[inline]
        pub fn $set(&mut self, id: FieldId, value: $t) {
            match &mut self.columns[usize::from(id.0)] {
                ColumnBuilder::Unwanted => {}
                ColumnBuilder::$kind(column) => column.at(self.rows).push(value),
                _ => mistyped(id),
            }
        }

        #[doc = concat!("Sets ", $name, " column of the row being written and of those after it, which")]
        /// Sets the column in the rows that the next [`TupleWriter::end_rows`] completes.
        #[inline]
        pub fn $extend(&mut self, id: FieldId, values: impl IntoIterator<Item = $t>) {
            match &mut self.columns[usize::from(id.0)] {
                ColumnBuilder::Unwanted => {}
                ColumnBuilder::$kind(column) => column.at(self.rows).extend(values),
                _ => mistyped(id),
            }
        }
    )*};
}

impl TupleWriter {
    /// Creates a writer for the columns in `wanted`; other columns are ignored.
    #[must_use]
    pub fn new(schema: Arc<Schema>, wanted: &[FieldId]) -> TupleWriter {
        let column = |id| {
            if wanted.contains(&id) {
                ColumnBuilder::new(schema.field(id).data_type)
            } else {
                ColumnBuilder::Unwanted
            }
        };
        let columns = schema.ids().map(column).collect();
        TupleWriter {
            schema,
            columns,
            rows: 0,
            text_bytes: 0,
        }
    }

    /// Fills the columns for the origin of tuples.
    #[must_use]
    pub fn of(mut self, origin: &AgentOrigin) -> TupleWriter {
        let schema = self.schema.clone();
        for (id, column) in schema.origin_columns() {
            let place = &mut self.columns[usize::from(id.0)];
            if !matches!(place, ColumnBuilder::Unwanted) {
                *place = ColumnBuilder::Constant(origin.value(column).map(Into::into));
            }
        }
        self
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether the column is required and can be set; used to skip unnecessary work.
    #[inline]
    #[must_use]
    pub fn wants(&self, id: FieldId) -> bool {
        !matches!(
            self.columns[usize::from(id.0)],
            ColumnBuilder::Unwanted | ColumnBuilder::Constant(_)
        )
    }

    setters! {
        U64, u64, extend_u64, u64, "a `U64`";
        I64, i64, extend_i64, i64, "an `I64`";
        F64, f64, extend_f64, f64, "an `F64`";
        Bool, bool, extend_bool, bool, "a `Bool`";
    }

    /// Sets an `Ip` column.
    #[inline]
    pub fn ip(&mut self, id: FieldId, value: &[u8; 16]) {
        match &mut self.columns[usize::from(id.0)] {
            ColumnBuilder::Unwanted => {}
            ColumnBuilder::Ip(column) => column.at(self.rows).push(*value),
            _ => mistyped(id),
        }
    }

    /// Sets an `Ip` column in the current row and the following ones.
    #[inline]
    pub fn extend_ip(&mut self, id: FieldId, values: impl IntoIterator<Item = [u8; 16]>) {
        match &mut self.columns[usize::from(id.0)] {
            ColumnBuilder::Unwanted => {}
            ColumnBuilder::Ip(column) => column.at(self.rows).extend(values),
            _ => mistyped(id),
        }
    }

    /// Sets a `Text` or `Json` column from bytes; those that are not UTF-8 become `\xNN`.
    #[inline]
    pub fn text(&mut self, id: FieldId, value: &[u8]) {
        if self.wants(id) {
            self.wanted_text(id, value);
        }
    }

    /// Sets a `Text` column to the concatenated parts.
    #[inline]
    pub fn text_parts(&mut self, id: FieldId, parts: &[&[u8]]) {
        match &mut self.columns[usize::from(id.0)] {
            ColumnBuilder::Unwanted => {}
            ColumnBuilder::Text(column) => {
                let push = |bytes: &mut Vec<u8>| {
                    parts.iter().for_each(|part| bytes.extend_from_slice(part))
                };
                self.text_bytes += column.push(self.rows, push);
            }
            _ => mistyped(id),
        }
    }

    #[inline(never)]
    fn wanted_text(&mut self, id: FieldId, value: &[u8]) {
        self.text_parts(id, &[value]);
    }

    /// Sets a `Hashes` column; 0 is an unknown hash.
    pub fn hashes(&mut self, id: FieldId, list: &[u64]) {
        match &mut self.columns[usize::from(id.0)] {
            ColumnBuilder::Unwanted => {}
            ColumnBuilder::Hashes(column) => {
                let words = list.iter().flat_map(|hash| hash.to_le_bytes());
                self.text_bytes += column.push(self.rows, |bytes| bytes.extend(words));
            }
            _ => mistyped(id),
        }
    }

    /// Completes the row.
    #[inline]
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    /// Completes `rows` rows.
    #[inline]
    pub fn end_rows(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Rows since the last [`TupleWriter::finish`].
    #[inline]
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether [`TupleWriter::finish`] should be called; further rows are still accepted.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.text_bytes >= BATCH_TEXT_BYTES
    }

    /// Returns the rows so far as a batch and resets the writer.
    ///
    /// # Panics
    /// If a column was set in rows that are not completed.
    #[must_use]
    pub fn finish(&mut self) -> Batch {
        let rows = std::mem::take(&mut self.rows);
        self.text_bytes = 0;
        let columns = self.columns.iter_mut().map(|c| c.finish(rows)).collect();
        Batch::new(self.schema.clone(), rows, columns)
    }
}

#[cold]
#[inline(never)]
fn mistyped(id: FieldId) -> ! {
    panic!("field {} is of another type", id.0)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    #[test]
    fn origin_is_constant_and_cannot_be_overwritten() {
        let mut schema = Schema::of_parser("t", 1, "", &[], None, None);
        [
            "agent",
            "label.role",
            "label.rack-id",
            "label.other",
            "label.unwanted",
        ]
        .iter()
        .for_each(|name| schema.add_member(name));
        let [agent, role, rack, other, unwanted] =
            std::array::from_fn(|i| FieldId((crate::common::FIELDS.len() + i) as u16));
        let labels = [("Role", "web"), ("rack_id", "7")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let origin = AgentOrigin {
            agent: Some("web-1".into()),
            labels,
        };
        let wanted = [crate::common::ID, agent, role, rack, other];
        let mut w = TupleWriter::new(Arc::new(schema), &wanted).of(&origin);
        assert_eq!(
            [crate::common::ID, agent, role].map(|id| w.wants(id)),
            [true, false, false]
        );
        for rows in [2, 1] {
            w.text(agent, b"not a parser's business");
            w.extend_u64(crate::common::ID, 0..rows);
            w.end_rows(rows as usize);
            let batch = w.finish();
            let said = |id| {
                batch
                    .text(id)
                    .iter()
                    .map(|text| text.map(str::to_owned))
                    .collect::<Vec<_>>()
            };
            let all = |text: Option<&str>| vec![text.map(str::to_owned); rows as usize];
            assert_eq!(said(agent), all(Some("web-1")));
            assert_eq!([said(role), said(rack)], [all(Some("web")), all(Some("7"))]);
            assert_eq!(said(other), all(None));
            assert!(batch.column(unwanted).is_none());
        }
    }
    use crate::{DataType, Field, Unit};

    fn schema() -> Arc<Schema> {
        Arc::new(Schema::of_parser(
            "t",
            1,
            "test",
            &[
                Field::new("name", DataType::Text, Unit::None, ""),
                Field::new("n", DataType::U64, Unit::None, ""),
                Field::new("ok", DataType::Bool, Unit::None, ""),
            ],
            None,
            None,
        ))
    }

    #[test]
    fn unset_columns_are_null_and_unwanted_ones_absent() {
        let schema = schema();
        let [name, n, ok] =
            ["name", "n", "ok"].map(|f| schema.find(f).expect("a field of the schema"));
        let mut w = TupleWriter::new(schema, &[name, n]);
        for i in 0..5u64 {
            w.bool(ok, true);
            if i != 2 {
                w.text(name, format!("row {i}").as_bytes());
            }
            if i > 2 {
                w.u64(n, i);
            }
            w.end_row();
        }
        let b = w.finish();
        assert_eq!(b.rows(), 5);
        assert!(b.column(ok).is_none());
        assert!(b.text(name).is_null(2) && b.text(name).value(4) == "row 4");
        assert_eq!(
            b.u64(n).iter().collect::<Vec<_>>(),
            [None, None, None, Some(3), Some(4)]
        );
        assert_eq!(w.finish().rows(), 0);
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped() {
        let schema = schema();
        let name = schema.find("name").expect("a field of the schema");
        let mut w = TupleWriter::new(schema, &[name]);
        w.text_parts(name, &[b"na\xc3\xaf", b"\xff\x00x"]);
        w.end_row();
        assert_eq!(w.finish().text(name).value(0), "na\u{ef}\\xff\0x");
    }

    #[test]
    fn many_rows_at_once_are_the_same_rows() {
        let schema = schema();
        let [name, n, ok] =
            ["name", "n", "ok"].map(|f| schema.find(f).expect("a field of the schema"));
        let ip = crate::common::CLIENT_IP;
        let [mut one, mut many] =
            [(); 2].map(|()| TupleWriter::new(schema.clone(), &[name, n, ok, ip]));
        for i in 0..7u8 {
            if i >= 2 {
                one.u64(n, i.into());
            }
            one.bool(ok, i % 2 == 0);
            one.ip(ip, &[i; 16]);
            one.end_row();
        }
        many.extend_bool(ok, [true, false]);
        many.extend_ip(ip, [[0; 16], [1; 16]]);
        many.end_rows(2);
        many.extend_u64(n, 2..7);
        many.extend_bool(ok, (2..7).map(|i| i % 2 == 0));
        many.extend_ip(ip, (2..7).map(|i| [i; 16]));
        many.end_rows(5);
        let one = one.finish();
        let many = many.finish();
        assert_eq!(one.u64(n), many.u64(n));
        assert_eq!(one.bool(ok), many.bool(ok));
        assert_eq!(one.ip(ip), many.ip(ip));
        assert_eq!(many.text(name).null_count(), 7);
    }

    #[test]
    fn values_do_not_complete_each_other() {
        let schema = schema();
        let name = schema.find("name").expect("a field of the schema");
        let mut w = TupleWriter::new(schema, &[name]);
        for value in [&b"plain"[..], b"a\xc3", b"\xaf", b"", b"na\xc3\xaf"] {
            w.text(name, value);
            w.end_row();
        }
        w.end_row();
        let batch = w.finish();
        let values: Vec<Option<&str>> = batch.text(name).iter().collect();
        let expected = ["plain", "a\\xc3", "\\xaf", "", "na\u{ef}"].map(Some);
        assert_eq!(values, [&expected[..], &[None]].concat());
    }
}
