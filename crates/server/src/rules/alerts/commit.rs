//! Evaluates rows before their commit, and the passage of time, with each rule. Resulting changes are committed in the
//! same transaction.

use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{News, RuleState, SHOWN_NS};
use super::running_rule::RunningRule;
use super::views::AlertView;
use super::{AlertRegistry, AlertRegistryState};
use crate::job::JobId;
use crate::results::commit_participant::ResultRows;
use crate::store::sqlite::{RuleChange, now_ns};

/// Changes to commit with the rows; adopted after the commit.
pub struct PendingAlertChanges<'a> {
    alerts: &'a AlertRegistry,
    /// Locked from the decision to its completion, so that decisions do not overlap; `None`: no decision.
    inner: Option<MutexGuard<'a, AlertRegistryState>>,
    next: Vec<(RuleState, Vec<Value>)>,
    /// Changes to store.
    pub changes: Vec<RuleChange>,
}

impl PendingAlertChanges<'_> {
    /// Adopts the stored decision; returns the messages for watchers.
    pub fn adopt(mut self) -> Vec<Value> {
        let Some(mut inner) = self.inner.take() else {
            return Vec::new();
        };
        let mut events = Vec::new();
        let mut is_news = false;
        for (change, (standing, news)) in self.changes.iter().zip(self.next) {
            let Some(watched) = inner.rules.get_mut(&change.rule) else {
                continue;
            };
            if watched.standing.seen_ns != standing.seen_ns {
                watched.heard = Instant::now();
            }
            watched.standing = standing;
            watched.told = change.told;
            is_news |= !news.is_empty();
            events.extend(news);
        }
        drop(inner);
        if is_news {
            self.alerts.wake();
        }
        events
    }
}

impl AlertRegistry {
    /// Evaluates rows of a job, which are about to be committed, with the rules on it. `lacking`: agents behind the
    /// watermark.
    pub fn decide(
        &self,
        job: JobId,
        rows: &[ResultRows<'_>],
        watermark_ns: i64,
        lacking: &[String],
    ) -> PendingAlertChanges<'_> {
        let mut decided = PendingAlertChanges {
            alerts: self,
            inner: None,
            next: Vec::new(),
            changes: Vec::new(),
        };
        let mut guard = self.lock();
        let inner = &mut *guard;
        let now_ns = now_ns();
        for watched in inner
            .rules
            .values_mut()
            .filter(|watched| watched.job == job)
        {
            let mut windows = BTreeMap::new();
            let place = watched.rule.looked_at.result;
            for (_, batch, missing) in rows.iter().filter(|(of, ..)| *of == place) {
                watched.fit(batch);
                if let Some(judge) = &watched.judge {
                    judge.judge(&watched.rule, batch, missing, &mut windows);
                }
            }
            if watched.problem.is_some() {
                continue;
            }
            let windows = watched.windows(windows, watermark_ns, lacking);
            if windows.is_empty() {
                continue;
            }
            let mut next = watched.standing.clone();
            let mut news = News::new();
            let is_silenced = watched.is_silenced(&inner.silences, now_ns);
            for window in windows {
                news.extend(next.take(&watched.policy, &window, &is_silenced));
            }
            decided.push(watched, next, &news);
        }
        decided.inner = (!decided.changes.is_empty()).then_some(guard);
        decided
    }

    /// Applies the passage of time to alerts: silences end, and windows are missing. Returns the messages for watchers
    /// of jobs.
    pub(super) fn review(&self) -> Vec<(JobId, Value)> {
        let mut decided = PendingAlertChanges {
            alerts: self,
            inner: None,
            next: Vec::new(),
            changes: Vec::new(),
        };
        let mut guard = self.lock();
        let now_ns = now_ns();
        guard
            .silences
            .retain(|matching| matching.silence.ends_ns > now_ns - SHOWN_NS);
        guard
            .parted
            .retain(|(at, ..)| at.elapsed() < Duration::from_nanos(SHOWN_NS.unsigned_abs()));
        let mut jobs = Vec::new();
        for watched in guard.rules.values() {
            let stalled = watched.stalled(self.limits.stall_min);
            if !watched.standing.waits(&watched.policy, stalled.is_some()) {
                continue;
            }
            let mut next = watched.standing.clone();
            let is_silenced = watched.is_silenced(&guard.silences, now_ns);
            let news = match stalled {
                Some(time) => next.stall(&watched.policy, time, &is_silenced),
                None => next.announce(&is_silenced),
            };
            let before = decided.changes.len();
            decided.push(watched, next, &news);
            if decided.changes.len() > before {
                jobs.push((watched.job, news.len()));
            }
        }
        if decided.changes.is_empty() {
            return Vec::new();
        }
        if let Err(error) = self.store.change_rules(&decided.changes) {
            tracing::warn!("alerts wait for the store: {error}");
            return Vec::new();
        }
        decided.inner = Some(guard);
        let mut events = decided.adopt().into_iter();
        jobs.into_iter()
            .flat_map(|(job, n)| {
                events
                    .by_ref()
                    .take(n)
                    .map(move |event| (job, event))
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

impl PendingAlertChanges<'_> {
    fn push(&mut self, watched: &RunningRule, next: RuleState, news: &News) {
        if next == watched.standing {
            return;
        }
        let mut told = watched.told;
        let documents = watched.notify(&self.alerts.webhooks(), news, &mut told);
        self.changes.push(watched.change(&next, documents, told));
        let shown = news.iter().map(|(subject, alert)| {
            serde_json::to_value(AlertView::of(watched, subject, alert, &[])).unwrap_or_default()
        });
        self.next.push((next, shown.collect()));
    }
}
