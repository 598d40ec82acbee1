//! Copies the selected rows of a batch to a new batch, for raw tuples after the filters.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, GenericByteArray,
    Int64Array, UInt64Array, types::ByteArrayType,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use tuple::{Batch, FieldId};

use crate::column::{ColumnValues, ColumnView};
use crate::rows::RowSet;

/// The rows `rows` (ascending, without duplicates) of the columns for which `keep` returns true.
#[must_use]
pub fn take(batch: &Batch, rows: RowSet<'_>, keep: impl Fn(FieldId) -> bool) -> Batch {
    let columns = batch.schema().ids().map(|id| {
        let column = batch.column(id).filter(|_| keep(id))?;
        Some(match rows {
            RowSet::Some(rows) => take_column(ColumnView::of(batch, id), rows),
            RowSet::Run(0, to) if to == batch.rows() => column.clone(),
            RowSet::Run(from, to) => column.slice(from, to - from),
        })
    });
    Batch::new(batch.schema().clone(), rows.len(), columns.collect())
}

fn take_column(column: ColumnView<'_>, rows: &[u32]) -> ArrayRef {
    let nulls = column
        .nulls
        .map(|valid| NullBuffer::new(bits(rows, |row| valid.is_valid(row))));
    match column.values {
        ColumnValues::Bool(v) => Arc::new(BooleanArray::new(bits(rows, |row| v.value(row)), nulls)),
        ColumnValues::U64(v) => Arc::new(UInt64Array::new(gather(rows, v), nulls)),
        ColumnValues::I64(v) => Arc::new(Int64Array::new(gather(rows, v), nulls)),
        ColumnValues::F64(v) => Arc::new(Float64Array::new(gather(rows, v), nulls)),
        ColumnValues::Text(v) => Arc::new(take_bytes(v, rows, nulls)),
        ColumnValues::Hashes(v) => Arc::new(take_bytes(v, rows, nulls)),
        ColumnValues::Ip(v) => {
            let bytes: Vec<u8> = rows.iter().flat_map(|row| v[*row as usize]).collect();
            Arc::new(FixedSizeBinaryArray::new(
                16,
                Buffer::from_vec(bytes),
                nulls,
            ))
        }
    }
}

fn bits(rows: &[u32], f: impl Fn(usize) -> bool) -> BooleanBuffer {
    BooleanBuffer::collect_bool(rows.len(), |i| f(rows[i] as usize))
}

fn gather<T: Copy + arrow_buffer::ArrowNativeType>(rows: &[u32], values: &[T]) -> ScalarBuffer<T> {
    rows.iter()
        .map(|row| values[*row as usize])
        .collect::<Vec<T>>()
        .into()
}

fn take_bytes<T: ByteArrayType<Offset = i32>>(
    values: &GenericByteArray<T>,
    rows: &[u32],
    nulls: Option<NullBuffer>,
) -> GenericByteArray<T> {
    let mut bytes = Vec::new();
    let mut offsets = Vec::with_capacity(rows.len() + 1);
    offsets.push(0);
    for &row in rows {
        if !values.is_null(row as usize) {
            bytes.extend_from_slice(values.value(row as usize).as_ref());
        }
        offsets.push(bytes.len() as i32);
    }
    GenericByteArray::new(
        OffsetBuffer::new(offsets.into()),
        Buffer::from_vec(bytes),
        nulls,
    )
}
