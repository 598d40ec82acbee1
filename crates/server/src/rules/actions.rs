//! Actions scale groups: each evaluates the rows of a standing job at the end of every window, decides on the number of
//! replicas of each group, and has receivers apply it: webhooks, and programs that read it from Redis.
//!
//! Decisions are computed without I/O (`machine.rs`), stored in the transaction that commits the rows (`commit.rs`),
//! and then carried out (`executor.rs`). After a crash at any point, every window is evaluated once, and a stored
//! decision is carried out under its number before the next.

mod commit;
mod executor;
mod machine;
mod request;
mod running_action;
mod views;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(super) use commit::PendingActionChanges;
pub use executor::ActionExecutors;
pub use request::{ActionRequest, ActionSpec};
pub use views::{ActionView, DecisionView};

use crate::job::JobId;
use crate::job::counters::EventCounter;
use crate::results::delivery::NamedOutlets;
use crate::store::sqlite::{ActionStore, StoreError, StoredAction, now_ns};
use machine::{ExecutorState, ScalingState};
use running_action::RunningAction;

/// Limits of actions.
#[derive(Clone, Copy, Debug)]
pub struct ActionLimits {
    /// Maximum number of actions.
    pub actions_max: usize,
    /// Maximum number of tracked groups per action.
    pub groups_max: usize,
}

impl Default for ActionLimits {
    fn default() -> ActionLimits {
        ActionLimits {
            actions_max: 20,
            groups_max: 1000,
        }
    }
}

/// Counters of decisions since the start of the server.
#[derive(Debug, Default)]
pub struct ActionCounters {
    /// Decisions carried out.
    pub done: EventCounter,
    /// Attempts that failed and were retried.
    pub retried: EventCounter,
}

/// All running actions.
pub struct ActionRegistry {
    store: ActionStore,
    limits: ActionLimits,
    inner: Mutex<BTreeMap<i64, RunningAction>>,
    named: OnceLock<NamedOutlets>,
    /// Counters of decisions.
    pub tally: ActionCounters,
}

impl ActionRegistry {
    /// Loads the actions from the store without carrying out decisions.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn open(store: ActionStore, limits: ActionLimits) -> Result<ActionRegistry, StoreError> {
        let mut running = BTreeMap::new();
        for stored in store.all()? {
            let is_busy = store.decision_waiting(stored.id)?.is_some();
            let id = stored.id;
            running.extend(
                RunningAction::of(stored, limits.groups_max, is_busy).map(|known| (id, known)),
            );
        }
        let inner = Mutex::new(running);
        let named = OnceLock::new();
        Ok(ActionRegistry {
            store,
            limits,
            inner,
            named,
            tally: ActionCounters::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, RunningAction>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits.
    pub fn limits(&self) -> &ActionLimits {
        &self.limits
    }

    /// Number of actions.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Adds an action on the rows of `job`; `None` if the name exists. Its first decision is the state without load.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(
        self: &Arc<Self>,
        owner: &str,
        job: JobId,
        action: &ActionSpec,
    ) -> Result<Option<ActionView>, StoreError> {
        let mut standing = ScalingState::default();
        let first = standing.begin();
        let new = StoredAction {
            id: 0,
            name: action.asked.name.clone(),
            owner: owner.to_owned(),
            job,
            body: serde_json::to_string(action).unwrap_or_default(),
            created_ns: now_ns(),
            standing: serde_json::to_string(&standing).unwrap_or_default(),
        };
        let document = running_action::document(action, &standing, &first, None);
        let mut inner = self.lock();
        let Some(stored) = self.store.add(&new, &(first.version, document))? else {
            return Ok(None);
        };
        let id = stored.id;
        let Some(running) = RunningAction::of(stored, self.limits.groups_max, true) else {
            return Ok(None);
        };
        let shown = ActionView::of(&running);
        inner.insert(id, running);
        drop(inner);
        self.begin(id);
        Ok(Some(shown))
    }

    /// Notes a decision that has been carried out and stored as such: the next may follow.
    fn carried_out(&self, id: i64, version: u64) {
        self.tally.done.add(1);
        let mut inner = self.lock();
        if let Some(running) = inner
            .get_mut(&id)
            .filter(|running| running.standing.version == version)
        {
            running.hands = ExecutorState::Free;
        }
    }

    /// Removes an action. Receivers keep its last decision.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove(&self, id: i64) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        self.store.remove(id)?;
        let removed = inner.remove(&id);
        drop(inner);
        removed.iter().for_each(|running| running.bell.end());
        Ok(removed.is_some())
    }
}

#[cfg(test)]
mod tests;
