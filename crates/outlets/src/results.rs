//! Results for a scrape: groups rows by window, converts them to points, and adds them to the series.

use std::sync::Arc;

use sinks::ResultHead;
use tuple::Batch;

use crate::points::{Points, points};
use crate::queue::Item;
use crate::series::Series;
use crate::windows::{Window, Windows};

/// See the module documentation.
pub struct Results {
    windows: Windows,
    series: Series,
    /// Number of windows per result.
    seen: Vec<u64>,
    left_out: u64,
}

impl Results {
    /// Without series; at most `series_max`.
    #[must_use]
    pub fn new(series_max: usize) -> Results {
        let series = Series::new(series_max);
        Results { windows: Windows::default(), series, seen: Vec::new(), left_out: 0 }
    }

    /// Announces the results; must precede the first row.
    pub fn announce(&mut self, heads: &[ResultHead]) {
        self.take(Item::Heads(Arc::from(heads)));
    }

    /// Adds rows of the result with this index.
    pub fn add(&mut self, result: usize, batch: &Batch) {
        self.take(Item::Rows(result, batch.clone()));
    }

    /// Completes all windows with rows so far; returns the number of rows added to the series.
    pub fn complete(&mut self) -> u64 {
        self.take(Item::Complete)
    }

    /// Handles an item; returns the number of rows added to the series.
    pub(crate) fn take(&mut self, item: Item) -> u64 {
        let windows = self.windows.take(item);
        self.show(&windows)
    }

    /// Adds the remaining rows.
    pub(crate) fn finish(&mut self) -> u64 {
        let windows = self.windows.finish();
        self.show(&windows)
    }

    fn show(&mut self, windows: &[Window]) -> u64 {
        for window in windows {
            let Some(head) = self.windows.head(window.result) else { continue };
            let mut found = Points::default();
            window.batches.iter().for_each(|batch| points(head, batch, &mut found));
            if self.seen.len() <= window.result {
                self.seen.resize(window.result + 1, 0);
            }
            let seen = &mut self.seen[window.result];
            *seen += 1;
            self.left_out += found.left_out;
            self.series.take(window.result, *seen, found.points);
        }
        windows.iter().map(Window::rows).sum()
    }

    /// The series.
    #[must_use]
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// Points omitted: beyond the limit, or without representation.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out + self.series.left_out()
    }
}
