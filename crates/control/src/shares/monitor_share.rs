//! One monitor and its mirror: recent reports, and the desired level.

use std::collections::VecDeque;
use std::time::Duration;

/// Time without decisions after a change.
pub const HOLD: Duration = Duration::from_secs(10);
/// A monitor that samples no more than this throughout [`LONG`] gets a smaller slice. With twice the sustainable load,
/// a monitor's own rate falls lower than necessary at times, but recovers above this within that period.
const FEW: f64 = 0.25;
/// Period of low sampling before a decrease.
const LONG: Duration = Duration::from_secs(20);
/// Sampling below this leads to an earlier decrease.
const VERY_FEW: f64 = 1.0 / 32.0;
/// Period of very low sampling before a decrease.
const SOON: Duration = Duration::from_secs(5);
/// Maximum change of the level at once; a factor of ten is a little more than three levels.
pub const STEP_MAX: u8 = 4;
/// A decrease within this time after an increase doubles the wait for the next increase.
const RELAPSE: Duration = Duration::from_secs(120);
/// Maximum wait for an increase.
const CALM_MAX: Duration = Duration::from_secs(640);
/// Time after which packets mirrored before a change have arrived.
const ON_ITS_WAY: Duration = Duration::from_secs(8);
/// Maximum share of excluded packets that an obeying switch copies.
const STRAYS: f64 = 0.1;
/// Minimum packets for this judgment.
const STRAYS_MIN: u64 = 100;
/// Maximum reports kept: one per second for the longest wait.
const KEPT_MAX: usize = 1024;

/// Report of a monitor, about once per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MonitorReport {
    /// Sampling rate of the flows that the monitor receives.
    pub rate: f64,
    /// Packets received since the monitor's start.
    pub packets: u64,
    /// Packets received outside the monitor's slice.
    pub strays: u64,
    /// Packets lost before the monitor.
    pub lost: u64,
    /// Level that the monitor applies.
    pub level: u8,
}

/// A change, or its failure.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareChange {
    /// Index of the monitor.
    pub monitor: usize,
    /// The new level.
    pub level: u8,
    /// Sampling rate of the monitor.
    pub rate: f64,
    /// Reason why the level is fixed from now on, if it is.
    pub frozen: Option<String>,
}

/// See the module documentation.
#[derive(Debug)]
pub struct MonitorShare {
    level_max: u8,
    /// Level of the switch.
    pub level: u8,
    pub is_gone: bool,
    is_frozen: bool,
    /// Reports with their times.
    heard: VecDeque<(Duration, MonitorReport)>,
    changed: Option<Duration>,
    got_more: Option<Duration>,
    /// Time without loss required before an increase.
    calm: Duration,
    /// After a decrease: the report at which all earlier packets had arrived.
    obeys_since: Option<MonitorReport>,
}

impl MonitorShare {
    pub fn new(level_max: u8) -> MonitorShare {
        MonitorShare {
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

    pub fn hear(&mut self, now: Duration, said: MonitorReport) {
        if self.heard.len() == KEPT_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back((now, said));
    }

    /// Whether the monitor has acknowledged this level or a higher one.
    pub fn heeds(&self, level: u8) -> bool {
        level <= self.level
            || self
                .heard
                .back()
                .is_some_and(|(_, said)| said.level == level)
    }

    /// Last reported sampling rate.
    pub fn rate(&self) -> f64 {
        self.heard.back().map_or(1.0, |(_, said)| said.rate)
    }

    pub fn change(&mut self, now: Duration, level: u8) {
        if level < self.level {
            // The previous increase has lasted.
            if self.got_more.replace(now).is_some() {
                self.calm = (self.calm / 2).max(HOLD);
            }
        } else if self
            .got_more
            .take()
            .is_some_and(|when| now.saturating_sub(when) < RELAPSE)
        {
            self.calm = (self.calm * 2).min(CALM_MAX);
        }
        self.level = level;
        self.changed = Some(now);
        self.obeys_since = None;
        self.heard.clear();
    }

    /// Fixes the level.
    pub fn freeze(&mut self, monitor: usize, why: &str) -> Option<ShareChange> {
        let is_news = !std::mem::replace(&mut self.is_frozen, true);
        let level = self.level;
        let rate = self.rate();
        is_news.then(|| ShareChange {
            monitor,
            level,
            rate,
            frozen: Some(why.to_owned()),
        })
    }

    /// Reports of the last `stretch`, if reports cover that period.
    fn lately(
        &self,
        now: Duration,
        stretch: Duration,
    ) -> Option<impl Iterator<Item = &MonitorReport> + '_> {
        let begin = now.checked_sub(stretch)?;
        let has_begun = self
            .heard
            .front()
            .is_some_and(|(at, _)| *at <= begin + Duration::from_secs(2));
        let of = self
            .heard
            .iter()
            .rev()
            .take_while(move |(at, _)| *at >= begin);
        (has_begun && of.clone().count() >= 2).then(|| of.map(|(_, said)| said))
    }

    /// Computes the desired level.
    pub fn wants(&mut self, now: Duration) -> u8 {
        let holds = self
            .changed
            .is_some_and(|changed| now.saturating_sub(changed) < HOLD);
        if self.is_frozen || self.is_gone || holds {
            return self.level;
        }
        let highest = |stretch| {
            Some(
                self.lately(now, stretch)?
                    .map(|said| said.rate)
                    .fold(0.0, f64::max),
            )
        };
        let low = highest(LONG).filter(|rate| *rate <= FEW);
        if let Some(rate) = low.or_else(|| highest(SOON).filter(|rate| *rate <= VERY_FEW)) {
            let by = (-rate.max(f64::MIN_POSITIVE).log2())
                .floor()
                .clamp(1.0, STEP_MAX.into()) as u8;
            return (self.level + by).min(self.level_max);
        }
        if self.level > 0 && self.is_calm(now) {
            self.level - 1
        } else {
            self.level
        }
    }

    /// Whether the monitor has processed all packets without loss for the required time.
    fn is_calm(&self, now: Duration) -> bool {
        let Some(lately) = self.lately(now, self.calm) else {
            return false;
        };
        let all: Vec<&MonitorReport> = lately.collect();
        let lost = all.first().map(|said| said.lost) != all.last().map(|said| said.lost);
        !lost && all.iter().all(|said| said.rate >= 1.0)
    }

    /// Whether the switch continues to mirror excluded flows although their packets can no longer be in transit.
    pub fn is_disobeyed(&mut self) -> bool {
        let Some(changed) = self.changed.filter(|_| self.level > 0 && !self.is_frozen) else {
            return false;
        };
        let Some((at, latest)) = self.heard.back() else {
            return false;
        };
        // After an increase, the switch may not have applied it yet.
        if at.saturating_sub(changed) < ON_ITS_WAY || latest.level != self.level {
            return false;
        }
        let since = *self.obeys_since.get_or_insert(*latest);
        let strays = latest.strays.saturating_sub(since.strays);
        let packets = latest.packets.saturating_sub(since.packets);
        strays >= STRAYS_MIN && strays as f64 > STRAYS * packets as f64
    }
}
