//! Encodes columns to datums: each record is written directly from the columns into one buffer, after the previous
//! record.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::{AvroType, UnsupportedType, kinds};

/// Consecutive datums.
#[derive(Clone, Debug, Default)]
pub struct AvroRecords {
    /// The buffer; bytes after the last end are unused.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl AvroRecords {
    /// Number of datums.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no datums.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Total size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Iterates over the datums.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.ranges().map(|range| &self.bytes[range])
    }

    /// Removes all datums and keeps the memory.
    pub fn clear(&mut self) {
        self.ends.clear();
    }

    fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> + Clone {
        (0..self.ends.len()).map(|i| if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i])
    }
}

/// Appends a datum per row of the batch.
///
/// # Errors
/// If a column has an unsupported type; nothing is appended.
pub fn encode(batch: &RecordBatch, out: &mut AvroRecords) -> Result<(), UnsupportedType> {
    let columns = columns(batch)?;
    let at = out.bytes();
    let most: usize = columns
        .iter()
        .map(|column| column.bytes_max(batch.num_rows()))
        .sum();
    if out.bytes.len() < at + most + SLACK {
        out.bytes.resize(at + most + SLACK, 0);
    }
    let mut to = DatumWriter {
        bytes: &mut out.bytes,
        at,
    };
    out.ends.reserve(batch.num_rows());
    for row in 0..batch.num_rows() {
        for column in &columns {
            column.write(row, &mut to);
        }
        out.ends.push(to.at);
    }
    Ok(())
}

/// A column, or several adjacent columns with only nulls, which most tuples have.
struct EncodedColumn<'a> {
    /// Null rows, if any.
    nulls: Option<&'a NullBuffer>,
    values: EncodedValues<'a>,
}

