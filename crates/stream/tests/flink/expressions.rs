//! Evaluates random expressions over random rows in Flink and in this engine.

use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array,
};
use plan::{Column, ComputedField, Expr};
use serde_json::Value;
use stream::flink_sql;
use stream::ops::expr::ColumnComputer;
use tuple::{Batch, DataType, Field, RedactionRule, Schema, Unit};

use crate::gateway::{Gateway, values};
use crate::random::{Random, TYPES};

const ROWS: usize = 80;
const EXPRESSIONS: usize = 12;

fn field(name: String, data_type: DataType) -> Field {
    Field {
        name: name.into(),
        data_type,
        unit: Unit::None,
        doc: "".into(),
        redact: RedactionRule::Keep,
    }
}

fn schema() -> Arc<Schema> {
    let fields = TYPES
        .iter()
        .enumerate()
        .map(|(i, t)| field(format!("c{i}"), *t))
        .collect();
    let facts = &tuple::SchemaFacts::NONE;
    Arc::new(Schema {
        name: "cases".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts,
    })
}

/// Random rows, and their definition in Flink.
fn rows(random: &mut Random) -> (Batch, String) {
    let mut texts: Vec<Vec<Option<String>>> =
        (0..ROWS).map(|row| vec![Some(row.to_string())]).collect();
    let mut columns = Vec::new();
    for data_type in TYPES {
        let null: Vec<bool> = (0..ROWS).map(|_| random.chance(12)).collect();
        let mut say = |row: usize, said: String| texts[row].push((!null[row]).then_some(said));
        macro_rules! column {
            ($array:ty, $make:ident, $say:expr) => {{
                let values: Vec<_> = (0..ROWS).map(|_| random.$make()).collect();
                values
                    .iter()
                    .enumerate()
                    .for_each(|(row, value)| say(row, $say(value)));
                let some = values
                    .into_iter()
                    .enumerate()
                    .map(|(row, v)| (!null[row]).then_some(v));
                Arc::new(some.collect::<$array>()) as ArrayRef
            }};
        }
        columns.push(Some(match data_type {
            DataType::Bool => column!(BooleanArray, bool, |v: &bool| v.to_string()),
            DataType::U64 => column!(UInt64Array, u64, |v: &u64| (*v as i64).to_string()),
            DataType::I64 => column!(Int64Array, i64, |v: &i64| v.to_string()),
            DataType::F64 => column!(Float64Array, f64, |v: &f64| format!("{v:e}")),
            DataType::Ip => {
                let mut builder = FixedSizeBinaryBuilder::new(16);
                for (row, is_null) in null.iter().enumerate() {
                    let ip = random.ip().octets();
                    say(row, ip.iter().map(|b| format!("{b:02x}")).collect());
                    if *is_null {
                        builder.append_null()
                    } else {
                        builder.append_value(ip).expect("16 bytes")
                    }
                }
                Arc::new(builder.finish()) as ArrayRef
            }
            _ => column!(StringArray, text, String::clone),
        }));
    }
    let sql_type = |data_type| match data_type {
        DataType::Bool => "BOOLEAN",
        DataType::U64 | DataType::I64 => "BIGINT",
        DataType::F64 => "DOUBLE",
        DataType::Ip => "BYTES",
        _ => "STRING",
    };
    let mut typed = vec![("row_id".to_owned(), "BIGINT")];
    typed.extend(
        TYPES
            .iter()
            .enumerate()
            .map(|(i, t)| (format!("c{i}"), sql_type(*t))),
    );
    (
        Batch::new(schema(), ROWS, columns),
        format!("({})", values(&typed, &texts)),
    )
}

/// A value of this engine, in the common format for comparison.
fn here(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "null".into();
    }
    if let Some(values) = column.as_boolean_opt() {
        return values.value(row).to_string();
    }
    if let Some(values) = column.as_primitive_opt::<Int64Type>() {
        return values.value(row).to_string();
    }
    if let Some(values) = column.as_primitive_opt::<Float64Type>() {
        return format!("{:e}", values.value(row) + 0.0);
    }
    if let Some(values) = column.as_string_opt::<i32>() {
        return format!("{:?}", values.value(row));
    }
    base64(column.as_fixed_size_binary().value(row))
}

