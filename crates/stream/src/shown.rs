//! Output of raw tuples: chosen columns, order, and number of rows. The last step before a sink, after the workers'
//! tuples have been sorted by time.

use std::sync::Arc;

use plan::{Dataflow, RawRows};
use tuple::{Batch, Facts, Field, FieldId, Redact, Schema, redact};

use crate::engine::Engine;
use crate::ops::top_rows::TopRows;

/// See the module's text.
pub struct Shown {
    schema: Arc<Schema>,
    /// Those of the engine's tuples that are shown, in their order.
    columns: Vec<FieldId>,
    /// Whether they are the engine's, as they are.
    is_all: bool,
    top: Option<TopRows>,
    /// How many rows are still wanted, without an order.
    left: Option<u64>,
}

impl Shown {
    /// Output of the tuples of an engine for `dataflow`. Rows that wait for sorting take at most `bytes_max`.
    #[must_use]
    pub fn new(dataflow: &Dataflow, engine: &Engine, bytes_max: usize) -> Shown {
        let (schema, present) = engine.tuples();
        let RawRows { select, order, rows_max } = &dataflow.rows;
        let columns = match select {
            Some(select) => select.iter().map(|c| engine.place(*c)).collect(),
            None => present.to_vec(),
        };
        let keys: Vec<_> =
            order.iter().map(|(column, direction)| (engine.place(*column), *direction)).collect();
        let max = rows_max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let top = (!keys.is_empty()).then(|| TopRows::new(&keys, max, bytes_max));
        let is_all = select.is_none() && dataflow.computed.is_empty() && top.is_none();
        let left = rows_max.filter(|_| top.is_none());
        let schema = if is_all { schema.clone() } else { Arc::new(projected(schema, &columns)) };
        Shown { schema, columns, is_all, top, left }
    }

    /// The schema of what is shown, and the columns that it has.
    #[must_use]
    pub fn columns(&self) -> (&Arc<Schema>, Vec<FieldId>) {
        let columns = if self.is_all { self.columns.clone() } else { self.schema.ids().collect() };
        (&self.schema, columns)
    }

    /// What is shown of some tuples now.
    #[must_use]
    pub fn take(&mut self, batch: &Batch) -> Option<Batch> {
        if let Some(top) = &mut self.top {
            top.push(batch, &self.columns);
            return None;
        }
        let rows = self
            .left
            .map_or(batch.rows(), |left| batch.rows().min(usize::try_from(left).unwrap_or(usize::MAX)));
        self.left = self.left.map(|left| left - rows as u64);
        if rows == 0 {
            return None;
        }
        let batch = if rows < batch.rows() { batch.slice(0, rows) } else { batch.clone() };
        if self.is_all {
            return Some(batch);
        }
        let columns = self.columns.iter().map(|id| batch.column(*id).cloned()).collect();
        Some(Batch::new(self.schema.clone(), rows, columns))
    }

    /// Whether nothing that comes will be shown.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Whether fewer rows were held than ORDER BY wanted, for want of memory.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.top.as_ref().is_some_and(TopRows::is_cut)
    }

    /// What is shown at the end.
    pub fn finish(&mut self, out: impl FnMut(Batch)) {
        if let Some(top) = &mut self.top {
            top.finish(&self.schema, out);
        }
    }
}

/// Some columns of a schema as one of their own.
fn projected(schema: &Schema, columns: &[FieldId]) -> Schema {
    let field = |id: &FieldId| {
        let field = schema.field(*id).clone();
        // What says how it is folded may not be among them.
        let redact = match field.redact {
            Redact::Where(..) => Redact::Fold(redact::HASH),
            other => other,
        };
        Field { redact, ..field }
    };
    Schema {
        fields: columns.iter().map(field).collect(),
        measure: None,
        key: None,
        parts: &[],
        facts: &Facts::NONE,
        ..schema.clone()
    }
}
