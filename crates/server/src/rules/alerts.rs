//! Alerts: rules evaluate the rows of standing jobs at the end of every window and notify receivers.
//!
//! States are computed without I/O (`machine.rs`), stored with their notifications in the transaction that commits the
//! rows (`commit.rs`), and sent from the store (`receivers.rs`). After a crash at any point, every window is
//! evaluated once; a stored notification is sent under its identifier until acknowledged, and not again.

mod commit;
mod evaluate;
mod machine;
mod messages;
mod receivers;
mod rule;
mod running_rule;
mod silence;
mod views;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;

pub(super) use commit::PendingAlertChanges;
pub use messages::time;
pub use receivers::{AlertReceiver, AlertSenderThreads, ReceiverState, ReceiverTestResult};
pub use rule::{AlertRule, RuleError, RuleRequest};
use running_rule::RunningRule;
pub use silence::{AlertSilence, CompiledSilence, SilenceScope};
pub use views::{AlertView, RuleView};

use crate::job::JobId;
use crate::job::counters::EventCounter;
use crate::store::sqlite::{AlertStore, NewRule, StoreError};

/// Limits and intervals of alerts.
#[derive(Clone, Copy, Debug)]
pub struct AlertLimits {
    /// Maximum number of rules.
    pub rules_max: usize,
    /// Maximum number of pending or firing groups per rule.
    pub groups_max: usize,
    /// Maximum number of current and future silences.
    pub silences_max: usize,
    /// Maximum number of waiting notifications.
    pub outbox_max: usize,
    /// Maximum time to retry a notification.
    pub retry_max: Duration,
    /// Interval at which firing alerts are sent to Alertmanagers again.
    pub resend: Duration,
    /// Minimum time without windows that counts as no data.
    pub stall_min: Duration,
}

impl Default for AlertLimits {
    fn default() -> AlertLimits {
        AlertLimits {
            rules_max: 200,
            groups_max: 1000,
            silences_max: 500,
            outbox_max: 10_000,
            retry_max: Duration::from_secs(3600),
            resend: Duration::from_secs(60),
            stall_min: Duration::from_secs(30),
        }
    }
}

/// Counters of notifications since the start of the server.
#[derive(Debug, Default)]
pub struct AlertCounters {
    /// Acknowledged documents.
    pub sent: EventCounter,
    /// Attempts that failed and were retried.
    pub retried: EventCounter,
    /// Documents not accepted in time, or dropped for lack of room.
    pub lost: EventCounter,
}

/// Callback for changed alerts, to notify watchers of the job.
pub type Tell = dyn Fn(JobId, &Value) + Send + Sync;

/// All running rules.
pub struct AlertRegistry {
    store: AlertStore,
    limits: AlertLimits,
    inner: Mutex<AlertRegistryState>,
    receivers: OnceLock<Vec<Arc<AlertReceiver>>>,
    /// Counters of notifications.
    pub tally: AlertCounters,
}

#[derive(Default)]
struct AlertRegistryState {
    rules: BTreeMap<i64, RunningRule>,
    silences: Vec<CompiledSilence>,
    /// Alerts of removed rules, which are sent to Alertmanagers as resolved for some time.
    parted: Vec<(std::time::Instant, Vec<String>, messages::AlertMessage)>,
}

