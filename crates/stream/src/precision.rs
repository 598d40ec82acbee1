//! Precision of the windows of a sampled result, for the controller of its sampling rate ([`crate::rate_control`]).
//!
//! In each window, only the [`GROUPS`] groups with the most samples count (in a ranking: its rows), and of those the one
//! with the widest relative interval of a count, sum, rate, mean, or share. With several processors, the widest of all
//! counts.

use std::sync::{Arc, Mutex, PoisonError};

use plan::{AggregateFunction, SampledUnit};

use crate::estimate::{Estimate, ObservedGroup};
use crate::rate_control::WindowPrecision;

/// Number of groups to which a bound of the error applies.
pub const GROUPS: usize = 10;
/// Maximum number of waiting windows; the oldest are dropped.
const WINDOWS_MAX: usize = 256;

/// The windows emitted since the last [`PrecisionLog::take`]. Clones share them.
#[derive(Clone, Debug)]
pub struct PrecisionLog {
    error: f64,
    windows: Arc<Mutex<Vec<SampledWindow>>>,
}

/// An emitted window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledWindow {
    /// First nanosecond after the window.
    pub end_ns: i64,
    /// Length in seconds.
    pub seconds: f64,
    /// Number of tuples of all groups.
    pub tuples: u64,
    /// Precision of the groups that count.
    pub precision: WindowPrecision,
}

impl PartialEq for PrecisionLog {
    fn eq(&self, other: &PrecisionLog) -> bool {
        Arc::ptr_eq(&self.windows, &other.windows)
    }
}

impl PrecisionLog {
    /// Creates a log; rows state whether their relative error is at most `error`.
    #[must_use]
    pub fn new(error: Option<f64>) -> PrecisionLog {
        PrecisionLog {
            error: error.unwrap_or(f64::INFINITY),
            windows: Arc::default(),
        }
    }

    /// The bound of the relative error.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Adds a window of one processor.
    pub(crate) fn add(&self, window: SampledWindow) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = windows
            .iter_mut()
            .find(|other| other.end_ns == window.end_ns)
        {
            same.tuples = same.tuples.max(window.tuples);
            same.precision = wider(same.precision, window.precision);
            return;
        }
        if windows.len() == WINDOWS_MAX {
            windows.remove(0);
        }
        windows.push(window);
    }

    /// Takes the windows, in the order of their ends.
    #[must_use]
    pub fn take(&self) -> Vec<SampledWindow> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = std::mem::take(&mut *windows);
        drop(windows);
        taken.sort_by_key(|window| window.end_ns);
        taken
    }
}

/// The window with the wider interval; one without samples has none.
fn wider(one: WindowPrecision, other: WindowPrecision) -> WindowPrecision {
    let width = |window: &WindowPrecision| {
        let width = window.half_width.unwrap_or(f64::INFINITY);
        if window.samples == 0 { -1.0 } else { width }
    };
    if width(&other) > width(&one) {
        other
    } else {
        one
    }
}

/// Precision of the rows of a window.
#[derive(Debug, Default)]
pub(crate) struct RowPrecisions(Vec<WindowPrecision>);

impl RowPrecisions {
    /// Adds a row.
    pub fn add(&mut self, row: WindowPrecision) {
        self.0.push(row);
        // Sorted rarely: the groups that count are a small part.
        if self.0.len() >= 8 * GROUPS {
            self.keep_largest();
        }
    }

    /// The precision of the window; clears the rows.
    pub fn take(&mut self) -> WindowPrecision {
        self.keep_largest();
        let rows = self.0.drain(..);
        rows.reduce(wider).unwrap_or_default()
    }

    fn keep_largest(&mut self) {
        self.0.sort_by_key(|row| std::cmp::Reverse(row.samples));
        self.0.truncate(GROUPS);
    }
}

/// Precision of a group: the widest relative interval of its estimates.
pub(crate) fn of_group<'e>(
    seen: &ObservedGroup<'_>,
    estimates: impl Iterator<Item = (&'e AggregateFunction, &'e Estimate)>,
    lost: f64,
) -> WindowPrecision {
    let unit = seen.rates.unwrap_or(SampledUnit::Tuples);
    let (samples, rate) = seen.sample_size();
    let bounded = estimates.filter(|(aggregate, _)| aggregate.has_error(unit));
    let mut widths = bounded.filter_map(|(_, estimate)| half_width(estimate));
    let half_width = widths.try_fold(0.0, |widest: f64, width| Some(widest.max(width?)));
    WindowPrecision {
        samples: samples.round() as u64,
        half_width,
        rate,
        lost,
        cpu: None,
    }
}

/// Half width of the interval divided by the value: `Some(None)` if an end is open, `None` if the value is null or
/// zero.
fn half_width(estimate: &Estimate) -> Option<Option<f64>> {
    let value = estimate.value.real().filter(|value| *value != 0.0)?;
    let ends = estimate.low.real().zip(estimate.high.real());
    Some(ends.map(|(low, high)| (high - value).max(value - low).max(0.0) / value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: u64, half_width: Option<f64>) -> WindowPrecision {
        WindowPrecision {
            samples,
            half_width,
            ..WindowPrecision::default()
        }
    }

    #[test]
    fn the_widest_of_the_ten_largest_groups_counts() {
        let mut rows = RowPrecisions::default();
        (0..500).for_each(|n| rows.add(row(n, Some(1.0 / (n + 1) as f64))));
        assert_eq!(rows.take(), row(490, Some(1.0 / 491.0)));
        assert_eq!(rows.take(), WindowPrecision::default());
        [row(9, None), row(8, Some(5.0)), row(7, Some(0.1))]
            .into_iter()
            .for_each(|row| rows.add(row));
        assert_eq!(rows.take(), row(9, None));
    }

    #[test]
    fn processors_with_the_same_window_are_one_window() {
        let log = PrecisionLog::new(Some(0.05));
        let window = |end_ns, tuples, precision| SampledWindow {
            end_ns,
            seconds: 1.0,
            tuples,
            precision,
        };
        log.add(window(2, 100, row(100, Some(0.2))));
        log.add(window(1, 7, row(7, Some(0.5))));
        log.add(window(2, 80, row(0, None)));
        log.add(window(2, 100, row(50, Some(0.3))));
        assert_eq!(
            log.take(),
            [
                window(1, 7, row(7, Some(0.5))),
                window(2, 100, row(50, Some(0.3)))
            ]
        );
        assert!(log.take().is_empty());
        (0..1000).for_each(|end| log.add(window(end, 1, row(1, None))));
        let kept = log.take();
        assert_eq!((kept.len(), kept[0].end_ns), (WINDOWS_MAX, 744));
    }
}