fn there(value: &Value, data_type: DataType) -> String {
    match (value, data_type) {
        (Value::Null, _) => "null".into(),
        (Value::String(text), DataType::Text) => format!("{text:?}"),
        (Value::String(text), DataType::F64) => {
            format!("{:e}", text.parse::<f64>().expect("a number") + 0.0)
        }
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .map(|chunk| {
            let bits = chunk.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b))
                << (8 * (3 - chunk.len()));
            let digit = |i: usize| {
                if i <= chunk.len() {
                    DIGITS[(bits >> (18 - 6 * i)) as usize & 63]
                } else {
                    b'='
                }
            };
            String::from_utf8((0..4).map(digit).collect()).expect("digits")
        })
        .collect()
}

/// Runs one statement with a few expressions; returns the number of compared values.
fn compare(gateway: &Gateway, seed: u64) -> usize {
    let mut random = Random(seed);
    let (batch, table) = rows(&mut random);
    let scope = |column: Column| {
        (
            format!("`c{}`", column.field.0),
            TYPES[usize::from(column.field.0)],
        )
    };
    let types = [
        DataType::Bool,
        DataType::I64,
        DataType::F64,
        DataType::Text,
        DataType::Ip,
    ];
    let mut computed = Vec::new();
    let mut printed = Vec::new();
    while computed.len() < EXPRESSIONS {
        let data_type = random.one(&types);
        let depth = 1 + random.below(3);
        let expr = random.expression(data_type, depth);
        // A bare column keeps its unsigned type, which Flink does not have; COALESCE converts it.
        let expr = if let Expr::Column(_) = expr {
            Expr::Coalesce(vec![expr])
        } else {
            expr
        };
        if let Ok(sql) = flink_sql::expression(&expr, &scope) {
            // Real numbers are compared as text, because the JSON encoding of the gateway rounds.
            let sql = if data_type == DataType::F64 {
                format!("CAST({sql} AS STRING)")
            } else {
                sql
            };
            printed.push(format!("{sql} AS e{}", computed.len()));
            computed.push(ComputedField {
                field: field(format!("e{}", computed.len()), data_type),
                text: String::new(),
                expr,
            });
        }
    }
    let computer = ColumnComputer::new(&computed, batch.schema(), &|column: Column| column.field);
    let places: Vec<usize> = (0..computed.len()).collect();
    let ours = computer.extend(&batch, &places);
    let statement = format!("SELECT row_id, {}\nFROM {table}", printed.join(",\n"));
    let theirs = gateway
        .rows(&statement)
        .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", printed.join("\n")));
    assert_eq!(theirs.len(), ROWS, "seed {seed}");
    for row in &theirs {
        let at = row[0].as_u64().expect("a number") as usize;
        for (place, one) in computed.iter().enumerate() {
            let column = ours
                .column(tuple::FieldId((TYPES.len() + place) as u16))
                .expect("it is computed");
            let here = here(column, at);
            let there = there(&row[place + 1], one.field.data_type);
            assert_eq!(
                there,
                here,
                "seed {seed} row {at}\n{:?}\n{}\nof {:?}",
                one.expr,
                printed[place],
                (0..TYPES.len())
                    .map(|c| self::here(&signed(&batch, c), at))
                    .collect::<Vec<_>>()
            );
        }
    }
    ROWS * EXPRESSIONS
}

/// A column of the rows in a printable type.
fn signed(batch: &Batch, place: usize) -> ArrayRef {
    let column = batch
        .column(tuple::FieldId(place as u16))
        .expect("it exists");
    match column.as_primitive_opt::<arrow_array::types::UInt64Type>() {
        Some(values) => Arc::new(
            values
                .iter()
                .map(|v| v.map(|v| v as i64))
                .collect::<Int64Array>(),
        ),
        None => column.clone(),
    }
}

#[test]
#[ignore = "requires NETALYTICS_FLINK_GATEWAY"]
fn expressions_mean_the_same_in_flink() {
    let gateway = crate::flink();
    let from: u64 = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let n: u64 = std::env::var("STATEMENTS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(20);
    let compared: usize = (from..from + n).map(|seed| compare(&gateway, seed)).sum();
    eprintln!("{compared} values are the same in Flink");
}