enum EncodedValues<'a> {
    /// A number of adjacent columns with only nulls.
    Nulls(usize),
    Bool(&'a BooleanBuffer),
    Long(&'a [i64]),
    Double(&'a [f64]),
    /// Offsets, and bytes.
    Bytes(&'a [i32], &'a [u8]),
    /// Length of each value, and bytes.
    Fixed(usize, &'a [u8]),
    Decimal(&'a [i128]),
}

fn columns(batch: &RecordBatch) -> Result<Vec<EncodedColumn<'_>>, UnsupportedType> {
    let mut columns: Vec<EncodedColumn> = Vec::with_capacity(batch.num_columns());
    for (array, kind) in batch.columns().iter().zip(kinds(batch.schema_ref())?) {
        let column = EncodedColumn::of(array, kind);
        match (
            &column.values,
            columns.last_mut().map(|last| &mut last.values),
        ) {
            (EncodedValues::Nulls(_), Some(EncodedValues::Nulls(before))) => *before += 1,
            _ => columns.push(column),
        }
    }
    Ok(columns)
}

impl<'a> EncodedColumn<'a> {
    fn of(array: &'a ArrayRef, kind: AvroType) -> EncodedColumn<'a> {
        if array.null_count() == array.len() {
            return EncodedColumn {
                nulls: None,
                values: EncodedValues::Nulls(1),
            };
        }
        let values = match kind {
            AvroType::Bool => EncodedValues::Bool(array.as_boolean().values()),
            AvroType::I64 => EncodedValues::Long(array.as_primitive::<Int64Type>().values()),
            // As signed integers with the same bits.
            AvroType::U64 => EncodedValues::Long(
                array
                    .as_primitive::<UInt64Type>()
                    .values()
                    .inner()
                    .typed_data(),
            ),
            AvroType::F64 => EncodedValues::Double(array.as_primitive::<Float64Type>().values()),
            AvroType::Text => {
                let text = array.as_string::<i32>();
                EncodedValues::Bytes(text.value_offsets(), text.value_data())
            }
            AvroType::Bytes => {
                let bytes = array.as_binary::<i32>();
                EncodedValues::Bytes(bytes.value_offsets(), bytes.value_data())
            }
            AvroType::Fixed(length) => {
                EncodedValues::Fixed(length as usize, array.as_fixed_size_binary().value_data())
            }
            AvroType::Decimal => {
                EncodedValues::Decimal(array.as_primitive::<Decimal128Type>().values())
            }
        };
        EncodedColumn {
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
            values,
        }
    }

    /// Maximum size of `rows` rows.
    fn bytes_max(&self, rows: usize) -> usize {
        match self.values {
            EncodedValues::Nulls(count) => rows * count,
            EncodedValues::Bool(_) => rows * 2,
            EncodedValues::Long(_) => rows * (1 + LONG_MAX),
            EncodedValues::Double(_) => rows * 9,
            EncodedValues::Bytes(ends, _) => {
                rows * (1 + LONG_MAX) + (ends[rows] - ends[0]) as usize
            }
            EncodedValues::Fixed(length, _) => rows * (1 + LONG_MAX + length),
            EncodedValues::Decimal(_) => rows * (1 + 1 + 16),
        }
    }

    #[inline]
    fn write(&self, row: usize, to: &mut DatumWriter<'_>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return to.put([NULL]);
        }
        match self.values {
            EncodedValues::Nulls(count) => to.nulls(count),
            EncodedValues::Bool(values) => to.put([VALUE, values.value(row).into()]),
            EncodedValues::Long(values) => to.long(values[row]),
            EncodedValues::Double(values) => {
                to.put([VALUE]);
                to.put(values[row].to_le_bytes());
            }
            EncodedValues::Bytes(ends, all) => {
                to.bytes(all, ends[row] as usize..ends[row + 1] as usize)
            }
            EncodedValues::Fixed(length, all) => to.bytes(all, row * length..(row + 1) * length),
            EncodedValues::Decimal(values) => {
                let (all, unused) = decimal(values[row]);
                to.bytes(&all, unused..all.len());
            }
        }
    }
}

/// Branch 0 of the union, as a long.
const NULL: u8 = 0;
/// Branch 1, as a long.
const VALUE: u8 = 2;

/// Bytes of the largest long.
const LONG_MAX: usize = 10;
/// Maximum bytes written beyond the end of a value.
const SLACK: usize = 32;

/// Writes short values as blocks of fixed length, in one or two instructions; bytes after the value are overwritten
/// by the next one. The caller must provide a buffer with sufficient space.
struct DatumWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl DatumWriter<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, piece: [u8; N]) {
        self.begin(piece, N);
    }

    /// Writes a block of which `length` bytes are used.
    #[inline]
    fn begin<const N: usize>(&mut self, piece: [u8; N], length: usize) {
        self.bytes[self.at..][..N].copy_from_slice(&piece);
        self.at += length;
    }

    #[inline]
    fn nulls(&mut self, count: usize) {
        if count <= SLACK {
            self.begin([NULL; SLACK], count);
        } else {
            self.bytes[self.at..][..count].fill(NULL);
            self.at += count;
        }
    }

    #[inline]
    fn long(&mut self, value: i64) {
        let (varint, length) = varint(value);
        self.begin((varint << 8 | u128::from(VALUE)).to_le_bytes(), 1 + length);
    }

    #[inline]
    fn bytes(&mut self, all: &[u8], range: Range<usize>) {
        let length = range.len();
        self.long(length as i64);
        match all[range.start..].first_chunk::<SLACK>() {
            Some(piece) if length <= SLACK => self.begin(*piece, length),
            _ => {
                self.bytes[self.at..][..length].copy_from_slice(&all[range]);
                self.at += length;
            }
        }
    }
}

/// Encodes a long, least significant byte first, and returns its number of bytes: seven bits per byte, least
/// significant first, with the top bit for continuation.
#[inline]
fn varint(value: i64) -> (u128, usize) {
    let bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let length = (70 - (bits | 1).leading_zeros() as usize) / 7;
    // Spreads eight groups of seven bits by successive halving.
    let low = bits & 0x00ff_ffff_ffff_ffff;
    let low = (low & 0x00ff_ffff_f000_0000) << 4 | low & 0x0fff_ffff;
    let low = (low & 0x0fff_c000_0fff_c000) << 2 | low & 0x0000_3fff_0000_3fff;
    let low = (low & 0x3f80_3f80_3f80_3f80) << 1 | low & 0x007f_007f_007f_007f;
    let high = bits >> 56 & 0x7f | bits >> 63 << 8;
    let more = (1u128 << (8 * (length - 1))) - 1;
    let more = more & 0x80_8080_8080_8080_8080;
    (u128::from(low) | u128::from(high) << 64 | more, length)
}

/// The bytes in big-endian order, and the number of leading bytes to omit: the shortest form that preserves the sign.
fn decimal(value: i128) -> ([u8; 16], usize) {
    let sign_bits = if value < 0 {
        value.leading_ones()
    } else {
        value.leading_zeros()
    };
    // One sign bit must remain.
    (
        value.to_be_bytes(),
        (sign_bits.saturating_sub(1) / 8).min(15) as usize,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_those_of_a_plain_loop() {
        let plain = |value: i64| {
            let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
            let mut bytes = Vec::new();
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            bytes
        };
        let edges =
            (0..64).flat_map(|bit| [1 << bit, (1u64 << bit) - 1, 0x5555_5555_5555_5555 >> bit]);
        for value in edges.flat_map(|bits| [bits.cast_signed(), !bits.cast_signed()]) {
            let (bytes, length) = varint(value);
            assert_eq!(bytes.to_le_bytes()[..length], plain(value), "{value}");
            assert!(
                bytes.to_le_bytes()[length..].iter().all(|byte| *byte == 0),
                "{value}"
            );
        }
    }
}
