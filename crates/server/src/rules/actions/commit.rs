//! Evaluates rows before their commit with each action on them. Resulting changes are committed in the same
//! transaction.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use super::ActionRegistry;
use super::machine::{ExecutorState, ScalingState};
use super::running_action::{RunningAction, document};
use crate::job::JobId;
use crate::results::commit_participant::ResultRows;
use crate::store::sqlite::ActionChange;

/// Changes to commit with the rows; adopted after the commit.
pub struct PendingActionChanges<'a> {
    /// Locked from the decision to its completion, so that decisions do not overlap; `None`: no change.
    inner: Option<MutexGuard<'a, BTreeMap<i64, RunningAction>>>,
    next: Vec<(ScalingState, ExecutorState)>,
    /// Changes to store.
    pub changes: Vec<ActionChange>,
}

impl PendingActionChanges<'_> {
    /// Adopts the changes after the commit.
    pub fn adopt(self) {
        let Some(mut inner) = self.inner else { return };
        for (change, (standing, hands)) in self.changes.iter().zip(self.next) {
            let Some(running) = inner.get_mut(&change.action) else {
                continue;
            };
            running.standing = standing;
            running.hands = hands;
            if hands == ExecutorState::Busy {
                running.bell.ring();
            }
        }
    }
}

impl ActionRegistry {
    /// Evaluates rows of a job, which are about to be committed, with the actions on it. `lacking`: agents behind the
    /// watermark.
    pub fn decide(
        &self,
        job: JobId,
        rows: &[ResultRows<'_>],
        watermark_ns: i64,
        lacking: &[String],
    ) -> PendingActionChanges<'_> {
        let mut acted = PendingActionChanges {
            inner: None,
            next: Vec::new(),
            changes: Vec::new(),
        };
        let mut inner = self.lock();
        for running in inner.values_mut().filter(|running| running.job == job) {
            let mut gathered = BTreeMap::new();
            let place = running.action.looked_at.result;
            for (_, batch, missing) in rows.iter().filter(|(of, ..)| *of == place) {
                running.read(batch, missing, &mut gathered);
            }
            if running.problem.is_some() {
                continue;
            }
            let windows = running.bounded(gathered);
            let mut next = running.standing.clone();
            let mut hands = running.hands;
            let mut decision = None;
            for window in running.windows(windows, watermark_ns, lacking) {
                if let Some(decided) = next.take(&running.policy, &window, hands) {
                    let said = document(&running.action, &next, &decided, Some(&window));
                    decision = Some((decided.version, said));
                    // A decision is in progress now.
                    hands = ExecutorState::Busy;
                }
            }
            if next != running.standing {
                let standing = serde_json::to_string(&next).unwrap_or_default();
                acted.changes.push(ActionChange {
                    action: running.id,
                    standing,
                    decision,
                });
                acted.next.push((next, hands));
            }
        }
        acted.inner = (!acted.changes.is_empty()).then_some(inner);
        acted
    }
}
