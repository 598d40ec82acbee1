//! States of a rule's alerts, computed from windows and missing windows. Pure: time is event time and an argument.
//!
//! An alert has a *subject*: a group of the rule's rows, or the rule itself if there are no rows or only rows that lack
//! agents. Each subject has its own state:
//!
//! ```text
//!            true            true for `for`            false for `keep firing`
//!   (nothing) ───► pending ───────────────► firing ────────────────────────────► resolved ───► (forgotten)
//!                     └──── false ──► (nothing)                                     └─ true ─► pending
//! ```
//!
//! A window is evaluated if it has rows and all agents, or as [`AlertPolicy`] defines. A window that is not evaluated
//! changes no group: pending and firing alerts are *held*, and only an evaluated window lets them fire or resolve.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Time for which a resolved alert is listed and sent again to receivers that want repetitions.
pub const SHOWN_NS: i64 = 15 * 60_000_000_000;

/// Effect of a window without rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnNoData {
    /// Groups that meet the condition in the existing rows fire; others keep their state. The rule itself gets an
    /// alert.
    #[default]
    Alert,
    /// No effect.
    Hold,
    /// No group meets the condition.
    Resolve,
}

/// Effect of a window that lacks agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissingAgents {
    /// No effect on groups; the rule itself gets an alert.
    #[default]
    Alert,
    /// No effect.
    Hold,
    /// Evaluated by its rows.
    Judge,
}

/// Parameters of evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlertPolicy {
    /// Time for which the condition must hold, from the start of the first window that meets it.
    pub for_ns: i64,
    /// Time for which it must not hold before the alert resolves.
    pub keep_firing_ns: i64,
    /// Effect of windows without rows.
    pub on_no_data: OnNoData,
    /// Effect of windows that lack agents.
    pub on_missing_agents: OnMissingAgents,
    /// Maximum number of pending or firing groups.
    pub groups_max: usize,
}

/// Subject of an alert.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlertSubject {
    /// The rule: no rows to evaluate.
    NoData,
    /// The rule: rows lack agents.
    MissingAgents,
    /// A group: the values of its keys as a JSON array.
    Group(String),
}

/// State of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum AlertState {
    /// Meets the condition, for less than the required time.
    Pending,
    /// Meets the condition, or did until recently.
    Firing {
        /// End of the window in which it fired.
        fired_ns: i64,
        /// End of the last window that met the condition.
        true_ns: i64,
    },
    /// Resolved.
    Resolved {
        /// End of the window in which it fired.
        fired_ns: i64,
        /// End of the window in which it resolved.
        resolved_ns: i64,
    },
}

/// State known to receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifiedState {
    /// Nothing.
    Nothing,
    /// Firing.
    Firing,
    /// Fired and resolved.
    Resolved,
}

/// Reason why the last window did not evaluate a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// No window, or one without rows.
    NoData,
    /// Missing agents.
    MissingAgents,
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// State.
    #[serde(flatten)]
    pub state: AlertState,
    /// Start of the first window that met the condition.
    pub since_ns: i64,
    /// State known to receivers.
    pub told: NotifiedState,
    /// Reason why the alert was not evaluated in the last window.
    pub held: Option<HoldReason>,
    /// Row of the last window that met the condition.
    #[serde(flatten)]
    pub reading: AlertDetails,
}

/// A row that meets the condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AlertDetails {
    /// Values by column.
    pub values: Map<String, Value>,
    /// Annotations, with placeholders replaced.
    pub annotations: BTreeMap<String, String>,
}

/// A complete window.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertWindow {
    /// Start, in event time.
    pub start_ns: i64,
    /// End, in event time.
    pub end_ns: i64,
    /// Missing agents.
    pub missing: Vec<String>,
    /// Groups with rows, each with a row that meets the condition, if any; empty: no rows.
    pub groups: BTreeMap<String, Option<AlertDetails>>,
}

/// All alerts of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleState {
    /// By subject.
    pub alerts: BTreeMap<AlertSubject, Alert>,
    /// End of the last evaluated window.
    pub seen_ns: Option<i64>,
    /// Groups without an alert because of the limit.
    pub left_out: u64,
}

/// Changes to send to receivers.
pub type News = Vec<(AlertSubject, Alert)>;

