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
//! A window is evaluated if it has rows and all agents, or as [`Policy`] defines. A window that is not evaluated
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
pub struct Policy {
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
pub enum Subject {
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
pub enum State {
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
pub enum Told {
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
pub enum Held {
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
    pub state: State,
    /// Start of the first window that met the condition.
    pub since_ns: i64,
    /// State known to receivers.
    pub told: Told,
    /// Reason why the last window did not evaluate it.
    pub held: Option<Held>,
    /// Row of the last window that met the condition.
    #[serde(flatten)]
    pub reading: Reading,
}

/// A row that meets the condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Values by column.
    pub values: Map<String, Value>,
    /// Annotations, with placeholders replaced.
    pub annotations: BTreeMap<String, String>,
}

/// A complete window.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Start, in event time.
    pub start_ns: i64,
    /// End, in event time.
    pub end_ns: i64,
    /// Missing agents.
    pub missing: Vec<String>,
    /// Groups with rows, each with a row that meets the condition, if any; empty: no rows.
    pub groups: BTreeMap<String, Option<Reading>>,
}

/// All alerts of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// By subject.
    pub alerts: BTreeMap<Subject, Alert>,
    /// End of the last evaluated window.
    pub seen_ns: Option<i64>,
    /// Groups without an alert because of the limit.
    pub left_out: u64,
}

/// Changes to send to receivers.
pub type News = Vec<(Subject, Alert)>;

impl Standing {
    /// Evaluates a complete window; windows evaluated before are ignored.
    pub fn take(&mut self, policy: &Policy, window: &Window, is_silenced: &dyn Fn(&Subject) -> bool) -> News {
        if self.seen_ns.is_some_and(|seen| window.end_ns <= seen) {
            return News::new();
        }
        let is_first = self.seen_ns.replace(window.end_ns).is_none();
        if is_first && window.groups.is_empty() {
            // A window before the creation of the rule.
            return News::new();
        }
        let is_whole = window.missing.is_empty() || policy.on_missing_agents == OnMissingAgents::Judge;
        let has_rows = !window.groups.is_empty();
        if policy.on_missing_agents == OnMissingAgents::Alert {
            let agents = (!window.missing.is_empty()).then(|| Reading {
                values: Map::from_iter([("agents".to_owned(), window.missing.join(" ").into())]),
                ..Reading::default()
            });
            self.judge(policy, &Subject::MissingAgents, window, agents);
        }
        match (has_rows, is_whole, policy.on_no_data) {
            (true, ..) | (false, true, OnNoData::Resolve) => {
                self.is_false(policy, &Subject::NoData, window.end_ns)
            }
            (false, true, OnNoData::Alert) => {
                self.is_true(policy, &Subject::NoData, window, Reading::default())
            }
            (false, ..) => {}
        }
        match (is_whole, has_rows) {
            (false, _) => {
                self.hold(Held::MissingAgents);
                if policy.on_missing_agents == OnMissingAgents::Alert {
                    self.judge_true(policy, window);
                }
            }
            (true, false) if policy.on_no_data != OnNoData::Resolve => self.hold(Held::NoData),
            (true, _) => self.judge_groups(policy, window),
        }
        self.forget(window.end_ns);
        self.announce(is_silenced)
    }

    /// Evaluates the absence of windows since `start_ns`, whatever the policy for windows without rows. `end_ns`:
    /// estimated event time.
    pub fn stall(
        &mut self,
        policy: &Policy,
        (start_ns, end_ns): (i64, i64),
        is_silenced: &dyn Fn(&Subject) -> bool,
    ) -> News {
        self.hold(Held::NoData);
        let known = self.alerts.get(&Subject::NoData).map(|alert| alert.state);
        if policy.on_no_data != OnNoData::Hold && !matches!(known, Some(State::Firing { .. })) {
            let window = Window { start_ns, end_ns, missing: Vec::new(), groups: BTreeMap::new() };
            self.is_true(policy, &Subject::NoData, &window, Reading::default());
        }
        self.announce(is_silenced)
    }

    /// Whether time alone may change something: an unannounced firing alert, or missing windows that are not noted.
    #[must_use]
    pub fn waits(&self, policy: &Policy, is_stalled: bool) -> bool {
        let is_untold =
            |alert: &Alert| matches!(alert.state, State::Firing { .. }) && alert.told == Told::Nothing;
        let known = self.alerts.get(&Subject::NoData).map(|alert| alert.state);
        let is_noted = matches!(known, Some(State::Firing { .. })) || policy.on_no_data == OnNoData::Hold;
        let is_unheld = |(subject, alert): (&Subject, &Alert)| {
            let is_active = !matches!(alert.state, State::Resolved { .. });
            matches!(subject, Subject::Group(_)) && is_active && alert.held != Some(Held::NoData)
        };
        self.alerts.values().any(is_untold) || is_stalled && (!is_noted || self.alerts.iter().any(is_unheld))
    }

