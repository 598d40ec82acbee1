//! Typed views of the columns of a batch, and row hashes computed column by column.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, BinaryArray, BooleanArray, StringArray};
use arrow_buffer::NullBuffer;
use tuple::{Batch, DataType, FieldId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::rows::RowSet;
use crate::scalar::Scalar;

/// A column, borrowed from its batch.
#[derive(Clone, Copy)]
pub struct ColumnView<'a> {
    /// The values; those of null rows are undefined.
    pub values: ColumnValues<'a>,
    /// Null rows; `None` if there are none.
    pub nulls: Option<&'a NullBuffer>,
}

/// The values of a column by type.
#[derive(Clone, Copy)]
pub enum ColumnValues<'a> {
    /// Booleans.
    Bool(&'a BooleanArray),
    /// Unsigned integers.
    U64(&'a [u64]),
    /// Signed integers.
    I64(&'a [i64]),
    /// Floating point.
    F64(&'a [f64]),
    /// Text and JSON.
    Text(&'a StringArray),
    /// Addresses.
    Ip(&'a [[u8; 16]]),
    /// Lists of hashes.
    Hashes(&'a BinaryArray),
}

impl<'a> ColumnView<'a> {
    /// The column `id` of `batch`.
    ///
    /// # Panics
    /// If the batch lacks the column although the dataflow declares it.
    #[must_use]
    pub fn of(batch: &'a Batch, id: FieldId) -> ColumnView<'a> {
        let schema = batch.schema();
        let Some(column) = batch.column(id) else {
            panic!(
                "{}.{} is not in the batch",
                schema.name,
                schema.field(id).name
            )
        };
        let values = match schema.field(id).data_type {
            DataType::Bool => ColumnValues::Bool(column.as_boolean()),
            DataType::U64 => ColumnValues::U64(column.as_primitive::<UInt64Type>().values()),
            DataType::I64 => ColumnValues::I64(column.as_primitive::<Int64Type>().values()),
            DataType::F64 => ColumnValues::F64(column.as_primitive::<Float64Type>().values()),
            DataType::Text | DataType::Json => ColumnValues::Text(column.as_string::<i32>()),
            DataType::Hashes => ColumnValues::Hashes(column.as_binary::<i32>()),
            DataType::Ip => ColumnValues::Ip(addresses(column.as_fixed_size_binary().value_data())),
        };
        ColumnView {
            values,
            nulls: column.nulls().filter(|n| n.null_count() > 0),
        }
    }

    /// Whether `row` is not null.
    #[inline]
    #[must_use]
    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls.is_none_or(|n| n.is_valid(row))
    }

    /// The value at `row`.
    #[inline]
    #[must_use]
    pub fn scalar(&self, row: usize) -> Scalar<'a> {
        if !self.is_valid(row) {
            return Scalar::Null;
        }
        match self.values {
            ColumnValues::Bool(v) => Scalar::Bool(v.value(row)),
            ColumnValues::U64(v) => Scalar::U64(v[row]),
            ColumnValues::I64(v) => Scalar::I64(v[row]),
            ColumnValues::F64(v) => Scalar::F64(v[row]),
            ColumnValues::Text(v) => Scalar::Text(v.value(row).as_bytes()),
            ColumnValues::Ip(v) => Scalar::Ip(&v[row]),
            ColumnValues::Hashes(v) => Scalar::Hashes(v.value(row)),
        }
    }

    /// Mixes the values of `rows` into `hashes`, one hash per row. Distinct values of a single integer column get
    /// distinct hashes.
    pub fn hash_into(&self, rows: RowSet<'_>, hashes: &mut [u64]) {
        match self.values {
            ColumnValues::Bool(v) => {
                self.mix_each(rows, hashes, |row, h| mix(h ^ u64::from(v.value(row))))
            }
            ColumnValues::U64(v) => self.mix_each(rows, hashes, |row, h| mix(h ^ v[row])),
            ColumnValues::I64(v) => self.mix_each(rows, hashes, |row, h| mix(h ^ v[row] as u64)),
            ColumnValues::F64(v) => {
                self.mix_each(rows, hashes, |row, h| mix(h ^ (v[row] + 0.0).to_bits()))
            }
            ColumnValues::Text(v) => {
                self.mix_each(rows, hashes, |row, h| {
                    xxh3_64_with_seed(v.value(row).as_bytes(), h)
                });
            }
            ColumnValues::Ip(v) => self.mix_each(rows, hashes, |row, h| hash_ip(&v[row], h)),
            ColumnValues::Hashes(v) => {
                self.mix_each(rows, hashes, |row, h| xxh3_64_with_seed(v.value(row), h));
            }
        }
    }

    #[inline]
    fn mix_each(&self, rows: RowSet<'_>, hashes: &mut [u64], f: impl Fn(usize, u64) -> u64) {
        let hashes = &mut hashes[..rows.len()];
        match self.nulls {
            None => rows.each(|place, row| hashes[place] = f(row, hashes[place])),
            Some(valid) => rows.each(|place, row| {
                let hash = hashes[place];
                hashes[place] = if valid.is_valid(row) {
                    f(row, hash)
                } else {
                    mix(!hash)
                };
            }),
        }
    }
}

/// The equivalent of [`ColumnView::hash_into`] for one value.
#[must_use]
pub fn hash_scalar(scalar: &Scalar<'_>, hash: u64) -> u64 {
    match scalar {
        Scalar::Null => mix(!hash),
        Scalar::Bool(v) => mix(hash ^ u64::from(*v)),
        Scalar::U64(v) => mix(hash ^ v),
        Scalar::I64(v) => mix(hash ^ *v as u64),
        Scalar::F64(v) => mix(hash ^ (v + 0.0).to_bits()),
        Scalar::Text(v) | Scalar::Hashes(v) => xxh3_64_with_seed(v, hash),
        Scalar::Ip(v) => hash_ip(v, hash),
    }
}

/// Splits `bytes` into consecutive addresses.
fn addresses(bytes: &[u8]) -> &[[u8; 16]] {
    bytes.as_chunks().0
}

/// Two folded multiplications (as in wyhash): every bit of the address and the seed affects every bit of the hash.
#[inline]
fn hash_ip(ip: &[u8; 16], seed: u64) -> u64 {
    let ip = u128::from_le_bytes(*ip);
    // Both factors depend on the seed, so neither can be forced to zero without knowing it.
    let first = fold(ip as u64 ^ seed, (ip >> 64) as u64 ^ seed.rotate_left(29));
    fold(first ^ 0xa076_1d64_78bd_642f, seed ^ 0xe703_7ed1_a0b4_28db)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// SplitMix64's finalizer: a bijection with full avalanche.
#[inline]
#[must_use]
pub fn mix(mut h: u64) -> u64 {
    h = h.wrapping_add(0x9e37_79b9_7f4a_7c15);
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}
