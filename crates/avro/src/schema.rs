//! Schemas for other programs: as Avro JSON for readers of the topics, and as Flink types.

use std::collections::HashSet;

use arrow_schema::Schema;
use serde_json::{Value, json};

use super::{AvroType, DECIMAL_DIGITS, UnsupportedType, kinds};

/// The Avro schema of a record. A column with a name invalid in Avro (`request_header.host`) has `_` in place of
/// other characters, and the original name as `doc`.
///
/// # Errors
/// If a column has an unsupported type.
pub fn schema_json(schema: &Schema, name: &str) -> Result<Value, UnsupportedType> {
    let mut taken = HashSet::new();
    let field = |(field, kind): (&arrow_schema::FieldRef, AvroType)| {
        let mut avro_name = avro_name(field.name());
        while !taken.insert(avro_name.clone()) {
            avro_name.push('_');
        }
        let mut told =
            json!({"name": avro_name, "type": ["null", avro_type(kind)], "default": null});
        if avro_name != *field.name() {
            told["doc"] = json!(field.name());
        }
        told
    };
    let fields: Vec<Value> = schema
        .fields()
        .iter()
        .zip(kinds(schema)?)
        .map(field)
        .collect();
    Ok(json!({"type": "record", "name": avro_name(name), "fields": fields}))
}

/// The column types in Flink SQL, from which Flink's format `avro` derives the same schema.
///
/// # Errors
/// If a column has an unsupported type.
pub fn sql_type(schema: &Schema) -> Result<Vec<&'static str>, UnsupportedType> {
    let of = |kind: AvroType| match kind {
        AvroType::Bool => "BOOLEAN",
        AvroType::I64 | AvroType::U64 => "BIGINT",
        AvroType::F64 => "DOUBLE",
        AvroType::Text => "STRING",
        AvroType::Bytes | AvroType::Fixed(_) => "BYTES",
        AvroType::Decimal => "DECIMAL(38,0)",
    };
    Ok(kinds(schema)?.into_iter().map(of).collect())
}

fn avro_type(kind: AvroType) -> Value {
    match kind {
        AvroType::Bool => json!("boolean"),
        AvroType::I64 | AvroType::U64 => json!("long"),
        AvroType::F64 => json!("double"),
        AvroType::Text => json!("string"),
        AvroType::Bytes | AvroType::Fixed(_) => json!("bytes"),
        AvroType::Decimal => {
            json!({"type": "bytes", "logicalType": "decimal", "precision": DECIMAL_DIGITS, "scale": 0})
        }
    }
}

/// Converts a name to letters, digits, and `_`, without a leading digit.
fn avro_name(name: &str) -> String {
    let kept = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '_'
        }
    };
    let mut allowed: String = name.chars().map(kept).collect();
    if !allowed.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        allowed.insert(0, '_');
    }
    allowed
}
