//! Collected results, with access by row and column.

use std::io;

use serde_json::Value;
use sinks::Sink;
use sinks::cells::ColumnCells;
use tuple::{Batch, FieldId};

/// Collects all rows of all results; their number is limited by the groups of processors.
#[derive(Default)]
pub struct CollectedResults {
    results: Vec<Vec<Batch>>,
}

impl Sink for CollectedResults {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        if self.results.len() <= result {
            self.results.resize_with(result + 1, Vec::new);
        }
        self.results[result].push(batch.clone());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A row of a result.
#[derive(Clone, Copy)]
pub struct ResultRow<'a> {
    batch: &'a Batch,
    row: usize,
}

impl CollectedResults {
    /// Splits off the results from an index on.
    pub fn split_off(&mut self, at: usize) -> CollectedResults {
        let results = if at < self.results.len() {
            self.results.split_off(at)
        } else {
            Vec::new()
        };
        CollectedResults { results }
    }

    /// Rows of the result at an index.
    pub fn rows(&self, result: usize) -> impl Iterator<Item = ResultRow<'_>> {
        let batches = self.results.get(result).into_iter().flatten();
        batches.flat_map(|batch| (0..batch.rows()).map(move |row| ResultRow { batch, row }))
    }
}

impl ResultRow<'_> {
    /// Value of the column with this name, or with the suffix `_ns`; null if missing.
    #[must_use]
    pub fn value(&self, column: &str) -> Value {
        let schema = self.batch.schema();
        let is_it = |name: &str| name == column || name.strip_suffix("_ns") == Some(column);
        let id = schema
            .fields
            .iter()
            .position(|field| is_it(&field.name))
            .map(|at| FieldId(at as u16));
        let Some(cells) = id
            .and_then(|id| ColumnCells::of(self.batch, id))
            .filter(|c| !c.is_null(self.row))
        else {
            return Value::Null;
        };
        let mut text = Vec::new();
        cells.push(self.row, &mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        if cells.is_quoted() {
            Value::String(text)
        } else {
            text.parse().unwrap_or(Value::String(text))
        }
    }

    /// The value as text; a dash for null.
    #[must_use]
    pub fn text(&self, column: &str) -> String {
        match self.value(column) {
            Value::Null => "-".into(),
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// The value as an unsigned integer; 0 for null.
    #[must_use]
    pub fn number(&self, column: &str) -> u64 {
        let value = self.value(column);
        value
            .as_u64()
            .unwrap_or_else(|| value.as_f64().unwrap_or_default() as u64)
    }

    /// The value as a float.
    #[must_use]
    pub fn real(&self, column: &str) -> Option<f64> {
        self.value(column).as_f64()
    }
}
