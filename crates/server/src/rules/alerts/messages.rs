//! Messages to receivers. Webhooks receive documents in the format of Alertmanager's webhooks (version 4), extended
//! with the values of rows; an Alertmanager receives alerts of its API v2.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::machine::{Alert, AlertState, AlertSubject};
use super::rule::AlertRule;

/// Maximum alerts per document.
pub const ALERTS_MAX: usize = 100;

/// An alert with its labels and annotations.
#[derive(Clone, Debug)]
pub struct AlertMessage {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Identifies the rule and the group across restarts and across all times it fires.
    pub fingerprint: String,
    /// The alert.
    pub alert: Alert,
}

impl AlertMessage {
    /// An alert of the rule with this number.
    pub fn of(rule: &AlertRule, id: i64, subject: &AlertSubject, alert: &Alert) -> AlertMessage {
        let labels = rule.labels(subject);
        let mut annotations = alert.reading.annotations.clone();
        if let Some(words) = words(subject, alert) {
            annotations.insert("summary".into(), words);
        }
        let hash = Sha256::digest(format!("{id}\n{labels:?}"));
        let fingerprint = hash
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        AlertMessage {
            labels,
            annotations,
            fingerprint,
            alert: alert.clone(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.alert.state, AlertState::Resolved { .. })
    }

    fn status(&self) -> &'static str {
        if self.is_over() { "resolved" } else { "firing" }
    }

    /// Time of firing, and of resolution.
    fn times(&self) -> (i64, Option<i64>) {
        match self.alert.state {
            AlertState::Pending => (self.alert.since_ns, None),
            AlertState::Firing { fired_ns, .. } => (fired_ns, None),
            AlertState::Resolved {
                fired_ns,
                resolved_ns,
            } => (fired_ns, Some(resolved_ns)),
        }
    }
}

/// Annotation of alerts without rows.
fn words(subject: &AlertSubject, alert: &Alert) -> Option<String> {
    match subject {
        AlertSubject::Group(_) => None,
        AlertSubject::NoData => Some("no rows arrive that could be evaluated".into()),
        AlertSubject::MissingAgents => {
            let agents = alert
                .reading
                .values
                .get("agents")
                .and_then(Value::as_str)
                .unwrap_or_default();
            Some(format!("rows arrive without these agents: {agents}"))
        }
    }
}

/// Formats a time as RFC 3339.
pub fn time(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into()).map_or_else(|_| String::new(), |at| at.to_string())
}

/// The pairs common to all alerts.
fn common(of: impl Iterator<Item = BTreeMap<String, String>>) -> BTreeMap<String, String> {
    of.reduce(|mut all, one| {
        all.retain(|name, value| one.get(name) == Some(value));
        all
    })
    .unwrap_or_default()
}

/// A document for a webhook.
pub fn document(rule: i64, receiver: &str, news: &[AlertMessage]) -> Value {
    let alert = |said: &AlertMessage| {
        let (start, end) = said.times();
        json!({
            "status": said.status(),
            "labels": said.labels,
            "annotations": said.annotations,
            "startsAt": time(start),
            "endsAt": end.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), time),
            "generatorURL": "",
            "fingerprint": said.fingerprint,
            "values": said.alert.reading.values,
        })
    };
    let is_over = news.iter().all(AlertMessage::is_over);
    json!({
        "version": "4",
        "groupKey": rule.to_string(),
        "truncatedAlerts": 0,
        "status": if is_over { "resolved" } else { "firing" },
        "receiver": receiver,
        "groupLabels": news.first().and_then(|said| said.labels.get("alertname")).map(|name| json!({ "alertname": name })),
        "commonLabels": common(news.iter().map(|said| said.labels.clone())),
        "commonAnnotations": common(news.iter().map(|said| said.annotations.clone())),
        "externalURL": "",
        "alerts": news.iter().map(alert).collect::<Vec<_>>(),
    })
}

/// Alerts for an Alertmanager: the end of firing alerts is in the future, because they are sent again before that.
pub fn for_alertmanager(all: &[AlertMessage], now_ns: i64, resend: Duration) -> Value {
    let yet = i64::try_from(resend.as_nanos().saturating_mul(4)).unwrap_or(i64::MAX);
    let alert = |said: &AlertMessage| {
        let (start, end) = said.times();
        // Agents' clocks may be ahead of the server's; no alert starts or ends in the future.
        let end = end.map_or(now_ns.saturating_add(yet), |end| end.min(now_ns));
        json!({
            "labels": plain(&said.labels),
            "annotations": said.annotations,
            "startsAt": time(start.min(end).min(now_ns)),
            "endsAt": time(end),
        })
    };
    all.iter().map(alert).collect::<Vec<_>>().into()
}

