//! sFlow or IPFIX exporters on the bridges of one query. They exist as long as their [`RunningExporters`] handle, on all
//! bridges or on none; a thread renews them, so that the exporters of a process that was killed together with its
//! cleanup process are recognized and removed by the next one. Exporters of others are never replaced.

use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use mirror::exporter::{ExporterMark, ExporterSettings};
use thiserror::Error;

use crate::backend::SwitchError;
use crate::ovs::OpenVSwitch;

/// Interval of renewals.
const RENEWAL: Duration = Duration::from_secs(20);
/// Minimum time between two changes of the sampling rate: every change revalidates the datapath's flows.
const CHANGE: Duration = Duration::from_secs(5);
/// Interval at which due work is checked.
const LOOK: Duration = Duration::from_millis(500);

/// A bridge to configure.
pub struct ExporterSite {
    /// Name of the switch, for messages.
    pub name: String,
    /// Control channel of the switch.
    pub switch: OpenVSwitch,
    /// Settings of its exporter.
    pub settings: ExporterSettings,
}

/// Reason why exporters were not configured; no bridge has one of ours then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("switch {switch}: {why}")]
pub struct ExporterError {
    /// Name of the switch.
    pub switch: String,
    /// Reason.
    pub why: SwitchError,
}

/// Configured exporters; removed when stopped or dropped.
pub struct RunningExporters {
    shared: Arc<ExporterState>,
    repaired: Vec<String>,
    /// The renewal thread ends when this sender is dropped.
    _end: Sender<()>,
}

struct ExporterState {
    /// The exporters with their marks, one each: several bridges may have one database. Locked while databases are queried
    /// or changed.
    sites: Mutex<Vec<(ExporterSite, ExporterMark)>>,
    /// Locked briefly, so that readers do not wait for a database.
    status: Mutex<ExporterStatus>,
}

struct ExporterStatus {
    rate: SamplingPace,
    lost: Option<String>,
}

impl RunningExporters {
    /// Configures the exporters. Exporters of processes that no longer run are removed first.
    ///
    /// # Errors
    /// See [`ExporterError`].
    pub fn start(sites: Vec<ExporterSite>) -> Result<RunningExporters, ExporterError> {
        let sampling = sites.first().map_or(1, |site| site.settings.sampling());
        let first = RandomState::new().hash_one(std::process::id());
        let marks = (0..).map(|nth| ExporterMark(first.wrapping_add(nth)));
        let mut sites: Vec<_> = sites.into_iter().zip(marks).collect();
        let mut repaired = Vec::new();
        for at in 0..sites.len() {
            let (site, mark) = &mut sites[at];
            let ExporterSite {
                name,
                switch,
                settings,
            } = site;
            let made = switch.repair_exporters().and_then(|slots| {
                repaired.extend(slots.into_iter().map(|slot| {
                    format!("switch {name}: removed exporter {slot}, left behind by a process that no longer runs")
                }));
                switch.add_exporter(settings, *mark)
            });
            if let Err(why) = made {
                let switch = name.clone();
                // The first error is returned; cleanup processes try again.
                let _ = remove(&mut sites[..at]);
                return Err(ExporterError { switch, why });
            }
        }
        let shared = Arc::new(ExporterState {
            sites: Mutex::new(sites),
            status: Mutex::new(ExporterStatus {
                rate: SamplingPace::new(sampling),
                lost: None,
            }),
        });
        let (end, ended) = mpsc::channel();
        let weak = Arc::downgrade(&shared);
        thread::spawn(move || {
            let mut renewed = Instant::now();
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Some(shared) = Weak::upgrade(&weak) else {
                    break;
                };
                let now = Instant::now();
                let change = lock(&shared.status).rate.due(now);
                let is_due = now.duration_since(renewed) >= RENEWAL;
                // A database that restarts is queried again in the next round.
                if (is_due || change.is_some()) && shared.renew(change) {
                    renewed = now;
                    change.inspect(|rate| lock(&shared.status).rate.applied = *rate);
                }
            }
        });
        Ok(RunningExporters {
            shared,
            repaired,
            _end: end,
        })
    }

    /// Removed exporters of processes that no longer run, one sentence each.
    #[must_use]
    pub fn repaired(&self) -> &[String] {
        &self.repaired
    }

    /// Requests that one of this many packets is sampled, at least 1. The last request is applied to all bridges, with at
    /// most one change every five seconds.
    pub fn set_sampling(&self, sampling: u32) {
        lock(&self.shared.status).rate.wanted = sampling.max(1);
    }

    /// The sampling rate of all bridges: one of this many packets.
    #[must_use]
    pub fn sampling(&self) -> u32 {
        lock(&self.shared.status).rate.applied
    }

    /// Reason why a bridge no longer exports, if another program has removed or replaced the exporter.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        lock(&self.shared.status).lost.clone()
    }

    /// Removes the exporters. Dropping the handle does the same without reporting errors.
    ///
    /// # Errors
    /// The first failed removal. Cleanup processes try again for a limited time.
    pub fn stop(self) -> Result<(), ExporterError> {
        let mut sites = lock(&self.shared.sites);
        remove(&mut sites)
    }
}