impl RuleState {
    /// Evaluates a complete window; windows evaluated before are ignored.
    pub fn take(
        &mut self,
        policy: &AlertPolicy,
        window: &AlertWindow,
        is_silenced: &dyn Fn(&AlertSubject) -> bool,
    ) -> News {
        if self.seen_ns.is_some_and(|seen| window.end_ns <= seen) {
            return News::new();
        }
        let is_first = self.seen_ns.replace(window.end_ns).is_none();
        if is_first && window.groups.is_empty() {
            // A window before the creation of the rule.
            return News::new();
        }
        let is_whole =
            window.missing.is_empty() || policy.on_missing_agents == OnMissingAgents::Judge;
        let has_rows = !window.groups.is_empty();
        if policy.on_missing_agents == OnMissingAgents::Alert {
            let agents = (!window.missing.is_empty()).then(|| AlertDetails {
                values: Map::from_iter([("agents".to_owned(), window.missing.join(" ").into())]),
                ..AlertDetails::default()
            });
            self.judge(policy, &AlertSubject::MissingAgents, window, agents);
        }
        match (has_rows, is_whole, policy.on_no_data) {
            (true, ..) | (false, true, OnNoData::Resolve) => {
                self.is_false(policy, &AlertSubject::NoData, window.end_ns)
            }
            (false, true, OnNoData::Alert) => self.is_true(
                policy,
                &AlertSubject::NoData,
                window,
                AlertDetails::default(),
            ),
            (false, ..) => {}
        }
        match (is_whole, has_rows) {
            (false, _) => {
                self.hold(HoldReason::MissingAgents);
                if policy.on_missing_agents == OnMissingAgents::Alert {
                    self.judge_true(policy, window);
                }
            }
            (true, false) if policy.on_no_data != OnNoData::Resolve => {
                self.hold(HoldReason::NoData)
            }
            (true, _) => self.judge_groups(policy, window),
        }
        self.forget(window.end_ns);
        self.announce(is_silenced)
    }

    /// Evaluates the absence of windows since `start_ns`, whatever the policy for windows without rows. `end_ns`:
    /// estimated event time.
    pub fn stall(
        &mut self,
        policy: &AlertPolicy,
        (start_ns, end_ns): (i64, i64),
        is_silenced: &dyn Fn(&AlertSubject) -> bool,
    ) -> News {
        self.hold(HoldReason::NoData);
        let known = self
            .alerts
            .get(&AlertSubject::NoData)
            .map(|alert| alert.state);
        if policy.on_no_data != OnNoData::Hold && !matches!(known, Some(AlertState::Firing { .. }))
        {
            let window = AlertWindow {
                start_ns,
                end_ns,
                missing: Vec::new(),
                groups: BTreeMap::new(),
            };
            self.is_true(
                policy,
                &AlertSubject::NoData,
                &window,
                AlertDetails::default(),
            );
        }
        self.announce(is_silenced)
    }

    /// Whether time alone may change something: an unannounced firing alert, or missing windows that are not noted.
    #[must_use]
    pub fn waits(&self, policy: &AlertPolicy, is_stalled: bool) -> bool {
        let is_untold = |alert: &Alert| {
            matches!(alert.state, AlertState::Firing { .. }) && alert.told == NotifiedState::Nothing
        };
        let known = self
            .alerts
            .get(&AlertSubject::NoData)
            .map(|alert| alert.state);
        let is_noted =
            matches!(known, Some(AlertState::Firing { .. })) || policy.on_no_data == OnNoData::Hold;
        let is_unheld = |(subject, alert): (&AlertSubject, &Alert)| {
            let is_active = !matches!(alert.state, AlertState::Resolved { .. });
            matches!(subject, AlertSubject::Group(_))
                && is_active
                && alert.held != Some(HoldReason::NoData)
        };
        self.alerts.values().any(is_untold)
            || is_stalled && (!is_noted || self.alerts.iter().any(is_unheld))
    }

    /// Ends the evaluation: all firing alerts resolve.
    pub fn end(&mut self, at_ns: i64) -> News {
        self.alerts
            .retain(|_, alert| alert.state != AlertState::Pending);
        self.alerts
            .values_mut()
            .for_each(|alert| alert.resolve(at_ns));
        self.announce(&|_| false)
    }

    /// Changes to send to receivers now, which are noted as sent: firing alerts without a silence, and the resolution
    /// of alerts that were announced, silenced or not.
    pub fn announce(&mut self, is_silenced: &dyn Fn(&AlertSubject) -> bool) -> News {
        let mut news = News::new();
        for (subject, alert) in &mut self.alerts {
            let next = match (alert.state, alert.told) {
                (AlertState::Firing { .. }, NotifiedState::Nothing) if !is_silenced(subject) => {
                    NotifiedState::Firing
                }
                (AlertState::Resolved { .. }, NotifiedState::Firing) => NotifiedState::Resolved,
                _ => continue,
            };
            alert.told = next;
            news.push((subject.clone(), alert.clone()));
        }
        news
    }

