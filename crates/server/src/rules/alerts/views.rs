//! API views of rules and alerts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::AlertRegistry;
use super::machine::{Alert, AlertState, AlertSubject, HoldReason, OnNoData};
use super::messages::AlertMessage;
use super::rule::RuleRequest;
use super::running_rule::RunningRule;
use super::silence::CompiledSilence;
use crate::job::JobId;
use crate::job::columns::{maybe_text, text};
use crate::store::sqlite::now_ns;

/// A rule.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = RuleShown)]
pub struct RuleView {
    /// Identifier.
    pub id: String,
    /// Name.
    pub name: String,
    /// Token name of the owner.
    pub owner: String,
    /// Job whose rows it evaluates.
    pub job_id: JobId,
    /// `ok`; `no_data`: no rows to evaluate; `missing_agents`: the last rows lacked agents; `broken`: the condition
    /// does not apply to the rows.
    pub state: String,
    /// Reason for `broken`.
    pub problem: Option<String>,
    /// Number of pending alerts.
    pub pending: usize,
    /// Number of firing alerts.
    pub firing: usize,
    /// Groups without an alert because of the limit.
    pub groups_left_out: u64,
    /// End of the last evaluated window, in nanoseconds since the epoch.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub seen_ns: Option<i64>,
    /// The request.
    #[serde(rename = "rule")]
    pub asked: RuleRequest,
}

impl RuleView {
    /// The API view of a rule.
    pub fn of(watched: &RunningRule) -> RuleView {
        let alerts = &watched.standing.alerts;
        let count =
            |is: fn(&AlertState) -> bool| alerts.values().filter(|alert| is(&alert.state)).count();
        let is_now = |subject| {
            alerts
                .get(&subject)
                .is_some_and(|a| !matches!(a.state, AlertState::Resolved { .. }))
        };
        let is_held = |held| alerts.values().any(|alert| alert.held == Some(held));
        let state = match () {
            () if watched.problem.is_some() => "broken",
            () if is_now(AlertSubject::MissingAgents) || is_held(HoldReason::MissingAgents) => {
                "missing_agents"
            }
            () if is_now(AlertSubject::NoData) || is_held(HoldReason::NoData) => "no_data",
            () if watched.standing.seen_ns.is_none()
                && watched.policy.on_no_data != OnNoData::Resolve =>
            {
                "no_data"
            }
            () => "ok",
        };
        RuleView {
            id: watched.id.to_string(),
            name: watched.rule.asked.name.clone(),
            owner: watched.owner.clone(),
            job_id: watched.job,
            state: state.into(),
            problem: watched.problem.clone(),
            pending: count(|state| *state == AlertState::Pending),
            firing: count(|state| matches!(state, AlertState::Firing { .. })),
            groups_left_out: watched.standing.left_out,
            seen_ns: watched.standing.seen_ns,
            asked: watched.rule.asked.clone(),
        }
    }
}

/// An alert.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AlertShown)]
pub struct AlertView {
    /// Name of the rule.
    pub rule: String,
    /// Identifier of the rule.
    pub rule_id: String,
    /// Job that produces its rows.
    pub job: JobId,
    /// `condition`: a group meets the condition; `no_data`, `missing_agents`: about the rule itself.
    pub reason: String,
    /// `pending`, `firing` or `resolved`.
    pub state: String,
    /// Reason why the last window did not evaluate it: `no_data` or `missing_agents`.
    pub held: Option<String>,
    /// Silences that suppress its notifications.
    pub silenced_by: Vec<String>,
    /// Labels of the rule and the group.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Row of the last window that met the condition.
    pub values: Map<String, Value>,
    /// Identifies the rule and the group, also in notifications.
    pub fingerprint: String,
    /// Start of the first window that met the condition, in nanoseconds since the epoch.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    pub since_ns: i64,
    /// End of the window in which it fired.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub fired_ns: Option<i64>,
    /// End of the window in which it resolved.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub resolved_ns: Option<i64>,
}

impl AlertView {
    /// The API view of an alert, with the silences that suppress it.
    pub fn of(
        watched: &RunningRule,
        subject: &AlertSubject,
        alert: &Alert,
        silences: &[CompiledSilence],
    ) -> AlertView {
        let AlertMessage {
            labels,
            annotations,
            fingerprint,
            ..
        } = AlertMessage::of(&watched.rule, watched.id, subject, alert);
        let (state, fired_ns, resolved_ns) = match alert.state {
            AlertState::Pending => ("pending", None, None),
            AlertState::Firing { fired_ns, .. } => ("firing", Some(fired_ns), None),
            AlertState::Resolved {
                fired_ns,
                resolved_ns,
            } => ("resolved", Some(fired_ns), Some(resolved_ns)),
        };
        let now_ns = now_ns();
        let silencing = silences
            .iter()
            .filter(|silence| silence.is_about(&labels, &watched.owner, now_ns));
        AlertView {
            rule: watched.rule.asked.name.clone(),
            rule_id: watched.id.to_string(),
            job: watched.job,
            reason: match subject {
                AlertSubject::Group(_) => "condition".into(),
                AlertSubject::NoData => "no_data".into(),
                AlertSubject::MissingAgents => "missing_agents".into(),
            },
            state: state.into(),
            held: alert.held.map(|held| match held {
                HoldReason::NoData => "no_data".into(),
                HoldReason::MissingAgents => "missing_agents".into(),
            }),
            silenced_by: silencing
                .map(|matching| matching.silence.id.to_string())
                .collect(),
            labels,
            annotations,
            values: alert.reading.values.clone(),
            fingerprint,
            since_ns: alert.since_ns,
            fired_ns,
            resolved_ns,
        }
    }
}

impl AlertRegistry {
    /// All rules, oldest first.
    pub fn rules(&self) -> Vec<RuleView> {
        self.lock().rules.values().map(RuleView::of).collect()
    }

    /// A rule.
    pub fn rule(&self, id: i64) -> Option<RuleView> {
        self.lock().rules.get(&id).map(RuleView::of)
    }

    /// All alerts, by rule.
    pub fn shown(&self) -> Vec<AlertView> {
        let inner = self.lock();
        let of_rule = |watched: &RunningRule| -> Vec<AlertView> {
            let alerts = watched.standing.alerts.iter();
            alerts
                .map(|(subject, alert)| AlertView::of(watched, subject, alert, &inner.silences))
                .collect()
        };
        inner.rules.values().flat_map(of_rule).collect()
    }
}
