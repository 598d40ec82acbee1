//! Columns of cells: written row by row, with nulls in rows without a value, and read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Decimal128Builder, Float64Builder, Int64Builder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    StringArray,
};
use tuple::DataType;

use crate::partial::MalformedPartial;
use crate::scalar::Scalar;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// Boolean.
    Bool,
    /// 64-bit signed integer; holds unsigned integers by their bits.
    Long,
    /// 64-bit floating point number.
    Double,
    /// UTF-8 text.
    Text,
    /// Bytes. Addresses have 16 bytes, IPv4 mapped into IPv6.
    Bytes,
    /// Integer of up to 38 digits.
    Decimal,
}

impl CellType {
    /// The type for the values of a tuple column.
    #[must_use]
    pub fn of(data_type: DataType) -> CellType {
        match data_type {
            DataType::Bool => CellType::Bool,
            DataType::U64 | DataType::I64 => CellType::Long,
            DataType::F64 => CellType::Double,
            DataType::Text | DataType::Json => CellType::Text,
            DataType::Ip | DataType::Hashes => CellType::Bytes,
        }
    }
}

/// Precision of a decimal, in digits.
const DIGITS: u8 = 38;

/// A column under construction. Rows are set in ascending order; skipped rows are null.
pub enum CellColumnBuilder {
    Bool(BooleanBuilder),
    Long(Int64Builder),
    Double(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Decimal(Decimal128Builder),
}

/// Evaluates `$body` with the builder of any type bound to `$one`.
macro_rules! each_type {
    ($building:expr, $one:pat => $body:expr) => {
        match $building {
            CellColumnBuilder::Bool($one) => $body,
            CellColumnBuilder::Long($one) => $body,
            CellColumnBuilder::Double($one) => $body,
            CellColumnBuilder::Text($one) => $body,
            CellColumnBuilder::Bytes($one) => $body,
            CellColumnBuilder::Decimal($one) => $body,
        }
    };
}

impl CellColumnBuilder {
    /// Creates an empty column.
    pub fn new(data: CellType) -> CellColumnBuilder {
        match data {
            CellType::Bool => CellColumnBuilder::Bool(BooleanBuilder::new()),
            CellType::Long => CellColumnBuilder::Long(Int64Builder::new()),
            CellType::Double => CellColumnBuilder::Double(Float64Builder::new()),
            CellType::Text => CellColumnBuilder::Text(StringBuilder::new()),
            CellType::Bytes => CellColumnBuilder::Bytes(BinaryBuilder::new()),
            CellType::Decimal => CellColumnBuilder::Decimal(decimals()),
        }
    }

    /// Appends nulls up to `row`.
    fn pad(&mut self, row: usize) {
        use arrow_array::builder::ArrayBuilder;
        each_type!(self, one => if one.len() < row { one.append_nulls(row - one.len()) });
    }

    /// Sets one row.
    pub fn long(&mut self, row: usize, value: i64) {
        self.longs(row..row + 1, value);
    }

    /// Sets all `rows` to `value`.
    pub fn longs(&mut self, rows: Range<usize>, value: i64) {
        self.pad(rows.start);
        let CellColumnBuilder::Long(one) = self else {
            unreachable!("the column is one of whole numbers")
        };
        one.append_value_n(value, rows.len());
    }

    /// Sets all `rows` to `value`.
    pub fn doubles(&mut self, rows: Range<usize>, value: f64) {
        self.pad(rows.start);
        let CellColumnBuilder::Double(one) = self else {
            unreachable!("the column is one of real numbers")
        };
        one.append_value_n(value, rows.len());
    }

    /// Sets one row.
    pub fn double(&mut self, row: usize, value: f64) {
        self.doubles(row..row + 1, value);
    }

    /// Sets one row.
    pub fn decimal(&mut self, row: usize, value: i128) {
        self.pad(row);
        let CellColumnBuilder::Decimal(one) = self else {
            unreachable!("the column is one of decimals")
        };
        one.append_value(value);
    }

    /// Sets one row.
    pub fn bytes(&mut self, row: usize, value: &[u8]) {
        self.pad(row);
        let CellColumnBuilder::Bytes(one) = self else {
            unreachable!("the column is one of bytes")
        };
        one.append_value(value);
    }

