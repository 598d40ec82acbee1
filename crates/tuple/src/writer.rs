//! Fills batches row by row. A setter for a column that nobody asked for costs one test; a column that a row does not
//! set is null there.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, StringArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::{Batch, DataType, FieldId, Schema};

/// Rows after which [`TupleWriter::is_full`] asks for [`TupleWriter::finish`].
pub const BATCH_ROWS: usize = 4096;
/// Text bytes after which it does so, too.
pub const BATCH_TEXT_BYTES: usize = 1 << 20;

/// Collects rows of one schema and projection.
pub struct TupleWriter {
    schema: Arc<Schema>,
    columns: Vec<Option<Column>>,
    rows: usize,
    text_bytes: usize,
}

/// A column under construction; `nulls` is made when the first null comes.
struct Column {
    values: Values,
    len: usize,
    nulls: Option<Vec<bool>>,
}

enum Values {
    Bool(Vec<bool>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    Text { offsets: Vec<i32>, bytes: Vec<u8> },
    Ip(Vec<u8>),
}

impl TupleWriter {
    /// A writer that keeps the columns in `wanted` and ignores the rest.
    #[must_use]
    pub fn new(schema: Arc<Schema>, wanted: &[FieldId]) -> TupleWriter {
        let columns = schema
            .ids()
            .map(|id| wanted.contains(&id).then(|| Column::new(schema.field(id).data_type)))
            .collect();
        TupleWriter { schema, columns, rows: 0, text_bytes: 0 }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether anybody asked for this column: spares work that only it needs.
    #[inline]
    #[must_use]
    pub fn wants(&self, id: FieldId) -> bool {
        self.columns[usize::from(id.0)].is_some()
    }

    /// Sets a `U64` column of the row being written. Setting twice in one row is a bug.
    #[inline]
    pub fn u64(&mut self, id: FieldId, value: u64) {
        if let Some(column) = &mut self.columns[usize::from(id.0)] {
            let Values::U64(values) = column.at(self.rows) else { mistyped(id) };
            values.push(value);
        }
    }

    /// Sets an `I64` column.
    #[inline]
    pub fn i64(&mut self, id: FieldId, value: i64) {
        if let Some(column) = &mut self.columns[usize::from(id.0)] {
            let Values::I64(values) = column.at(self.rows) else { mistyped(id) };
            values.push(value);
        }
    }

    /// Sets an `F64` column.
    #[inline]
    pub fn f64(&mut self, id: FieldId, value: f64) {
        if let Some(column) = &mut self.columns[usize::from(id.0)] {
            let Values::F64(values) = column.at(self.rows) else { mistyped(id) };
            values.push(value);
        }
    }

    /// Sets a `Bool` column.
    #[inline]
    pub fn bool(&mut self, id: FieldId, value: bool) {
        if let Some(column) = &mut self.columns[usize::from(id.0)] {
            let Values::Bool(values) = column.at(self.rows) else { mistyped(id) };
            values.push(value);
        }
    }

    /// Sets a `Text` or `Json` column from bytes; those that are not UTF-8 become `\xNN`.
    #[inline]
    pub fn text(&mut self, id: FieldId, value: &[u8]) {
        self.text_parts(id, &[value]);
    }

    /// Sets a `Text` column to the parts one after another.
    #[inline]
    pub fn text_parts(&mut self, id: FieldId, parts: &[&[u8]]) {
        if let Some(column) = &mut self.columns[usize::from(id.0)] {
            let Values::Text { offsets, bytes } = column.at(self.rows) else { mistyped(id) };
            let before = bytes.len();
            for part in parts {
                push_utf8(bytes, part);
            }
            self.text_bytes += bytes.len() - before;
            offsets.push(bytes.len() as i32);
        }
    }

    /// Sets an `Ip` column.
    #[inline]
    pub fn ip(&mut self, id: FieldId, value: &[u8; 16]) {
        if let Some(column) = &mut self.columns[usize::from(id.0)] {
            let Values::Ip(values) = column.at(self.rows) else { mistyped(id) };
            values.extend_from_slice(value);
        }
    }

    /// Ends the row.
    #[inline]
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    /// Rows since the last [`TupleWriter::finish`].
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether it is time for [`TupleWriter::finish`]; rows go on being taken.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.text_bytes >= BATCH_TEXT_BYTES
    }

