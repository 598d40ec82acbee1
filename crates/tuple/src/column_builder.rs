//! Columns under construction, as vectors that become Arrow arrays.
//!
//! With little traffic every epoch has a batch of a few rows, whose cost is that of its allocations. A column of such a
//! batch that equals the one of the previous batch with as many rows is shared with it.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array,
    StringArray, UInt64Array,
};
use arrow_buffer::{
    BooleanBuffer, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};

use crate::DataType;

/// Maximum rows of a batch that shares columns with a previous one.
const SHARED_ROWS: usize = 4;
/// Maximum bytes of text or hashes of a shared column, and of a buffer that is kept for the next batch.
const SHARED_BYTES: usize = 4096;

/// A column under construction.
pub(crate) enum ColumnBuilder {
    Unwanted,
    /// The same value in all rows; cannot be set.
    Constant(Option<Box<str>>),
    Bool(ValueBuilder<bool>),
    U64(ValueBuilder<u64>),
    I64(ValueBuilder<i64>),
    F64(ValueBuilder<f64>),
    Ip(ValueBuilder<[u8; 16]>),
    Text(TextBuilder),
    Hashes(TextBuilder),
}

/// One value per row so far; the default value for null rows.
#[derive(Default)]
pub(crate) struct ValueBuilder<T> {
    list: Vec<T>,
    gaps: NullRanges,
    previous: PreviousColumns<Vec<T>>,
}

/// Text and hashes.
#[derive(Default)]
pub(crate) struct TextBuilder {
    text: TextValues,
    gaps: NullRanges,
    previous: PreviousColumns<TextValues>,
}

/// The end offsets after an initial zero, and the bytes.
struct TextValues {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

/// The column of the latest batch with each number of rows from 1 to [`SHARED_ROWS`].
type PreviousColumns<V> = [PreviousColumn<V>; SHARED_ROWS];

/// The column of an earlier batch, if there was one.
#[derive(Default)]
struct PreviousColumn<V> {
    values: V,
    gaps: NullRanges,
    array: Option<ArrayRef>,
}

/// Ranges of null rows, end exclusive, ascending.
#[derive(Default, PartialEq)]
struct NullRanges(Vec<(usize, usize)>);

impl ColumnBuilder {
    pub fn new(data_type: DataType) -> ColumnBuilder {
        match data_type {
            DataType::Bool => ColumnBuilder::Bool(ValueBuilder::default()),
            DataType::U64 => ColumnBuilder::U64(ValueBuilder::default()),
            DataType::I64 => ColumnBuilder::I64(ValueBuilder::default()),
            DataType::F64 => ColumnBuilder::F64(ValueBuilder::default()),
            DataType::Ip => ColumnBuilder::Ip(ValueBuilder::default()),
            DataType::Text | DataType::Json => ColumnBuilder::Text(TextBuilder::default()),
            DataType::Hashes => ColumnBuilder::Hashes(TextBuilder::default()),
        }
    }

    /// Returns the column, if it is wanted, and resets the builder.
    pub fn finish(&mut self, rows: usize) -> Option<ArrayRef> {
        Some(match self {
            ColumnBuilder::Unwanted => return None,
            ColumnBuilder::Constant(text) => Arc::new(repeated(text.as_deref(), rows)),
            ColumnBuilder::Bool(v) => v.finish(rows, bool::eq, |list, nulls| {
                Arc::new(BooleanArray::new(BooleanBuffer::from(list), nulls))
            }),
            ColumnBuilder::U64(v) => v.finish(rows, u64::eq, |list, nulls| {
                Arc::new(UInt64Array::new(ScalarBuffer::from(list), nulls))
            }),
            ColumnBuilder::I64(v) => v.finish(rows, i64::eq, |list, nulls| {
                Arc::new(Int64Array::new(ScalarBuffer::from(list), nulls))
            }),
            // Zeros of either sign are equal, but not the same value.
            ColumnBuilder::F64(v) => v.finish(
                rows,
                |a, b| a.to_bits() == b.to_bits(),
                |list, nulls| Arc::new(Float64Array::new(ScalarBuffer::from(list), nulls)),
            ),
            ColumnBuilder::Ip(v) => v.finish(rows, <[u8; 16]>::eq, |list, nulls| {
                Arc::new(FixedSizeBinaryArray::new(
                    16,
                    Buffer::from_vec(list.into_flattened()),
                    nulls,
                ))
            }),
            ColumnBuilder::Text(v) => v.finish(rows, |offsets, bytes, nulls| {
                let text = StringArray::try_new(offsets.clone(), bytes.clone(), nulls.clone());
                Arc::new(text.unwrap_or_else(|_| escaped(&offsets, &bytes, nulls)))
            }),
            ColumnBuilder::Hashes(v) => v.finish(rows, |offsets, bytes, nulls| {
                Arc::new(BinaryArray::new(offsets, bytes, nulls))
            }),
        })
    }
}

impl<T: Copy + Default> ValueBuilder<T> {
    /// The list, padded with nulls to `row`; the caller appends the value of `row`.
    #[inline]
    pub fn at(&mut self, row: usize) -> &mut Vec<T> {
        if self.list.len() != row {
            self.fill(row);
        }
        &mut self.list
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, rows: usize) {
        debug_assert!(self.list.len() <= rows, "set twice in one row");
        self.gaps.0.push((self.list.len(), rows));
        self.list.resize(rows, T::default());
    }

