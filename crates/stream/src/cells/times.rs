//! Event times of cells, and the lower bound promised for later cells.
//!
//! After a worker detaches at a watermark W, [`WindowLayout::first_open`] of W minus the lateness is its first open
//! window. All panes of closed windows left with this detach or an earlier one. The end of the last closed window is
//! the start of the first pane that has not left at all. The promise is that end in whole milliseconds, minus one;
//! rounding down keeps the order.
//!
//! With sliding windows, parts of an earlier pane may still follow: a tuple beyond the lateness counts in those
//! windows of its pane that are still open. A merge by event time may drop these parts, as tumbling windows drop such
//! tuples. Waiting for them would delay each window by the time its panes belong to later windows.
//!
//! Without windows, the event time of cells is the watermark, which never decreases; no later cell precedes it.
//!
//! *Within* one detach the promise does not hold yet: rows are sent in time order, each with a promise of at most one
//! millisecond before its own time.

use crate::window::WindowLayout;

const MILLISECOND: i64 = 1_000_000;

/// The event times of a pipeline's cells at one watermark.
#[derive(Clone, Copy, Debug)]
pub struct CellTimes {
    windows: Option<WindowLayout>,
    lateness_ns: i64,
    watermark_ns: i64,
}

impl CellTimes {
    /// Times for a detach at `watermark_ns`, which never decreases.
    #[must_use]
    pub fn new(windows: Option<WindowLayout>, lateness_ns: i64, watermark_ns: i64) -> CellTimes {
        CellTimes {
            windows,
            lateness_ns,
            watermark_ns,
        }
    }

    /// The event time of a pane's cells, in milliseconds.
    #[must_use]
    pub fn of(&self, pane: i64) -> i64 {
        let start_ns = match self.windows {
            Some(windows) => i128::from(pane) * i128::from(windows.pane_ns),
            None => self.watermark_ns.into(),
        };
        start_ns
            .clamp(i64::MIN.into(), i64::MAX.into())
            .div_euclid(MILLISECOND.into()) as i64
    }

    /// Every later cell has an event time after this one, in milliseconds, except cells of tuples beyond the lateness
    /// in sliding windows.
    #[must_use]
    pub fn promise(&self) -> i64 {
        let first_ns = match self.windows {
            Some(windows) => {
                let open = windows.first_open(self.watermark_ns.saturating_sub(self.lateness_ns));
                windows.bounds(open - 1).1
            }
            None => self.watermark_ns,
        };
        first_ns.div_euclid(MILLISECOND) - 1
    }

    /// The promise in a cell of event time `et_ms` while cells of the same or a later time follow in the same detach.
    #[must_use]
    pub fn promise_at(&self, et_ms: i64) -> i64 {
        self.promise().min(et_ms - 1)
    }
}
