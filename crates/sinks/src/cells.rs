//! A column of a batch with its type resolved once, and its values as exact text; shared by JSON lines and CSV.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};

use arrow_array::{
    Array, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, StringArray,
    UInt64Array,
};
use tuple::hashes::{push_hex, push_text};
use tuple::{Batch, DataType, FieldId, Unit};

use crate::units;

/// Cells of a column.
#[derive(Clone, Copy)]
pub struct ColumnCells<'a> {
    /// Unit.
    pub unit: Unit,
    /// Values.
    pub values: CellValues<'a>,
}

/// The values of one column by type.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum CellValues<'a> {
    Bool(&'a BooleanArray),
    U64(&'a UInt64Array),
    I64(&'a Int64Array),
    F64(&'a Float64Array),
    Text(&'a StringArray),
    Json(&'a StringArray),
    Ip(&'a FixedSizeBinaryArray),
    Hashes(&'a BinaryArray),
}

impl<'a> ColumnCells<'a> {
    /// The column `id`, if the batch has it.
    #[must_use]
    pub fn of(batch: &'a Batch, id: FieldId) -> Option<ColumnCells<'a>> {
        batch.column(id)?;
        let field = batch.schema().field(id);
        let values = match field.data_type {
            DataType::Bool => CellValues::Bool(batch.bool(id)),
            DataType::U64 => CellValues::U64(batch.u64(id)),
            DataType::I64 => CellValues::I64(batch.i64(id)),
            DataType::F64 => CellValues::F64(batch.f64(id)),
            DataType::Text => CellValues::Text(batch.text(id)),
            DataType::Json => CellValues::Json(batch.text(id)),
            DataType::Ip => CellValues::Ip(batch.ip(id)),
            DataType::Hashes => CellValues::Hashes(batch.hashes(id)),
        };
        Some(ColumnCells {
            unit: field.unit,
            values,
        })
    }

    /// Whether the value at `row` is null. NaN and infinities count as null: JSON cannot represent them.
    #[inline]
    #[must_use]
    pub fn is_null(&self, row: usize) -> bool {
        match self.values {
            CellValues::Bool(a) => a.is_null(row),
            CellValues::U64(a) => a.is_null(row),
            CellValues::I64(a) => a.is_null(row),
            CellValues::F64(a) => a.is_null(row) || !a.value(row).is_finite(),
            CellValues::Text(a) | CellValues::Json(a) => a.is_null(row),
            CellValues::Ip(a) => a.is_null(row),
            CellValues::Hashes(a) => a.is_null(row),
        }
    }

    /// Whether the text of [`ColumnCells::push`] must be quoted in JSON.
    #[must_use]
    pub fn is_quoted(&self) -> bool {
        match self.values {
            CellValues::Text(_) | CellValues::Ip(_) | CellValues::Hashes(_) => true,
            CellValues::U64(_) => self.unit == Unit::Id,
            _ => false,
        }
    }

    /// Appends the exact value at `row`, which must not be null: integers unchanged, floats as the shortest text that
    /// reads back to the same number, ids and hashes as 16 hexadecimal digits, addresses as text.
    #[inline]
    pub fn push(&self, row: usize, out: &mut Vec<u8>) {
        match self.values {
            CellValues::Bool(a) => {
                out.extend_from_slice(if a.value(row) { b"true" } else { b"false" })
            }
            CellValues::U64(a) if self.unit == Unit::Id => push_hex(a.value(row), out),
            CellValues::U64(a) => {
                out.extend_from_slice(itoa::Buffer::new().format(a.value(row)).as_bytes())
            }
            CellValues::I64(a) => {
                out.extend_from_slice(itoa::Buffer::new().format(a.value(row)).as_bytes())
            }
            CellValues::F64(a) => push_float(out, a.value(row)),
            CellValues::Text(a) | CellValues::Json(a) => {
                out.extend_from_slice(a.value(row).as_bytes())
            }
            CellValues::Ip(a) => push_ip(out, ip(a.value(row))),
            CellValues::Hashes(a) => push_text(a.value(row), out),
        }
    }

    /// Formats the value for people: three significant digits with unit.
    #[must_use]
    pub fn shown(&self, row: usize) -> String {
        match self.values {
            CellValues::U64(a) => units::number(self.unit, a.value(row) as f64),
            CellValues::I64(a) => units::number(self.unit, a.value(row) as f64),
            CellValues::F64(a) => units::number(self.unit, a.value(row)),
            _ => {
                let mut text = Vec::new();
                self.push(row, &mut text);
                String::from_utf8_lossy(&text).into_owned()
            }
        }
    }
}

/// Names of the present columns.
#[must_use]
pub fn names(batch: &Batch) -> Vec<String> {
    batch
        .present()
        .map(|id| batch.schema().field(id).name.to_string())
        .collect()
}

/// Address in an `Ip` column; IPv4-mapped ones become IPv4.
#[must_use]
pub fn ip(bytes: &[u8]) -> IpAddr {
    let bytes: [u8; 16] = bytes
        .try_into()
        .expect("an Ip column is FixedSizeBinary(16)");
    Ipv6Addr::from(bytes).to_canonical()
}

fn push_float(out: &mut Vec<u8>, value: f64) {
    // `{:?}` is the shortest text that parses to the same value, with an exponent instead of many digits.
    write!(out, "{value:?}").expect("writing to memory cannot fail");
}

fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            for (i, octet) in ip.octets().into_iter().enumerate() {
                if i > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
            }
        }
        IpAddr::V6(ip) => write!(out, "{ip}").expect("writing to memory cannot fail"),
    }
}
