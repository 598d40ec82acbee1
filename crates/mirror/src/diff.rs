//! From what a switch has to what it should have: operations that may be done twice. Rules of others are never named.

use std::collections::BTreeMap;
use std::fmt;

use crate::openflow::{Action, Cookie, Match, Rule};

/// One change of a switch's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The rule, in the place of one of ours with the same match and priority.
    Add(Rule),
    /// No longer this rule.
    Delete(Rule),
    /// Leases of all rules with a cookie begin anew.
    Renew(Cookie, Vec<Action>),
}

/// What has to be done. `observed` may hold rules of others.
#[must_use]
pub fn diff(desired: &[Rule], observed: &[Rule], server: u16) -> Vec<Operation> {
    type Key<'a> = (u8, u16, &'a Match);
    let ours = observed.iter().filter(|rule| rule.cookie.is_of(server));
    let mut there: BTreeMap<Key<'_>, &Rule> = ours.map(|rule| (rule.key(), rule)).collect();
    let mut operations = Vec::new();
    for rule in desired {
        if there.remove(&rule.key()).is_none_or(|old| old != rule) {
            operations.push(Operation::Add(rule.clone()));
        }
    }
    // New copies begin before old ones end.
    operations.extend(there.into_values().map(|rule| Operation::Delete(rule.clone())));
    operations
}

/// The operations that renew the leases of rules: one for each cookie.
#[must_use]
pub fn renewals(rules: &[Rule]) -> Vec<Operation> {
    let lists: BTreeMap<Cookie, &Rule> = rules.iter().map(|rule| (rule.cookie, rule)).collect();
    lists.into_iter().map(|(cookie, rule)| Operation::Renew(cookie, rule.actions.clone())).collect()
}

/// Rules of a server among all that there are.
#[must_use]
pub fn ours(observed: &[Rule], server: u16) -> Vec<Rule> {
    observed.iter().filter(|rule| rule.cookie.is_of(server)).cloned().collect()
}

/// All other rules.
#[must_use]
pub fn others(observed: &[Rule], server: u16) -> Vec<Rule> {
    observed.iter().filter(|rule| !rule.cookie.is_of(server)).cloned().collect()
}

/// Rules that are of no server at all: what the switch's owners want of it.
#[must_use]
pub fn owners(observed: &[Rule]) -> Vec<Rule> {
    observed.iter().filter(|rule| rule.cookie.owner().is_none()).cloned().collect()
}

/// Two rules for the same packets, one of this server and one of another. Each copies what both ask for to its own monitors alone, so
/// only one of them may be there. The ports of monitors do not count, as nothing comes from there, unless both servers have the same.
#[must_use]
pub fn clash(ours: &[Rule], observed: &[Rule], server: u16) -> Option<(Rule, Rule)> {
    let is_theirs = |rule: &&Rule| rule.cookie.owner().is_some_and(|owner| owner.server != server);
    let meet = |own: &Rule, other: &Rule| {
        let both = own.matched.cube.and(&other.matched.cube).is_some();
        let guards = [own, other].iter().filter(|rule| rule.priority == u16::MAX).count();
        own.table == other.table && both && (guards == 0 || own.key() == other.key())
    };
    let of = |other: &Rule| ours.iter().find(|own| meet(own, other)).map(|own| (own.clone(), other.clone()));
    observed.iter().filter(is_theirs).find_map(of)
}

/// A line of a file for `ovs-ofctl --bundle add-flows`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Add(rule) => write!(f, "add {rule}"),
            Operation::Delete(rule) => {
                write!(
                    f,
                    "delete_strict cookie={}/-1,table={},priority={}",
                    rule.cookie, rule.table, rule.priority
                )?;
                let matched = rule.matched.to_string();
                if matched.is_empty() { Ok(()) } else { write!(f, ",{matched}") }
            }
            Operation::Renew(cookie, actions) => {
                let rule = Rule { actions: actions.clone(), ..Rule::default() };
                write!(f, "modify cookie={cookie}/-1,actions={}", rule.actions_text())
            }
        }
    }
}