    fn finish(
        &mut self,
        rows: usize,
        same: impl Fn(&T, &T) -> bool,
        build: impl FnOnce(Vec<T>, Option<NullBuffer>) -> ArrayRef,
    ) -> ArrayRef {
        self.at(rows);
        if rows > SHARED_ROWS {
            let array = build(renew(&mut self.list), self.gaps.to_nulls(rows));
            self.gaps.0.clear();
            return array;
        }
        let list = &mut self.list;
        let previous = &mut self.previous[rows.saturating_sub(1)];
        let is_same = |before: &Vec<T>| {
            before.len() == rows
                && list
                    .iter()
                    .zip(before)
                    .all(|(value, before)| same(value, before))
        };
        let array = previous
            .of(&self.gaps, is_same)
            .unwrap_or_else(|| build(list.as_slice().to_vec(), self.gaps.to_nulls(rows)));
        std::mem::swap(list, &mut previous.values);
        empty(list, SHARED_ROWS);
        previous.replace(array, &mut self.gaps)
    }
}

impl Default for TextValues {
    fn default() -> TextValues {
        TextValues {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }
}

impl TextBuilder {
    /// Appends a value; returns its size in bytes.
    #[inline]
    pub fn push(&mut self, row: usize, append: impl FnOnce(&mut Vec<u8>)) -> usize {
        if self.text.offsets.len() != row + 1 {
            self.fill(row);
        }
        let TextValues { offsets, bytes } = &mut self.text;
        let before = bytes.len();
        append(bytes);
        offsets.push(bytes.len() as i32);
        bytes.len() - before
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, rows: usize) {
        let TextValues { offsets, bytes } = &mut self.text;
        debug_assert!(offsets.len() <= rows + 1, "set twice in one row");
        self.gaps.0.push((offsets.len() - 1, rows));
        offsets.resize(rows + 1, bytes.len() as i32);
    }

    fn finish(
        &mut self,
        rows: usize,
        build: impl FnOnce(OffsetBuffer<i32>, Buffer, Option<NullBuffer>) -> ArrayRef,
    ) -> ArrayRef {
        if self.text.offsets.len() != rows + 1 {
            self.fill(rows);
        }
        let build = |offsets, bytes, gaps: &NullRanges| {
            build(
                OffsetBuffer::new(ScalarBuffer::from(offsets)),
                Buffer::from_vec(bytes),
                gaps.to_nulls(rows),
            )
        };
        let text = &mut self.text;
        if rows > SHARED_ROWS || text.bytes.len() > SHARED_BYTES {
            let array = build(renew(&mut text.offsets), renew(&mut text.bytes), &self.gaps);
            text.offsets.push(0);
            self.gaps.0.clear();
            return array;
        }
        let previous = &mut self.previous[rows.saturating_sub(1)];
        let is_same =
            |before: &TextValues| text.offsets == before.offsets && text.bytes == before.bytes;
        let array = previous.of(&self.gaps, is_same).unwrap_or_else(|| {
            build(
                text.offsets.as_slice().to_vec(),
                text.bytes.as_slice().to_vec(),
                &self.gaps,
            )
        });
        std::mem::swap(text, &mut previous.values);
        empty(&mut text.offsets, SHARED_ROWS + 1);
        empty(&mut text.bytes, SHARED_BYTES);
        text.offsets.push(0);
        previous.replace(array, &mut self.gaps)
    }
}

impl<V> PreviousColumn<V> {
    /// The column, if it has these nulls and the same values.
    fn of(&self, gaps: &NullRanges, is_same: impl FnOnce(&V) -> bool) -> Option<ArrayRef> {
        self.array
            .as_ref()
            .filter(|_| is_same(&self.values) && self.gaps == *gaps)
            .cloned()
    }