impl AlertRegistry {
    /// Loads the rules from the store.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn open(store: AlertStore, limits: AlertLimits) -> Result<AlertRegistry, StoreError> {
        let rules = store
            .rules()?
            .into_iter()
            .filter_map(|stored| Some((stored.id, RunningRule::of(stored, limits.groups_max)?)));
        let rules = rules.collect();
        let silences = store.silences()?.into_iter().filter_map(|(id, body)| {
            let silence: AlertSilence = serde_json::from_str(&body).ok()?;
            CompiledSilence::new(AlertSilence { id, ..silence }).ok()
        });
        let inner = AlertRegistryState {
            rules,
            silences: silences.collect(),
            parted: Vec::new(),
        };
        let receivers = OnceLock::new();
        let tally = AlertCounters::default();
        Ok(AlertRegistry {
            store,
            limits,
            inner: Mutex::new(inner),
            receivers,
            tally,
        })
    }

    fn lock(&self) -> MutexGuard<'_, AlertRegistryState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the receivers; called once, before the first rule.
    pub fn set_receivers(&self, receivers: Vec<AlertReceiver>) {
        let _ = self
            .receivers
            .set(receivers.into_iter().map(Arc::new).collect());
    }

    /// The receivers.
    pub fn receivers(&self) -> &[Arc<AlertReceiver>] {
        self.receivers.get().map_or(&[], Vec::as_slice)
    }

    /// Names of the receivers of documents.
    fn webhooks(&self) -> Vec<&str> {
        let webhooks = self
            .receivers()
            .iter()
            .filter(|receiver| receiver.takes_documents());
        webhooks.map(|receiver| receiver.name.as_str()).collect()
    }

    /// The limits.
    pub fn limits(&self) -> &AlertLimits {
        &self.limits
    }

    /// Number of rules.
    pub fn rules_count(&self) -> usize {
        self.lock().rules.len()
    }

    /// Adds a rule on the rows of `job`; `None` if the name exists.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(
        &self,
        owner: &str,
        job: JobId,
        rule: &AlertRule,
    ) -> Result<Option<RuleView>, StoreError> {
        let body = serde_json::to_string(rule).unwrap_or_default();
        let mut inner = self.lock();
        let new = NewRule {
            name: rule.asked.name.clone(),
            owner: owner.to_owned(),
            job,
            body,
        };
        let Some(stored) = self.store.add_rule(&new)? else {
            return Ok(None);
        };
        let id = stored.id;
        let Some(watched) = RunningRule::of(stored, self.limits.groups_max) else {
            return Ok(None);
        };
        let shown = RuleView::of(&watched);
        inner.rules.insert(id, watched);
        Ok(Some(shown))
    }

    /// Replaces the rule with this number. Firing alerts resolve, unless only texts and receivers have changed.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn replace(
        &self,
        id: i64,
        job: JobId,
        rule: &AlertRule,
    ) -> Result<Option<RuleView>, StoreError> {
        let body = serde_json::to_string(rule).unwrap_or_default();
        let mut inner = self.lock();
        let Some(watched) = inner.rules.get(&id) else {
            return Ok(None);
        };
        let mut next = watched.with(rule.clone(), job, self.limits.groups_max);
        if watched.judges_as(&next) {
            next.standing = watched.standing.clone();
            self.store.replace_rule_text(id, job, &body)?;
        } else {
            let (last, said) = watched.last_change(&self.webhooks());
            self.store.replace_rule(&last, job, &body)?;
            next.told = last.told;
            let to = watched.rule.asked.receivers.clone();
            inner.part(to, said);
        }
        let shown = RuleView::of(&next);
        inner.rules.insert(id, next);
        drop(inner);
        self.wake();
        Ok(Some(shown))
    }

    /// Removes a rule and resolves its alerts. Returns its job if the rule owns it.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove(&self, id: i64) -> Result<Option<JobId>, StoreError> {
        let mut inner = self.lock();
        let Some(watched) = inner.rules.get(&id) else {
            return Ok(None);
        };
        let (last, said) = watched.last_change(&self.webhooks());
        self.store.remove_rule(&last)?;
        let own = watched.rule.owns_job().then_some(watched.job);
        let to = watched.rule.asked.receivers.clone();
        inner.part(to, said);
        inner.rules.remove(&id);
        drop(inner);
        self.wake();
        Ok(own)
    }

    /// Silences that have not ended, oldest first.
    pub fn silences(&self) -> Vec<AlertSilence> {
        let now_ns = crate::store::sqlite::now_ns();
        let inner = self.lock();
        let there = inner
            .silences
            .iter()
            .filter(|matching| matching.silence.ends_ns > now_ns);
        there.map(|matching| matching.silence.clone()).collect()
    }

    /// Stores a silence; a new one if its number is 0.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn keep_silence(&self, mut matching: CompiledSilence) -> Result<AlertSilence, StoreError> {
        let mut inner = self.lock();
        self.store
            .forget_silences(crate::store::sqlite::now_ns() - machine::SHOWN_NS)?;
        let silence = &mut matching.silence;
        let body = serde_json::to_string(silence).unwrap_or_default();
        let known = (silence.id != 0).then_some(silence.id);
        silence.id = self.store.keep_silence(known, silence.ends_ns, &body)?;
        let told = silence.clone();
        inner.silences.retain(|other| other.silence.id != told.id);
        inner.silences.push(matching);
        inner.silences.sort_by_key(|matching| matching.silence.id);
        Ok(told)
    }

    /// Wakes all receivers.
    fn wake(&self) {
        match self.store.bound_outbox(self.limits.outbox_max) {
            Ok(0) => {}
            Ok(lost) => {
                self.tally.lost.add(lost as u64);
                tracing::warn!("{lost} notifications of alerts are lost: the queue is full");
            }
            Err(error) => tracing::warn!("{error}"),
        }
        self.receivers().iter().for_each(|receiver| receiver.wake());
    }
}

impl AlertRegistryState {
    fn part(&mut self, to: Vec<String>, said: Vec<messages::AlertMessage>) {
        self.parted.extend(
            said.into_iter()
                .map(|said| (std::time::Instant::now(), to.clone(), said)),
        );
    }
}

#[cfg(test)]
pub(crate) mod tests;
