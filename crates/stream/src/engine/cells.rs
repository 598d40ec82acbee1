//! Partial results as rows, and back: see [`crate::cells`].

use arrow_array::RecordBatch;

use super::{Engine, Output, TakeOutput};
use crate::cells::{Building, CellColumn, CellRows, CellTable, Origin, Role};
use crate::partial::{Malformed, Partial};

impl Engine {
    /// Which columns the cells of a pipeline have.
    #[must_use]
    pub fn cell_table(&self, pipeline: usize) -> &CellTable {
        &self.cells[pipeline]
    }

    /// How many pipelines there are.
    pub(crate) fn pipelines(&self) -> usize {
        self.rest.pipelines.len()
    }

    /// The rows of what a worker detached when its event time had come to `watermark_ns`, which does not go back: the batches of every
    /// pipeline, of bounded size, in the order of time. Counters are not among them.
    #[must_use]
    pub fn cells(&self, partial: &Partial, watermark_ns: i64) -> Vec<Vec<RecordBatch>> {
        let each = self.rest.pipelines.iter().zip(&partial.shares).zip(&self.cells);
        each.map(|((work, share), table)| work.cells(share, table, watermark_ns)).collect()
    }

    /// What a worker that has detached at this watermark, and whose cells of that have been sent, promises: no cell of the pipeline
    /// follows whose `et_ms` is this or less.
    #[must_use]
    pub fn promise_ms(&self, pipeline: usize, watermark_ns: i64) -> i64 {
        self.rest.pipelines[pipeline].times(watermark_ns).promise()
    }

    /// A row that says nothing but that promise.
    ///
    /// # Panics
    /// Never: the columns are the table's.
    #[must_use]
    pub fn promise(&self, pipeline: usize, watermark_ns: i64) -> RecordBatch {
        let column = |column: &CellColumn| {
            let mut one = Building::new(column.data);
            if column.role == Role::Promise {
                one.long(0, self.promise_ms(pipeline, watermark_ns));
            }
            (column.name.clone(), one.finish(1), true)
        };
        let named = self.cells[pipeline].columns_of(Origin::Sent).map(column);
        RecordBatch::try_from_iter_with_nullable(named).expect("columns of one row")
    }

    /// Emits the windows of a pipeline that are over by what all promise whose cells were attached, as [`Engine::promise_ms`] says it.
    pub fn keep_promise(&mut self, pipeline: usize, promise_ms: i64, out: &mut dyn TakeOutput) {
        let rest = &mut self.rest;
        let told_ns = promise_ms.saturating_add(1).saturating_mul(1_000_000);
        let watermark_ns = told_ns.saturating_add(rest.lateness_ns[pipeline]);
        let emit = &mut |batch| out.take(Output { pipeline: Some(pipeline), batch, watermark_ns });
        rest.pipelines[pipeline].advance(watermark_ns, &mut rest.counters, emit);
    }

    /// What cells of a pipeline say, merged or not, for [`Engine::attach`]. Rows that anybody made do no harm, as bytes for
    /// [`Engine::decode_partial`].
    ///
    /// # Errors
    /// Where they are of another dataflow, say what cannot be or would take too much memory.
    pub fn partial_of_cells(&self, pipeline: usize, batch: &RecordBatch) -> Result<Partial, Malformed> {
        let rows = CellRows::new(&self.cells[pipeline], batch)?;
        let mut partial = Partial::of(self.rest.pipelines.iter().map(|work| work.nothing()).collect());
        partial.shares[pipeline] = self.rest.pipelines[pipeline].of_cells(&rows)?;
        Ok(partial)
    }
}