impl Drop for RunningExporters {
    fn drop(&mut self) {
        let mut sites = lock(&self.shared.sites);
        // Errors cannot be reported here; cleanup processes try again.
        let _ = remove(&mut sites);
        sites.clear();
    }
}

impl ExporterState {
    /// Renews all exporters, and sets their sampling rate if given; returns whether all databases answered.
    fn renew(&self, sampling: Option<u32>) -> bool {
        let mut all = true;
        for (site, mark) in lock(&self.sites).iter() {
            let slot = site.settings.slot();
            match site.switch.renew_exporter(slot, *mark, sampling) {
                Ok(true) => {}
                Ok(false) => {
                    let why = format!(
                        "switch {}: another program has removed or replaced the exporter {slot}",
                        site.name
                    );
                    lock(&self.status).lost.get_or_insert(why);
                }
                Err(_) => all = false,
            }
        }
        all
    }
}

/// Removes the exporters; returns the first error after all removals.
fn remove(sites: &mut [(ExporterSite, ExporterMark)]) -> Result<(), ExporterError> {
    let mut failed = Ok(());
    for (site, mark) in sites {
        let removed = site.switch.remove_exporter(site.settings.slot(), *mark);
        if let (Err(why), Ok(())) = (removed, &failed) {
            let switch = site.name.clone();
            failed = Err(ExporterError { switch, why });
        }
    }
    failed
}

/// Bounds the changes of a sampling rate.
#[derive(Clone, Copy, Debug)]
struct SamplingPace {
    applied: u32,
    wanted: u32,
    /// Time of the last attempt.
    tried: Option<Instant>,
}

impl SamplingPace {
    fn new(sampling: u32) -> SamplingPace {
        SamplingPace {
            applied: sampling,
            wanted: sampling,
            tried: None,
        }
    }

    /// The rate to apply now, if it differs and the last attempt is old enough.
    fn due(&mut self, now: Instant) -> Option<u32> {
        let is_early = |tried: Instant| now.duration_since(tried) < CHANGE;
        if self.wanted == self.applied || self.tried.is_some_and(is_early) {
            return None;
        }
        self.tried = Some(now);
        Some(self.wanted)
    }
}

/// State is read again from the switches after a panic.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_many_requests_is_applied_after_the_interval() {
        let begun = Instant::now();
        let mut pace = SamplingPace::new(64);
        assert_eq!(pace.due(begun), None, "nothing is requested");
        let mut changes = Vec::new();
        // A request every 100 ms for 20 s.
        for step in 0..200_u32 {
            pace.wanted = 65 + step;
            let now = begun + Duration::from_millis(100) * step;
            if let Some(rate) = pace.due(now) {
                changes.push((step, rate));
                pace.applied = rate;
            }
        }
        assert_eq!(changes, [(0, 65), (50, 115), (100, 165), (150, 215)]);
        let late = begun + Duration::from_secs(60);
        assert_eq!((pace.due(late), pace.due(late)), (Some(264), None));
        // An attempt that failed is repeated after the interval.
        assert_eq!(pace.due(late + CHANGE), Some(264));
    }
}