    /// Sets all `rows` to `scalar`.
    pub fn scalars(&mut self, rows: Range<usize>, scalar: &Scalar<'_>) {
        self.pad(rows.start);
        let n = rows.len();
        match (self, scalar) {
            (_, Scalar::Null) => {}
            (CellColumnBuilder::Bool(one), Scalar::Bool(v)) => one.append_n(n, *v),
            (CellColumnBuilder::Long(one), Scalar::U64(v)) => one.append_value_n(*v as i64, n),
            (CellColumnBuilder::Long(one), Scalar::I64(v)) => one.append_value_n(*v, n),
            (CellColumnBuilder::Double(one), Scalar::F64(v)) => one.append_value_n(*v, n),
            (CellColumnBuilder::Text(one), Scalar::Text(v)) => {
                let text = std::str::from_utf8(v).expect("a key is made of a text");
                (0..n).for_each(|_| one.append_value(text));
            }
            (CellColumnBuilder::Bytes(one), Scalar::Ip(v)) => {
                (0..n).for_each(|_| one.append_value(v))
            }
            (CellColumnBuilder::Bytes(one), Scalar::Hashes(v)) => {
                (0..n).for_each(|_| one.append_value(v))
            }
            _ => unreachable!("the column has its key's type"),
        }
    }

    /// Returns the column of `rows` rows and clears it.
    pub fn finish(&mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        let column: ArrayRef = each_type!(self, one => Arc::new(one.finish()));
        if let CellColumnBuilder::Decimal(one) = self {
            *one = decimals();
        }
        column
    }
}

fn decimals() -> Decimal128Builder {
    Decimal128Builder::new()
        .with_precision_and_scale(DIGITS, 0)
        .expect("decimals have up to 38 digits")
}

/// A column to read.
#[derive(Clone, Copy)]
pub enum CellColumnReader<'a> {
    Bool(&'a BooleanArray),
    Long(&'a Int64Array),
    Double(&'a Float64Array),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Decimal(&'a Decimal128Array),
}

impl<'a> CellColumnReader<'a> {
    /// Wraps `column` if it has the type `data`.
    pub fn of(column: &'a ArrayRef, data: CellType) -> Option<CellColumnReader<'a>> {
        Some(match data {
            CellType::Bool => CellColumnReader::Bool(column.as_boolean_opt()?),
            CellType::Long => CellColumnReader::Long(column.as_primitive_opt::<Int64Type>()?),
            CellType::Double => CellColumnReader::Double(column.as_primitive_opt::<Float64Type>()?),
            CellType::Text => CellColumnReader::Text(column.as_string_opt::<i32>()?),
            CellType::Bytes => CellColumnReader::Bytes(column.as_binary_opt::<i32>()?),
            CellType::Decimal => {
                let column = column
                    .as_primitive_opt::<Decimal128Type>()
                    .filter(|c| c.scale() == 0);
                CellColumnReader::Decimal(column?)
            }
        })
    }

    /// The integer in `row`; `None` for null.
    pub fn long(self, row: usize) -> Option<i64> {
        if let CellColumnReader::Long(v) = self {
            v.is_valid(row).then(|| v.value(row))
        } else {
            None
        }
    }

    /// The floating point number in `row`; `None` for null.
    pub fn double(self, row: usize) -> Option<f64> {
        if let CellColumnReader::Double(v) = self {
            v.is_valid(row).then(|| v.value(row))
        } else {
            None
        }
    }

    /// The decimal in `row`; `None` for null.
    pub fn decimal(self, row: usize) -> Option<i128> {
        if let CellColumnReader::Decimal(v) = self {
            v.is_valid(row).then(|| v.value(row))
        } else {
            None
        }
    }

    /// The bytes in `row`; `None` for null.
    pub fn bytes(self, row: usize) -> Option<&'a [u8]> {
        if let CellColumnReader::Bytes(v) = self {
            v.is_valid(row).then(|| v.value(row))
        } else {
            None
        }
    }

    /// The value in `row` of a column with tuple values of type `data_type`.
    pub fn scalar(self, row: usize, data_type: DataType) -> Result<Scalar<'a>, MalformedPartial> {
        Ok(match self {
            CellColumnReader::Bool(v) if v.is_valid(row) => Scalar::Bool(v.value(row)),
            CellColumnReader::Long(v) if v.is_valid(row) => match data_type {
                DataType::U64 => Scalar::U64(v.value(row) as u64),
                _ => Scalar::I64(v.value(row)),
            },
            CellColumnReader::Double(v) if v.is_valid(row) => Scalar::F64(v.value(row) + 0.0),
            CellColumnReader::Text(v) if v.is_valid(row) => Scalar::Text(v.value(row).as_bytes()),
            CellColumnReader::Bytes(v) if v.is_valid(row) => of_bytes(v.value(row), data_type)?,
            _ => Scalar::Null,
        })
    }
}

fn of_bytes(bytes: &[u8], data_type: DataType) -> Result<Scalar<'_>, MalformedPartial> {
    match data_type {
        DataType::Ip => bytes
            .try_into()
            .map(Scalar::Ip)
            .map_err(|_| MalformedPartial::Invalid("an address")),
        _ if bytes.len().is_multiple_of(tuple::hashes::BYTES) => Ok(Scalar::Hashes(bytes)),
        _ => Err(MalformedPartial::Invalid("a list of hashes")),
    }
}
