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
pub struct Cells<'a> {
    /// Unit.
    pub unit: Unit,
    /// Values.
    pub values: Values<'a>,
}

/// The values of one column by type.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Values<'a> {
    Bool(&'a BooleanArray),
    U64(&'a UInt64Array),
    I64(&'a Int64Array),
    F64(&'a Float64Array),
    Text(&'a StringArray),
    Json(&'a StringArray),
    Ip(&'a FixedSizeBinaryArray),
    Hashes(&'a BinaryArray),
}

impl<'a> Cells<'a> {
    /// The column `id`, if the batch has it.
    #[must_use]
    pub fn of(batch: &'a Batch, id: FieldId) -> Option<Cells<'a>> {
        batch.column(id)?;
        let field = batch.schema().field(id);
        let values = match field.data_type {
            DataType::Bool => Values::Bool(batch.bool(id)),
            DataType::U64 => Values::U64(batch.u64(id)),
            DataType::I64 => Values::I64(batch.i64(id)),
            DataType::F64 => Values::F64(batch.f64(id)),
            DataType::Text => Values::Text(batch.text(id)),
            DataType::Json => Values::Json(batch.text(id)),
            DataType::Ip => Values::Ip(batch.ip(id)),
            DataType::Hashes => Values::Hashes(batch.hashes(id)),
        };
        Some(Cells { unit: field.unit, values })
    }

    /// Whether the value at `row` is null. NaN and infinities count as null: JSON cannot represent them.
    #[inline]
    #[must_use]
    pub fn is_null(&self, row: usize) -> bool {
        match self.values {
            Values::Bool(a) => a.is_null(row),
            Values::U64(a) => a.is_null(row),
            Values::I64(a) => a.is_null(row),
            Values::F64(a) => a.is_null(row) || !a.value(row).is_finite(),
            Values::Text(a) | Values::Json(a) => a.is_null(row),
            Values::Ip(a) => a.is_null(row),
            Values::Hashes(a) => a.is_null(row),
        }
    }

    /// Whether the text of [`Cells::push`] must be quoted in JSON.
    #[must_use]
    pub fn is_quoted(&self) -> bool {
        match self.values {
            Values::Text(_) | Values::Ip(_) | Values::Hashes(_) => true,
            Values::U64(_) => self.unit == Unit::Id,
            _ => false,
        }
    }

    /// Appends the exact value at `row`, which must not be null: integers unchanged, floats as the shortest text that
    /// reads back to the same number, ids and hashes as 16 hexadecimal digits, addresses as text.
    #[inline]
    pub fn push(&self, row: usize, out: &mut Vec<u8>) {
        match self.values {
            Values::Bool(a) => out.extend_from_slice(if a.value(row) { b"true" } else { b"false" }),
            Values::U64(a) if self.unit == Unit::Id => push_hex(a.value(row), out),
            Values::U64(a) => out.extend_from_slice(itoa::Buffer::new().format(a.value(row)).as_bytes()),
            Values::I64(a) => out.extend_from_slice(itoa::Buffer::new().format(a.value(row)).as_bytes()),
            Values::F64(a) => push_float(out, a.value(row)),
            Values::Text(a) | Values::Json(a) => out.extend_from_slice(a.value(row).as_bytes()),
            Values::Ip(a) => push_ip(out, ip(a.value(row))),
            Values::Hashes(a) => push_text(a.value(row), out),
        }
    }

    /// Formats the value for people: three significant digits with unit.
    #[must_use]
    pub fn shown(&self, row: usize) -> String {
        match self.values {
            Values::U64(a) => units::number(self.unit, a.value(row) as f64),
            Values::I64(a) => units::number(self.unit, a.value(row) as f64),
            Values::F64(a) => units::number(self.unit, a.value(row)),
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
    batch.present().map(|id| batch.schema().field(id).name.to_string()).collect()
}

/// Address in an `Ip` column; IPv4-mapped ones become IPv4.
#[must_use]
pub fn ip(bytes: &[u8]) -> IpAddr {
    let bytes: [u8; 16] = bytes.try_into().expect("an Ip column is FixedSizeBinary(16)");
    Ipv6Addr::from(bytes).to_canonical()
}

fn push_float(out: &mut Vec<u8>, value: f64) {
    // `{:?}` is the shortest text that reads back, with an exponent if there would be many digits.
    write!(out, "{value:?}").expect("a Vec takes every byte");
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
        IpAddr::V6(ip) => write!(out, "{ip}").expect("a Vec takes every byte"),
    }
}
