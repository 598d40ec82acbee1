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
        if [
            self.labels.len(),
            self.annotations.len(),
            self.receivers.len(),
            self.on.len(),
        ]
        .iter()
        .any(|n| *n > MANY)
        {
            return Err("a rule has at most 32 labels, 32 annotations and 32 receivers".into());
        }
        let names = self.labels.keys().chain(self.annotations.keys());
        if let Some(name) = names
            .clone()
            .find(|name| !is_label(name) || OWN_LABELS.contains(&name.as_str()))
        {
            return Err(RuleError::Words(format!(
                "`{name}` is not a label name: letters, digits, and _, not starting with a digit, and neither alertname nor reason"
            )));
        }
        let texts = self.annotations.values().chain([&self.when]);
        let labels = self
            .labels
            .values()
            .chain(self.on.values())
            .chain(self.on.keys());
        if !texts.clone().all(|text| text.len() <= TEXT_BYTES_MAX)
            || !labels.clone().all(|l| l.len() <= NAME_BYTES_MAX)
        {
            return Err(
                "labels have at most 200 bytes, annotations and conditions at most 4096".into(),
            );
        }
        if let Some(name) = self.receivers.iter().find(|name| !receivers(name)) {
            return Err(RuleError::Words(format!(
                "receiver {name} does not exist: serve --receiver {name}=URL configures one"
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
        let (looked_at, named) = WindowedResult::of(plan, asked.result.as_deref(), "a rule")
            .map_err(RuleError::Words)?;
        query::check_condition(&asked.when, &named).map_err(RuleError::Condition)?;
        for name in asked
            .annotations
            .values()
            .flat_map(|text| placeholders(text))
        {
            if column(&named, name).is_none() {
                return Err(RuleError::Words(format!(
                    "an annotation has {{{name}}}, which is not a column"
                )));
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
        let RuleRequest {
            on_no_data,
            on_missing_agents,
            ..
        } = self.asked;
        AlertPolicy {
            for_ns,
            keep_firing_ns,
            on_no_data,
            on_missing_agents,
            groups_max,
        }
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
                labels.extend(
                    self.looked_at
                        .keys
                        .iter()
                        .cloned()
                        .zip(cells.into_iter().map(text)),
                );
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
    text.split('{')
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('}')?.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RuleRequest {
        serde_json::from_value(
            serde_json::json!({ "name": "slow", "query": "PARSE http", "when": "p99 > 50ms" }),
        )
        .expect("a rule")
    }

    /// Message of the error of a changed rule; empty if it is valid. There is one receiver, `pager`.
    fn error(change: impl FnOnce(&mut RuleRequest)) -> String {
        let mut rule = request();
        change(&mut rule);
        match rule.check(&|name| name == "pager") {
            Ok(()) => String::new(),
            Err(RuleError::Words(words)) => words,
            Err(RuleError::Condition(_)) => "condition".into(),
        }
    }

    #[test]
    fn defaults_are_the_safe_ones() {
        let rule = request();
        assert!(rule.redact && rule.receivers.is_empty());
        assert_eq!(rule.on_missing_agents, OnMissingAgents::default());
        assert_eq!(rule.times().expect("times"), (0, 0));
        assert_eq!(error(|_| {}), "");
    }

    #[test]
    fn unknown_fields_are_refused() {
        let unknown = serde_json::json!({ "name": "slow", "when": "p99 > 1", "keep_firing": "1m" });
        let error = serde_json::from_value::<RuleRequest>(unknown).expect_err("a misspelled field");
        assert!(
            error.to_string().contains("unknown field `keep_firing`"),
            "{error}"
        );
    }

    #[test]
    fn names_have_a_length() {
        let long = "the name of a rule has at most 200 bytes";
        assert_eq!(error(|rule| rule.name = "x".repeat(200)), "");
        assert_eq!(error(|rule| rule.name = "x".repeat(201)), long);
        assert_eq!(error(|rule| rule.name.clear()), long);
    }

    #[test]
    fn lists_have_a_length() {
        let labels = |n: usize| {
            (0..n)
                .map(|i| (format!("l{i}"), "v".to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        assert_eq!(error(|rule| rule.labels = labels(32)), "");
        for change in [
            (|rule, labels| rule.labels = labels) as fn(&mut RuleRequest, BTreeMap<String, String>),
            |rule, labels| rule.annotations = labels,
            |rule, labels| rule.on = labels,
            |rule, labels| rule.receivers = labels.into_keys().collect(),
        ] {
            let found = error(|rule| change(rule, labels(33)));
            assert_eq!(
                found,
                "a rule has at most 32 labels, 32 annotations and 32 receivers"
            );
        }
    }

    #[test]
    fn label_names_are_those_of_prometheus_and_not_reserved() {
        let label =
            |name: &str| error(|rule| rule.labels = [(name.to_owned(), "v".to_owned())].into());
        for valid in ["team", "_x", "A9", &"x".repeat(200)] {
            assert_eq!(label(valid), "", "{valid}");
        }
        for invalid in [
            "",
            "9a",
            "a-b",
            "ü",
            "alertname",
            "reason",
            &"x".repeat(201),
        ] {
            assert!(
                label(invalid).starts_with(&format!("`{invalid}` is not a label name")),
                "{invalid}"
            );
        }
        let annotation =
            error(|rule| rule.annotations = [("a b".to_owned(), String::new())].into());
        assert!(
            annotation.starts_with("`a b` is not a label name"),
            "{annotation}"
        );
    }

    #[test]
    fn texts_have_a_length() {
        let long = "labels have at most 200 bytes, annotations and conditions at most 4096";
        let one = |value: String| BTreeMap::from([("a".to_owned(), value)]);
        assert_eq!(error(|rule| rule.labels = one("x".repeat(201))), long);
        assert_eq!(error(|rule| rule.on = one("x".repeat(201))), long);
        assert_eq!(error(|rule| rule.annotations = one("x".repeat(4096))), "");
        assert_eq!(error(|rule| rule.annotations = one("x".repeat(4097))), long);
        assert_eq!(error(|rule| rule.when = "x".repeat(4097)), long);
    }

    #[test]
    fn receivers_exist() {
        assert_eq!(error(|rule| rule.receivers = vec!["pager".into()]), "");
        let found = error(|rule| rule.receivers = vec!["pager".into(), "mail".into()]);
        assert_eq!(
            found,
            "receiver mail does not exist: serve --receiver mail=URL configures one"
        );
    }

    #[test]
    fn times_are_durations() {
        assert_eq!(error(|rule| rule.for_time = Some("90s".into())), "");
        assert_eq!(error(|rule| rule.keep_firing_for = Some("0".into())), "");
        for text in ["soon", "-1s", "5"] {
            let found = error(|rule| rule.for_time = Some(text.into()));
            assert_eq!(
                found,
                format!("`{text}` is not a duration, such as 90s, 5m, or 1h")
            );
        }
    }

    #[test]
    fn labels_have_the_group_and_no_other_name() {
        let looked_at = WindowedResult {
            result: 0,
            size_ns: 1,
            slide_ns: 1,
            lateness_ns: 0,
            keys: vec!["url".into(), "n".into()],
        };
        let labels =
            [("team", "web"), ("url", "of the rule")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let rule = AlertRule {
            asked: RuleRequest {
                labels: labels.into(),
                ..request()
            },
            looked_at,
        };
        let of = |subject| {
            rule.labels(&subject)
                .into_iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect::<Vec<_>>()
        };
        let group = AlertSubject::Group(r#"["/a",null]"#.into());
        assert_eq!(of(group), ["alertname=slow", "n=", "team=web", "url=/a"]);
        assert_eq!(
            of(AlertSubject::NoData),
            [
                "alertname=slow",
                "reason=no_data",
                "team=web",
                "url=of the rule"
            ]
        );
        assert_eq!(
            rule.labels(&AlertSubject::MissingAgents)["reason"],
            "missing_agents"
        );
    }

    #[test]
    fn placeholders_are_names_in_braces() {
        assert_eq!(placeholders("{p99} of {url}"), ["p99", "url"]);
        assert_eq!(placeholders("none } {open"), Vec::<&str>::new());
        assert_eq!(placeholders("{}{a}"), ["", "a"]);
    }
}
