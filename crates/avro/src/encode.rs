//! Columns to datums: each record is written straight from the columns, behind the one before, into one buffer.

use std::iter;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array,
    Int64Array, RecordBatch, StringArray, UInt64Array,
};

use super::{Kind, Unsupported, kinds};

/// Datums one after another.
#[derive(Clone, Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Records {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What all of them take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// One after another.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.ranges().map(|range| &self.bytes[range])
    }

    /// Forgets them and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> + Clone {
        (0..self.ends.len()).map(|i| if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i])
    }
}

/// Appends a datum for each row of the batch.
///
/// # Errors
/// When a column has a type without a form; nothing is appended then.
pub fn encode(batch: &RecordBatch, out: &mut Records) -> Result<(), Unsupported> {
    let columns = columns(batch)?;
    out.ends.reserve(batch.num_rows());
    for row in 0..batch.num_rows() {
        for column in &columns {
            column.write(row, &mut out.bytes);
        }
        out.ends.push(out.bytes.len());
    }
    Ok(())
}

/// A column, or several of them side by side that hold nothing: most tuples have many of those.
enum Column<'a> {
    Nulls(usize),
    Bool(&'a BooleanArray),
    I64(&'a Int64Array),
    U64(&'a UInt64Array),
    F64(&'a Float64Array),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Fixed(&'a FixedSizeBinaryArray),
    Decimal(&'a Decimal128Array),
}

fn columns(batch: &RecordBatch) -> Result<Vec<Column<'_>>, Unsupported> {
    let mut columns: Vec<Column> = Vec::with_capacity(batch.num_columns());
    for (array, kind) in batch.columns().iter().zip(kinds(batch.schema_ref())?) {
        match (Column::of(array, kind), columns.last_mut()) {
            (Column::Nulls(_), Some(Column::Nulls(before))) => *before += 1,
            (column, _) => columns.push(column),
        }
    }
    Ok(columns)
}

impl<'a> Column<'a> {
    fn of(array: &'a ArrayRef, kind: Kind) -> Column<'a> {
        if array.null_count() == array.len() {
            return Column::Nulls(1);
        }
        match kind {
            Kind::Bool => Column::Bool(array.as_boolean()),
            Kind::I64 => Column::I64(array.as_primitive::<Int64Type>()),
            Kind::U64 => Column::U64(array.as_primitive::<UInt64Type>()),
            Kind::F64 => Column::F64(array.as_primitive::<Float64Type>()),
            Kind::Text => Column::Text(array.as_string::<i32>()),
            Kind::Bytes => Column::Bytes(array.as_binary::<i32>()),
            Kind::Fixed(_) => Column::Fixed(array.as_fixed_size_binary()),
            Kind::Decimal => Column::Decimal(array.as_primitive::<Decimal128Type>()),
        }
    }

    #[inline]
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Column::Nulls(count) => out.extend(iter::repeat_n(NULL, *count)),
            Column::Bool(array) => field(*array, row, out, |out| out.push(array.value(row).into())),
            Column::I64(array) => field(*array, row, out, |out| long(array.value(row), out)),
            Column::U64(array) => field(*array, row, out, |out| long(array.value(row).cast_signed(), out)),
            Column::F64(array) => {
                field(*array, row, out, |out| out.extend_from_slice(&array.value(row).to_le_bytes()));
            }
            Column::Text(array) => field(*array, row, out, |out| bytes(array.value(row).as_bytes(), out)),
            Column::Bytes(array) => field(*array, row, out, |out| bytes(array.value(row), out)),
            Column::Fixed(array) => field(*array, row, out, |out| bytes(array.value(row), out)),
            Column::Decimal(array) => field(*array, row, out, |out| decimal(array.value(row), out)),
        }
    }
}

/// Branch 0 of the union, as a long.
const NULL: u8 = 0;
/// Branch 1, as a long.
const VALUE: u8 = 2;

#[inline]
fn field(array: &impl Array, row: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if array.is_null(row) {
        out.push(NULL);
    } else {
        out.push(VALUE);
        write(out);
    }
}

#[inline]
fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut varint = [0; 10];
    let mut length = 0;
    while rest >= 0x80 {
        varint[length] = rest as u8 | 0x80;
        rest >>= 7;
        length += 1;
    }
    varint[length] = rest as u8;
    out.extend_from_slice(&varint[..=length]);
}

#[inline]
fn bytes(value: &[u8], out: &mut Vec<u8>) {
    long(value.len() as i64, out);
    out.extend_from_slice(value);
}

/// As few bytes as keep the sign.
fn decimal(value: i128, out: &mut Vec<u8>) {
    let all = value.to_be_bytes();
    let sign_bits = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    // One bit of the sign has to stay.
    let unused = (sign_bits.saturating_sub(1) / 8).min(15) as usize;
    bytes(&all[unused..], out);
}
