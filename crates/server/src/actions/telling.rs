//! API views of actions and decisions.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::machine::{Change, Direction, Hands};
use super::running::{Running, Said};
use super::{ActionRequest, Actions};
use crate::columns::{maybe_text, text};
use crate::job::JobId;
use crate::store::{StoreError, StoredDecision};

/// An action.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ActionShown {
    /// Its number.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Who made it.
    pub owner: String,
    /// The job whose rows it looks at.
    pub job_id: JobId,
    /// `ok`; `carrying_out`: a receiver has not acknowledged the last decision; `failing`: a receiver rejects it;
    /// `broken`: the rows cannot be evaluated.
    pub state: String,
    /// Why it fails or is broken.
    pub problem: Option<String>,
    /// The number of the last decision.
    pub version: u64,
    /// The servers that are to be used.
    pub servers: Vec<String>,
    /// Groups that have more replicas than those without load, or may soon.
    pub groups: Vec<GroupShown>,
    /// Groups that were not followed, since there were too many.
    pub groups_left_out: u64,
    /// The end of the last window that it looked at, in nanoseconds since the epoch.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub seen_ns: Option<i64>,
    /// As it was asked for.
    #[serde(rename = "action")]
    pub asked: ActionRequest,
}

/// A group of an action.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GroupShown {
    /// Its name.
    pub group: String,
    /// How many replicas it has, or is to have.
    pub replicas: u32,
    /// Its load in the last window.
    pub value: f64,
}

impl ActionShown {
    /// The API view of an action.
    pub fn of(running: &Running) -> ActionShown {
        let (standing, fault) = (&running.standing, running.fault());
        let state = match (&running.problem, &fault, running.hands) {
            (Some(_), ..) => "broken",
            (_, Some(_), _) => "failing",
            (.., Hands::Busy) => "carrying_out",
            (.., Hands::Free) => "ok",
        };
        let groups = standing.groups.iter().map(|(group, known)| GroupShown {
            group: group.clone(),
            replicas: known.replicas,
            value: known.value,
        });
        let most = standing.most(&running.policy) as usize;
        ActionShown {
            id: running.id.to_string(),
            name: running.action.asked.name.clone(),
            owner: running.owner.clone(),
            job_id: running.job,
            state: state.into(),
            problem: running.problem.clone().or(fault),
            version: standing.version,
            servers: running.action.asked.servers.iter().take(most).cloned().collect(),
            groups: groups.collect(),
            groups_left_out: standing.left_out,
            seen_ns: standing.seen_ns,
            asked: ActionRequest {
                to: running.action.asked.to.iter().map(|to| crate::delivery::shown_address(to)).collect(),
                ..running.action.asked.clone()
            },
        }
    }
}

/// A decision.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DecisionShown {
    /// Its number.
    pub version: u64,
    /// Whether replicas are added or taken away; `begin`: the first, by which nothing has more than it has without load.
    pub direction: Direction,
    /// The start of the window by which it was decided, in nanoseconds since the epoch.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub window_start_ns: Option<i64>,
    /// Its end.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub window_end_ns: Option<i64>,
    /// When it was decided.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    pub decided_ns: i64,
    /// When it was carried out, if it is.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub done_ns: Option<i64>,
    /// The servers that are used after it.
    pub servers: Vec<String>,
    /// How many groups have more replicas than those without load, after it.
    pub groups: usize,
    /// What it changes.
    pub changes: Vec<Change>,
}

impl DecisionShown {
    fn of(stored: &StoredDecision) -> Option<DecisionShown> {
        let said: Said = serde_json::from_str(&stored.body).ok()?;
        Some(DecisionShown {
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

impl Actions {
    /// All actions, the oldest first.
    pub fn shown(self: &Arc<Self>) -> Vec<ActionShown> {
        self.lock().values().map(ActionShown::of).collect()
    }

    /// An action.
    pub fn one(self: &Arc<Self>, id: i64) -> Option<ActionShown> {
        self.lock().get(&id).map(ActionShown::of)
    }

    /// Decisions of an action before `before`, or the newest, the newest first.
    ///
    /// # Errors
    /// The store's.
    pub fn decisions(
        &self,
        id: i64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DecisionShown>, StoreError> {
        Ok(self.store.decisions(id, before, limit)?.iter().filter_map(DecisionShown::of).collect())
    }
}
