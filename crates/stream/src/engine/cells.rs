//! Converts between partial results and rows; see [`crate::cells`].

use arrow_array::RecordBatch;

use super::{Engine, EngineOutput, OutputConsumer};
use crate::cells::{
    CellColumn, CellColumnBuilder, CellColumnRole, CellOrigin, CellRows, CellTable,
};
use crate::partial::{MalformedPartial, PartialResult};

impl Engine {
    /// The columns of a pipeline's cells.
    #[must_use]
    pub fn cell_table(&self, pipeline: usize) -> &CellTable {
        &self.cells[pipeline]
    }

    /// Number of pipelines.
    pub(crate) fn pipelines(&self) -> usize {
        self.rest.pipelines.len()
    }

    /// Converts the result of a worker's detach at `watermark_ns`, which must not decrease, to rows: batches of
    /// bounded size per pipeline, in time order. Counters are not included.
    #[must_use]
    pub fn cells(&self, partial: &PartialResult, watermark_ns: i64) -> Vec<Vec<RecordBatch>> {
        let each = self
            .rest
            .pipelines
            .iter()
            .zip(&partial.shares)
            .zip(&self.cells);
        each.map(|((work, share), table)| work.cells(share, table, watermark_ns))
            .collect()
    }

    /// The promise of a worker that has detached at this watermark and sent the cells: later cells of the pipeline
    /// have an `et_ms` greater than this.
    #[must_use]
    pub fn promise_ms(&self, pipeline: usize, watermark_ns: i64) -> i64 {
        self.rest.pipelines[pipeline].times(watermark_ns).promise()
    }

    /// A row with only that promise.
    ///
    /// # Panics
    /// Never: the columns are those of the table.
    #[must_use]
    pub fn promise(&self, pipeline: usize, watermark_ns: i64) -> RecordBatch {
        let column = |column: &CellColumn| {
            let mut one = CellColumnBuilder::new(column.data);
            if column.role == CellColumnRole::Promise {
                one.long(0, self.promise_ms(pipeline, watermark_ns));
            }
            (column.name.clone(), one.finish(1), true)
        };
        let named = self.cells[pipeline]
            .columns_of(CellOrigin::Sent)
            .map(column);
        RecordBatch::try_from_iter_with_nullable(named).expect("columns of one row")
    }

    /// Emits the windows of a pipeline closed by `promise_ms`, the minimum of [`Engine::promise_ms`] over all workers
    /// with attached cells.
    pub fn keep_promise(&mut self, pipeline: usize, promise_ms: i64, out: &mut dyn OutputConsumer) {
        let rest = &mut self.rest;
        let told_ns = promise_ms.saturating_add(1).saturating_mul(1_000_000);
        let watermark_ns = told_ns.saturating_add(rest.lateness_ns[pipeline]);
        let emit = &mut |batch| {
            out.take(EngineOutput {
                pipeline: Some(pipeline),
                batch,
                watermark_ns,
            })
        };
        rest.pipelines[pipeline].advance(watermark_ns, &mut rest.counters, emit);
    }

    /// Decodes cells of a pipeline, merged or not, for [`Engine::attach`]. Safe for untrusted rows, as
    /// [`Engine::decode_partial`].
    ///
    /// # Errors
    /// Rows of another dataflow, impossible values, or values that exceed the memory limit.
    pub fn partial_of_cells(
        &self,
        pipeline: usize,
        batch: &RecordBatch,
    ) -> Result<PartialResult, MalformedPartial> {
        let rows = CellRows::new(&self.cells[pipeline], batch)?;
        let mut partial = PartialResult::of(
            self.rest
                .pipelines
                .iter()
                .map(|work| work.nothing())
                .collect(),
        );
        partial.shares[pipeline] = self.rest.pipelines[pipeline].of_cells(&rows)?;
        Ok(partial)
    }
}
