//! Groups rows by window: batches of a result are independent of windows.

use std::collections::VecDeque;
use std::sync::Arc;

use sinks::ResultHead;
use tuple::{Batch, FieldId};

use crate::queue::OutletItem;

/// Rows of a window, or of a result without windows.
#[derive(Clone, Debug)]
pub struct RowWindow {
    /// Index of the result.
    pub result: usize,
    /// Start and exclusive end, in nanoseconds.
    pub bounds: Option<(i64, i64)>,
    /// Rows.
    pub batches: Vec<Batch>,
}

impl RowWindow {
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.rows() as u64).sum()
    }
}

/// Incomplete windows.
#[derive(Default)]
pub struct OpenWindows {
    heads: Option<Arc<[ResultHead]>>,
    open: VecDeque<RowWindow>,
}

impl OpenWindows {
    /// Handles an item; returns the windows completed by it, in order of their first row.
    pub fn take(&mut self, item: OutletItem) -> Vec<RowWindow> {
        match item {
            OutletItem::Heads(heads) => self.heads = Some(heads),
            // Tuples have no windows to wait for.
            OutletItem::Rows(result, batch)
                if self
                    .head(result)
                    .is_some_and(|head| head.processor.is_none()) =>
            {
                return vec![RowWindow {
                    result,
                    bounds: None,
                    batches: vec![batch],
                }];
            }
            OutletItem::Rows(result, batch) => self.add(result, &batch),
            OutletItem::Complete => return self.finish(),
            OutletItem::Vitals(_) => {}
        }
        Vec::new()
    }

    /// The remaining windows.
    pub fn finish(&mut self) -> Vec<RowWindow> {
        self.open.drain(..).collect()
    }

    /// Descriptions of the results, once known.
    pub fn heads(&self) -> Option<&[ResultHead]> {
        self.heads.as_deref()
    }

    /// Description of the result with this index.
    pub fn head(&self, result: usize) -> Option<&ResultHead> {
        self.heads.as_ref()?.get(result)
    }

    fn add(&mut self, result: usize, batch: &Batch) {
        let mut start = 0;
        while start < batch.rows() {
            let bounds = bounds(batch, start);
            let end = (start + 1..batch.rows())
                .find(|row| self::bounds(batch, *row) != bounds)
                .unwrap_or(batch.rows());
            let rows = batch.slice(start, end - start);
            match self
                .open
                .iter_mut()
                .find(|window| (window.result, window.bounds) == (result, bounds))
            {
                Some(window) => window.batches.push(rows),
                None => self.open.push_back(RowWindow {
                    result,
                    bounds,
                    batches: vec![rows],
                }),
            }
            start = end;
        }
    }
}

/// Bounds of a row's window.
fn bounds(batch: &Batch, row: usize) -> Option<(i64, i64)> {
    let start = FieldId(0);
    let end = FieldId(1);
    let is_windowed = batch
        .schema()
        .fields
        .first()
        .is_some_and(|field| field.name == "window_start");
    (is_windowed && batch.column(start).is_some())
        .then(|| (batch.i64(start).value(row), batch.i64(end).value(row)))
}