    /// The rows so far as a batch; the writer starts anew.
    #[must_use]
    pub fn finish(&mut self) -> Batch {
        let rows = std::mem::take(&mut self.rows);
        self.text_bytes = 0;
        let schema = self.schema.clone();
        let columns = self.columns.iter_mut().map(|c| c.as_mut().map(|c| c.finish(rows))).collect();
        Batch::new(schema, rows, columns)
    }
}

#[cold]
fn mistyped(id: FieldId) -> ! {
    panic!("field {} is of another type", id.0)
}

/// Appends `part`, with every byte that is not part of valid UTF-8 as `\xNN`.
#[inline]
fn push_utf8(bytes: &mut Vec<u8>, part: &[u8]) {
    if std::str::from_utf8(part).is_ok() {
        bytes.extend_from_slice(part);
    } else {
        push_escaped(bytes, part);
    }
}

#[cold]
fn push_escaped(bytes: &mut Vec<u8>, part: &[u8]) {
    for chunk in part.utf8_chunks() {
        bytes.extend_from_slice(chunk.valid().as_bytes());
        for b in chunk.invalid() {
            bytes.extend_from_slice(format!("\\x{b:02x}").as_bytes());
        }
    }
}

impl Column {
    fn new(data_type: DataType) -> Column {
        let values = match data_type {
            DataType::Bool => Values::Bool(Vec::new()),
            DataType::U64 => Values::U64(Vec::new()),
            DataType::I64 => Values::I64(Vec::new()),
            DataType::F64 => Values::F64(Vec::new()),
            DataType::Text | DataType::Json => Values::Text { offsets: vec![0], bytes: Vec::new() },
            DataType::Ip => Values::Ip(Vec::new()),
        };
        Column { values, len: 0, nulls: None }
    }

    /// The values, filled up with nulls to `row`, which the caller sets now.
    #[inline]
    fn at(&mut self, row: usize) -> &mut Values {
        debug_assert!(self.len <= row, "set twice in one row");
        if self.len < row {
            self.fill(row);
        }
        self.len = row + 1;
        if let Some(nulls) = &mut self.nulls {
            nulls.push(true);
        }
        &mut self.values
    }

    #[cold]
    fn fill(&mut self, rows: usize) {
        let len = self.len;
        let nulls = self.nulls.get_or_insert_with(|| vec![true; len]);
        nulls.resize(rows, false);
        match &mut self.values {
            Values::Bool(v) => v.resize(rows, false),
            Values::U64(v) => v.resize(rows, 0),
            Values::I64(v) => v.resize(rows, 0),
            Values::F64(v) => v.resize(rows, 0.0),
            Values::Text { offsets, bytes } => offsets.resize(rows + 1, bytes.len() as i32),
            Values::Ip(v) => v.resize(rows * 16, 0),
        }
        self.len = rows;
    }

    fn finish(&mut self, rows: usize) -> ArrayRef {
        if self.len < rows {
            self.fill(rows);
        }
        self.len = 0;
        let nulls = self.nulls.take().map(NullBuffer::from);
        match &mut self.values {
            Values::Bool(v) => Arc::new(BooleanArray::new(BooleanBuffer::from(std::mem::take(v)), nulls)),
            Values::U64(v) => Arc::new(UInt64Array::new(ScalarBuffer::from(renew(v)), nulls)),
            Values::I64(v) => Arc::new(Int64Array::new(ScalarBuffer::from(renew(v)), nulls)),
            Values::F64(v) => Arc::new(Float64Array::new(ScalarBuffer::from(renew(v)), nulls)),
            Values::Text { offsets, bytes } => {
                let full = renew(offsets);
                offsets.push(0);
                let offsets = OffsetBuffer::new(ScalarBuffer::from(full));
                Arc::new(StringArray::new(offsets, Buffer::from_vec(renew(bytes)), nulls))
            }
            Values::Ip(v) => Arc::new(FixedSizeBinaryArray::new(16, Buffer::from_vec(renew(v)), nulls)),
        }
    }
}

/// Takes the filled vector and leaves an empty one of the same capacity class.
fn renew<T>(v: &mut Vec<T>) -> Vec<T> {
    let capacity = v.len();
    std::mem::replace(v, Vec::with_capacity(capacity))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;
    use crate::{Field, Unit};

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
        let [name, n, ok] = ["name", "n", "ok"].map(|f| schema.find(f).expect("a field of the schema"));
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
        assert_eq!(b.u64(n).iter().collect::<Vec<_>>(), [None, None, None, Some(3), Some(4)]);
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
}
