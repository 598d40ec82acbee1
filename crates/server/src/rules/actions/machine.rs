//! Computes replicas of groups from windows of load. Pure: time is event time and an argument.
//!
//! A group has `min` replicas, and more if its load requires them. Replicas share the load: one is added if the load
//! per replica is above `upper`, and one is removed if it is below `lower`:
//!
//! ```text
//!             value > upper × replicas, for `up_for`            and no decision is on its way,
//!   replicas ─────────────────────────────────────► + 1 … step  and the last was carried out `backoff` ago
//!            ◄─────────────────────────────────────
//!             value < lower × replicas, for `down_for`: − 1
//! ```
//!
//! Oscillation is prevented: no change reduces the load per replica further than `upper / lower` allows (`lower` is at
//! most half of `upper`), so a load whose maximum is at most `upper / (2 × lower)` times its minimum changes replicas
//! in one direction only. There is at most one decision per `backoff`, for all groups together, which either adds or
//! removes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Parameters of decisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalingPolicy {
    /// Load per replica above which a replica is added.
    pub upper: f64,
    /// Load per replica below which a replica is removed.
    pub lower: f64,
    /// Replicas of a group without load.
    pub min: u32,
    /// Maximum replicas of a group.
    pub max: u32,
    /// Maximum replicas added at once.
    pub step: u32,
    /// Time for which the load must stay above `upper`, from the start of the first such window.
    pub up_for_ns: i64,
    /// Time for which the load must stay below `lower`.
    pub down_for_ns: i64,
    /// Minimum time between a completed decision and the next.
    pub backoff_ns: i64,
    /// Maximum number of tracked groups.
    pub groups_max: usize,
}

/// A complete window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadWindow {
    /// Start, in event time.
    pub start_ns: i64,
    /// End, in event time.
    pub end_ns: i64,
    /// Missing agents: loads may be larger than reported.
    pub missing: Vec<String>,
    /// Load by group.
    pub values: BTreeMap<String, f64>,
    /// Upper bound of the load of groups without a row; `None`: unknown.
    pub rest: Option<f64>,
}

/// State of the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorState {
    /// Carried out.
    Free,
    /// In progress.
    Busy,
}

/// A group with more than `min` replicas, or with a load that may require them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaGroup {
    /// Current or decided number of replicas.
    pub replicas: u32,
    /// Load of the group in the last window.
    pub value: f64,
    /// Start of the first window of the current period above `upper`.
    pub above_ns: Option<i64>,
    /// Start of the first window of the current period below `lower`.
    pub below_ns: Option<i64>,
}

/// State of an action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingState {
    /// Groups by name.
    pub groups: BTreeMap<String, ReplicaGroup>,
    /// End of the last evaluated window.
    pub seen_ns: Option<i64>,
    /// End of the last window before the completion of the last decision; start of the backoff.
    pub changed_ns: Option<i64>,
    /// Number of decisions so far.
    pub version: u64,
    /// Groups not tracked because of the limit.
    pub left_out: u64,
}

/// Direction of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Direction)]
#[serde(rename_all = "snake_case")]
pub enum ScalingDirection {
    /// First decision: every group has its replicas without load.
    Begin,
    /// Replicas are added.
    Up,
    /// Replicas are removed.
    Down,
}

/// Change of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Change)]
pub struct ReplicaChange {
    /// Name of the group.
    pub group: String,
    /// Number of replicas before.
    pub from: u32,
    /// Number of replicas after.
    pub to: u32,
    /// Load in the window; an estimate for a group without a row.
    pub value: f64,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingDecision {
    /// Number, from 1.
    pub version: u64,
    /// Direction.
    pub direction: ScalingDirection,
    /// Changed groups.
    pub changes: Vec<ReplicaChange>,
}

impl ScalingState {
    /// The first decision: every group has its replicas without load.
    pub fn begin(&mut self) -> ScalingDecision {
        self.version += 1;
        ScalingDecision {
            version: self.version,
            direction: ScalingDirection::Begin,
            changes: Vec::new(),
        }
    }

