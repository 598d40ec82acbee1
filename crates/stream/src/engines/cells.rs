//! Converts between partial results of several dataflows and rows; see [`crate::cells`]. Pipelines are numbered
//! consecutively.

use arrow_array::RecordBatch;

use super::{EngineSet, NumberedEngine, PartialResultSet};
use crate::cells::CellTable;
use crate::partial::MalformedPartial;

impl EngineSet {
    /// As [`crate::Engine::cell_table`].
    #[must_use]
    pub fn cell_table(&self, pipeline: usize) -> &CellTable {
        let (part, pipeline) = self.of(pipeline);
        part.engine.cell_table(pipeline)
    }

    /// As [`crate::Engine::cells`].
    #[must_use]
    pub fn cells(&self, partials: &PartialResultSet, watermark_ns: i64) -> Vec<Vec<RecordBatch>> {
        let each = self.0.iter().zip(&partials.0);
        let of_each = each.flat_map(|(part, partial)| match partial {
            Some(partial) => part.engine.cells(partial, watermark_ns),
            None => vec![Vec::new(); part.engine.pipelines()],
        });
        of_each.collect()
    }

    /// As [`crate::Engine::promise_ms`].
    #[must_use]
    pub fn promise_ms(&self, pipeline: usize, watermark_ns: i64) -> i64 {
        let (part, pipeline) = self.of(pipeline);
        part.engine.promise_ms(pipeline, watermark_ns)
    }

    /// As [`crate::Engine::partial_of_cells`].
    ///
    /// # Errors
    /// As [`crate::Engine::partial_of_cells`].
    pub fn partials_of_cells(
        &self,
        pipeline: usize,
        batch: &RecordBatch,
    ) -> Result<PartialResultSet, MalformedPartial> {
        let (of, pipeline) = self.of(pipeline);
        let partial = of.engine.partial_of_cells(pipeline, batch)?;
        let mut partial = Some(partial);
        let partials = self.0.iter().map(|part| {
            if std::ptr::eq(part, of) {
                partial.take()
            } else {
                None
            }
        });
        Ok(PartialResultSet(partials.collect()))
    }

    /// The engine of a pipeline, and the pipeline's number in that engine.
    fn of(&self, pipeline: usize) -> (&NumberedEngine, usize) {
        let part = &self.0[self.0.partition_point(|part| part.pipeline <= pipeline) - 1];
        (part, pipeline - part.pipeline)
    }
}
