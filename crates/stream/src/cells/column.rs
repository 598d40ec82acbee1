//! Columns of cells: written row by row, with nulls in rows without a value, and read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Decimal128Builder, Float64Builder, Int64Builder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray,
};
use tuple::DataType;

use crate::partial::Malformed;
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
pub enum Building {
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
            Building::Bool($one) => $body,
            Building::Long($one) => $body,
            Building::Double($one) => $body,
            Building::Text($one) => $body,
            Building::Bytes($one) => $body,
            Building::Decimal($one) => $body,
        }
    };
}

impl Building {
    /// Creates an empty column.
    pub fn new(data: CellType) -> Building {
        match data {
            CellType::Bool => Building::Bool(BooleanBuilder::new()),
            CellType::Long => Building::Long(Int64Builder::new()),
            CellType::Double => Building::Double(Float64Builder::new()),
            CellType::Text => Building::Text(StringBuilder::new()),
            CellType::Bytes => Building::Bytes(BinaryBuilder::new()),
            CellType::Decimal => Building::Decimal(decimals()),
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
        let Building::Long(one) = self else { unreachable!("the column is one of whole numbers") };
        one.append_value_n(value, rows.len());
    }

    /// Sets all `rows` to `value`.
    pub fn doubles(&mut self, rows: Range<usize>, value: f64) {
        self.pad(rows.start);
        let Building::Double(one) = self else { unreachable!("the column is one of real numbers") };
        one.append_value_n(value, rows.len());
    }

    /// Sets one row.
    pub fn double(&mut self, row: usize, value: f64) {
        self.doubles(row..row + 1, value);
    }

    /// Sets one row.
    pub fn decimal(&mut self, row: usize, value: i128) {
        self.pad(row);
        let Building::Decimal(one) = self else { unreachable!("the column is one of decimals") };
        one.append_value(value);
    }

    /// Sets one row.
    pub fn bytes(&mut self, row: usize, value: &[u8]) {
        self.pad(row);
        let Building::Bytes(one) = self else { unreachable!("the column is one of bytes") };
        one.append_value(value);
    }

    /// Sets all `rows` to `scalar`.
    pub fn scalars(&mut self, rows: Range<usize>, scalar: &Scalar<'_>) {
        self.pad(rows.start);
        let n = rows.len();
        match (self, scalar) {
            (_, Scalar::Null) => {}
            (Building::Bool(one), Scalar::Bool(v)) => one.append_n(n, *v),
            (Building::Long(one), Scalar::U64(v)) => one.append_value_n(*v as i64, n),
            (Building::Long(one), Scalar::I64(v)) => one.append_value_n(*v, n),
            (Building::Double(one), Scalar::F64(v)) => one.append_value_n(*v, n),
            (Building::Text(one), Scalar::Text(v)) => {
                let text = std::str::from_utf8(v).expect("a key is made of a text");
                (0..n).for_each(|_| one.append_value(text));
            }
            (Building::Bytes(one), Scalar::Ip(v)) => (0..n).for_each(|_| one.append_value(v)),
            (Building::Bytes(one), Scalar::Hashes(v)) => (0..n).for_each(|_| one.append_value(v)),
            _ => unreachable!("the column has its key's type"),
        }
    }

    /// Returns the column of `rows` rows and clears it.
    pub fn finish(&mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        let column: ArrayRef = each_type!(self, one => Arc::new(one.finish()));
        if let Building::Decimal(one) = self {
            *one = decimals();
        }
        column
    }
}

fn decimals() -> Decimal128Builder {
    Decimal128Builder::new().with_precision_and_scale(DIGITS, 0).expect("decimals have up to 38 digits")
}

/// A column to read.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    Bool(&'a BooleanArray),
    Long(&'a Int64Array),
    Double(&'a Float64Array),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Decimal(&'a Decimal128Array),
}

impl<'a> Column<'a> {
    /// Wraps `column` if it has the type `data`.
    pub fn of(column: &'a ArrayRef, data: CellType) -> Option<Column<'a>> {
        Some(match data {
            CellType::Bool => Column::Bool(column.as_boolean_opt()?),
            CellType::Long => Column::Long(column.as_primitive_opt::<Int64Type>()?),
            CellType::Double => Column::Double(column.as_primitive_opt::<Float64Type>()?),
            CellType::Text => Column::Text(column.as_string_opt::<i32>()?),
            CellType::Bytes => Column::Bytes(column.as_binary_opt::<i32>()?),
            CellType::Decimal => {
                let column = column.as_primitive_opt::<Decimal128Type>().filter(|c| c.scale() == 0);
                Column::Decimal(column?)
            }
        })
    }

    /// The integer in `row`; `None` for null.
    pub fn long(self, row: usize) -> Option<i64> {
        if let Column::Long(v) = self { v.is_valid(row).then(|| v.value(row)) } else { None }
    }

    /// The floating point number in `row`; `None` for null.
    pub fn double(self, row: usize) -> Option<f64> {
        if let Column::Double(v) = self { v.is_valid(row).then(|| v.value(row)) } else { None }
    }

    /// The decimal in `row`; `None` for null.
    pub fn decimal(self, row: usize) -> Option<i128> {
        if let Column::Decimal(v) = self { v.is_valid(row).then(|| v.value(row)) } else { None }
    }

    /// The bytes in `row`; `None` for null.
    pub fn bytes(self, row: usize) -> Option<&'a [u8]> {
        if let Column::Bytes(v) = self { v.is_valid(row).then(|| v.value(row)) } else { None }
    }

    /// The value in `row` of a column with tuple values of type `data_type`.
    pub fn scalar(self, row: usize, data_type: DataType) -> Result<Scalar<'a>, Malformed> {
        Ok(match self {
            Column::Bool(v) if v.is_valid(row) => Scalar::Bool(v.value(row)),
            Column::Long(v) if v.is_valid(row) => match data_type {
                DataType::U64 => Scalar::U64(v.value(row) as u64),
                _ => Scalar::I64(v.value(row)),
            },
            Column::Double(v) if v.is_valid(row) => Scalar::F64(v.value(row) + 0.0),
            Column::Text(v) if v.is_valid(row) => Scalar::Text(v.value(row).as_bytes()),
            Column::Bytes(v) if v.is_valid(row) => of_bytes(v.value(row), data_type)?,
            _ => Scalar::Null,
        })
    }
}

fn of_bytes(bytes: &[u8], data_type: DataType) -> Result<Scalar<'_>, Malformed> {
    match data_type {
        DataType::Ip => bytes.try_into().map(Scalar::Ip).map_err(|_| Malformed::Invalid("an address")),
        _ if bytes.len().is_multiple_of(tuple::hashes::BYTES) => Ok(Scalar::Hashes(bytes)),
        _ => Err(Malformed::Invalid("a list of hashes")),
    }
}
