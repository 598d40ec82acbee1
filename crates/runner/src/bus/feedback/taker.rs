//! One of those who take what is published: the brokers, or a reader. By what it took lately, and by how much waits for it, it is
//! said by how much less should be published, or may be more. Pure: times are arguments.
//!
//! What is known of a reader comes in jumps, as Flink tells with its checkpoints only. So it is judged when it moves, over a second
//! at least, and may be as late as its jumps are long. A reader that is later than that is busy all the time: what it took is all that
//! it can take, and its rate by that of what is given is the share that it bears. Beside that it is to work off
//! what waits, but for what keeps it busy.

use std::time::Duration;

/// Lag that a consumer may have in addition to twice the time between its steps.
const SLACK: Duration = Duration::from_secs(2);
/// Jumps of readers that get slower and slower are not longer than this, but by their own word.
const GAP_MAX: Duration = Duration::from_secs(4);
/// A rate is that of such a time.
const SPAN: Duration = Duration::from_secs(1);
/// Time until a changed rate takes effect, because selected flows continue.
const SETTLES: Duration = Duration::from_secs(1);
/// More of the room taken than this is too much, however young what is there is.
const FILL_HIGH: f64 = 0.5;
/// Time without progress after which a consumer is ignored unless it reports itself.
const STUCK: Duration = Duration::from_secs(30);
/// By how much the rate may rise at once while it is not known how much the taker could take.
const RISE_MAX: f64 = 1.5;
/// And by how much it may change when it is.
const CHANGE: (f64, f64) = (1.0 / 16.0, 4.0);

/// Whose pace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The brokers: a failed one is replaced within seconds, and there is no alternative.
    Brokers,
    /// A reader's, that moves so often.
    Reader(Duration),
}

/// What is seen of a taker.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When.
    pub now: Duration,
    /// Records that were given so far.
    pub given: u64,
    /// How many of them it has taken.
    pub taken: u64,
    /// How long the oldest of the others has been waiting.
    pub age: Duration,
    /// The share of the room for those that is taken; 0: there is room enough.
    pub fill: f64,
}

/// What it bears.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Factor by which the rate should change.
    pub factor: f64,
    /// Records a second that it was given meanwhile.
    pub given: f64,
}

/// See the module's text.
#[derive(Debug)]
pub struct Taker {
    pace: Pace,
    /// The longest of late between two moves.
    gap: Duration,
    moved: Duration,
    taken: u64,
    /// Since when it is judged.
    window: Option<Seen>,
}

impl Taker {
    /// One of which nothing is known yet.
    pub fn new(pace: Pace, now: Duration) -> Taker {
        Taker { pace, gap: pace.every(), moved: now, taken: 0, window: None }
    }

    /// Looks at it; `since` is when the rate has changed last. `None`: nothing new is known.
    pub fn look(&mut self, seen: Seen, since: Duration) -> Option<Verdict> {
        if seen.taken <= self.taken && seen.taken < seen.given {
            return self.stands(seen, since);
        }
        let every = self.pace.every();
        let gap = seen.now.saturating_sub(self.moved).max(self.gap.mul_f64(0.8));
        self.gap = gap.clamp(every, GAP_MAX.max(every));
        (self.moved, self.taken) = (seen.now, seen.taken);
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

    /// How late it may be.
    fn late_max(&self) -> Duration {
        SLACK + 2 * self.gap
    }

    fn judge(&mut self, window: Seen, seen: Seen, seconds: f64) -> Verdict {
        self.window = Some(seen);
        let rate = |of: fn(&Seen) -> u64| of(&seen).saturating_sub(of(&window)) as f64 / seconds;
        let (taken, given) = (rate(|seen| seen.taken), rate(|seen| seen.given));
        let late_max = self.late_max().as_secs_f64();
        let share = |late: f64| 1.0 + (late_max - late) / (2.0 * late_max);
        if seen.age.as_secs_f64() <= late_max && seen.fill <= FILL_HIGH {
            return Verdict { factor: share(seen.age.as_secs_f64()).min(RISE_MAX), given };
        }
        // How long the last record will wait, if it goes on so.
        let waits = seen.given.saturating_sub(seen.taken) as f64 / taken;
        let factor = taken / given.max(1.0) * share(waits).clamp(0.5, RISE_MAX);
        Verdict { factor: factor.clamp(CHANGE.0, CHANGE.1), given }
    }

    /// It has not moved: how much it could take is not known.
    fn stands(&mut self, seen: Seen, since: Duration) -> Option<Verdict> {
        let stands = seen.now.saturating_sub(self.moved);
        if self.pace.is_given_up(stands) {
            // It has failed, or it hangs: nothing is to be gained by less.
            return Some(Verdict { factor: f64::INFINITY, given: 0.0 });
        }
        let waited = seen.now.saturating_sub(self.moved.max(since));
        let is_late = seen.age > self.late_max() && waited > self.late_max();
        let is_full = seen.fill > FILL_HIGH && waited > SETTLES;
        (is_late || is_full).then_some(Verdict { factor: 0.5, given: 0.0 })
    }
}

impl Pace {
    fn every(self) -> Duration {
        match self {
            Pace::Brokers => Duration::from_secs(2),
            Pace::Reader(every) => every.max(Duration::from_secs(1)),
        }
    }

    fn is_given_up(self, stands: Duration) -> bool {
        match self {
            Pace::Brokers => false,
            Pace::Reader(every) => stands > STUCK.max(5 * every),
        }
    }
}
