//! Assigns times to panes and windows. A pane is a part of windows that every window contains entirely or not at all:
//! its length is the greatest common divisor of size and slide. Tuples are aggregated by pane; a window merges its
//! panes.
//!
//! Pane and window `k` begin at `k` times their distance from the epoch, also before it. Numbers of windows use 128
//! bits, so that no time overflows; window bounds beyond the range of times are clamped.

use plan::Window;

/// Window arithmetic of one pipeline.
#[derive(Clone, Copy, Debug)]
pub struct WindowLayout {
    size_ns: i128,
    slide_ns: i128,
    /// Pane length.
    pub pane_ns: i64,
}

impl WindowLayout {
    /// Creates the arithmetic; a slide longer than the size counts as the size.
    ///
    /// # Panics
    /// If size or slide is not positive.
    #[must_use]
    pub fn new(window: &Window) -> WindowLayout {
        assert!(
            window.size_ns > 0 && window.slide_ns > 0,
            "windows have a length and a slide"
        );
        let slide_ns = window.slide_ns.min(window.size_ns);
        let pane_ns = gcd(window.size_ns, slide_ns);
        WindowLayout {
            size_ns: window.size_ns.into(),
            slide_ns: slide_ns.into(),
            pane_ns,
        }
    }

    /// The pane of a time.
    #[inline]
    #[must_use]
    pub fn pane(&self, time_ns: i64) -> i64 {
        time_ns.div_euclid(self.pane_ns)
    }

    /// The pane of a time; faster if it equals the previous one, which is cached in `known`.
    #[inline]
    #[must_use]
    pub fn pane_near(&self, time_ns: i64, known: &mut Option<(i64, i64)>) -> i64 {
        if let Some((pane, start_ns)) = *known
            && time_ns >= start_ns
            && (time_ns.wrapping_sub(start_ns) as u64) < self.pane_ns as u64
        {
            return pane;
        }
        let pane = self.pane(time_ns);
        *known = pane
            .checked_mul(self.pane_ns)
            .map(|start_ns| (pane, start_ns));
        pane
    }

    /// Whether a pane contains any representable time.
    #[must_use]
    pub fn has_pane(&self, pane: i64) -> bool {
        (self.pane(i64::MIN)..=self.pane(i64::MAX)).contains(&pane)
    }

    /// The first window that contains a pane.
    #[must_use]
    pub fn first_of(&self, pane: i64) -> i128 {
        let start = i128::from(pane) * i128::from(self.pane_ns);
        (start - self.size_ns).div_euclid(self.slide_ns) + 1
    }

    /// The last window that contains a pane.
    #[must_use]
    pub fn last_of(&self, pane: i64) -> i128 {
        (i128::from(pane) * i128::from(self.pane_ns)).div_euclid(self.slide_ns)
    }

    /// The first window with an end after `time_ns`.
    #[must_use]
    pub fn first_open(&self, time_ns: i64) -> i128 {
        (i128::from(time_ns) - self.size_ns).div_euclid(self.slide_ns) + 1
    }

    /// The first and last pane of a window.
    #[must_use]
    pub fn panes(&self, window: i128) -> (i64, i64) {
        let start = window.saturating_mul(self.slide_ns) / i128::from(self.pane_ns);
        (
            clamp(start),
            clamp(start.saturating_add(self.size_ns / i128::from(self.pane_ns) - 1)),
        )
    }

    /// Start and end (exclusive) of a window.
    #[must_use]
    pub fn bounds(&self, window: i128) -> (i64, i64) {
        let start = window.saturating_mul(self.slide_ns);
        (clamp(start), clamp(start.saturating_add(self.size_ns)))
    }

    /// Window size in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.size_ns as f64 / 1e9
    }

    /// Maximum number of open panes for tuples in order.
    #[must_use]
    pub fn panes_open(&self, lateness_ns: i64) -> usize {
        let open = (self.size_ns + i128::from(lateness_ns.max(0))) / i128::from(self.pane_ns) + 2;
        usize::try_from(open).unwrap_or(usize::MAX)
    }

    /// Whether each window is one pane.
    #[must_use]
    pub fn is_tumbling(&self) -> bool {
        self.size_ns == self.slide_ns
    }
}

fn clamp(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn panes_cover_exactly_the_windows_of_a_time(
            time in prop_oneof![any::<i64>(), -1000i64..1000], size in 1i64..200, slide in 1i64..200,
        ) {
            let slide = slide.min(size);
            let windows = WindowLayout::new(&Window { size_ns: size, slide_ns: slide, lateness_ns: 0 });
            let pane = windows.pane(time);
            let first = windows.first_of(pane);
            let last = windows.last_of(pane);
            for k in first - 2..=last + 2 {
                let start = k * i128::from(slide);
                let inside = start <= time.into() && i128::from(time) < start + i128::from(size);
                prop_assert_eq!(inside, (first..=last).contains(&k));
                let (from, to) = windows.panes(k);
                if from > i64::MIN && to < i64::MAX {
                    prop_assert_eq!(inside, (from..=to).contains(&pane));
                }
            }
            let open = windows.first_open(time);
            prop_assert!(open * i128::from(slide) + i128::from(size) > time.into());
            prop_assert!((open - 1) * i128::from(slide) + i128::from(size) <= time.into());
        }

        #[test]
        fn a_pane_known_is_the_pane(times in prop::collection::vec(any::<i64>(), 1..50), size in 1i64..i64::MAX) {
            let windows = WindowLayout::new(&Window { size_ns: size, slide_ns: size, lateness_ns: 0 });
            let mut known = None;
            for time in times.iter().flat_map(|time| [*time, time.saturating_add(1), time.saturating_sub(size)]) {
                prop_assert_eq!(windows.pane_near(time, &mut known), windows.pane(time));
            }
        }
    }

    #[test]
    fn windows_begin_at_multiples_of_their_slide() {
        let windows = |size_ns, slide_ns| {
            WindowLayout::new(&Window {
                size_ns,
                slide_ns,
                lateness_ns: 0,
            })
        };
        let sliding = windows(10, 4);
        assert_eq!((sliding.pane_ns, sliding.is_tumbling()), (2, false));
        assert_eq!(
            [-1, 0, 1].map(|k| sliding.bounds(k)),
            [(-4, 6), (0, 10), (4, 14)]
        );
        assert_eq!(sliding.panes(1), (2, 6));
        assert_eq!(sliding.panes_open(0), 10 / 2 + 2);
        assert_eq!(sliding.panes_open(6), 16 / 2 + 2);
        // A longer slide would leave gaps.
        assert!(windows(10, 25).is_tumbling());
        assert_eq!(windows(10, 25).bounds(1), (10, 20));
    }

    #[test]
    fn window_bounds_contain_extreme_times() {
        let year = 365 * 86_400 * 1_000_000_000;
        let windows = WindowLayout::new(&Window {
            size_ns: year,
            slide_ns: year,
            lateness_ns: 0,
        });
        for time in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX] {
            let (start, end) = windows.bounds(windows.last_of(windows.pane(time)));
            assert!(
                start <= time && (time < end || end == i64::MAX),
                "{time}: {start} to {end}"
            );
        }
        assert_eq!(windows.bounds(i128::MAX), (i64::MAX, i64::MAX));
        assert_eq!(windows.bounds(i128::MIN).0, i64::MIN);
    }
}