    /// Evaluates the groups that meet the condition; others keep their state.
    fn judge_true(&mut self, policy: &AlertPolicy, window: &AlertWindow) {
        for (group, row) in &window.groups {
            if let Some(reading) = row {
                self.is_true(
                    policy,
                    &AlertSubject::Group(group.clone()),
                    window,
                    reading.clone(),
                );
            }
        }
    }

    fn judge_groups(&mut self, policy: &AlertPolicy, window: &AlertWindow) {
        let gone = self.alerts.keys().filter(|subject| match subject {
            AlertSubject::Group(group) => !window.groups.contains_key(group),
            _ => false,
        });
        for subject in gone.cloned().collect::<Vec<_>>() {
            self.judge(policy, &subject, window, None);
        }
        for (group, row) in &window.groups {
            self.judge(
                policy,
                &AlertSubject::Group(group.clone()),
                window,
                row.clone(),
            );
        }
    }

    /// Evaluates a subject: `reading` if it meets the condition.
    fn judge(
        &mut self,
        policy: &AlertPolicy,
        subject: &AlertSubject,
        window: &AlertWindow,
        reading: Option<AlertDetails>,
    ) {
        match reading {
            None => self.is_false(policy, subject, window.end_ns),
            Some(reading) => self.is_true(policy, subject, window, reading),
        }
    }

    fn is_true(
        &mut self,
        policy: &AlertPolicy,
        subject: &AlertSubject,
        window: &AlertWindow,
        reading: AlertDetails,
    ) {
        let is_active = |alert: &Alert| !matches!(alert.state, AlertState::Resolved { .. });
        if !self.alerts.get(subject).is_some_and(is_active) {
            let is_group = |subject: &AlertSubject| matches!(subject, AlertSubject::Group(_));
            let active = self
                .alerts
                .iter()
                .filter(|(subject, alert)| is_group(subject) && is_active(alert));
            if is_group(subject) && active.count() >= policy.groups_max {
                self.left_out += 1;
                return;
            }
            let new = Alert {
                state: AlertState::Pending,
                since_ns: window.start_ns,
                told: NotifiedState::Nothing,
                held: None,
                reading: AlertDetails::default(),
            };
            self.alerts.insert(subject.clone(), new);
        }
        let Some(alert) = self.alerts.get_mut(subject) else {
            return;
        };
        let end_ns = window.end_ns;
        alert.reading = reading;
        alert.held = None;
        match &mut alert.state {
            AlertState::Firing { true_ns, .. } => *true_ns = end_ns.max(*true_ns),
            AlertState::Pending if end_ns.saturating_sub(alert.since_ns) >= policy.for_ns => {
                alert.state = AlertState::Firing {
                    fired_ns: end_ns,
                    true_ns: end_ns,
                };
            }
            _ => {}
        }
    }

    fn is_false(&mut self, policy: &AlertPolicy, subject: &AlertSubject, end_ns: i64) {
        let Some(alert) = self.alerts.get_mut(subject) else {
            return;
        };
        alert.held = None;
        match alert.state {
            AlertState::Pending => drop(self.alerts.remove(subject)),
            AlertState::Firing { true_ns, .. }
                if end_ns.saturating_sub(true_ns) >= policy.keep_firing_ns =>
            {
                alert.resolve(end_ns);
            }
            _ => {}
        }
    }

    fn hold(&mut self, held: HoldReason) {
        for (subject, alert) in &mut self.alerts {
            if matches!(subject, AlertSubject::Group(_))
                && !matches!(alert.state, AlertState::Resolved { .. })
            {
                alert.held = Some(held);
            }
        }
    }

    /// Drops announced resolutions after a time.
    fn forget(&mut self, now_ns: i64) {
        self.alerts.retain(|_, alert| match alert.state {
            AlertState::Resolved { resolved_ns, .. } => {
                alert.told == NotifiedState::Firing || now_ns.saturating_sub(resolved_ns) < SHOWN_NS
            }
            _ => true,
        });
    }
}

impl Alert {
    fn resolve(&mut self, at_ns: i64) {
        if let AlertState::Firing { fired_ns, .. } = self.state {
            self.state = AlertState::Resolved {
                fired_ns,
                resolved_ns: at_ns.max(fired_ns),
            };
            self.held = None;
        }
    }
}

#[cfg(test)]
mod tests;
