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
