//! API views of actions and decisions.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::machine::{ExecutorState, ReplicaChange, ScalingDirection};
use super::running_action::{DecisionMessage, RunningAction};
use super::{ActionRegistry, ActionRequest};
use crate::job::JobId;
use crate::job::columns::{maybe_text, text};
use crate::store::sqlite::{StoreError, StoredDecision};

/// An action.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ActionShown)]
pub struct ActionView {
    /// Identifier.
    pub id: String,
    /// Name.
    pub name: String,
    /// Token name of the owner.
    pub owner: String,
    /// Job whose rows it evaluates.
    pub job_id: JobId,
    /// `ok`; `carrying_out`: a receiver has not acknowledged the last decision; `failing`: a receiver rejects it;
    /// `broken`: the rows cannot be evaluated.
    pub state: String,
    /// Reason for `failing` or `broken`.
    pub problem: Option<String>,
    /// Number of the last decision.
    pub version: u64,
    /// Servers in use.
    pub servers: Vec<String>,
    /// Groups with more replicas than those without load, or with a load that may require them.
    pub groups: Vec<ReplicaGroupView>,
    /// Groups not tracked because of the limit.
    pub groups_left_out: u64,
    /// End of the last evaluated window, in nanoseconds since the epoch.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub seen_ns: Option<i64>,
    /// The request.
    #[serde(rename = "action")]
    pub asked: ActionRequest,
}

/// A group of an action.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = GroupShown)]
pub struct ReplicaGroupView {
    /// Name.
    pub group: String,
    /// Current or decided number of replicas.
    pub replicas: u32,
    /// Load in the last window.
    pub value: f64,
}

impl ActionView {
    /// The API view of an action.
    pub fn of(running: &RunningAction) -> ActionView {
        let standing = &running.standing;
        let fault = running.fault();
        let state = match (&running.problem, &fault, running.hands) {
            (Some(_), ..) => "broken",
            (_, Some(_), _) => "failing",
            (.., ExecutorState::Busy) => "carrying_out",
            (.., ExecutorState::Free) => "ok",
        };
        let groups = standing
            .groups
            .iter()
            .map(|(group, known)| ReplicaGroupView {
                group: group.clone(),
                replicas: known.replicas,
                value: known.value,
            });
        let most = standing.most(&running.policy) as usize;
        ActionView {
            id: running.id.to_string(),
            name: running.action.asked.name.clone(),
            owner: running.owner.clone(),
            job_id: running.job,
            state: state.into(),
            problem: running.problem.clone().or(fault),
            version: standing.version,
            servers: running
                .action
                .asked
                .servers
                .iter()
                .take(most)
                .cloned()
                .collect(),
            groups: groups.collect(),
            groups_left_out: standing.left_out,
            seen_ns: standing.seen_ns,
            asked: ActionRequest {
                to: running
                    .action
                    .asked
                    .to
                    .iter()
                    .map(|to| crate::results::delivery::shown_address(to))
                    .collect(),
                ..running.action.asked.clone()
            },
        }
    }
}

/// A decision.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DecisionShown)]
pub struct DecisionView {
    /// Number.
    pub version: u64,
    /// Whether replicas are added or removed; `begin`: the first decision, with the replicas without load.
    pub direction: ScalingDirection,
    /// Start of the evaluated window, in nanoseconds since the epoch.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub window_start_ns: Option<i64>,
    /// End of the evaluated window.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub window_end_ns: Option<i64>,
    /// Time of the decision.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    pub decided_ns: i64,
    /// Time of completion, if completed.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub done_ns: Option<i64>,
    /// Servers in use after it.
    pub servers: Vec<String>,
    /// Number of groups with more replicas than those without load, after it.
    pub groups: usize,
    /// Changes.
    pub changes: Vec<ReplicaChange>,
}

impl DecisionView {
    fn of(stored: &StoredDecision) -> Option<DecisionView> {
        let said: DecisionMessage = serde_json::from_str(&stored.body).ok()?;
        Some(DecisionView {
            version: stored.version,
            direction: said.direction,
            window_start_ns: said.window_start,
            window_end_ns: said.window_end,
            decided_ns: stored.decided_ns,
            done_ns: stored.done_ns,
            servers: said.servers,
            groups: said.replicas.len(),
            changes: said.changes,
        })
    }
}

impl ActionRegistry {
    /// All actions, oldest first.
    pub fn shown(self: &Arc<Self>) -> Vec<ActionView> {
        self.lock().values().map(ActionView::of).collect()
    }

    /// An action.
    pub fn one(self: &Arc<Self>, id: i64) -> Option<ActionView> {
        self.lock().get(&id).map(ActionView::of)
    }

    /// Decisions of an action before `before`, or the most recent ones, newest first.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn decisions(
        &self,
        id: i64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DecisionView>, StoreError> {
        Ok(self
            .store
            .decisions(id, before, limit)?
            .iter()
            .filter_map(DecisionView::of)
            .collect())
    }
}
