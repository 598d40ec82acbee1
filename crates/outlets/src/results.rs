//! Results for a scrape: groups rows by window, converts them to points, and adds them to the series.

use std::sync::Arc;

use sinks::ResultHead;
use tuple::Batch;

use crate::points::{MetricPoints, points};
use crate::queue::OutletItem;
use crate::series::SeriesTable;
use crate::windows::{OpenWindows, RowWindow};

/// See the module documentation.
pub struct ScrapedResults {
    windows: OpenWindows,
    series: SeriesTable,
    /// Number of windows per result.
    seen: Vec<u64>,
    left_out: u64,
}

impl ScrapedResults {
    /// Without series; at most `series_max`.
    #[must_use]
    pub fn new(series_max: usize) -> ScrapedResults {
        let series = SeriesTable::new(series_max);
        ScrapedResults {
            windows: OpenWindows::default(),
            series,
            seen: Vec::new(),
            left_out: 0,
        }
    }

    /// Announces the results; must precede the first row.
    pub fn announce(&mut self, heads: &[ResultHead]) {
        self.take(OutletItem::Heads(Arc::from(heads)));
    }

    /// Adds rows of the result with this index.
    pub fn add(&mut self, result: usize, batch: &Batch) {
        self.take(OutletItem::Rows(result, batch.clone()));
    }

    /// Completes all windows with rows so far; returns the number of rows added to the series.
    pub fn complete(&mut self) -> u64 {
        self.take(OutletItem::Complete)
    }

    /// Handles an item; returns the number of rows added to the series.
    pub(crate) fn take(&mut self, item: OutletItem) -> u64 {
        let windows = self.windows.take(item);
        self.show(&windows)
    }

    /// Adds the remaining rows.
    pub(crate) fn finish(&mut self) -> u64 {
        let windows = self.windows.finish();
        self.show(&windows)
    }

    fn show(&mut self, windows: &[RowWindow]) -> u64 {
        for window in windows {
            let Some(head) = self.windows.head(window.result) else {
                continue;
            };
            let mut found = MetricPoints::default();
            window
                .batches
                .iter()
                .for_each(|batch| points(head, batch, &mut found));
            if self.seen.len() <= window.result {
                self.seen.resize(window.result + 1, 0);
            }
            let seen = &mut self.seen[window.result];
            *seen += 1;
            self.left_out += found.left_out;
            self.series.take(window.result, *seen, found.points);
        }
        windows.iter().map(RowWindow::rows).sum()
    }

    /// The series.
    #[must_use]
    pub fn series(&self) -> &SeriesTable {
        &self.series
    }

    /// Points omitted: beyond the limit, or without representation.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out + self.series.left_out()
    }
}
