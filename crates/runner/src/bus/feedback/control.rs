//! Highest sampling rate that all consumers can sustain. It decreases immediately when one lags, and increases when all
//! keep up. Pure: times are arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use monitor::sampling_control::RATE_MIN;

use super::taker::{FeedbackTaker, RateVerdict, TakerPace, TakerSample};

/// Minimum change: each rate creates a separate stratum in results.
const CHANGE_MIN: f64 = 0.05;
/// Time to wait before a further decrease if a decrease has no effect yet, for example with long flows.
const OBEYED_WITHIN: Duration = Duration::from_secs(10);
/// A load above the requested one by this factor counts as unchanged.
const OBEYED: f64 = 1.5;

/// Controls the rate by the lag of consumers, which are identified by `K`.
#[derive(Debug)]
pub struct RateControl<K> {
    ceiling: f64,
    /// Time of the last change.
    since: Duration,
    takers: BTreeMap<K, (FeedbackTaker, Option<RateVerdict>)>,
    /// Expected records per second after the last decrease.
    asked: Option<f64>,
}

impl<K: Ord + Clone> RateControl<K> {
    /// Initial state: no consumer lags.
    pub fn new(now: Duration) -> RateControl<K> {
        RateControl {
            ceiling: 1.0,
            since: now,
            takers: BTreeMap::new(),
            asked: None,
        }
    }

    /// Highest sustainable rate.
    pub fn ceiling(&self) -> f64 {
        self.ceiling
    }

    /// Evaluates all consumers; `rate`: the current rate, possibly lower. Returns the consumer that caused a change, if
    /// any.
    pub fn look(
        &mut self,
        now: Duration,
        rate: f64,
        all: &[(K, TakerPace, TakerSample)],
    ) -> Option<K> {
        self.takers
            .retain(|known, _| all.iter().any(|(key, ..)| key == known));
        for (key, pace, seen) in all {
            let (taker, verdict) = self
                .takers
                .entry(key.clone())
                .or_insert_with(|| (FeedbackTaker::new(*pace, now), None));
            *verdict = taker.look(*seen, self.since).or(*verdict);
        }
        let told = self
            .takers
            .iter()
            .filter_map(|(key, (_, verdict))| Some((key, (*verdict)?)));
        let (who, least) = told.min_by(|a, b| a.1.factor.total_cmp(&b.1.factor))?;
        let who = who.clone();
        let all_told = self.takers.values().all(|(_, verdict)| verdict.is_some());
        let next = match least.factor {
            factor if factor < 1.0 => {
                (self.ceiling.min(rate) * factor).clamp(RATE_MIN, self.ceiling)
            }
            _ if !all_told => return None,
            factor => (self.ceiling * factor.min(2.0)).min(1.0),
        };
        self.takers
            .values_mut()
            .for_each(|(_, verdict)| *verdict = None);
        let is_small = (next / self.ceiling - 1.0).abs() < CHANGE_MIN && next < 1.0;
        if next == self.ceiling
            || is_small
            || next < self.ceiling && self.is_to_be_obeyed(now, least)
        {
            return None;
        }
        self.asked = (next < self.ceiling).then(|| least.given * next / self.ceiling.min(rate));
        self.ceiling = next;
        self.since = now;
        Some(who)
    }

    /// Whether the effect of the last decrease is still to come.
    fn is_to_be_obeyed(&self, now: Duration, verdict: RateVerdict) -> bool {
        let as_ever = self
            .asked
            .is_some_and(|asked| asked > 0.0 && verdict.given > OBEYED * asked);
        as_ever && now.saturating_sub(self.since) < OBEYED_WITHIN
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_ceiling_stays_within_the_permitted_rates(
            steps in prop::collection::vec(
                (50u64..3000, prop::collection::vec((0u64..5000, 0u64..5000, 0u64..30), 0..4), 0.0f64..=1.0), 1..150),
        ) {
            let mut control = RateControl::new(Duration::ZERO);
            let mut now = Duration::ZERO;
            let mut totals = [(0u64, 0u64); 4];
            for (wait_ms, takers, rate) in steps {
                now += Duration::from_millis(wait_ms);
                let all: Vec<_> = takers
                    .iter()
                    .enumerate()
                    .map(|(key, (given, taken, age))| {
                        let total = &mut totals[key];
                        total.0 += given;
                        total.1 = (total.1 + taken).min(total.0);
                        let seen = TakerSample {
                            now,
                            given: total.0,
                            taken: total.1,
                            age: Duration::from_secs(*age),
                            fill: 0.0,
                        };
                        (key, TakerPace::Reader(Duration::from_secs(1)), seen)
                    })
                    .collect();
                let before = control.ceiling();
                let who = control.look(now, rate, &all);
                prop_assert!((RATE_MIN..=1.0).contains(&control.ceiling()), "{}", control.ceiling());
                prop_assert_eq!(who.is_some(), control.ceiling() != before);
                prop_assert!(who.is_none_or(|who| who < all.len()), "a consumer that is there");
            }
        }
    }

    /// Without consumers nothing holds the rate down, and nothing changes it.
    #[test]
    fn nothing_changes_without_consumers() {
        let mut control = RateControl::<u8>::new(Duration::ZERO);
        for second in 0..100 {
            assert_eq!(control.look(Duration::from_secs(second), 1.0, &[]), None);
        }
        assert_eq!(control.ceiling(), 1.0);
    }
}
