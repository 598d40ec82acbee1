//! Schemas for other programs: as Avro JSON for readers of the topics, and as Flink types.

use std::collections::HashSet;

use arrow_schema::Schema;
use serde_json::{Value, json};

use super::{DECIMAL_DIGITS, Kind, Unsupported, kinds};

/// The Avro schema of a record. A column with a name invalid in Avro (`request_header.host`) has `_` in place of
/// other characters, and the original name as `doc`.
///
/// # Errors
/// If a column has an unsupported type.
pub fn schema_json(schema: &Schema, name: &str) -> Result<Value, Unsupported> {
    let mut taken = HashSet::new();
    let field = |(field, kind): (&arrow_schema::FieldRef, Kind)| {
        let mut avro_name = avro_name(field.name());
        while !taken.insert(avro_name.clone()) {
            avro_name.push('_');
        }
        let mut told = json!({"name": avro_name, "type": ["null", avro_type(kind)], "default": null});
        if avro_name != *field.name() {
            told["doc"] = json!(field.name());
        }
        told
    };
    let fields: Vec<Value> = schema.fields().iter().zip(kinds(schema)?).map(field).collect();
    Ok(json!({"type": "record", "name": avro_name(name), "fields": fields}))
}

/// The column types in Flink SQL, from which Flink's format `avro` derives the same schema.
///
/// # Errors
/// If a column has an unsupported type.
pub fn sql_type(schema: &Schema) -> Result<Vec<&'static str>, Unsupported> {
    let of = |kind: Kind| match kind {
        Kind::Bool => "BOOLEAN",
        Kind::I64 | Kind::U64 => "BIGINT",
        Kind::F64 => "DOUBLE",
        Kind::Text => "STRING",
        Kind::Bytes | Kind::Fixed(_) => "BYTES",
        Kind::Decimal => "DECIMAL(38,0)",
    };
    Ok(kinds(schema)?.into_iter().map(of).collect())
}

fn avro_type(kind: Kind) -> Value {
    match kind {
        Kind::Bool => json!("boolean"),
        Kind::I64 | Kind::U64 => json!("long"),
        Kind::F64 => json!("double"),
        Kind::Text => json!("string"),
        Kind::Bytes | Kind::Fixed(_) => json!("bytes"),
        Kind::Decimal => {
            json!({"type": "bytes", "logicalType": "decimal", "precision": DECIMAL_DIGITS, "scale": 0})
        }
    }
}

/// Converts a name to letters, digits, and `_`, without a leading digit.
fn avro_name(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut allowed: String = name.chars().map(kept).collect();
    if !allowed.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        allowed.insert(0, '_');
    }
    allowed
}
