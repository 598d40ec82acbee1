//! A consumer of published data: the brokers, or a reader. Computes from its recent throughput and lag the factor by
//! which the rate should change. Pure: times are arguments.
//!
//! Positions of a reader advance in steps, since Flink reports only with its checkpoints. So it is evaluated when it
//! advances, over at least one second, and its lag may be as long as its steps. A reader with a greater lag is
//! saturated: its throughput is its capacity, and the ratio to the input is the share it can sustain. In addition it
//! must reduce its lag to the amount that keeps it busy.

use std::time::Duration;

/// Lag that a consumer may have in addition to twice the time between its steps.
const SLACK: Duration = Duration::from_secs(2);
/// Maximum length assumed for growing steps of a reader, unless it reports a longer interval.
const GAP_MAX: Duration = Duration::from_secs(4);
/// Period over which a rate is measured.
const SPAN: Duration = Duration::from_secs(1);
/// Time until a changed rate takes effect, because selected flows continue.
const SETTLES: Duration = Duration::from_secs(1);
/// Use of the queue above this is too much, whatever its age.
const FILL_HIGH: f64 = 0.5;
/// Time without progress after which a consumer is ignored unless it reports itself.
const STUCK: Duration = Duration::from_secs(30);
/// Maximum factor of an increase while the consumer's capacity is unknown.
const RISE_MAX: f64 = 1.5;
/// Limits of the factor with a known capacity.
const CHANGE: (f64, f64) = (1.0 / 16.0, 4.0);

/// Kind of consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakerPace {
    /// The brokers: a failed one is replaced within seconds, and there is no alternative.
    Brokers,
    /// A reader, with the interval of its steps.
    Reader(Duration),
}

/// Observation of a consumer.
#[derive(Clone, Copy, Debug)]
pub struct TakerSample {
    /// Time.
    pub now: Duration,
    /// Records published so far.
    pub given: u64,
    /// Records consumed so far.
    pub taken: u64,
    /// Age of the oldest record not consumed.
    pub age: Duration,
    /// Share of the queue in use; 0: not limited.
    pub fill: f64,
}

/// Result of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateVerdict {
    /// Factor by which the rate should change.
    pub factor: f64,
    /// Records per second published in the evaluated period.
    pub given: f64,
}

/// See the module documentation.
#[derive(Debug)]
pub struct FeedbackTaker {
    pace: TakerPace,
    /// Longest recent interval between steps.
    gap: Duration,
    moved: Duration,
    taken: u64,
    /// Start of the evaluated period.
    window: Option<TakerSample>,
}

impl FeedbackTaker {
    /// A taker that has observed nothing yet.
    pub fn new(pace: TakerPace, now: Duration) -> FeedbackTaker {
        FeedbackTaker {
            pace,
            gap: pace.every(),
            moved: now,
            taken: 0,
            window: None,
        }
    }

    /// Evaluates an observation; `since`: time of the last rate change. `None`: no new result.
    pub fn look(&mut self, seen: TakerSample, since: Duration) -> Option<RateVerdict> {
        if seen.taken <= self.taken && seen.taken < seen.given {
            return self.stands(seen, since);
        }
        let every = self.pace.every();
        let gap = seen
            .now
            .saturating_sub(self.moved)
            .max(self.gap.mul_f64(0.8));
        self.gap = gap.clamp(every, GAP_MAX.max(every));
        self.moved = seen.now;
        self.taken = seen.taken;
        if seen.now < since + SETTLES {
            return None;
        }
        match self.window {
            Some(window) if window.now >= since + SETTLES => {
                let span = seen.now.saturating_sub(window.now);
                (span >= SPAN).then(|| self.judge(window, seen, span.as_secs_f64()))
            }
            _ => {
                self.window = Some(seen);
                None
            }
        }
    }

    /// Maximum acceptable lag.
    fn late_max(&self) -> Duration {
        SLACK + 2 * self.gap
    }

    fn judge(&mut self, window: TakerSample, seen: TakerSample, seconds: f64) -> RateVerdict {
        self.window = Some(seen);
        let rate =
            |of: fn(&TakerSample) -> u64| of(&seen).saturating_sub(of(&window)) as f64 / seconds;
        let taken = rate(|seen| seen.taken);
        let given = rate(|seen| seen.given);
        let late_max = self.late_max().as_secs_f64();
        let share = |late: f64| 1.0 + (late_max - late) / (2.0 * late_max);
        if seen.age.as_secs_f64() <= late_max && seen.fill <= FILL_HIGH {
            return RateVerdict {
                factor: share(seen.age.as_secs_f64()).min(RISE_MAX),
                given,
            };
        }
        // Future wait of the last record at this throughput; without records, even a throughput of 0 is no wait.
        let left = seen.given.saturating_sub(seen.taken) as f64;
        let waits = if left > 0.0 { left / taken } else { 0.0 };
        let factor = taken / given.max(1.0) * share(waits).clamp(0.5, RISE_MAX);
        RateVerdict {
            factor: factor.clamp(CHANGE.0, CHANGE.1),
            given,
        }
    }

