//! Slice of flows that switches mirror under SAMPLE auto. A monitor that processes only few of its flows gets a smaller
//! slice, of two to the minus its level ([`plan::FlowSlice`]). When it processes all of them again, the slice grows, up to
//! all flows.
//!
//! One change at a time, over all switches. Decrease: monitors are notified first and have acknowledged before
//! mirroring stops, so that flows end as sampled out. Increase: mirroring first. No decision is made for [`HOLD`] after
//! a change. A monitor that has to decrease soon after an increase waits twice as long each time. A switch that does
//! not obey, or whose monitor does not acknowledge, is left unchanged from then on.

mod monitor_share;

use std::time::Duration;

use monitor_share::MonitorShare;
pub use monitor_share::{HOLD, MonitorReport, STEP_MAX, ShareChange};

/// Time for a monitor to acknowledge a level.
const HEED_MAX: Duration = Duration::from_secs(20);

/// Actions, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareAction {
    /// Send a monitor its level.
    Tell {
        /// Index of the monitor.
        monitor: usize,
        /// The level.
        level: u8,
    },
    /// Set the levels of the switches, one per monitor. The result is passed to [`SampleShares::copied`].
    Copy(Vec<u8>),
}

/// See the module documentation.
#[derive(Debug)]
pub struct SampleShares {
    all: Vec<MonitorShare>,
    phase: ChangePhase,
    changes: Vec<ShareChange>,
}

/// Phase of a change.
#[derive(Debug, PartialEq)]
enum ChangePhase {
    Steady,
    /// Monitors with a smaller slice have been notified, and some have not acknowledged.
    Telling {
        since: Duration,
        to: Vec<u8>,
    },
    /// Switches have been notified.
    Copying {
        to: Vec<u8>,
    },
}

impl SampleShares {
    /// All monitors start with all flows. `levels_max`: maximum level of each switch; 0: it always mirrors all flows.
    #[must_use]
    pub fn new(levels_max: &[u8]) -> SampleShares {
        let all = levels_max
            .iter()
            .map(|max| MonitorShare::new(*max))
            .collect();
        SampleShares {
            all,
            phase: ChangePhase::Steady,
            changes: Vec::new(),
        }
    }

    /// Handles the report of a monitor.
    pub fn said(&mut self, now: Duration, monitor: usize, said: MonitorReport) {
        if let Some(one) = self.all.get_mut(monitor) {
            one.hear(now, said);
        }
    }

    /// Handles the end of a monitor.
    pub fn gone(&mut self, monitor: usize) {
        if let Some(one) = self.all.get_mut(monitor) {
            one.is_gone = true;
        }
    }

    /// Decides after time has passed or a report has arrived.
    pub fn look(&mut self, now: Duration) -> Vec<ShareAction> {
        match std::mem::replace(&mut self.phase, ChangePhase::Steady) {
            ChangePhase::Steady => self.decide(now),
            ChangePhase::Telling { since, mut to } => {
                let is_late = now.saturating_sub(since) > HEED_MAX;
                let mut actions = Vec::new();
                let mut waits = false;
                for (monitor, one) in self.all.iter_mut().enumerate() {
                    if one.is_gone || one.heeds(to[monitor]) {
                        continue;
                    }
                    if is_late {
                        actions.push(ShareAction::Tell {
                            monitor,
                            level: one.level,
                        });
                        to[monitor] = one.level;
                        self.changes.extend(
                            one.freeze(monitor, "its monitor has not confirmed the smaller share"),
                        );
                    }
                    waits |= !is_late;
                }
                self.phase = if waits {
                    ChangePhase::Telling { since, to }
                } else {
                    self.copy(to, &mut actions)
                };
                actions
            }
            copying @ ChangePhase::Copying { .. } => {
                self.phase = copying;
                Vec::new()
            }
        }
    }

    /// Handles the result of [`ShareAction::Copy`]: done, or all switches unchanged.
    pub fn copied(&mut self, now: Duration, went: Result<(), String>) -> Vec<ShareAction> {
        let ChangePhase::Copying { to } = std::mem::replace(&mut self.phase, ChangePhase::Steady)
        else {
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
                    self.changes.push(ShareChange {
                        monitor,
                        level,
                        rate: one.rate(),
                        frozen: None,
                    });
                    one.change(now, level);
                }
                Err(why) => self.changes.extend(one.freeze(monitor, why)),
            }
            // Monitors with a smaller slice were notified before.
            if is_more == went.is_ok() {
                actions.push(ShareAction::Tell {
                    monitor,
                    level: one.level,
                });
            }
        }
        actions
    }

    /// Levels of all monitors.
    #[must_use]
    pub fn levels(&self) -> Vec<u8> {
        self.all.iter().map(|one| one.level).collect()
    }

    /// Changes since the last call.
    pub fn take_changes(&mut self) -> Vec<ShareChange> {
        std::mem::take(&mut self.changes)
    }

    fn decide(&mut self, now: Duration) -> Vec<ShareAction> {
        for (monitor, one) in self.all.iter_mut().enumerate() {
            if one.is_disobeyed() {
                self.changes.extend(one.freeze(
                    monitor,
                    "its switch keeps copying flows outside the requested share",
                ));
            }
        }
        let to: Vec<u8> = self.all.iter_mut().map(|one| one.wants(now)).collect();
        let both = || self.all.iter().zip(&to).enumerate();
        if both().all(|(_, (one, level))| one.level == *level) {
            return Vec::new();
        }
        let less = both().filter(|(_, (one, level))| **level > one.level);
        let actions: Vec<ShareAction> = less
            .map(|(monitor, (_, level))| ShareAction::Tell {
                monitor,
                level: *level,
            })
            .collect();
        if actions.is_empty() {
            let mut actions = actions;
            self.phase = self.copy(to, &mut actions);
            return actions;
        }
        self.phase = ChangePhase::Telling { since: now, to };
        actions
    }

    /// Notifies switches of changed levels.
    fn copy(&self, to: Vec<u8>, actions: &mut Vec<ShareAction>) -> ChangePhase {
        if to == self.levels() {
            return ChangePhase::Steady;
        }
        actions.push(ShareAction::Copy(to.clone()));
        ChangePhase::Copying { to }
    }
}
