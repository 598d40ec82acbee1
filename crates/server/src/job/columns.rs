//! Schema and encoding of stored rows: the columns of a result as described to clients and stored, batches as bytes,
//! and cells as JSON without loss in JavaScript.

use std::io::Cursor;
use std::net::IpAddr;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeBinaryBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use sinks::cells::{CellValues, ColumnCells, ip};
use tuple::{Batch, DataType, Field, FieldId, Schema, Unit};
use utoipa::openapi::schema::{ObjectBuilder, Schema as ApiSchema, Type};
use utoipa::{PartialSchema, ToSchema, openapi::RefOr};

/// Column with the agents that a row lacks.
pub use sinks::AGENTS_MISSING;

/// The API view of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ColumnHead {
    /// Name.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    #[schema(value_type = ColumnType)]
    pub data_type: String,
    /// Unit; empty: none.
    #[schema(value_type = ColumnUnit)]
    pub unit: String,
    /// Description, one line.
    pub doc: String,
}

/// Names of types, for the API description.
pub(crate) struct ColumnType;

/// Names of units, for the API description.
pub(crate) struct ColumnUnit;

impl PartialSchema for ColumnType {
    fn schema() -> RefOr<ApiSchema> {
        names("Type of a column.", TYPES.map(|(_, name)| name))
    }
}

impl PartialSchema for ColumnUnit {
    fn schema() -> RefOr<ApiSchema> {
        names(
            "Unit of a column; empty: none.",
            UNITS.map(|(_, name)| name),
        )
    }
}

impl ToSchema for ColumnType {}

impl ToSchema for ColumnUnit {}

fn names<const N: usize>(doc: &str, names: [&'static str; N]) -> RefOr<ApiSchema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(doc))
        .enum_values(Some(names))
        .into()
}

/// Value of a cell. Times, durations in whole nanoseconds, ids, and addresses are strings; a distribution is a list of
/// upper bounds with their counts or shares.
#[derive(ToSchema)]
#[schema(as = Cell)]
#[serde(untagged)]
#[allow(dead_code)]
pub(crate) enum CellValue {
    Flag(bool),
    Number(f64),
    Text(String),
    Distribution(Vec<[f64; 2]>),
}

const TYPES: [(DataType, &str); 8] = [
    (DataType::Bool, "bool"),
    (DataType::U64, "u64"),
    (DataType::I64, "i64"),
    (DataType::F64, "f64"),
    (DataType::Text, "text"),
    (DataType::Ip, "ip"),
    (DataType::Hashes, "hashes"),
    (DataType::Json, "json"),
];

const UNITS: [(Unit, &str); 8] = [
    (Unit::None, ""),
    (Unit::Nanoseconds, "ns"),
    (Unit::EpochNanoseconds, "epoch_ns"),
    (Unit::Bytes, "bytes"),
    (Unit::PerSecond, "per_second"),
    (Unit::BytesPerSecond, "bytes_per_second"),
    (Unit::Fraction, "fraction"),
    (Unit::Id, "id"),
];

impl ColumnHead {
    /// The API view of a field.
    pub fn of(field: &Field) -> ColumnHead {
        let data_type = TYPES
            .iter()
            .find(|(t, _)| *t == field.data_type)
            .map_or("text", |(_, name)| name);
        let unit = UNITS
            .iter()
            .find(|(u, _)| *u == field.unit)
            .map_or("", |(_, name)| name);
        ColumnHead {
            name: field.name.to_string(),
            data_type: data_type.into(),
            unit: unit.into(),
            doc: field.doc.to_string(),
        }
    }

    fn field(&self) -> Option<Field> {
        let data_type = TYPES.iter().find(|(_, name)| *name == self.data_type)?.0;
        let unit = UNITS.iter().find(|(_, name)| *name == self.unit)?.0;
        Some(Field {
            name: self.name.clone().into(),
            doc: self.doc.clone().into(),
            ..Field::new("", data_type, unit, "")
        })
    }
}

/// Columns with the names of those that hold their interval bounds, for the page.
pub fn with_bounds(columns: &[ColumnHead]) -> Vec<Value> {
    let end = |name: &str, end: &str| {
        let name = format!("{name}_{end}");
        columns
            .iter()
            .any(|column| column.name == name)
            .then_some(name)
    };
    let told = |column: &ColumnHead| {
        let mut told = serde_json::to_value(column).unwrap_or_default();
        if let Some(all) = told.as_object_mut() {
            for word in ["low", "high"] {
                all.extend(end(&column.name, word).map(|name| (word.to_owned(), name.into())));
            }
        }
        told
    };
    columns.iter().map(told).collect()
}

/// Schema of these columns; `None` for unknown types.
pub fn schema(name: &str, columns: &[ColumnHead]) -> Option<Arc<Schema>> {
    Some(Arc::new(Schema {
        name: name.to_owned().into(),
        version: 1,
        doc: "rows of a job".into(),
        fields: columns
            .iter()
            .map(ColumnHead::field)
            .collect::<Option<_>>()?,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    }))
}

/// Columns of a result, followed by the column of missing agents.
pub fn heads(schema: &Schema, columns: &[FieldId]) -> Vec<ColumnHead> {
    let missing = Field::new(
        AGENTS_MISSING,
        DataType::Text,
        Unit::None,
        "agents that the row lacks",
    );
    let fields = columns.iter().map(|id| schema.field(*id)).chain([&missing]);
    fields.map(ColumnHead::of).collect()
}

/// The batch with exactly the stored columns; `None` if it lacks one.
pub fn as_kept(
    batch: &Batch,
    columns: &[FieldId],
    kept: &Arc<Schema>,
    missing: &[String],
) -> Option<Batch> {
    let rows = batch.rows();
    let mut arrays: Vec<Option<ArrayRef>> = Vec::with_capacity(columns.len() + 1);
    for (id, field) in columns.iter().zip(&kept.fields) {
        let is_there = usize::from(id.0) < batch.schema().fields.len()
            && batch.schema().field(*id).data_type == field.data_type;
        arrays.push(Some(
            is_there.then(|| batch.column(*id).cloned()).flatten()?,
        ));
    }
    let lacking: StringArray = match missing {
        [] => StringArray::new_null(rows),
        _ => {
            let text = missing.join(" ");
            let mut builder = StringBuilder::new();
            (0..rows).for_each(|_| builder.append_value(&text));
            builder.finish()
        }
    };
    arrays.push(Some(Arc::new(lacking)));
    (arrays.len() == kept.fields.len()).then(|| Batch::new(kept.clone(), rows, arrays))
}

/// Encodes a batch as a self-contained Arrow IPC stream.
pub fn encode(batch: &Batch) -> Vec<u8> {
    let fields: Vec<_> = batch
        .present()
        .map(|id| {
            let field = batch.schema().field(id);
            arrow_schema::Field::new(
                field.name.as_ref(),
                tuple::batch::arrow_type(field.data_type),
                true,
            )
        })
        .collect();
    let arrays = batch
        .present()
        .filter_map(|id| batch.column(id).cloned())
        .collect();
    let schema = Arc::new(arrow_schema::Schema::new(fields));
    let record =
        RecordBatch::try_new(schema.clone(), arrays).expect("the columns are those of the schema");
    let write = || {
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&record)?;
        writer.into_inner()
    };
    write().expect("writing to memory cannot fail")
}

