//! Alerts: rules evaluate the rows of standing jobs at the end of every window and notify receivers.
//!
//! States are computed without I/O (`machine.rs`), stored with their notifications in the transaction that commits the
//! rows (`deciding.rs`), and sent from the store (`receivers.rs`). After a crash at any point, every window is
//! evaluated once; a stored notification is sent under its identifier until acknowledged, and not again.

mod deciding;
mod judging;
mod machine;
mod messages;
mod receivers;
mod rule;
mod silence;
mod telling;
mod watched;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;

pub use messages::time;
pub use receivers::{Outcome, Receiver, ReceiverState, Sending};
pub use rule::{Rule, RuleRequest, Wrong};
pub use silence::{Matching, Reach, Silence};
pub use telling::{AlertShown, RuleShown};
use watched::Watched;

use crate::job::JobId;
use crate::meters::Count;
use crate::store::{NewRule, Store, StoreError};

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
pub struct Tally {
    /// Acknowledged documents.
    pub sent: Count,
    /// Attempts that failed and were retried.
    pub retried: Count,
    /// Documents not accepted in time, or dropped for lack of room.
    pub lost: Count,
}

/// Callback for changed alerts, to notify watchers of the job.
pub type Tell = dyn Fn(JobId, &Value) + Send + Sync;

/// All running rules.
pub struct Alerts {
    store: Arc<Store>,
    limits: AlertLimits,
    inner: Mutex<Inner>,
    receivers: OnceLock<Vec<Arc<Receiver>>>,
    /// Counters of notifications.
    pub tally: Tally,
}

#[derive(Default)]
struct Inner {
    rules: BTreeMap<i64, Watched>,
    silences: Vec<Matching>,
    /// Alerts of removed rules, which are sent to Alertmanagers as resolved for some time.
    parted: Vec<(std::time::Instant, Vec<String>, messages::Said)>,
}

impl Alerts {
    /// Loads the rules from the store.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn open(store: Arc<Store>, limits: AlertLimits) -> Result<Alerts, StoreError> {
        let rules = store
            .rules()?
            .into_iter()
            .filter_map(|stored| Some((stored.id, Watched::of(stored, limits.groups_max)?)));
        let rules = rules.collect();
        let silences = store.silences()?.into_iter().filter_map(|(id, body)| {
            let silence: Silence = serde_json::from_str(&body).ok()?;
            Matching::new(Silence { id, ..silence }).ok()
        });
        let inner = Inner { rules, silences: silences.collect(), parted: Vec::new() };
        let (receivers, tally) = (OnceLock::new(), Tally::default());
        Ok(Alerts { store, limits, inner: Mutex::new(inner), receivers, tally })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the receivers; called once, before the first rule.
    pub fn set_receivers(&self, receivers: Vec<Receiver>) {
        let _ = self.receivers.set(receivers.into_iter().map(Arc::new).collect());
    }

    /// The receivers.
    pub fn receivers(&self) -> &[Arc<Receiver>] {
        self.receivers.get().map_or(&[], Vec::as_slice)
    }

    /// Names of the receivers of documents.
    fn webhooks(&self) -> Vec<&str> {
        let webhooks = self.receivers().iter().filter(|receiver| receiver.takes_documents());
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
    pub fn add(&self, owner: &str, job: JobId, rule: &Rule) -> Result<Option<RuleShown>, StoreError> {
        let body = serde_json::to_string(rule).unwrap_or_default();
        let mut inner = self.lock();
        let new = NewRule { name: rule.asked.name.clone(), owner: owner.to_owned(), job, body };
        let Some(stored) = self.store.add_rule(&new)? else { return Ok(None) };
        let id = stored.id;
        let Some(watched) = Watched::of(stored, self.limits.groups_max) else { return Ok(None) };
        let shown = RuleShown::of(&watched);
        inner.rules.insert(id, watched);
        Ok(Some(shown))
    }

    /// Replaces the rule with this number. Firing alerts resolve, unless only texts and receivers have changed.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn replace(&self, id: i64, job: JobId, rule: &Rule) -> Result<Option<RuleShown>, StoreError> {
        let body = serde_json::to_string(rule).unwrap_or_default();
        let mut inner = self.lock();
        let Some(watched) = inner.rules.get(&id) else { return Ok(None) };
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
        let shown = RuleShown::of(&next);
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
        let Some(watched) = inner.rules.get(&id) else { return Ok(None) };
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
    pub fn silences(&self) -> Vec<Silence> {
        let now_ns = crate::store::now_ns();
        let inner = self.lock();
        let there = inner.silences.iter().filter(|matching| matching.silence.ends_ns > now_ns);
        there.map(|matching| matching.silence.clone()).collect()
    }

    /// Stores a silence; a new one if its number is 0.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn keep_silence(&self, mut matching: Matching) -> Result<Silence, StoreError> {
        let mut inner = self.lock();
        self.store.forget_silences(crate::store::now_ns() - machine::SHOWN_NS)?;
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
                tracing::warn!("{lost} notifications of alerts are lost: more waited than there is room for");
            }
            Err(error) => tracing::warn!("{error}"),
        }
        self.receivers().iter().for_each(|receiver| receiver.wake());
    }
}

impl Inner {
    fn part(&mut self, to: Vec<String>, said: Vec<messages::Said>) {
        self.parted.extend(said.into_iter().map(|said| (std::time::Instant::now(), to.clone(), said)));
    }
}

#[cfg(test)]
pub(crate) mod tests;
