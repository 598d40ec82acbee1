//! A running rule: its windows, and the records and messages of its alerts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tuple::Batch;

use super::evaluate::RuleEvaluator;
use super::machine::{Alert, AlertPolicy, AlertSubject, AlertWindow, News, RuleState};
use super::messages::{ALERTS_MAX, AlertMessage, document};
use super::rule::AlertRule;
use super::silence::CompiledSilence;
use crate::job::JobId;
use crate::store::sqlite::{NewNotification, RuleChange, StoredRule, now_ns};

/// Number of missing windows that count as no data.
const WINDOWS_MISSED: i64 = 3;

/// A running rule.
pub struct RunningRule {
    pub id: i64,
    pub owner: String,
    pub job: JobId,
    pub created_ns: i64,
    pub rule: AlertRule,
    pub policy: AlertPolicy,
    pub standing: RuleState,
    /// Number of notifications so far.
    pub told: i64,
    /// Reason why the condition does not apply to the rows.
    pub problem: Option<String>,
    pub judge: Option<RuleEvaluator>,
    /// Last advance of event time, or start of the server.
    pub heard: Instant,
}

impl RunningRule {
    /// Decodes a stored rule; `None` if it is unreadable.
    pub fn of(stored: StoredRule, groups_max: usize) -> Option<RunningRule> {
        let rule: AlertRule = serde_json::from_str(&stored.body)
            .inspect_err(|error| {
                tracing::error!("the alert rule {} cannot be read: {error}", stored.name)
            })
            .ok()?;
        let alerts = stored.alerts.iter();
        let alerts = alerts
            .filter_map(|(key, body)| Some((subject(key)?, serde_json::from_str(body).ok()?)));
        let alerts: BTreeMap<AlertSubject, Alert> = alerts.collect();
        let left_out = stored.left_out.unsigned_abs();
        Some(RunningRule {
            id: stored.id,
            owner: stored.owner,
            job: stored.job,
            created_ns: stored.created_ns,
            policy: rule.policy(groups_max),
            standing: RuleState {
                alerts,
                seen_ns: stored.seen_ns,
                left_out,
            },
            told: stored.told,
            problem: None,
            judge: None,
            heard: Instant::now(),
            rule,
        })
    }

    /// The changed rule, without state.
    pub fn with(&self, rule: AlertRule, job: JobId, groups_max: usize) -> RunningRule {
        RunningRule {
            id: self.id,
            owner: self.owner.clone(),
            job,
            created_ns: self.created_ns,
            policy: rule.policy(groups_max),
            standing: RuleState::default(),
            told: self.told,
            problem: None,
            judge: None,
            heard: Instant::now(),
            rule,
        }
    }

    /// Whether another rule evaluates the same rows in the same way and its alerts have the same names.
    pub fn judges_as(&self, other: &RunningRule) -> bool {
        let of = |watched: &RunningRule| {
            let asked = &watched.rule.asked;
            (
                watched.job,
                watched.rule.looked_at.result,
                watched.policy,
                asked.when.clone(),
                asked.labels.clone(),
                asked.name.clone(),
            )
        };
        of(self) == of(other)
    }

    /// Resolves all firing alerts at the end of a rule: the records to write, and the messages to send. `webhooks`:
    /// receivers of documents.
    pub fn last_change(&self, webhooks: &[&str]) -> (RuleChange, Vec<AlertMessage>) {
        let mut standing = self.standing.clone();
        let at = standing.seen_ns.unwrap_or_else(now_ns);
        let news = standing.end(at);
        let said: Vec<AlertMessage> = news
            .iter()
            .map(|(subject, alert)| AlertMessage::of(&self.rule, self.id, subject, alert))
            .collect();
        let mut told = self.told;
        let change = self.change(&standing, self.notify(webhooks, &news, &mut told), told);
        (
            RuleChange {
                seen_ns: None,
                ..change
            },
            said,
        )
    }

    /// Predicate: whether an alert of the rule is silenced.
    pub fn is_silenced(
        &self,
        silences: &[CompiledSilence],
        now_ns: i64,
    ) -> impl Fn(&AlertSubject) -> bool {
        move |subject| {
            let labels = self.rule.labels(subject);
            silences
                .iter()
                .any(|silence| silence.is_about(&labels, &self.owner, now_ns))
        }
    }