/// Decodes the output of [`encode`]; `None` if it is invalid.
pub fn decode(bytes: &[u8], schema: &Arc<Schema>) -> Option<Batch> {
    recording::guarded(|| Ok(read(bytes, schema)))
        .ok()
        .flatten()
}

fn read(bytes: &[u8], schema: &Arc<Schema>) -> Option<Batch> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None).ok()?;
    let record = reader.next()?.ok()?;
    let fits = record.num_columns() == schema.fields.len()
        && record
            .columns()
            .iter()
            .zip(&schema.fields)
            .all(|(array, field)| *array.data_type() == tuple::batch::arrow_type(field.data_type));
    let columns = record.columns().iter().cloned().map(Some).collect();
    fits.then(|| Batch::new(schema.clone(), record.num_rows(), columns))
}

/// Cells of a row. Integers that are times, durations or ids are strings because JavaScript would round them.
pub fn row(batch: &Batch, row: usize) -> Vec<Value> {
    batch
        .present()
        .filter_map(|id| Some(cell(&ColumnCells::of(batch, id)?, row)))
        .collect()
}

fn cell(cells: &ColumnCells<'_>, row: usize) -> Value {
    if cells.is_null(row) {
        return Value::Null;
    }
    let is_exact = matches!(cells.unit, Unit::Nanoseconds | Unit::EpochNanoseconds);
    match cells.values {
        CellValues::Bool(a) => a.value(row).into(),
        CellValues::U64(a) if cells.unit == Unit::Id => sinks::units::id(a.value(row)).into(),
        CellValues::U64(a) if is_exact => a.value(row).to_string().into(),
        CellValues::I64(a) if is_exact => a.value(row).to_string().into(),
        CellValues::U64(a) => a.value(row).into(),
        CellValues::I64(a) => a.value(row).into(),
        CellValues::F64(a) => a.value(row).into(),
        CellValues::Text(a) => a.value(row).into(),
        CellValues::Json(a) => serde_json::from_str(a.value(row)).unwrap_or(Value::Null),
        CellValues::Ip(a) => ip(a.value(row)).to_string().into(),
        CellValues::Hashes(_) => {
            let mut text = Vec::new();
            cells.push(row, &mut text);
            String::from_utf8_lossy(&text).into_owned().into()
        }
    }
}

