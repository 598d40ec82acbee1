//! The highest sampling rate that all takers bear. It falls at once when one of them is late, and rises when all keep up. Pure: times are
//! arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use monitor::pressure::RATE_MIN;

use super::taker::{Pace, Seen, Taker, Verdict};

/// Smaller changes are none: each makes a stratum of its own in results.
const CHANGE_MIN: f64 = 0.05;
/// Time to wait before a further decrease if a decrease has no effect yet, for example with long flows.
const OBEYED_WITHIN: Duration = Duration::from_secs(10);
/// More than what was asked for, by so much, is as much as ever.
const OBEYED: f64 = 1.5;

/// Controls the rate by the lag of consumers, which are identified by `K`.
#[derive(Debug)]
pub struct Control<K> {
    ceiling: f64,
    /// When that was set.
    since: Duration,
    takers: BTreeMap<K, (Taker, Option<Verdict>)>,
    /// So many records a second are to be expected since the last fall.
    asked: Option<f64>,
}

impl<K: Ord + Clone> Control<K> {
    /// No consumer lags.
    pub fn new(now: Duration) -> Control<K> {
        Control { ceiling: 1.0, since: now, takers: BTreeMap::new(), asked: None }
    }

    /// The highest rate that all bear.
    pub fn ceiling(&self) -> f64 {
        self.ceiling
    }

    /// Looks at all takers; `rate` is what is in force, which may be lower. Says because of whom the ceiling has changed, if it has.
    pub fn look(&mut self, now: Duration, rate: f64, all: &[(K, Pace, Seen)]) -> Option<K> {
        self.takers.retain(|known, _| all.iter().any(|(key, ..)| key == known));
        for (key, pace, seen) in all {
            let (taker, verdict) =
                self.takers.entry(key.clone()).or_insert_with(|| (Taker::new(*pace, now), None));
            *verdict = taker.look(*seen, self.since).or(*verdict);
        }
        let told = self.takers.iter().filter_map(|(key, (_, verdict))| Some((key, (*verdict)?)));
        let (who, least) = told.min_by(|a, b| a.1.factor.total_cmp(&b.1.factor))?;
        let who = who.clone();
        let all_told = self.takers.values().all(|(_, verdict)| verdict.is_some());
        let next = match least.factor {
            factor if factor < 1.0 => (self.ceiling.min(rate) * factor).clamp(RATE_MIN, self.ceiling),
            _ if !all_told => return None,
            factor => (self.ceiling * factor.min(2.0)).min(1.0),
        };
        self.takers.values_mut().for_each(|(_, verdict)| *verdict = None);
        let is_small = (next / self.ceiling - 1.0).abs() < CHANGE_MIN && next < 1.0;
        if next == self.ceiling || is_small || next < self.ceiling && self.is_to_be_obeyed(now, least) {
            return None;
        }
        self.asked = (next < self.ceiling).then(|| least.given * next / self.ceiling.min(rate));
        (self.ceiling, self.since) = (next, now);
        Some(who)
    }

    /// Whether what was asked for last is yet to come.
    fn is_to_be_obeyed(&self, now: Duration, verdict: Verdict) -> bool {
        let as_ever = self.asked.is_some_and(|asked| asked > 0.0 && verdict.given > OBEYED * asked);
        as_ever && now.saturating_sub(self.since) < OBEYED_WITHIN
    }
}