/// Labels with names that Alertmanager accepts.
fn plain(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let name = |name: &String| -> String {
        name.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    labels
        .iter()
        .map(|(key, value)| (name(key), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::alerts::machine::{AlertDetails, NotifiedState};

    const SECOND: i64 = 1_000_000_000;

    fn message(labels: &[(&str, &str)], state: AlertState) -> AlertMessage {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let reading = AlertDetails::default();
        let alert = Alert {
            state,
            since_ns: SECOND,
            told: NotifiedState::Nothing,
            held: None,
            reading,
        };
        AlertMessage {
            labels: labels.iter().map(pair).collect(),
            annotations: BTreeMap::new(),
            fingerprint: "f".into(),
            alert,
        }
    }

    const FIRING: AlertState = AlertState::Firing {
        fired_ns: 5 * SECOND,
        true_ns: 9 * SECOND,
    };
    const RESOLVED: AlertState = AlertState::Resolved {
        fired_ns: 5 * SECOND,
        resolved_ns: 20 * SECOND,
    };

    #[test]
    fn a_document_is_resolved_if_all_of_its_alerts_are() {
        let status = |states: &[AlertState]| {
            let news: Vec<_> = states
                .iter()
                .map(|state| message(&[("alertname", "slow")], *state))
                .collect();
            document(1, "pager", &news)["status"].clone()
        };
        assert_eq!(status(&[RESOLVED, RESOLVED]), "resolved");
        assert_eq!(status(&[RESOLVED, FIRING]), "firing");
    }

    #[test]
    fn times_are_those_of_firing_and_resolution() {
        let document = document(7, "pager", &[message(&[], FIRING), message(&[], RESOLVED)]);
        let alerts = &document["alerts"];
        assert_eq!(alerts[0]["startsAt"], "1970-01-01T00:00:05Z");
        assert_eq!(
            alerts[0]["endsAt"], "0001-01-01T00:00:00Z",
            "as Alertmanager writes no time"
        );
        assert_eq!(alerts[1]["endsAt"], "1970-01-01T00:00:20Z");
        assert_eq!(
            (&document["groupKey"], &document["receiver"]),
            (&json!("7"), &json!("pager"))
        );
    }

    #[test]
    fn common_labels_are_equal_in_all_alerts() {
        let news = [
            message(
                &[("alertname", "slow"), ("url", "/a"), ("team", "web")],
                FIRING,
            ),
            message(
                &[("alertname", "slow"), ("url", "/b"), ("team", "web")],
                FIRING,
            ),
            message(
                &[("alertname", "slow"), ("team", "web"), ("other", "x")],
                FIRING,
            ),
        ];
        let document = document(1, "pager", &news);
        assert_eq!(
            document["commonLabels"],
            json!({ "alertname": "slow", "team": "web" })
        );
        assert_eq!(document["groupLabels"], json!({ "alertname": "slow" }));
        assert_eq!(super::document(1, "pager", &[])["commonLabels"], json!({}));
    }

    /// Firing alerts end after four intervals, unless they are sent again.
    #[test]
    fn an_alertmanager_gets_no_time_in_the_future_of_agents() {
        let times = |state, now_s: i64| {
            let all = for_alertmanager(
                &[message(&[], state)],
                now_s * SECOND,
                Duration::from_secs(60),
            );
            [&all[0]["startsAt"], &all[0]["endsAt"]]
                .map(|at| at.as_str().expect("a time").to_owned())
        };
        assert_eq!(
            times(FIRING, 10),
            ["1970-01-01T00:00:05Z", "1970-01-01T00:04:10Z"]
        );
        assert_eq!(
            times(FIRING, 2),
            ["1970-01-01T00:00:02Z", "1970-01-01T00:04:02Z"]
        );
        assert_eq!(
            times(RESOLVED, 30),
            ["1970-01-01T00:00:05Z", "1970-01-01T00:00:20Z"]
        );
        assert_eq!(
            times(RESOLVED, 3),
            ["1970-01-01T00:00:03Z", "1970-01-01T00:00:03Z"]
        );
    }

    #[test]
    fn an_alertmanager_gets_plain_label_names() {
        let all = for_alertmanager(
            &[message(&[("request_header.x-id", "1"), ("ü", "2")], FIRING)],
            0,
            Duration::MAX,
        );
        assert_eq!(
            all[0]["labels"],
            json!({ "request_header_x_id": "1", "_": "2" })
        );
    }

    #[test]
    fn alerts_without_rows_have_a_summary() {
        let mut alert = message(&[], FIRING).alert;
        assert_eq!(words(&AlertSubject::Group("[]".into()), &alert), None);
        let text = words(&AlertSubject::NoData, &alert).expect("a summary");
        assert_eq!(text, "no rows arrive that could be evaluated");
        alert
            .reading
            .values
            .insert("agents".into(), "web1, web2".into());
        let text = words(&AlertSubject::MissingAgents, &alert).expect("a summary");
        assert_eq!(text, "rows arrive without these agents: web1, web2");
    }
}
