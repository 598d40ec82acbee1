//! Selection of result rows per window: HAVING, ORDER BY, and LIMIT … ROWS, applied to complete rows. It runs in the
//! engine that emits windows, never on partial results of workers.
//!
//! Rows to be sorted are buffered until their window is complete, at most one per group, or as many as the limit.
//! Rejected rows are counted.

use std::sync::Arc;

use plan::{Column, ResultSelection, SortDirection, SortKey};
use tuple::{Batch, FieldId, Schema};

use crate::ops::expr::ColumnComputer;
use crate::ops::filter::TupleFilter;
use crate::ops::take::take;
use crate::ops::top_rows::TopRows;
use crate::rows::RowSet;

/// Selects the rows of consecutive windows.
pub struct RowSelector {
    schema: Arc<Schema>,
    /// Computes the columns of conditions and sort keys.
    computer: Option<ColumnComputer>,
    computed: Vec<usize>,
    having: Option<TupleFilter>,
    order_by: Vec<(FieldId, SortDirection)>,
    rows_max: usize,
    /// The first rows in sort order so far.
    top: Option<TopRows>,
    /// Rows of this window accepted by HAVING.
    rows: usize,
    left_by_having: u64,
    left_by_limit: u64,
}

impl RowSelector {
    /// Creates a selection of rows of `schema`; `places` maps the columns read by the selection.
    ///
    /// # Panics
    /// If a column is missing.
    #[must_use]
    pub fn new(
        selection: &ResultSelection,
        schema: &Arc<Schema>,
        places: &[FieldId],
    ) -> RowSelector {
        let place_of = |column: Column| places[usize::from(column.field.0)];
        let computed = &selection.computed;
        let computer =
            (!computed.is_empty()).then(|| ColumnComputer::new(computed, schema, &place_of));
        let place = |column: Column| {
            computer
                .as_ref()
                .map_or_else(|| place_of(column), |c| c.place(column, &place_of))
        };
        let whole = computer.as_ref().map_or(schema, ColumnComputer::schema);
        let order_by = selection
            .order_by
            .iter()
            .map(|SortKey { column, direction }| (place(*column), *direction));
        RowSelector {
            schema: schema.clone(),
            computed: (0..computed.len()).collect(),
            having: selection
                .having
                .as_ref()
                .map(|p| TupleFilter::new(p, whole, &place)),
            order_by: order_by.collect(),
            rows_max: selection.rows_max.unwrap_or(usize::MAX),
            computer,
            top: None,
            rows: 0,
            left_by_having: 0,
            left_by_limit: 0,
        }
    }

    /// Rows rejected by HAVING, and rows beyond LIMIT … ROWS.
    #[must_use]
    pub fn left_out(&self) -> (u64, u64) {
        (self.left_by_having, self.left_by_limit)
    }

    /// Restores the counters after writing preliminary rows.
    pub fn set_left_out(&mut self, (by_having, by_limit): (u64, u64)) {
        self.left_by_having = by_having;
        self.left_by_limit = by_limit;
    }

    /// Processes rows of the window; without a sort order, selected rows go to `out` at once.
    pub fn push(&mut self, batch: &Batch, out: &mut dyn FnMut(Batch)) {
        let extended = self
            .computer
            .as_ref()
            .map(|computer| computer.extend(batch, &self.computed));
        let mut list = Vec::new();
        let all = RowSet::all(batch.rows());
        let whole = extended.as_ref().unwrap_or(batch);
        let rows = self
            .having
            .as_ref()
            .map_or(all, |having| having.select(whole, all, &mut list));
        self.left_by_having += (batch.rows() - rows.len()) as u64;
        let room = self.rows_max.saturating_sub(self.rows);
        self.left_by_limit += rows.len().saturating_sub(room) as u64;
        self.rows += rows.len();
        if !self.order_by.is_empty() {
            // At most one row per group, and groups are bounded.
            let top = self
                .top
                .get_or_insert_with(|| TopRows::new(&self.order_by, self.rows_max, usize::MAX));
            let columns: Vec<FieldId> = self.schema.ids().collect();
            return top.push(
                &take(whole, rows, |id| whole.column(id).is_some()),
                &columns,
            );
        }
        let rows = rows.part(0..rows.len().min(room));
        if !rows.is_empty() {
            out(take(batch, rows, |_| true));
        }
    }

    /// Completes the window and passes its remaining rows to `out`.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        self.rows = 0;
        if let Some(mut top) = self.top.take() {
            top.finish(&self.schema, out);
        }
    }
}
