//! Cells as plain values, and a slow merger: the SUM, MIN, and MAX over equal keys that another engine computes.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    RecordBatch, StringArray,
};
use stream::cells::{CellColumn, CellColumnRole, CellMerge, CellOrigin, CellTable, CellType};

/// A value of a cell.
#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Long(i64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Decimal(i128),
}

/// Rows of cells, each of all columns of [`CellTable::columns`].
pub type Rows = Vec<Vec<Value>>;

impl Value {
    fn order(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Less,
            (_, Value::Null) => Ordering::Greater,
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Long(a), Value::Long(b)) => a.cmp(b),
            (Value::Double(a), Value::Double(b)) => a.total_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            _ => panic!("a column has one type"),
        }
    }

    fn sum(&self, other: &Value) -> Value {
        match (self, other) {
            (Value::Null, some) | (some, Value::Null) => some.clone(),
            (Value::Long(a), Value::Long(b)) => Value::Long(a + b),
            (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
            (Value::Decimal(a), Value::Decimal(b)) => Value::Decimal(a + b),
            _ => panic!("not a number"),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.order(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        self.order(other)
    }
}

/// The index of a column.
pub fn place(table: &CellTable, name: &str) -> usize {
    let found = table.columns.iter().position(|column| column.name == name);
    found.unwrap_or_else(|| panic!("no column {name}"))
}

/// The rows of batches; absent columns are null.
pub fn rows(table: &CellTable, batches: &[RecordBatch]) -> Rows {
    let of_batch = |batch: &RecordBatch| -> Rows {
        let columns: Vec<Option<&ArrayRef>> = table
            .columns
            .iter()
            .map(|column| batch.column_by_name(&column.name))
            .collect();
        let row = |row| {
            columns
                .iter()
                .zip(&table.columns)
                .map(|(array, c)| value(*array, c, row))
                .collect()
        };
        (0..batch.num_rows()).map(row).collect()
    };
    batches.iter().flat_map(of_batch).collect()
}

fn value(array: Option<&ArrayRef>, column: &CellColumn, row: usize) -> Value {
    let Some(array) = array.filter(|array| array.is_valid(row)) else {
        return Value::Null;
    };
    match column.data {
        CellType::Bool => Value::Bool(array.as_boolean().value(row)),
        CellType::Long => Value::Long(array.as_primitive::<Int64Type>().value(row)),
        CellType::Double => Value::Double(array.as_primitive::<Float64Type>().value(row)),
        CellType::Text => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        CellType::Bytes => Value::Bytes(array.as_binary::<i32>().value(row).to_owned()),
        CellType::Decimal => Value::Decimal(array.as_primitive::<Decimal128Type>().value(row)),
    }
}

/// Encodes rows as a batch with the columns of a table of this origin.
pub fn batch(table: &CellTable, origin: CellOrigin, rows: &[Vec<Value>]) -> RecordBatch {
    let there: Vec<&CellColumn> = table.columns_of(origin).collect();
    let columns = table
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| there.contains(column));
    let arrays = columns.map(|(i, column)| (&column.name, array(column.data, rows, i), true));
    RecordBatch::try_from_iter_with_nullable(arrays).expect("columns of one length")
}

fn array(data: CellType, rows: &[Vec<Value>], i: usize) -> ArrayRef {
    macro_rules! some {
        ($kind:path, $array:ty) => {
            Arc::new(<$array>::from_iter(rows.iter().map(|row| match &row[i] {
                $kind(value) => Some(value.clone()),
                _ => None,
            })))
        };
    }
    match data {
        CellType::Bool => some!(Value::Bool, BooleanArray),
        CellType::Long => some!(Value::Long, Int64Array),
        CellType::Double => some!(Value::Double, Float64Array),
        CellType::Text => some!(Value::Text, StringArray),
        CellType::Bytes => some!(Value::Bytes, BinaryArray),
        CellType::Decimal => {
            let values = rows.iter().map(|row| match row[i] {
                Value::Decimal(value) => Some(value),
                _ => None,
            });
            let array: Decimal128Array = values.collect();
            Arc::new(array.with_precision_and_scale(38, 0).expect("38 digits"))
        }
    }
}

/// Merges rows with equal keys.
pub fn merge(table: &CellTable, rows: &[Vec<Value>]) -> Rows {
    let is_key = |column: &CellColumn| {
        matches!(
            column.role,
            CellColumnRole::Time | CellColumnRole::Key | CellColumnRole::Value
        )
    };
    let mut merged: BTreeMap<Vec<Value>, Vec<Value>> = BTreeMap::new();
    for row in rows {
        let key = row
            .iter()
            .zip(&table.columns)
            .filter(|(_, column)| is_key(column));
        let key: Vec<Value> = key.map(|(value, _)| value.clone()).collect();
        let all = merged
            .entry(key)
            .or_insert_with(|| vec![Value::Null; row.len()]);
        for ((held, value), column) in all.iter_mut().zip(row).zip(&table.columns) {
            *held = match column.role {
                CellColumnRole::Time | CellColumnRole::Key | CellColumnRole::Value => value.clone(),
                CellColumnRole::Merge(CellMerge::Sum) => held.sum(value),
                CellColumnRole::Merge(_) if *held == Value::Null || *value == Value::Null => {
                    held.clone().max(value.clone())
                }
                CellColumnRole::Merge(CellMerge::Min) => held.clone().min(value.clone()),
                CellColumnRole::Merge(CellMerge::Max) => held.clone().max(value.clone()),
                CellColumnRole::Promise | CellColumnRole::Mark => Value::Null,
            };
        }
    }
    merged.into_values().collect()
}

/// Shuffles the list.
pub fn shuffle<T>(list: &mut [T], seed: u64) {
    let mut state = seed | 1;
    for i in (1..list.len()).rev() {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ i as u64;
        list.swap(i, (state % (i as u64 + 1)) as usize);
    }
}
