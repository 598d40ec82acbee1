//! One column of a batch with its type known once, and its values as exact text: what JSON lines and CSV share.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};

use arrow_array::{
    Array, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, StringArray,
    UInt64Array,
};
use tuple::hashes::{push_hex, push_text};
use tuple::{Batch, DataType, FieldId, Unit};

use crate::units;

/// The cells of one column.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    /// What they count.
    pub unit: Unit,
    /// Their values.
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
    /// The column at `id`, if the batch has it.
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

    /// Whether the value at `row` is null. A float that is no number counts as null: neither JSON nor a person has a
    /// use for it.
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

    /// Whether JSON wants quotes around [`Cells::push`]'s text.
    #[must_use]
    pub fn is_quoted(&self) -> bool {
        match self.values {
            Values::Text(_) | Values::Ip(_) | Values::Hashes(_) => true,
            Values::U64(_) => self.unit == Unit::Id,
            _ => false,
        }
    }

    /// Appends the value at `row`, which is not null, exactly: integers as they are, floats as the shortest text that
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

    /// A row's value as people read it: numbers with three digits that matter and their unit.
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

/// The names of the columns that are there.
#[must_use]
pub fn names(batch: &Batch) -> Vec<String> {
    batch.present().map(|id| batch.schema().field(id).name.to_string()).collect()
}

/// The address in an `Ip` column; IPv4-mapped ones come back as IPv4.
#[must_use]
pub fn ip(bytes: &[u8]) -> IpAddr {
    let bytes: [u8; 16] = bytes.try_into().expect("an Ip column is FixedSizeBinary(16)");
    Ipv6Addr::from(bytes).to_canonical()
}

fn push_float(out: &mut Vec<u8>, value: f64) {
    // `{:?}` is the shortest text that reads back, with an exponent where the digits would be many.
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
