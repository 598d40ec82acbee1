//! A batch: rows of a schema with a subset of its columns. Columns are immutable, shared Arrow arrays.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array,
    StringArray, UInt64Array,
};

use crate::{DataType, FieldId, Schema};

/// Rows of one schema; unneeded columns are absent.
#[derive(Clone, Debug)]
pub struct Batch {
    schema: Arc<Schema>,
    rows: usize,
    columns: Vec<Option<ArrayRef>>,
}

impl Batch {
    /// Creates a batch of `rows` rows.
    ///
    /// # Panics
    /// If the number of entries differs from the number of fields, or a column's length or type differs from the
    /// schema.
    #[must_use]
    pub fn new(schema: Arc<Schema>, rows: usize, columns: Vec<Option<ArrayRef>>) -> Batch {
        assert_eq!(
            columns.len(),
            schema.fields.len(),
            "{}: one entry for each field",
            schema.name
        );
        for (field, column) in schema.fields.iter().zip(&columns) {
            if let Some(column) = column {
                assert_eq!(column.len(), rows, "{}.{}", schema.name, field.name);
                assert!(
                    is_arrow_type(field.data_type, column.data_type()),
                    "{}.{} is a column of {}",
                    schema.name,
                    field.name,
                    column.data_type()
                );
            }
        }
        Batch {
            schema,
            rows,
            columns,
        }
    }

    /// The schema of the columns.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory of the columns in bytes; memory shared between batches is counted in each of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.columns
            .iter()
            .flatten()
            .map(|column| column.get_buffer_memory_size())
            .sum()
    }

    /// The column at `id`, if present.
    #[must_use]
    pub fn column(&self, id: FieldId) -> Option<&ArrayRef> {
        self.columns[usize::from(id.0)].as_ref()
    }

    /// The fields with a column.
    pub fn present(&self) -> impl Iterator<Item = FieldId> + '_ {
        self.schema.ids().filter(|id| self.column(*id).is_some())
    }

    /// The `rows` rows starting at `start`, without copying.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[must_use]
    pub fn slice(&self, start: usize, rows: usize) -> Batch {
        let columns = self
            .columns
            .iter()
            .map(|c| c.as_ref().map(|c| c.slice(start, rows)))
            .collect();
        Batch {
            schema: self.schema.clone(),
            rows,
            columns,
        }
    }

    /// A `U64` column. The typed accessors panic when the column is absent or of another type.
    #[must_use]
    pub fn u64(&self, id: FieldId) -> &UInt64Array {
        self.required(id).as_primitive::<UInt64Type>()
    }

    /// An `I64` column.
    #[must_use]
    pub fn i64(&self, id: FieldId) -> &Int64Array {
        self.required(id).as_primitive::<Int64Type>()
    }

    /// An `F64` column.
    #[must_use]
    pub fn f64(&self, id: FieldId) -> &Float64Array {
        self.required(id).as_primitive::<Float64Type>()
    }

    /// A `Bool` column.
    #[must_use]
    pub fn bool(&self, id: FieldId) -> &BooleanArray {
        self.required(id).as_boolean()
    }

    /// A `Text` or `Json` column.
    #[must_use]
    pub fn text(&self, id: FieldId) -> &StringArray {
        self.required(id).as_string::<i32>()
    }

    /// A `Hashes` column.
    #[must_use]
    pub fn hashes(&self, id: FieldId) -> &BinaryArray {
        self.required(id).as_binary::<i32>()
    }

    /// An `Ip` column.
    #[must_use]
    pub fn ip(&self, id: FieldId) -> &FixedSizeBinaryArray {
        self.required(id).as_fixed_size_binary()
    }

    fn required(&self, id: FieldId) -> &ArrayRef {
        match self.column(id) {
            Some(column) => column,
            None => panic!(
                "{}.{} was not requested",
                self.schema.name,
                self.schema.field(id).name
            ),
        }
    }
}

/// Whether `arrow` is the Arrow type of a column, without constructing it.
fn is_arrow_type(data_type: DataType, arrow: &arrow_schema::DataType) -> bool {
    use arrow_schema::DataType as T;
    match data_type {
        DataType::Bool => matches!(arrow, T::Boolean),
        DataType::U64 => matches!(arrow, T::UInt64),
        DataType::I64 => matches!(arrow, T::Int64),
        DataType::F64 => matches!(arrow, T::Float64),
        DataType::Text | DataType::Json => matches!(arrow, T::Utf8),
        DataType::Hashes => matches!(arrow, T::Binary),
        DataType::Ip => matches!(arrow, T::FixedSizeBinary(16)),
    }
}

/// The Arrow type of a column.
#[must_use]
pub fn arrow_type(data_type: DataType) -> arrow_schema::DataType {
    use arrow_schema::DataType as T;
    match data_type {
        DataType::Bool => T::Boolean,
        DataType::U64 => T::UInt64,
        DataType::I64 => T::Int64,
        DataType::F64 => T::Float64,
        DataType::Text | DataType::Json => T::Utf8,
        DataType::Hashes => T::Binary,
        DataType::Ip => T::FixedSizeBinary(16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_column_is_checked() {
        let all = [
            DataType::Bool,
            DataType::U64,
            DataType::I64,
            DataType::F64,
            DataType::Text,
            DataType::Ip,
            DataType::Hashes,
            DataType::Json,
        ];
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
            assert_eq!(
                is_arrow_type(a, &arrow_type(b)),
                arrow_type(a) == arrow_type(b),
                "{a:?} {b:?}"
            );
        }
        assert!(!is_arrow_type(
            DataType::Ip,
            &arrow_schema::DataType::FixedSizeBinary(4)
        ));
    }
}
