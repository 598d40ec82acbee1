//! Notices of packet loss on standard error: at the first loss, then periodically while it continues.

use std::time::{Duration, Instant};

/// Minimum interval between notices.
const EVERY: Duration = Duration::from_secs(10);

/// See the module documentation.
pub struct LossNotice {
    is_wanted: bool,
    /// Time of the last notice, and the losses by then.
    said: Option<(Instant, u64)>,
}

impl LossNotice {
    /// Creates a notice that is suppressed unless it `is_wanted`.
    pub fn new(is_wanted: bool) -> LossNotice {
        LossNotice {
            is_wanted,
            said: None,
        }
    }

    /// The next notice, given the total losses.
    pub fn tick(&mut self, lost: u64, now: Instant) -> Option<String> {
        let (since, before) = match self.said {
            None => (None, 0),
            Some((when, before)) => (Some(now.duration_since(when)), before),
        };
        if !self.is_wanted || lost <= before || since.is_some_and(|since| since < EVERY) {
            return None;
        }
        self.said = Some((now, lost));
        let new = lost - before;
        Some(match since {
            None => format!(
                "packets arrive faster than they are read: {new} lost so far; the column `lost` of windows counts them"
            ),
            Some(since) => {
                format!(
                    "{new} more packets have been lost in {} s, {lost} in all",
                    since.as_secs()
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_once_and_then_at_most_every_ten_seconds() {
        let mut notice = LossNotice::new(true);
        let start = Instant::now();
        let mut at = |seconds, lost| notice.tick(lost, start + Duration::from_secs(seconds));
        assert_eq!(at(1, 0), None);
        assert!(at(2, 7).is_some_and(|text| text.contains("7 lost so far")));
        assert_eq!(at(11, 9), None);
        assert_eq!(
            at(12, 10).as_deref(),
            Some("3 more packets have been lost in 10 s, 10 in all")
        );
        assert_eq!(at(60, 10), None);
        assert_eq!(
            at(61, 11).as_deref(),
            Some("1 more packets have been lost in 49 s, 11 in all")
        );
        assert_eq!(LossNotice::new(false).tick(5, start), None);
    }
}