    /// No step since the last observation: the taker's capacity is unknown.
    fn stands(&mut self, seen: TakerSample, since: Duration) -> Option<RateVerdict> {
        let stands = seen.now.saturating_sub(self.moved);
        if self.pace.is_given_up(stands) {
            // The taker has failed or hangs: a lower rate would not help.
            return Some(RateVerdict {
                factor: f64::INFINITY,
                given: 0.0,
            });
        }
        let waited = seen.now.saturating_sub(self.moved.max(since));
        let is_late = seen.age > self.late_max() && waited > self.late_max();
        let is_full = seen.fill > FILL_HIGH && waited > SETTLES;
        (is_late || is_full).then_some(RateVerdict {
            factor: 0.5,
            given: 0.0,
        })
    }
}

impl TakerPace {
    fn every(self) -> Duration {
        match self {
            TakerPace::Brokers => Duration::from_secs(2),
            TakerPace::Reader(every) => every.max(Duration::from_secs(1)),
        }
    }

    fn is_given_up(self, stands: Duration) -> bool {
        match self {
            TakerPace::Brokers => false,
            TakerPace::Reader(every) => stands > STUCK.max(5 * every),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever readers report: jumps, steps back after a restart, full and empty queues.
        #[test]
        fn factors_are_within_their_limits(
            steps in prop::collection::vec((0u64..5000, 0u64..1000, -300i64..1500, 0u64..60_000, 0.0f64..1.0), 1..200),
            every_ms in prop::option::of(0u64..20_000),
        ) {
            let pace = every_ms.map_or(TakerPace::Brokers, |ms| TakerPace::Reader(Duration::from_millis(ms)));
            let mut taker = FeedbackTaker::new(pace, Duration::ZERO);
            let (mut now, mut given, mut taken) = (Duration::ZERO, 0u64, 0u64);
            let mut since = Duration::ZERO;
            for (wait_ms, more, step, age_ms, fill) in steps {
                now += Duration::from_millis(wait_ms);
                given += more;
                taken = taken.saturating_add_signed(step).min(given);
                let seen = TakerSample { now, given, taken, age: Duration::from_millis(age_ms), fill };
                let Some(RateVerdict { factor, given: rate }) = taker.look(seen, since) else { continue };
                let is_ignored = factor == f64::INFINITY && every_ms.is_some();
                prop_assert!(is_ignored || (CHANGE.0..=CHANGE.1).contains(&factor), "{factor} at {seen:?}");
                prop_assert!(rate.is_finite() && rate >= 0.0);
                since = if factor < 1.0 { now } else { since };
            }
        }
    }

    /// Samples of a consumer, one per second: published and consumed records, and the age of the oldest not consumed.
    fn verdicts(pace: TakerPace, samples: &[(u64, u64, u64)]) -> Vec<Option<f64>> {
        let mut taker = FeedbackTaker::new(pace, Duration::ZERO);
        let look = |(second, (given, taken, age)): (u64, &(u64, u64, u64))| {
            let seen = TakerSample {
                now: Duration::from_secs(second),
                given: *given,
                taken: *taken,
                age: Duration::from_secs(*age),
                fill: 0.0,
            };
            let verdict = taker.look(seen, Duration::ZERO);
            verdict.map(|verdict| verdict.factor)
        };
        (1..).zip(samples).map(look).collect()
    }

    const READER: TakerPace = TakerPace::Reader(Duration::from_secs(1));

    #[test]
    fn a_reader_that_takes_half_gets_about_half() {
        let samples: Vec<_> = (1..40).map(|n| (n * 1000, n * 500, n / 2)).collect();
        let found = verdicts(READER, &samples);
        let last = found.last().copied().flatten().expect("a verdict");
        assert!((0.2..0.5).contains(&last), "{found:?}");
        let up_to_date: Vec<_> = (1..40).map(|n| (n * 1000, n * 1000, 0)).collect();
        assert!(
            verdicts(READER, &up_to_date)
                .into_iter()
                .flatten()
                .all(|factor| factor > 1.0)
        );
    }

    /// A reader that was started again from an older position catches up, or is given up; brokers are waited for.
    #[test]
    fn a_consumer_without_progress_is_ignored_after_a_while_unless_it_is_a_broker() {
        let stands: Vec<_> = (1..120_u64)
            .map(|n| (10_000 + n * 1000, (n * 5000).min(10_000), n))
            .collect();
        let reader = verdicts(READER, &stands);
        assert!(
            reader[..31].iter().flatten().all(|factor| *factor < 2.0),
            "{reader:?}"
        );
        assert!(
            reader[34..]
                .iter()
                .all(|factor| *factor == Some(f64::INFINITY)),
            "{reader:?}"
        );
        let brokers = verdicts(TakerPace::Brokers, &stands);
        assert!(
            brokers[34..].iter().all(|factor| *factor == Some(0.5)),
            "{brokers:?}"
        );
    }
}