    /// Notes and returns the column with the values that are already stored here. The caller's nulls are reset.
    fn replace(&mut self, array: ArrayRef, gaps: &mut NullRanges) -> ArrayRef {
        std::mem::swap(&mut self.gaps, gaps);
        gaps.0.clear();
        self.array = Some(array.clone());
        array
    }
}

impl NullRanges {
    fn to_nulls(&self, rows: usize) -> Option<NullBuffer> {
        let mut valid = NullBufferBuilder::new(rows);
        for (from, to) in &self.0 {
            valid.append_n_non_nulls(from - valid.len());
            valid.append_n_nulls(to - from);
        }
        valid.append_n_non_nulls(rows - valid.len());
        valid.finish()
    }
}

/// A column with the same value in all rows.
fn repeated(text: Option<&str>, rows: usize) -> StringArray {
    match text {
        Some(text) => StringArray::from_iter_values(std::iter::repeat_n(text, rows)),
        None => StringArray::new_null(rows),
    }
}

/// The same texts, with invalid UTF-8 bytes as `\xNN`.
#[cold]
fn escaped(offsets: &[i32], bytes: &[u8], nulls: Option<NullBuffer>) -> StringArray {
    let mut text = String::with_capacity(bytes.len() * 2);
    let mut ends = vec![0];
    for span in offsets.windows(2) {
        for chunk in bytes[span[0] as usize..span[1] as usize].utf8_chunks() {
            text.push_str(chunk.valid());
            chunk
                .invalid()
                .iter()
                .for_each(|b| text.push_str(&format!("\\x{b:02x}")));
        }
        ends.push(text.len() as i32);
    }
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    StringArray::new(ends, Buffer::from_vec(text.into_bytes()), nulls)
}

/// Takes the vector and replaces it with an empty one of at most twice the used capacity.
fn renew<T>(v: &mut Vec<T>) -> Vec<T> {
    let capacity = v.capacity().min(2 * v.len());
    std::mem::replace(v, Vec::with_capacity(capacity))
}

/// Empties the vector, and frees its memory above the limit.
fn empty<T>(v: &mut Vec<T>, capacity_max: usize) {
    v.clear();
    if v.capacity() > 2 * capacity_max {
        v.shrink_to(capacity_max);
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::*;

    /// Fills and finishes a column of floats, nulls included.
    fn floats(builder: &mut ColumnBuilder, values: &[Option<f64>]) -> ArrayRef {
        let ColumnBuilder::F64(v) = builder else {
            panic!("a column of floats")
        };
        for (row, value) in values.iter().enumerate() {
            value.iter().for_each(|value| v.at(row).push(*value));
        }
        let array = builder.finish(values.len()).expect("it is wanted");
        let read = array
            .as_primitive::<arrow_array::types::Float64Type>()
            .iter();
        let bits = |value: Option<f64>| value.map(f64::to_bits);
        assert_eq!(
            read.map(bits).collect::<Vec<_>>(),
            values.iter().copied().map(bits).collect::<Vec<_>>()
        );
        array
    }

    /// Fills and finishes a column of text, nulls included.
    fn texts(builder: &mut ColumnBuilder, values: &[Option<&str>]) -> ArrayRef {
        let ColumnBuilder::Text(v) = builder else {
            panic!("a column of text")
        };
        for (row, value) in values.iter().enumerate() {
            value.iter().for_each(|value| {
                v.push(row, |bytes| bytes.extend_from_slice(value.as_bytes()));
            });
        }
        let array = builder.finish(values.len()).expect("it is wanted");
        assert_eq!(array.as_string::<i32>().iter().collect::<Vec<_>>(), values);
        array
    }

    #[test]
    fn equal_columns_of_small_batches_are_shared_and_others_are_not() {
        let mut builder = ColumnBuilder::new(DataType::F64);
        let lists: &[&[Option<f64>]] = &[
            &[Some(0.0)],
            &[Some(-0.0)],
            &[None],
            &[Some(0.0), None],
            &[None, Some(0.0)],
            &[Some(1.0); 5],
        ];
        for values in lists {
            let [first, second] = [(); 2].map(|()| floats(&mut builder, values));
            assert_eq!(
                Arc::ptr_eq(&first, &second),
                values.len() <= SHARED_ROWS,
                "{values:?}"
            );
        }
        // Also after batches with another number of rows.
        let before = floats(&mut builder, &[None]);
        floats(&mut builder, &[None, None]);
        assert!(Arc::ptr_eq(&before, &floats(&mut builder, &[None])));
        let long = "x".repeat(SHARED_BYTES + 1);
        let mut builder = ColumnBuilder::new(DataType::Text);
        let lists: &[&[Option<&str>]] = &[
            &[Some("ab"), Some("c")],
            &[Some("a"), Some("bc")],
            &[None, Some("abc")],
            &[Some(""), Some("abc")],
            &[Some(&long)],
            &[],
        ];
        for values in lists {
            let [first, second] = [(); 2].map(|()| texts(&mut builder, values));
            assert_eq!(
                Arc::ptr_eq(&first, &second),
                values.first() != Some(&Some(&*long)),
                "{values:?}"
            );
        }
    }

    #[test]
    fn a_burst_leaves_no_memory_behind() {
        let mut builder = ColumnBuilder::new(DataType::Text);
        let many = vec![Some("some text"); 4096];
        [&many[..], &many[..1], &many[..1], &many[..1]]
            .iter()
            .for_each(|rows| {
                texts(&mut builder, rows);
            });
        let ColumnBuilder::Text(TextBuilder { text, previous, .. }) = &builder else {
            panic!("text")
        };
        for kept in previous
            .iter()
            .map(|previous| &previous.values)
            .chain([text])
        {
            assert!(
                kept.offsets.capacity() <= 2 * (SHARED_ROWS + 1),
                "{}",
                kept.offsets.capacity()
            );
            assert!(
                kept.bytes.capacity() <= 2 * SHARED_BYTES,
                "{}",
                kept.bytes.capacity()
            );
        }
    }
}
