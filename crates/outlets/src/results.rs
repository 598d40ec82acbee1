//! Rows of results as what a scrape shows of them: put together by window, made points, and added to the series.

use std::sync::Arc;

use sinks::ResultHead;
use tuple::Batch;

use crate::points::{Points, points};
use crate::queue::Item;
use crate::series::Series;
use crate::windows::{Window, Windows};

/// See the module's text.
pub struct Results {
    windows: Windows,
    series: Series,
    /// How many windows each result had.
    seen: Vec<u64>,
    left_out: u64,
}

impl Results {
    /// None yet, and no more than `series_max` series.
    #[must_use]
    pub fn new(series_max: usize) -> Results {
        let series = Series::new(series_max);
        Results { windows: Windows::default(), series, seen: Vec::new(), left_out: 0 }
    }

    /// Says what results there will be; comes before the first row.
    pub fn announce(&mut self, heads: &[ResultHead]) {
        self.take(Item::Heads(Arc::from(heads)));
    }

    /// Takes rows of the result at this place.
    pub fn add(&mut self, result: usize, batch: &Batch) {
        self.take(Item::Rows(result, batch.clone()));
    }

    /// All windows whose rows have come are complete; how many rows are shown by that.
    pub fn complete(&mut self) -> u64 {
        self.take(Item::Complete)
    }

    /// Takes what comes next; how many rows are shown by that.
    pub(crate) fn take(&mut self, item: Item) -> u64 {
        let windows = self.windows.take(item);
        self.show(&windows)
    }

    /// Shows what is left.
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

    /// Points that are not shown: beyond the bound, or nothing that a scrape can show.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out + self.series.left_out()
    }
}
