//! Topics as tables, written and read by Flink itself.

use serde_json::Value as Json;
use stream::cells::CellType;

use crate::gateway::{Gateway, values};
use crate::tuples::cells::Value;

fn said(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(v) => v.to_string(),
        Value::Long(v) => v.to_string(),
        Value::Double(v) => format!("{v:e}"),
        Value::Text(v) => v.clone(),
        Value::Bytes(v) => v.iter().map(|b| format!("{b:02x}")).collect(),
        Value::Decimal(v) => v.to_string(),
    })
}

fn sql_type(of: CellType) -> &'static str {
    match of {
        CellType::Bool => "BOOLEAN",
        CellType::Long => "BIGINT",
        CellType::Double => "DOUBLE",
        CellType::Text => "STRING",
        CellType::Bytes => "BYTES",
        CellType::Decimal => "DECIMAL(38, 0)",
    }
}

/// The columns of a topic, and its rows.
pub struct Topic {
    pub name: String,
    pub columns: Vec<(String, CellType)>,
}

impl Topic {
    pub fn create(&self, gateway: &Gateway, kafka: &str) {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|(name, of)| format!("`{name}` {}", sql_type(*of)))
            .collect();
        let options = format!(
            "'connector' = 'kafka', 'topic' = '{}', 'properties.bootstrap.servers' = '{kafka}', 'format' = 'avro',
             'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
             'properties.isolation.level' = 'read_committed', 'properties.group.id' = 'tests'",
            self.name
        );
        let create = format!(
            "CREATE TEMPORARY TABLE `{}` ({}) WITH ({options})",
            self.name,
            columns.join(", ")
        );
        gateway.rows(&create).expect("a table");
    }

    pub fn fill(&self, gateway: &Gateway, rows: &[Vec<Value>]) {
        let columns: Vec<(String, &str)> = self
            .columns
            .iter()
            .map(|(name, of)| (name.clone(), sql_type(*of)))
            .collect();
        let rows: Vec<Vec<Option<String>>> = rows
            .iter()
            .map(|row| row.iter().map(said).collect())
            .collect();
        gateway
            .rows(&format!(
                "INSERT INTO `{}` {}",
                self.name,
                values(&columns, &rows)
            ))
            .expect("rows");
    }

    pub fn read(&self, gateway: &Gateway) -> Vec<Vec<Value>> {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|(name, of)| match of {
                CellType::Bytes => format!("`{name}`"),
                _ => format!("CAST(`{name}` AS STRING)"),
            })
            .collect();
        let rows = gateway
            .rows(&format!(
                "SELECT {} FROM `{}`",
                columns.join(", "),
                self.name
            ))
            .expect("rows");
        let row = |row: &Vec<Json>| {
            row.iter()
                .zip(&self.columns)
                .map(|(v, (_, of))| parsed(v, *of))
                .collect()
        };
        rows.iter().map(row).collect()
    }
}

fn parsed(json: &Json, of: CellType) -> Value {
    let Some(text) = json.as_str() else {
        return Value::Null;
    };
    match of {
        CellType::Bool => Value::Bool(text.eq_ignore_ascii_case("true")),
        CellType::Long => Value::Long(text.parse().expect("a number")),
        CellType::Double => Value::Double(text.parse().expect("a number")),
        CellType::Text => Value::Text(text.into()),
        CellType::Bytes => Value::Bytes(bytes_of(text)),
        CellType::Decimal => Value::Decimal(text.parse().expect("a number")),
    }
}

fn bytes_of(base64: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = base64.bytes().filter_map(digit).collect();
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let bits =
            chunk.iter().fold(0u32, |bits, d| bits << 6 | u32::from(*d)) << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}
