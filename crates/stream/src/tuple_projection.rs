//! Output of raw tuples: columns, order, and number of rows. The last step before a sink, after the tuples of all
//! workers are sorted by time.

use std::sync::Arc;

use plan::{Dataflow, RawRows};
use tuple::{Batch, Field, FieldId, RedactionRule, Schema, SchemaFacts, redact};

use crate::engine::Engine;
use crate::ops::top_rows::TopRows;

/// Output of raw tuples.
pub struct TupleProjection {
    schema: Arc<Schema>,
    /// Output columns, in order.
    columns: Vec<FieldId>,
    /// Whether all columns are output unchanged.
    is_all: bool,
    top: Option<TopRows>,
    /// Remaining number of rows, without a sort order.
    left: Option<u64>,
}

impl TupleProjection {
    /// Output of the tuples of an engine for `dataflow`. Rows waiting to be sorted use at most `bytes_max`.
    #[must_use]
    pub fn new(dataflow: &Dataflow, engine: &Engine, bytes_max: usize) -> TupleProjection {
        let (schema, present) = engine.tuples();
        let RawRows {
            select,
            order,
            rows_max,
        } = &dataflow.rows;
        let columns = match select {
            Some(select) => select.iter().map(|c| engine.place(*c)).collect(),
            None => present.to_vec(),
        };
        let keys: Vec<_> = order
            .iter()
            .map(|(column, direction)| (engine.place(*column), *direction))
            .collect();
        let max = rows_max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let top = (!keys.is_empty()).then(|| TopRows::new(&keys, max, bytes_max));
        let is_all = select.is_none() && dataflow.computed.is_empty() && top.is_none();
        let left = rows_max.filter(|_| top.is_none());
        let schema = if is_all {
            schema.clone()
        } else {
            Arc::new(projected(schema, &columns))
        };
        TupleProjection {
            schema,
            columns,
            is_all,
            top,
            left,
        }
    }

    /// The schema of the output, and its columns.
    #[must_use]
    pub fn columns(&self) -> (&Arc<Schema>, Vec<FieldId>) {
        let columns = if self.is_all {
            self.columns.clone()
        } else {
            self.schema.ids().collect()
        };
        (&self.schema, columns)
    }

    /// Selects from a batch the rows that can be output at once.
    #[must_use]
    pub fn take(&mut self, batch: &Batch) -> Option<Batch> {
        if let Some(top) = &mut self.top {
            top.push(batch, &self.columns);
            return None;
        }
        let rows = self.left.map_or(batch.rows(), |left| {
            batch
                .rows()
                .min(usize::try_from(left).unwrap_or(usize::MAX))
        });
        self.left = self.left.map(|left| left - rows as u64);
        if rows == 0 {
            return None;
        }
        let batch = if rows < batch.rows() {
            batch.slice(0, rows)
        } else {
            batch.clone()
        };
        if self.is_all {
            return Some(batch);
        }
        let columns = self
            .columns
            .iter()
            .map(|id| batch.column(*id).cloned())
            .collect();
        Some(Batch::new(self.schema.clone(), rows, columns))
    }

    /// Whether the row limit is reached.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Whether ORDER BY dropped rows because of the memory limit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.top.as_ref().is_some_and(TopRows::is_cut)
    }

    /// Outputs the sorted rows at the end.
    pub fn finish(&mut self, out: impl FnMut(Batch)) {
        if let Some(top) = &mut self.top {
            top.finish(&self.schema, out);
        }
    }
}

/// A schema of some columns.
fn projected(schema: &Schema, columns: &[FieldId]) -> Schema {
    let field = |id: &FieldId| {
        let field = schema.field(*id).clone();
        // The column that controls the redaction may be missing.
        let redact = match field.redact {
            RedactionRule::Where(..) => RedactionRule::Fold(redact::HASH),
            other => other,
        };
        Field { redact, ..field }
    };
    Schema {
        fields: columns.iter().map(field).collect(),
        measure: None,
        key: None,
        parts: &[],
        facts: &SchemaFacts::NONE,
        ..schema.clone()
    }
}