    /// Ends the evaluation: all firing alerts resolve.
    pub fn end(&mut self, at_ns: i64) -> News {
        self.alerts.retain(|_, alert| alert.state != State::Pending);
        self.alerts.values_mut().for_each(|alert| alert.resolve(at_ns));
        self.announce(&|_| false)
    }

    /// Changes to send to receivers now, which are noted as sent: firing alerts without a silence, and the resolution
    /// of alerts that were announced, silenced or not.
    pub fn announce(&mut self, is_silenced: &dyn Fn(&Subject) -> bool) -> News {
        let mut news = News::new();
        for (subject, alert) in &mut self.alerts {
            let next = match (alert.state, alert.told) {
                (State::Firing { .. }, Told::Nothing) if !is_silenced(subject) => Told::Firing,
                (State::Resolved { .. }, Told::Firing) => Told::Resolved,
                _ => continue,
            };
            alert.told = next;
            news.push((subject.clone(), alert.clone()));
        }
        news
    }

    /// Evaluates the groups that meet the condition; others keep their state.
    fn judge_true(&mut self, policy: &Policy, window: &Window) {
        for (group, row) in &window.groups {
            if let Some(reading) = row {
                self.is_true(policy, &Subject::Group(group.clone()), window, reading.clone());
            }
        }
    }

    fn judge_groups(&mut self, policy: &Policy, window: &Window) {
        let gone = self.alerts.keys().filter(|subject| match subject {
            Subject::Group(group) => !window.groups.contains_key(group),
            _ => false,
        });
        for subject in gone.cloned().collect::<Vec<_>>() {
            self.judge(policy, &subject, window, None);
        }
        for (group, row) in &window.groups {
            self.judge(policy, &Subject::Group(group.clone()), window, row.clone());
        }
    }

    /// Evaluates a subject: `reading` if it meets the condition.
    fn judge(&mut self, policy: &Policy, subject: &Subject, window: &Window, reading: Option<Reading>) {
        match reading {
            None => self.is_false(policy, subject, window.end_ns),
            Some(reading) => self.is_true(policy, subject, window, reading),
        }
    }

    fn is_true(&mut self, policy: &Policy, subject: &Subject, window: &Window, reading: Reading) {
        let is_active = |alert: &Alert| !matches!(alert.state, State::Resolved { .. });
        if !self.alerts.get(subject).is_some_and(is_active) {
            let is_group = |subject: &Subject| matches!(subject, Subject::Group(_));
            let active = self.alerts.iter().filter(|(subject, alert)| is_group(subject) && is_active(alert));
            if is_group(subject) && active.count() >= policy.groups_max {
                self.left_out += 1;
                return;
            }
            let new = Alert {
                state: State::Pending,
                since_ns: window.start_ns,
                told: Told::Nothing,
                held: None,
                reading: Reading::default(),
            };
            self.alerts.insert(subject.clone(), new);
        }
        let Some(alert) = self.alerts.get_mut(subject) else { return };
        let end_ns = window.end_ns;
        (alert.reading, alert.held) = (reading, None);
        match &mut alert.state {
            State::Firing { true_ns, .. } => *true_ns = end_ns.max(*true_ns),
            State::Pending if end_ns.saturating_sub(alert.since_ns) >= policy.for_ns => {
                alert.state = State::Firing { fired_ns: end_ns, true_ns: end_ns };
            }
            _ => {}
        }
    }

    fn is_false(&mut self, policy: &Policy, subject: &Subject, end_ns: i64) {
        let Some(alert) = self.alerts.get_mut(subject) else { return };
        alert.held = None;
        match alert.state {
            State::Pending => drop(self.alerts.remove(subject)),
            State::Firing { true_ns, .. } if end_ns.saturating_sub(true_ns) >= policy.keep_firing_ns => {
                alert.resolve(end_ns);
            }
            _ => {}
        }
    }

    fn hold(&mut self, held: Held) {
        for (subject, alert) in &mut self.alerts {
            if matches!(subject, Subject::Group(_)) && !matches!(alert.state, State::Resolved { .. }) {
                alert.held = Some(held);
            }
        }
    }

    /// Drops announced resolutions after a time.
    fn forget(&mut self, now_ns: i64) {
        self.alerts.retain(|_, alert| match alert.state {
            State::Resolved { resolved_ns, .. } => {
                alert.told == Told::Firing || now_ns.saturating_sub(resolved_ns) < SHOWN_NS
            }
            _ => true,
        });
    }
}

impl Alert {
    fn resolve(&mut self, at_ns: i64) {
        if let State::Firing { fired_ns, .. } = self.state {
            self.state = State::Resolved { fired_ns, resolved_ns: at_ns.max(fired_ns) };
            self.held = None;
        }
    }
}

#[cfg(test)]
mod tests;
