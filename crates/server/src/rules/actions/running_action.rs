//! A running action: its windows, and the records and messages of its decisions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tuple::Batch;

use super::machine::{
    ExecutorState, LoadWindow, ReplicaChange, ScalingDecision, ScalingDirection, ScalingPolicy,
    ScalingState,
};
use super::request::ActionSpec;
use crate::job::JobId;
use crate::job::columns;
use crate::results::notifier::DeliveryNotifier;
use crate::rules::windowed_result::column;
use crate::store::sqlite::StoredAction;

/// Maximum bytes of a tracked group's name.
const GROUP_BYTES_MAX: usize = 2048;

/// A running action.
pub struct RunningAction {
    pub id: i64,
    pub owner: String,
    pub job: JobId,
    pub created_ns: i64,
    pub action: ActionSpec,
    pub policy: ScalingPolicy,
    pub standing: ScalingState,
    /// State of the last decision.
    pub hands: ExecutorState,
    /// Reason why rows cannot be evaluated.
    pub problem: Option<String>,
    /// Error of the last attempt to carry out a decision.
    pub fault: Arc<Mutex<Option<String>>>,
    /// Wakes the thread that carries out decisions.
    pub bell: Arc<DeliveryNotifier>,
}

/// Rows of an incomplete window.
#[derive(Default)]
pub struct LoadWindowBuilder {
    /// The window so far.
    window: LoadWindow,
    /// Number of rows.
    rows: usize,
    /// Smallest load of a row.
    least: Option<f64>,
    /// Total load of the groups beyond the engine's limit.
    others: f64,
}

/// A decision as sent to receivers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionMessage {
    pub action: String,
    pub version: u64,
    pub direction: ScalingDirection,
    pub window_start: Option<i64>,
    pub window_end: Option<i64>,
    /// Servers to use: a prefix of the configured ones.
    pub servers: Vec<String>,
    /// Groups with more than the minimum.
    pub replicas: BTreeMap<String, u32>,
    /// Minimum replicas.
    pub min: u32,
    pub changes: Vec<ReplicaChange>,
}

/// State after a decision, as JSON.
pub fn document(
    action: &ActionSpec,
    standing: &ScalingState,
    decision: &ScalingDecision,
    window: Option<&LoadWindow>,
) -> String {
    let policy = action.asked.policy(usize::MAX);
    let above = standing
        .groups
        .iter()
        .filter(|(_, group)| group.replicas > policy.min);
    let most = standing.most(&policy) as usize;
    let said = DecisionMessage {
        action: action.asked.name.clone(),
        version: decision.version,
        direction: decision.direction,
        window_start: window.map(|window| window.start_ns),
        window_end: window.map(|window| window.end_ns),
        servers: action.asked.servers.iter().take(most).cloned().collect(),
        replicas: above
            .map(|(name, group)| (name.clone(), group.replicas))
            .collect(),
        min: policy.min,
        changes: decision.changes.clone(),
    };
    serde_json::to_string(&said).unwrap_or_default()
}

impl RunningAction {
    /// Decodes a stored action; `None` if it is unreadable.
    pub fn of(stored: StoredAction, groups_max: usize, is_busy: bool) -> Option<RunningAction> {
        let read = serde_json::from_str::<ActionSpec>(&stored.body)
            .and_then(|action| Ok((action, serde_json::from_str(&stored.standing)?)));
        let (action, standing) = read
            .inspect_err(|error| {
                tracing::error!("the action {} cannot be read: {error}", stored.name)
            })
            .ok()?;
        Some(RunningAction {
            id: stored.id,
            owner: stored.owner,
            job: stored.job,
            created_ns: stored.created_ns,
            policy: action.asked.policy(groups_max),
            action,
            standing,
            hands: if is_busy {
                ExecutorState::Busy
            } else {
                ExecutorState::Free
            },
            problem: None,
            fault: Arc::default(),
            bell: Arc::default(),
        })
    }

