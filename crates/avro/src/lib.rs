//! Rows as Avro: binary datums without header or registry, compatible with Flink's format `avro`.
//!
//! A datum is a record with fields in the order of the schema, each of them nullable: the union `[null, T]`, with
//! branch 0 for null and 1 for a value. A datum does not name its fields. The schemas of writer and reader are equal,
//! or one is a prefix of the other: readers skip unknown fields at the end.
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
//! A long is a zigzag varint, a double has eight bytes, text and bytes have their length as a long prefix, a decimal
//! is big-endian two's complement.

mod decode;
mod encode;
mod input;
mod schema;
#[cfg(test)]
mod tests;

pub use decode::{AvroDecoder, MalformedDatum};
pub use encode::{AvroRecords, encode};
pub use input::DatumFault;
pub use schema::{schema_json, sql_type};

use arrow_schema::{DataType, Schema};

/// Precision of decimals in digits; all 38-digit numbers fit into 128 bits.
pub const DECIMAL_DIGITS: u8 = 38;

/// An unsupported type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}`: {found} has no Avro form here")]
pub struct UnsupportedType {
    column: String,
    found: DataType,
}

/// The encoding of a column in a datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AvroType {
    Bool,
    I64,
    U64,
    F64,
    Text,
    Bytes,
    Fixed(i32),
    Decimal,
}

/// The encodings of all columns.
fn kinds(schema: &Schema) -> Result<Vec<AvroType>, UnsupportedType> {
    let kind = |found: &DataType| match found {
        DataType::Boolean => Some(AvroType::Bool),
        DataType::Int64 => Some(AvroType::I64),
        DataType::UInt64 => Some(AvroType::U64),
        DataType::Float64 => Some(AvroType::F64),
        DataType::Utf8 => Some(AvroType::Text),
        DataType::Binary => Some(AvroType::Bytes),
        DataType::FixedSizeBinary(length) => Some(AvroType::Fixed(*length)),
        DataType::Decimal128(DECIMAL_DIGITS, 0) => Some(AvroType::Decimal),
        _ => None,
    };
    let of = |field: &arrow_schema::FieldRef| {
        let unsupported = || UnsupportedType {
            column: field.name().clone(),
            found: field.data_type().clone(),
        };
        kind(field.data_type()).ok_or_else(unsupported)
    };
    schema.fields().iter().map(of).collect()
}