    /// Windows completed by the watermark, in order, including empty ones in between.
    pub fn windows(
        &self,
        rows: BTreeMap<i64, AlertWindow>,
        watermark_ns: i64,
        lacking: &[String],
    ) -> Vec<AlertWindow> {
        let empty = |start_ns, end_ns| AlertWindow {
            start_ns,
            end_ns,
            missing: lacking.to_vec(),
            groups: BTreeMap::new(),
        };
        self.rule
            .looked_at
            .windows(rows, self.standing.seen_ns, watermark_ns, empty)
    }

    /// Record of the new state for the store, with notifications `news`.
    pub fn change(&self, next: &RuleState, news: Vec<NewNotification>, told: i64) -> RuleChange {
        let gone = self
            .standing
            .alerts
            .keys()
            .filter(|subject| !next.alerts.contains_key(subject));
        let gone = gone.map(|subject| (key(subject), None));
        let changed = next
            .alerts
            .iter()
            .filter(|(subject, alert)| self.standing.alerts.get(subject) != Some(alert));
        let changed =
            changed.map(|(subject, alert)| (key(subject), serde_json::to_string(alert).ok()));
        RuleChange {
            rule: self.id,
            seen_ns: next.seen_ns,
            left_out: i64::try_from(next.left_out).unwrap_or(i64::MAX),
            told,
            alerts: gone.chain(changed).collect(),
            news,
        }
    }

    /// Documents for webhooks.
    pub fn notify(&self, webhooks: &[&str], news: &News, told: &mut i64) -> Vec<NewNotification> {
        let mut documents = Vec::new();
        for some in news.chunks(ALERTS_MAX) {
            *told += 1;
            let said: Vec<AlertMessage> = some
                .iter()
                .map(|(subject, alert)| AlertMessage::of(&self.rule, self.id, subject, alert))
                .collect();
            for receiver in webhooks
                .iter()
                .filter(|name| self.rule.asked.receivers.iter().any(|to| to == *name))
            {
                documents.push(NewNotification {
                    receiver: (*receiver).to_owned(),
                    key: format!("alert_{:x}_{}_{told}", self.created_ns, self.id),
                    body: document(self.id, receiver, &said).to_string(),
                });
            }
        }
        documents
    }

    /// Compiles the condition for the schema of these rows.
    pub fn fit(&mut self, batch: &Batch) {
        if self
            .judge
            .as_ref()
            .is_some_and(|judge| judge.is_for(batch.schema()))
        {
            return;
        }
        let made = RuleEvaluator::new(&self.rule, batch.schema());
        self.problem = made.as_ref().err().cloned();
        if let Some(problem) = &self.problem {
            tracing::warn!(
                "the alert rule {} cannot be applied: {problem}",
                self.rule.asked.name
            );
        }
        self.judge = made.ok();
    }

    /// The period without windows, if it is long enough.
    pub fn stalled(&self, least: Duration) -> Option<(i64, i64)> {
        let looked_at = &self.rule.looked_at;
        let windows = looked_at
            .slide_ns
            .saturating_mul(WINDOWS_MISSED)
            .saturating_add(looked_at.lateness_ns);
        let patience = least.max(Duration::from_nanos(windows.unsigned_abs()));
        let since = self.heard.elapsed();
        let start_ns = self.standing.seen_ns.unwrap_or(self.created_ns);
        let end_ns = start_ns.saturating_add(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
        (since >= patience).then_some((start_ns, end_ns))
    }
}

/// Key of a subject in the store: groups are JSON arrays.
fn key(subject: &AlertSubject) -> String {
    match subject {
        AlertSubject::NoData => "no_data".into(),
        AlertSubject::MissingAgents => "missing_agents".into(),
        AlertSubject::Group(group) => group.clone(),
    }
}

fn subject(key: &str) -> Option<AlertSubject> {
    match key {
        "no_data" => Some(AlertSubject::NoData),
        "missing_agents" => Some(AlertSubject::MissingAgents),
        group => group
            .starts_with('[')
            .then(|| AlertSubject::Group(group.to_owned())),
    }
}
