//! A rule as requested, its validation, and the values fixed when it is accepted.

use std::collections::BTreeMap;

use plan::Plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::machine::{AlertPolicy, AlertSubject, OnMissingAgents, OnNoData};
use crate::rules::windowed_result::{WindowedResult, column, length_ns};

/// Labels set by the server.
pub const OWN_LABELS: [&str; 2] = ["alertname", "reason"];
/// Maximum labels, annotations or receivers of a rule.
const MANY: usize = 32;
/// Maximum bytes of a name or a label.
const NAME_BYTES_MAX: usize = 200;
/// Maximum bytes of an annotation or a condition.
const TEXT_BYTES_MAX: usize = 4096;

/// A rule as requested.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleRequest {
    /// Name of the rule and of its alerts.
    pub name: String,
    /// A query, which runs as a standing job owned by the rule. Excludes `job`.
    #[serde(default)]
    pub query: Option<String>,
    /// Number or name of a standing job. Excludes `query`.
    #[serde(default)]
    pub job: Option<String>,
    /// Labels that an agent must have to run the query.
    #[serde(default)]
    pub on: BTreeMap<String, String>,
    /// Whether texts of the query's rows are redacted, also in notifications; false requires the role raw.
    #[serde(default = "yes")]
    pub redact: bool,
    /// Result of the query, by the name of its processor or by index; required if there are several.
    #[serde(default)]
    pub result: Option<String>,
    /// The condition on a row, over its columns: `p99 > 50ms`.
    pub when: String,
    /// Time for which the condition must hold: `1m`.
    #[serde(default, rename = "for")]
    pub for_time: Option<String>,
    /// Time for which it must not hold before the alert resolves.
    #[serde(default)]
    pub keep_firing_for: Option<String>,
    /// Labels of the alerts.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the alerts; `{p99}` is replaced by the value of that column.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Names of receivers.
    #[serde(default)]
    pub receivers: Vec<String>,
    /// Effect of a window without rows.
    #[serde(default)]
    pub on_no_data: OnNoData,
    /// Effect of a window that lacks agents.
    #[serde(default)]
    pub on_missing_agents: OnMissingAgents,
}

fn yes() -> bool {
    true
}

/// An accepted rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlertRule {
    /// The request.
    pub asked: RuleRequest,
    /// The result it evaluates.
    #[serde(flatten)]
    pub looked_at: WindowedResult,
}

/// Reason why a rule is invalid.
#[derive(Debug)]
pub enum RuleError {
    /// A message.
    Words(String),
    /// Errors in the condition, with positions.
    Condition(Vec<query::Diagnostic>),
}

impl From<&str> for RuleError {
    fn from(words: &str) -> RuleError {
        RuleError::Words(words.into())
    }
}

impl RuleRequest {
    /// Validates everything that does not depend on the query.
    pub fn check(&self, receivers: &dyn Fn(&str) -> bool) -> Result<(), RuleError> {
        let short = |text: &str, most: usize| (1..=most).contains(&text.len());
        if !short(&self.name, NAME_BYTES_MAX) {
            return Err("the name of a rule has at most 200 bytes".into());
        }
        if [self.labels.len(), self.annotations.len(), self.receivers.len(), self.on.len()]
            .iter()
            .any(|n| *n > MANY)
        {
            return Err("a rule has at most 32 labels, 32 annotations and 32 receivers".into());
        }
        let names = self.labels.keys().chain(self.annotations.keys());
        if let Some(name) = names.clone().find(|name| !is_label(name) || OWN_LABELS.contains(&name.as_str()))
        {
            return Err(RuleError::Words(format!(
                "`{name}` is not a label name: letters, digits, and _, not starting with a digit, and neither alertname nor reason"
            )));
        }
        let texts = self.annotations.values().chain([&self.when]);
        let labels = self.labels.values().chain(self.on.values()).chain(self.on.keys());
        if !texts.clone().all(|text| text.len() <= TEXT_BYTES_MAX)
            || !labels.clone().all(|l| l.len() <= NAME_BYTES_MAX)
        {
            return Err("labels have at most 200 bytes, annotations and conditions at most 4096".into());
        }
        if let Some(name) = self.receivers.iter().find(|name| !receivers(name)) {
            return Err(RuleError::Words(format!(
                "there is no receiver {name}: serve --receiver {name}=URL configures one"
            )));
        }
        self.times().map(drop)
    }

    fn times(&self) -> Result<(i64, i64), RuleError> {
        let read = |text: &Option<String>| length_ns(text.as_deref()).map_err(RuleError::Words);
        Ok((read(&self.for_time)?, read(&self.keep_firing_for)?))
    }
}

/// Whether the text is a valid Prometheus label name.
fn is_label(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.chars().all(is_part)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

impl AlertRule {
    /// The rule on the results of its query.
    pub fn of(asked: RuleRequest, plan: &Plan) -> Result<AlertRule, RuleError> {
        let (looked_at, named) =
            WindowedResult::of(plan, asked.result.as_deref(), "a rule").map_err(RuleError::Words)?;
        query::check_condition(&asked.when, &named).map_err(RuleError::Condition)?;
        for name in asked.annotations.values().flat_map(|text| placeholders(text)) {
            if column(&named, name).is_none() {
                return Err(RuleError::Words(format!("an annotation has {{{name}}}, which is not a column")));
            }
        }
        Ok(AlertRule { asked, looked_at })
    }

    /// Whether the rule owns its job.
    pub fn owns_job(&self) -> bool {
        self.asked.query.is_some()
    }

    /// Policy of the state machine.
    pub fn policy(&self, groups_max: usize) -> AlertPolicy {
        let (for_ns, keep_firing_ns) = self.asked.times().unwrap_or_default();
        let RuleRequest { on_no_data, on_missing_agents, .. } = self.asked;
        AlertPolicy { for_ns, keep_firing_ns, on_no_data, on_missing_agents, groups_max }
    }

    /// Labels of an alert.
    pub fn labels(&self, subject: &AlertSubject) -> BTreeMap<String, String> {
        let mut labels = self.asked.labels.clone();
        let reason = match subject {
            AlertSubject::NoData => Some("no_data"),
            AlertSubject::MissingAgents => Some("missing_agents"),
            AlertSubject::Group(group) => {
                let cells: Vec<Value> = serde_json::from_str(group).unwrap_or_default();
                let text = |cell: Value| match cell {
                    Value::String(text) => text,
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                labels.extend(self.looked_at.keys.iter().cloned().zip(cells.into_iter().map(text)));
                None
            }
        };
        labels.insert("alertname".into(), self.asked.name.clone());
        labels.extend(reason.map(|reason| ("reason".to_owned(), reason.to_owned())));
        labels
    }
}

/// Names between braces.
pub fn placeholders(text: &str) -> Vec<&str> {
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
}
