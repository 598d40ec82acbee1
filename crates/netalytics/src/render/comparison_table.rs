//! Table of a comparison for people: a line per group and result column.

use sinks::units;
use stream::compare::COLUMNS_EACH;
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

/// Schema of a comparison as sent by a server, without the column of missing agents, and the index of the first result
/// column.
pub fn shape_of(told: &Schema) -> (std::sync::Arc<Schema>, usize) {
    let fields: Vec<Field> = told
        .fields
        .iter()
        .filter(|field| field.name != server::AGENTS_MISSING)
        .cloned()
        .collect();
    let second = fields
        .iter()
        .position(|field| field.name.starts_with("baseline_"));
    let first = second.map_or(fields.len().saturating_sub(1), |second| {
        second.saturating_sub(1)
    });
    (
        std::sync::Arc::new(Schema {
            fields,
            ..told.clone()
        }),
        first,
    )
}

/// Schema of the table for people: a line per group and result column.
pub fn long_schema(schema: &Schema, first: usize) -> std::sync::Arc<Schema> {
    let text = |name: &'static str| Field::new(name, DataType::Text, Unit::None, "");
    let keys = schema.fields[..first]
        .iter()
        .map(|field| match field.data_type {
            DataType::Ip => field.clone(),
            _ => Field {
                data_type: DataType::Text,
                unit: Unit::None,
                ..field.clone()
            },
        });
    let rest = [
        "result",
        "period",
        "baseline",
        "difference",
        "ratio",
        "differs",
    ]
    .map(text);
    std::sync::Arc::new(Schema {
        fields: keys.chain(rest).collect(),
        ..Schema::clone(schema)
    })
}

/// Rows of that table.
pub fn long_rows(first: usize, long: &std::sync::Arc<Schema>, batch: &Batch) -> Batch {
    let schema = batch.schema();
    let wanted: Vec<FieldId> = long.ids().collect();
    let mut writer = TupleWriter::new(long.clone(), &wanted);
    let behind = schema.fields.len() - 1;
    for row in 0..batch.rows() {
        for at in (first..behind).step_by(COLUMNS_EACH) {
            for key in 0..first {
                write_key(&mut writer, batch, FieldId(key as u16), row);
            }
            let name = schema.fields[at].name.as_ref();
            let bare = ["_ns", "_bytes"]
                .iter()
                .find_map(|unit| name.strip_suffix(unit))
                .unwrap_or(name);
            let cells = [
                bare.to_owned(),
                shown(batch, at, row, ""),
                shown(batch, at + 1, row, ""),
                shown(batch, at + 2, row, "+"),
                shown(batch, at + 3, row, ""),
                shown(batch, at + 4, row, ""),
            ];
            for (i, cell) in cells.iter().enumerate() {
                writer.text(FieldId((first + i) as u16), cell.as_bytes());
            }
            writer.end_row();
        }
    }
    writer.finish()
}

fn write_key(writer: &mut TupleWriter, batch: &Batch, id: FieldId, row: usize) {
    let Some(cells) = sinks::cells::ColumnCells::of(batch, id).filter(|cells| !cells.is_null(row))
    else {
        return;
    };
    if let sinks::cells::CellValues::Ip(addresses) = cells.values {
        if let Ok(bytes) = addresses.value(row).try_into() {
            writer.ip(id, bytes);
        }
        return;
    }
    let mut text = Vec::new();
    cells.push(row, &mut text);
    writer.text(id, &text);
}

/// Formats a number for people; `plus` precedes positive ones.
fn shown(batch: &Batch, column: usize, row: usize, plus: &str) -> String {
    use sinks::cells::CellValues;
    let id = FieldId(column as u16);
    let Some(cells) = sinks::cells::ColumnCells::of(batch, id).filter(|cells| !cells.is_null(row))
    else {
        return "–".into();
    };
    let number = match cells.values {
        CellValues::U64(values) => values.value(row) as f64,
        CellValues::I64(values) => values.value(row) as f64,
        CellValues::F64(values) => values.value(row),
        CellValues::Bool(values) => return if values.value(row) { "yes" } else { "no" }.into(),
        _ => return String::new(),
    };
    let text = units::number(cells.unit, number);
    if number > 0.0 {
        format!("{plus}{text}")
    } else {
        text
    }
}
