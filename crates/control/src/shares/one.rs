//! One monitor and what its switch copies: what it has said of late, and the level that it wants.

use std::collections::VecDeque;
use std::time::Duration;

/// After a change its effect is waited for.
pub const HOLD: Duration = Duration::from_secs(10);
/// A monitor that looks at no more than this of what comes to it, throughout [`LONG`], is to get less. Who gets twice what it bears is left in
/// peace: its own rate sinks deeper than need be at times, and is back above this by then.
const FEW: f64 = 0.25;
/// How long.
const LONG: Duration = Duration::from_secs(20);
/// So few are heard sooner.
const VERY_FEW: f64 = 1.0 / 32.0;
/// How soon.
const SOON: Duration = Duration::from_secs(5);
/// Levels by which one change is at most: tenfold is a little more than three.
pub const STEP_MAX: u8 = 4;
/// Who has to get less so soon after getting more waits twice as long for the next time.
const RELAPSE: Duration = Duration::from_secs(120);
/// But not longer than this.
const CALM_MAX: Duration = Duration::from_secs(640);
/// What was on its way when a change was made has come by then.
const ON_ITS_WAY: Duration = Duration::from_secs(8);
/// Maximum share of excluded packets that an obeying switch copies.
const STRAYS: f64 = 0.1;
/// Fewer packets say nothing.
const STRAYS_MIN: u64 = 100;
/// Maximum reports kept: one per second for the longest wait.
const KEPT_MAX: usize = 1024;

/// What a monitor says of itself, about once a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Said {
    /// The share of the flows that come to it that it looks at.
    pub rate: f64,
    /// Packets that came to it, since its start.
    pub packets: u64,
    /// Of these, packets outside its slice.
    pub strays: u64,
    /// Packets that were lost before it.
    pub lost: u64,
    /// Level that it applies.
    pub level: u8,
}

/// A change that was made, or was not.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Of whose copies.
    pub monitor: usize,
    /// The level from then on.
    pub level: u8,
    /// The rate at which the monitor looked at flows.
    pub rate: f64,
    /// Why it stays so from now on, if it does.
    pub frozen: Option<String>,
}

/// See the module's text.
#[derive(Debug)]
pub struct One {
    level_max: u8,
    /// The level at which its switch copies.
    pub level: u8,
    pub is_gone: bool,
    is_frozen: bool,
    /// What it said, and when.
    heard: VecDeque<(Duration, Said)>,
    changed: Option<Duration>,
    got_more: Option<Duration>,
    /// So long it has to be calm before it gets more.
    calm: Duration,
    /// After it got less: what it had said when nothing was on its way any more.
    obeys_since: Option<Said>,
}

impl One {
    pub fn new(level_max: u8) -> One {
        One {
            level_max,
            level: 0,
            is_gone: false,
            is_frozen: false,
            heard: VecDeque::new(),
            changed: None,
            got_more: None,
            calm: HOLD,
            obeys_since: None,
        }
    }

    pub fn hear(&mut self, now: Duration, said: Said) {
        if self.heard.len() == KEPT_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back((now, said));
    }

    /// Whether it has acknowledged this level or a higher one.
    pub fn heeds(&self, level: u8) -> bool {
        level <= self.level || self.heard.back().is_some_and(|(_, said)| said.level == level)
    }

    /// The rate that it said last.
    pub fn rate(&self) -> f64 {
        self.heard.back().map_or(1.0, |(_, said)| said.rate)
    }

    pub fn change(&mut self, now: Duration, level: u8) {
        if level < self.level {
            // The one before has lasted.
            if self.got_more.replace(now).is_some() {
                self.calm = (self.calm / 2).max(HOLD);
            }
        } else if self.got_more.take().is_some_and(|when| now.saturating_sub(when) < RELAPSE) {
            self.calm = (self.calm * 2).min(CALM_MAX);
        }
        (self.level, self.changed, self.obeys_since) = (level, Some(now), None);
        self.heard.clear();
    }

    /// It stays as it is.
    pub fn freeze(&mut self, monitor: usize, why: &str) -> Option<Change> {
        let is_news = !std::mem::replace(&mut self.is_frozen, true);
        let (level, rate) = (self.level, self.rate());
        is_news.then(|| Change { monitor, level, rate, frozen: Some(why.to_owned()) })
    }

    /// What it said in the last stretch of this length, if it has said something throughout.
    fn lately(&self, now: Duration, stretch: Duration) -> Option<impl Iterator<Item = &Said> + '_> {
        let begin = now.checked_sub(stretch)?;
        let has_begun = self.heard.front().is_some_and(|(at, _)| *at <= begin + Duration::from_secs(2));
        let of = self.heard.iter().rev().take_while(move |(at, _)| *at >= begin);
        (has_begun && of.clone().count() >= 2).then(|| of.map(|(_, said)| said))
    }

    /// The level that it is to have.
    pub fn wants(&mut self, now: Duration) -> u8 {
        let holds = self.changed.is_some_and(|changed| now.saturating_sub(changed) < HOLD);
        if self.is_frozen || self.is_gone || holds {
            return self.level;
        }
        let highest = |stretch| Some(self.lately(now, stretch)?.map(|said| said.rate).fold(0.0, f64::max));
        let low = highest(LONG).filter(|rate| *rate <= FEW);
        if let Some(rate) = low.or_else(|| highest(SOON).filter(|rate| *rate <= VERY_FEW)) {
            let by = (-rate.max(f64::MIN_POSITIVE).log2()).floor().clamp(1.0, STEP_MAX.into()) as u8;
            return (self.level + by).min(self.level_max);
        }
        if self.level > 0 && self.is_calm(now) { self.level - 1 } else { self.level }
    }

    /// Whether it has processed everything without loss for the required time.
    fn is_calm(&self, now: Duration) -> bool {
        let Some(lately) = self.lately(now, self.calm) else { return false };
        let all: Vec<&Said> = lately.collect();
        let lost = all.first().map(|said| said.lost) != all.last().map(|said| said.lost);
        !lost && all.iter().all(|said| said.rate >= 1.0)
    }

    /// Whether its switch continues to copy excluded flows although none can still be under way.
    pub fn is_disobeyed(&mut self) -> bool {
        let Some(changed) = self.changed.filter(|_| self.level > 0 && !self.is_frozen) else { return false };
        let Some((at, latest)) = self.heard.back() else { return false };
        // One that got more may not have heard of it yet.
        if at.saturating_sub(changed) < ON_ITS_WAY || latest.level != self.level {
            return false;
        }
        let since = *self.obeys_since.get_or_insert(*latest);
        let strays = latest.strays.saturating_sub(since.strays);
        let packets = latest.packets.saturating_sub(since.packets);
        strays >= STRAYS_MIN && strays as f64 > STRAYS * packets as f64
    }
}