/// Decodes rows written by `row`; `None` if they do not match the schema. Lists of hashes are omitted.
pub fn read_rows(rows: &[Value], schema: &Arc<Schema>) -> Option<Batch> {
    let cells: Vec<&Vec<Value>> = rows.iter().map(Value::as_array).collect::<Option<_>>()?;
    let is_whole = cells.iter().all(|row| row.len() == schema.fields.len());
    let column =
        |(at, field): (usize, &Field)| read_column(field, cells.iter().map(move |row| &row[at]));
    is_whole.then(|| {
        let columns = schema.fields.iter().enumerate().map(column).collect();
        Batch::new(schema.clone(), rows.len(), columns)
    })
}

fn read_column<'v>(field: &Field, cells: impl Iterator<Item = &'v Value>) -> Option<ArrayRef> {
    let u64_of = |cell: &Value| match cell.as_str() {
        Some(text) if field.unit == Unit::Id => u64::from_str_radix(text, 16).ok(),
        Some(text) => text.parse().ok(),
        None => cell.as_u64(),
    };
    let i64_of = |cell: &Value| {
        cell.as_str()
            .map_or_else(|| cell.as_i64(), |text| text.parse().ok())
    };
    Some(match field.data_type {
        DataType::Bool => Arc::new(cells.map(Value::as_bool).collect::<BooleanArray>()),
        DataType::U64 => Arc::new(cells.map(u64_of).collect::<UInt64Array>()),
        DataType::I64 => Arc::new(cells.map(i64_of).collect::<Int64Array>()),
        DataType::F64 => Arc::new(cells.map(Value::as_f64).collect::<Float64Array>()),
        DataType::Text => Arc::new(cells.map(Value::as_str).collect::<StringArray>()),
        DataType::Json => {
            let text = |cell: &Value| (!cell.is_null()).then(|| cell.to_string());
            Arc::new(cells.map(text).collect::<StringArray>())
        }
        DataType::Ip => {
            let mut addresses = FixedSizeBinaryBuilder::new(16);
            for cell in cells {
                match cell.as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
                    Some(IpAddr::V4(v4)) => {
                        addresses.append_value(v4.to_ipv6_mapped().octets()).ok()?
                    }
                    Some(IpAddr::V6(v6)) => addresses.append_value(v6.octets()).ok()?,
                    None => addresses.append_null(),
                }
            }
            Arc::new(addresses.finish())
        }
        DataType::Hashes => return None,
    })
}

/// Column with the time of a row: the start of its window, or the end of a tuple.
pub fn time_column(schema: &Schema) -> Option<FieldId> {
    let is_time = |id: &FieldId| schema.field(*id).data_type == DataType::I64;
    ["window_start", "ts_end", "ts"]
        .iter()
        .find_map(|name| schema.find(name))
        .filter(is_time)
}

/// Serializes an integer as a string.
pub fn text<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serializes an integer as a string, or null.
pub fn maybe_text<S: Serializer>(value: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// A schema with a column of every type, for tests and fuzz targets.
///
/// # Panics
/// Never: the columns are valid.
#[must_use]
pub fn every_type() -> Arc<Schema> {
    let columns = [
        ("window_start", "i64", "epoch_ns"),
        ("client_ip", "ip", ""),
        ("count", "u64", ""),
        ("id", "u64", "id"),
        ("p99", "f64", "ns"),
        ("path", "text", ""),
        ("hist", "json", ""),
        ("ok", "bool", ""),
    ];
    let heads =
        columns.map(|(name, of, unit)| json!({"name": name, "type": of, "unit": unit, "doc": ""}));
    let heads: Vec<ColumnHead> =
        serde_json::from_value(Value::from(heads.to_vec())).expect("heads of columns");
    schema("t", &heads).expect("a schema")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(batch: &Batch) -> Vec<Vec<Value>> {
        (0..batch.rows()).map(|at| row(batch, at)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Damaged bytes decode to rows or to none, without panic.
        #[test]
        fn damaged_rows_do_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
            let schema = every_type();
            let cells = json!(["1795000000000000000", "10.0.0.1", 7, "00000000000000ff", 1.5, "/cart", {"buckets": []}, true]);
            let rows = read_rows(&vec![cells; 5], &schema).expect("rows");
            let mut bytes = encode(&rows);
            prop_assert_eq!(decode(&bytes, &schema).map(|read| told(&read)), Some(told(&rows)));
            for (at, to) in changes {
                let at = at.index(bytes.len());
                bytes[at] = to;
            }
            decode(&bytes, &schema).iter().for_each(|read| drop(told(read)));
        }
    }
}
