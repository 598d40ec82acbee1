//! When cells are told: their event time, and what that promises of cells to come.
//!
//! Once a worker has detached at a watermark W, [`Windows::first_open`] of W less the lateness is its first window that is not over. All
//! panes that are part of a window that is over have left with this detach, or before: what came of them. Where the last of those
//! windows ends, there the first pane begins of which nothing has left yet. That end in whole milliseconds, less one, is what is promised; rounding down
//! keeps the order.
//!
//! Parts of a pane may follow all the same where windows slide: a tuple that comes later than the lateness still counts in windows of its pane that
//! are open. Who merges by event time may drop them, as tumbling windows drop such tuples; to wait for them would hold
//! back each window by as long as its panes may be part of others.
//!
//! Without windows cells are told at the watermark itself, which does not go back: none follows from before it.
//!
//! *Within* what is told at once the promise is not kept yet: the rows go out in the order of time, each with no more than the
//! millisecond before its own.

use crate::window::Windows;

const MILLISECOND: i64 = 1_000_000;

/// The times of what a pipeline tells at one watermark.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    windows: Option<Windows>,
    lateness_ns: i64,
    watermark_ns: i64,
}

impl Times {
    /// Of what was detached at a watermark that does not go back.
    #[must_use]
    pub fn new(windows: Option<Windows>, lateness_ns: i64, watermark_ns: i64) -> Times {
        Times { windows, lateness_ns, watermark_ns }
    }

    /// The event time of a pane's cells, in milliseconds.
    #[must_use]
    pub fn of(&self, pane: i64) -> i64 {
        let start_ns = match self.windows {
            Some(windows) => i128::from(pane) * i128::from(windows.pane_ns),
            None => self.watermark_ns.into(),
        };
        start_ns.clamp(i64::MIN.into(), i64::MAX.into()).div_euclid(MILLISECOND.into()) as i64
    }

    /// No later cell has this event time or an earlier one, in milliseconds, except cells of tuples beyond the lateness
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

    /// The same of a cell of this event time, while cells of that time or later ones of the same detach follow.
    #[must_use]
    pub fn promise_at(&self, et_ms: i64) -> i64 {
        self.promise().min(et_ms - 1)
    }
}
