//! Which rows of a window are shown: HAVING, ORDER BY and LIMIT … ROWS, over the rows as they are written. At work where windows
//! are emitted, never on the parts of workers.
//!
//! Rows that are sorted are held until their window is complete: at most those of its groups, and with a limit about
//! twice as many as that. Each row that is left out is counted.

use std::cmp::Ordering;
use std::sync::Arc;

use plan::{Column, Direction, Selection, SortKey};
use tuple::{Batch, FieldId, Schema, TupleWriter};

use crate::column::ColumnView;
use crate::ops::filter::Filter;
use crate::ops::take::take;
use crate::rows::Rows;

/// Rows beyond twice the limit that are held before the last of them are let go.
const SLACK_ROWS: usize = 8192;

/// Chooses the rows of one window after another.
pub struct Selecting {
    having: Option<Filter>,
    order_by: Vec<(FieldId, Direction)>,
    rows_max: usize,
    /// Writes rows in their new order.
    writer: TupleWriter,
    /// Rows of this window.
    held: Vec<Batch>,
    rows: usize,
    left_by_having: u64,
    left_by_limit: u64,
}

impl Selecting {
    /// Chooses among rows of `schema`. The selection names columns of `named`; they are found by their names.
    ///
    /// # Panics
    /// When the schema lacks one of them: a bug of the caller.
    #[must_use]
    pub fn new(selection: &Selection, schema: &Arc<Schema>, named: &Schema) -> Selecting {
        let place = |column: Column| -> FieldId {
            schema.find(&named.field(column.field).name).expect("results have every column that they say")
        };
        let order_by =
            selection.order_by.iter().map(|SortKey { column, direction }| (place(*column), *direction));
        let all: Vec<FieldId> = schema.ids().collect();
        Selecting {
            having: selection.having.as_ref().map(|p| Filter::new(p, schema, &place)),
            order_by: order_by.collect(),
            rows_max: selection.rows_max.unwrap_or(usize::MAX),
            writer: TupleWriter::new(schema.clone(), &all),
            held: Vec::new(),
            rows: 0,
            left_by_having: 0,
            left_by_limit: 0,
        }
    }

    /// Rows that HAVING left out, and those beyond LIMIT … ROWS.
    #[must_use]
    pub fn left_out(&self) -> (u64, u64) {
        (self.left_by_having, self.left_by_limit)
    }

    /// Takes some rows of the window.
    pub fn push(&mut self, batch: &Batch) {
        let (mut list, all) = (Vec::new(), Rows::all(batch.rows()));
        let rows = self.having.as_ref().map_or(all, |having| having.select(batch, all, &mut list));
        self.left_by_having += (batch.rows() - rows.len()) as u64;
        // Without a new order the first rows are the ones that are shown.
        let room = if self.order_by.is_empty() { self.rows_max - self.rows } else { usize::MAX };
        self.left_by_limit += rows.len().saturating_sub(room) as u64;
        let rows = rows.part(0..rows.len().min(room));
        if rows.is_empty() {
            return;
        }
        self.rows += rows.len();
        self.held.push(take(batch, rows, |_| true));
        if self.rows > self.rows_max.saturating_mul(2).saturating_add(SLACK_ROWS) {
            self.sort();
        }
    }

    /// The window is complete: its rows go to `out`.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        if !self.order_by.is_empty() {
            self.sort();
        }
        self.rows = 0;
        self.held.drain(..).for_each(out);
    }

    /// Puts the rows in order, as many as are shown.
    fn sort(&mut self) {
        let held = std::mem::take(&mut self.held);
        let keys: Vec<Vec<ColumnView<'_>>> = held
            .iter()
            .map(|batch| self.order_by.iter().map(|(id, _)| ColumnView::of(batch, *id)).collect())
            .collect();
        let mut places: Vec<(usize, usize)> = held
            .iter()
            .enumerate()
            .flat_map(|(b, batch)| (0..batch.rows()).map(move |row| (b, row)))
            .collect();
        // Stable: equal ones stay as they were.
        places.sort_by(|a, b| {
            let value = |place: &(usize, usize), key: usize| keys[place.0][key].scalar(place.1);
            let by = |key: usize| in_direction(self.order_by[key].1, value(a, key).order(&value(b, key)));
            (0..self.order_by.len()).map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
        self.left_by_limit += places.len().saturating_sub(self.rows_max) as u64;
        places.truncate(self.rows_max);
        self.rows = places.len();
        for (b, row) in places {
            for id in held[b].present() {
                ColumnView::of(&held[b], id).scalar(row).write(&mut self.writer, id);
            }
            self.writer.end_row();
            if self.writer.is_full() {
                self.held.push(self.writer.finish());
            }
        }
        if self.writer.rows() > 0 {
            self.held.push(self.writer.finish());
        }
    }
}

fn in_direction(direction: Direction, order: Ordering) -> Ordering {
    match direction {
        Direction::Ascending => order,
        Direction::Descending => order.reverse(),
    }
}
