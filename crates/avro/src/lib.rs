//! Rows as Avro: binary datums without header or registry, as Flink's stock format `avro` reads and writes them.
//!
//! A datum is a record whose fields stand in the schema's order, each of them nullable: the union `[null, T]`, branch 0 for
//! null and 1 for a value. Nothing in a datum names its fields; writer and reader have the same schema, or one is the
//! beginning of the other: fields that are new at the end are passed over by those who do not know them.
//!
//! | Arrow                  | Avro                           | Flink SQL       |
//! |------------------------|--------------------------------|-----------------|
//! | `Boolean`              | `boolean`                      | `BOOLEAN`       |
//! | `Int64`                | `long`                         | `BIGINT`        |
//! | `UInt64`               | `long`, by its bits            | `BIGINT`        |
//! | `Float64`              | `double`                       | `DOUBLE`        |
//! | `Utf8`                 | `string`                       | `STRING`        |
//! | `Binary`               | `bytes`                        | `BYTES`         |
//! | `FixedSizeBinary(n)`   | `bytes`, always `n`            | `BYTES`         |
//! | `Decimal128(38, 0)`    | `bytes`, `logicalType` decimal | `DECIMAL(38,0)` |
//!
//! A long is a zigzag varint, a double eight bytes, text and bytes have their length as a long in front, a decimal is
//! two's complement, big end first.

mod decode;
mod encode;
mod input;
mod schema;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, Malformed};
pub use encode::{Records, encode};
pub use input::Fault;
pub use schema::{schema_json, sql_type};

use arrow_schema::{DataType, Schema};

/// Digits of decimals: all that 128 bits hold.
pub const DECIMAL_DIGITS: u8 = 38;

/// A type that has no form here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}`: {found} has no Avro form here")]
pub struct Unsupported {
    column: String,
    found: DataType,
}

/// What a column is in a datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    I64,
    U64,
    F64,
    Text,
    Bytes,
    Fixed(i32),
    Decimal,
}

/// The kinds of all columns.
fn kinds(schema: &Schema) -> Result<Vec<Kind>, Unsupported> {
    let kind = |found: &DataType| match found {
        DataType::Boolean => Some(Kind::Bool),
        DataType::Int64 => Some(Kind::I64),
        DataType::UInt64 => Some(Kind::U64),
        DataType::Float64 => Some(Kind::F64),
        DataType::Utf8 => Some(Kind::Text),
        DataType::Binary => Some(Kind::Bytes),
        DataType::FixedSizeBinary(length) => Some(Kind::Fixed(*length)),
        DataType::Decimal128(DECIMAL_DIGITS, 0) => Some(Kind::Decimal),
        _ => None,
    };
    let of = |field: &arrow_schema::FieldRef| {
        let unsupported = || Unsupported { column: field.name().clone(), found: field.data_type().clone() };
        kind(field.data_type()).ok_or_else(unsupported)
    };
    schema.fields().iter().map(of).collect()
}