    /// Evaluates a complete window; windows evaluated before are ignored.
    pub fn take(
        &mut self,
        policy: &ScalingPolicy,
        window: &LoadWindow,
        hands: ExecutorState,
    ) -> Option<ScalingDecision> {
        let end_ns = window.end_ns;
        if self.seen_ns.is_some_and(|seen| end_ns <= seen) {
            return None;
        }
        self.seen_ns = Some(end_ns);
        self.look(policy, window);
        if hands == ExecutorState::Busy {
            // The effect of a decision on the load is visible only after it has been carried out.
            self.changed_ns = Some(end_ns);
        }
        let is_backed_off = self
            .changed_ns
            .is_some_and(|at| end_ns.saturating_sub(at) < policy.backoff_ns.max(1));
        let mut changes = Vec::new();
        let mut direction = ScalingDirection::Up;
        if !is_backed_off {
            changes = self.ups(policy, end_ns);
            if changes.is_empty() {
                direction = ScalingDirection::Down;
                changes = self.downs(policy, end_ns);
            }
        }
        for change in &changes {
            if let Some(group) = self.groups.get_mut(&change.group) {
                group.replicas = change.to;
                group.above_ns = None;
                group.below_ns = None;
            }
        }
        self.groups
            .retain(|_, group| group.replicas > policy.min || group.above_ns.is_some());
        if changes.is_empty() {
            return None;
        }
        self.changed_ns = Some(end_ns);
        self.version += 1;
        Some(ScalingDecision {
            version: self.version,
            direction,
            changes,
        })
    }

    /// Largest number of replicas of a group.
    pub fn most(&self, policy: &ScalingPolicy) -> u32 {
        self.groups
            .values()
            .map(|group| group.replicas)
            .max()
            .unwrap_or(0)
            .max(policy.min)
    }

    /// Updates the periods above and below the limits.
    fn look(&mut self, policy: &ScalingPolicy, window: &LoadWindow) {
        let is_above = |value: f64, replicas: u32| value > policy.upper * f64::from(replicas);
        let hot = window
            .values
            .iter()
            .filter(|(_, value)| is_above(**value, policy.min));
        for (name, _) in hot {
            if self.groups.contains_key(name) {
                continue;
            }
            if self.groups.len() >= policy.groups_max {
                self.left_out += 1;
                continue;
            }
            let new = ReplicaGroup {
                replicas: policy.min,
                value: 0.0,
                above_ns: None,
                below_ns: None,
            };
            self.groups.insert(name.clone(), new);
        }
        let is_whole = window.missing.is_empty();
        for (name, group) in &mut self.groups {
            let known = window.values.get(name).copied();
            let most = known.or(window.rest);
            group.value = most.unwrap_or(group.value);
            let since = |was: Option<i64>, is: bool| is.then(|| was.unwrap_or(window.start_ns));
            group.above_ns = since(
                group.above_ns,
                known.is_some_and(|value| is_above(value, group.replicas)),
            );
            let is_below = is_whole
                && most.is_some_and(|most| most < policy.lower * f64::from(group.replicas));
            group.below_ns = since(group.below_ns, is_below && group.replicas > policy.min);
        }
    }

    fn ups(&self, policy: &ScalingPolicy, end_ns: i64) -> Vec<ReplicaChange> {
        let ready = self.groups.iter().filter(|(_, group)| {
            group.replicas < policy.max && is_for(group.above_ns, end_ns, policy.up_for_ns)
        });
        let change = |(name, group): (&String, &ReplicaGroup)| {
            // Infinite and huge quotients are clamped to the maximum.
            let wanted = (group.value / policy.upper)
                .ceil()
                .clamp(0.0, f64::from(policy.max)) as u32;
            let most = group
                .replicas
                .saturating_add(policy.step.max(1))
                .min(policy.max);
            let to = wanted.clamp(group.replicas.saturating_add(1), most);
            ReplicaChange {
                group: name.clone(),
                from: group.replicas,
                to,
                value: group.value,
            }
        };
        ready.map(change).collect()
    }

    fn downs(&self, policy: &ScalingPolicy, end_ns: i64) -> Vec<ReplicaChange> {
        let ready = self.groups.iter().filter(|(_, group)| {
            group.replicas > policy.min && is_for(group.below_ns, end_ns, policy.down_for_ns)
        });
        let change = |(name, group): (&String, &ReplicaGroup)| {
            let to = group.replicas.saturating_sub(1).max(policy.min);
            ReplicaChange {
                group: name.clone(),
                from: group.replicas,
                to,
                value: group.value,
            }
        };
        ready.map(change).collect()
    }
}

fn is_for(since_ns: Option<i64>, end_ns: i64, long_ns: i64) -> bool {
    since_ns.is_some_and(|since| end_ns.saturating_sub(since) >= long_ns)
}

#[cfg(test)]
mod tests;
