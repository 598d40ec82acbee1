//! Operations from a switch's current to its desired state; idempotent. Rules of others are never changed.

use std::collections::BTreeMap;
use std::fmt;

use crate::openflow::{FlowAction, FlowMatch, FlowRule, RuleCookie};

/// One change of a switch's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOperation {
    /// Add the rule, replacing one of ours with the same match and priority.
    Add(FlowRule),
    /// Delete the rule.
    Delete(FlowRule),
    /// Renew the leases of all rules with a cookie.
    Renew(RuleCookie, Vec<FlowAction>),
}

/// Operations to execute. `observed` may contain rules of others.
#[must_use]
pub fn diff(desired: &[FlowRule], observed: &[FlowRule], server: u16) -> Vec<RuleOperation> {
    type Key<'a> = (u8, u16, &'a FlowMatch);
    let ours = observed.iter().filter(|rule| rule.cookie.is_of(server));
    let mut there: BTreeMap<Key<'_>, &FlowRule> = ours.map(|rule| (rule.key(), rule)).collect();
    let mut operations = Vec::new();
    for rule in desired {
        if there.remove(&rule.key()).is_none_or(|old| old != rule) {
            operations.push(RuleOperation::Add(rule.clone()));
        }
    }
    // New copies start before old ones end.
    operations.extend(
        there
            .into_values()
            .map(|rule| RuleOperation::Delete(rule.clone())),
    );
    operations
}

/// Operations that renew the leases of rules: one per cookie.
#[must_use]
pub fn renewals(rules: &[FlowRule]) -> Vec<RuleOperation> {
    let lists: BTreeMap<RuleCookie, &FlowRule> =
        rules.iter().map(|rule| (rule.cookie, rule)).collect();
    lists
        .into_iter()
        .map(|(cookie, rule)| RuleOperation::Renew(cookie, rule.actions.clone()))
        .collect()
}

/// Rules of a server.
#[must_use]
pub fn ours(observed: &[FlowRule], server: u16) -> Vec<FlowRule> {
    observed
        .iter()
        .filter(|rule| rule.cookie.is_of(server))
        .cloned()
        .collect()
}

/// All other rules.
#[must_use]
pub fn others(observed: &[FlowRule], server: u16) -> Vec<FlowRule> {
    observed
        .iter()
        .filter(|rule| !rule.cookie.is_of(server))
        .cloned()
        .collect()
}

/// Rules without a server: those of the switch's owner.
#[must_use]
pub fn owners(observed: &[FlowRule]) -> Vec<FlowRule> {
    observed
        .iter()
        .filter(|rule| rule.cookie.owner().is_none())
        .cloned()
        .collect()
}

/// A rule of this server and one of another for the same packets, if any. Each copies only to its own monitors, so only
/// one may be installed. Rules for monitors' ports are ignored, as no packets come from there, unless both servers use
/// the same port.
#[must_use]
pub fn clash(
    ours: &[FlowRule],
    observed: &[FlowRule],
    server: u16,
) -> Option<(FlowRule, FlowRule)> {
    let is_theirs = |rule: &&FlowRule| {
        rule.cookie
            .owner()
            .is_some_and(|owner| owner.server != server)
    };
    let meet = |own: &FlowRule, other: &FlowRule| {
        let both = own.matched.cube.and(&other.matched.cube).is_some();
        let guards = [own, other]
            .iter()
            .filter(|rule| rule.priority == u16::MAX)
            .count();
        own.table == other.table && both && (guards == 0 || own.key() == other.key())
    };
    let of = |other: &FlowRule| {
        ours.iter()
            .find(|own| meet(own, other))
            .map(|own| (own.clone(), other.clone()))
    };
    observed.iter().filter(is_theirs).find_map(of)
}

/// A line for `ovs-ofctl --bundle add-flows`.
impl fmt::Display for RuleOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleOperation::Add(rule) => write!(f, "add {rule}"),
            RuleOperation::Delete(rule) => {
                write!(
                    f,
                    "delete_strict cookie={}/-1,table={},priority={}",
                    rule.cookie, rule.table, rule.priority
                )?;
                let matched = rule.matched.to_string();
                if matched.is_empty() {
                    Ok(())
                } else {
                    write!(f, ",{matched}")
                }
            }
            RuleOperation::Renew(cookie, actions) => {
                let rule = FlowRule {
                    actions: actions.clone(),
                    ..FlowRule::default()
                };
                write!(
                    f,
                    "modify cookie={cookie}/-1,actions={}",
                    rule.actions_text()
                )
            }
        }
    }
}