    /// Error of the last attempt, if it failed.
    pub fn fault(&self) -> Option<String> {
        self.fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Windows completed by the watermark, in order, including empty ones in between.
    pub fn windows(
        &self,
        rows: BTreeMap<i64, LoadWindow>,
        watermark_ns: i64,
        lacking: &[String],
    ) -> Vec<LoadWindow> {
        let empty = |start_ns, end_ns| LoadWindow {
            start_ns,
            end_ns,
            missing: lacking.to_vec(),
            rest: Some(0.0),
            ..LoadWindow::default()
        };
        self.action
            .looked_at
            .windows(rows, self.standing.seen_ns, watermark_ns, empty)
    }

    /// Adds rows to their windows.
    pub fn read(
        &mut self,
        batch: &Batch,
        missing: &[String],
        windows: &mut BTreeMap<i64, LoadWindowBuilder>,
    ) {
        let schema = batch.schema();
        let bounds = schema.find("window_start").zip(schema.find("window_end"));
        let Some(((start, end), value)) = bounds.zip(column(schema, &self.action.asked.value))
        else {
            let problem = format!("the rows have no column {}", self.action.asked.value);
            if self.problem.replace(problem.clone()).is_none() {
                tracing::warn!(
                    "the action {} does nothing: {problem}",
                    self.action.asked.name
                );
            }
            return;
        };
        self.problem = None;
        let starts = batch.i64(start);
        let ends = batch.i64(end);
        let present: Vec<_> = batch.present().collect();
        let place = |id| present.iter().position(|known| *known == id);
        let keys = self
            .action
            .looked_at
            .keys
            .iter()
            .filter_map(|key| place(schema.find(key)?));
        let keys: Vec<usize> = keys.collect();
        let Some(value) = place(value) else { return };
        for row in 0..batch.rows() {
            let start_ns = starts.value(row);
            let end_ns = ends.value(row);
            let LoadWindowBuilder {
                window,
                rows,
                least,
                others,
            } = windows.entry(end_ns).or_default();
            window.start_ns = start_ns;
            window.end_ns = end_ns;
            let news = missing
                .iter()
                .filter(|agent| !window.missing.contains(agent))
                .cloned();
            let news: Vec<String> = news.collect();
            window.missing.extend(news);
            let cells = columns::row(batch, row);
            let number = |cell: &Value| cell.as_f64().or_else(|| cell.as_str()?.parse().ok());
            let load = cells
                .get(value)
                .and_then(number)
                .filter(|load| load.is_finite());
            if keys
                .iter()
                .any(|at| cells.get(*at).is_some_and(|cell| *cell == stream::OTHER))
            {
                *others = load.unwrap_or_default();
                continue;
            }
            *rows += 1;
            let Some(load) = load else { continue };
            *least = Some(least.map_or(load, |least| least.min(load)));
            let Some(name) = name(&keys, &cells) else {
                continue;
            };
            if name.len() > GROUP_BYTES_MAX {
                self.standing.left_out += 1;
                continue;
            }
            window.values.insert(name, load);
        }
    }

    /// Completes windows with an upper bound for groups without a row: zero by default; the smallest load if the window
    /// is full and ranked by load; and the total of the groups beyond the engine's limit.
    pub fn bounded(&self, gathered: BTreeMap<i64, LoadWindowBuilder>) -> BTreeMap<i64, LoadWindow> {
        let bound = |LoadWindowBuilder {
                         window,
                         rows,
                         least,
                         others,
                     }: LoadWindowBuilder| {
            let is_full = self.action.full_at.is_some_and(|full| rows >= full);
            let rest = match (is_full, self.action.is_ranked) {
                (false, _) => Some(0.0),
                (true, true) => least,
                (true, false) => None,
            };
            LoadWindow {
                rest: rest.map(|rest| rest.max(others)),
                ..window
            }
        };
        gathered
            .into_iter()
            .map(|(end_ns, one)| (end_ns, bound(one)))
            .collect()
    }
}

/// Name of a group: the text of its key, or a JSON array of several. `None`: not a group.
fn name(keys: &[usize], cells: &[Value]) -> Option<String> {
    let mut found: Vec<&Value> = keys.iter().filter_map(|at| cells.get(*at)).collect();
    if found.iter().all(|cell| cell.is_null()) && !found.is_empty() {
        return None;
    }
    match found.as_slice() {
        [] => Some("all".into()),
        [_] => match found.pop()? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
        several => Some(json!(several).to_string()),
    }
}
