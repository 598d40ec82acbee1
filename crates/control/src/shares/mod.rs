//! How much of what is asked switches copy, where a query says SAMPLE auto. A monitor that looks at few of the flows that come to it gets fewer:
//! a slice of two to the minus its level ([`plan::Slice`]). When it looks at all of them again it gets more, and in the end all.
//!
//! One change at a time, over all switches. Less: monitors are told first, and have said that they heed it before copies stop, so that flows
//! end with them as sampled out. More: copies come first. After a change nothing is decided for [`HOLD`]. Who has sunk again soon after getting more
//! waits twice as long each time. A switch that does not obey is left as it is from then on, and so is one whose monitor is silent.

mod one;

use std::time::Duration;

use one::One;
pub use one::{Change, HOLD, STEP_MAX, Said};

/// Until then a monitor has said that it heeds what it was told.
const HEED_MAX: Duration = Duration::from_secs(20);

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A monitor is to hear at which level it is.
    Tell {
        /// The monitor.
        monitor: usize,
        /// The level.
        level: u8,
    },
    /// Switches are to copy at these levels, one for each monitor. [`Shares::copied`] is to hear how that went.
    Copy(Vec<u8>),
}

/// See the module's text.
#[derive(Debug)]
pub struct Shares {
    all: Vec<One>,
    phase: Phase,
    changes: Vec<Change>,
}

/// How far a change is.
#[derive(Debug, PartialEq)]
enum Phase {
    Steady,
    /// Monitors that get less were told, and have not all heeded it.
    Telling {
        since: Duration,
        to: Vec<u8>,
    },
    /// Switches were told.
    Copying {
        to: Vec<u8>,
    },
}

impl Shares {
    /// Of monitors that get everything, each with the highest level that its switch can have; 0: it copies all, always.
    #[must_use]
    pub fn new(levels_max: &[u8]) -> Shares {
        let all = levels_max.iter().map(|max| One::new(*max)).collect();
        Shares { all, phase: Phase::Steady, changes: Vec::new() }
    }

    /// A monitor has said how it is.
    pub fn said(&mut self, now: Duration, monitor: usize, said: Said) {
        if let Some(one) = self.all.get_mut(monitor) {
            one.hear(now, said);
        }
    }

    /// A monitor is gone.
    pub fn gone(&mut self, monitor: usize) {
        if let Some(one) = self.all.get_mut(monitor) {
            one.is_gone = true;
        }
    }

    /// Time has passed, or something was said.
    pub fn look(&mut self, now: Duration) -> Vec<Action> {
        match std::mem::replace(&mut self.phase, Phase::Steady) {
            Phase::Steady => self.decide(now),
            Phase::Telling { since, mut to } => {
                let is_late = now.saturating_sub(since) > HEED_MAX;
                let mut actions = Vec::new();
                let mut waits = false;
                for (monitor, one) in self.all.iter_mut().enumerate() {
                    if one.is_gone || one.heeds(to[monitor]) {
                        continue;
                    }
                    if is_late {
                        actions.push(Action::Tell { monitor, level: one.level });
                        to[monitor] = one.level;
                        self.changes
                            .extend(one.freeze(monitor, "its monitor does not say that it heeds less"));
                    }
                    waits |= !is_late;
                }
                self.phase = if waits { Phase::Telling { since, to } } else { self.copy(to, &mut actions) };
                actions
            }
            copying @ Phase::Copying { .. } => {
                self.phase = copying;
                Vec::new()
            }
        }
    }

    /// How it went with [`Action::Copy`]: done, or not at all, and all copy what they did.
    pub fn copied(&mut self, now: Duration, went: Result<(), String>) -> Vec<Action> {
        let Phase::Copying { to } = std::mem::replace(&mut self.phase, Phase::Steady) else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        for ((monitor, one), level) in self.all.iter_mut().enumerate().zip(to) {
            if level == one.level {
                continue;
            }
            let is_more = level < one.level;
            match &went {
                Ok(()) => {
                    self.changes.push(Change { monitor, level, rate: one.rate(), frozen: None });
                    one.change(now, level);
                }
                Err(why) => self.changes.extend(one.freeze(monitor, why)),
            }
            // Of less they were told before.
            if is_more == went.is_ok() {
                actions.push(Action::Tell { monitor, level: one.level });
            }
        }
        actions
    }

    /// The level of each.
    #[must_use]
    pub fn levels(&self) -> Vec<u8> {
        self.all.iter().map(|one| one.level).collect()
    }

    /// The changes since this was asked last.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    fn decide(&mut self, now: Duration) -> Vec<Action> {
        for (monitor, one) in self.all.iter_mut().enumerate() {
            if one.is_disobeyed() {
                self.changes
                    .extend(one.freeze(monitor, "its switch goes on copying what it was told not to"));
            }
        }
        let to: Vec<u8> = self.all.iter_mut().map(|one| one.wants(now)).collect();
        let both = || self.all.iter().zip(&to).enumerate();
        if both().all(|(_, (one, level))| one.level == *level) {
            return Vec::new();
        }
        let less = both().filter(|(_, (one, level))| **level > one.level);
        let actions: Vec<Action> =
            less.map(|(monitor, (_, level))| Action::Tell { monitor, level: *level }).collect();
        if actions.is_empty() {
            let mut actions = actions;
            self.phase = self.copy(to, &mut actions);
            return actions;
        }
        self.phase = Phase::Telling { since: now, to };
        actions
    }

    /// Switches are told, where anything is another.
    fn copy(&self, to: Vec<u8>, actions: &mut Vec<Action>) -> Phase {
        if to == self.levels() {
            return Phase::Steady;
        }
        actions.push(Action::Copy(to.clone()));
        Phase::Copying { to }
    }
}
