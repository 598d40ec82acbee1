//! Objects of processes that no longer run: mirrors, ports created for copies, and ports with disabled flooding. A
//! database has no leases. A switch's rules have, so a server without a rule on a switch no longer runs there; an
//! object younger than [`YOUNG_SECONDS`] may belong to a server that has not installed its rules yet.

use std::collections::BTreeSet;

use mirror::ovsdb;

use crate::backend::ObservedSwitch;

/// Longer than the start of a job and than any lease.
pub const YOUNG_SECONDS: u64 = 20;

/// Objects on one switch that no running process owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanObjects {
    /// Mirrors, by name.
    pub mirrors: Vec<String>,
    /// Ports created for copies, by name.
    pub made: Vec<String>,
    /// Ports with disabled flooding, by name.
    pub held: Vec<String>,
}

/// Orphans on a switch at a time in seconds since 1970. Objects of `own` and ports named in `known` are excluded.
pub fn orphans(seen: &ObservedSwitch, own: u16, known: &BTreeSet<&str>, now: u64) -> OrphanObjects {
    let running: BTreeSet<u16> = seen
        .rules
        .iter()
        .filter_map(|rule| rule.cookie.owner())
        .map(|owner| owner.server)
        .collect();
    let is_gone = |server: u16| !running.contains(&server);
    let mirrors = seen.mirrors.iter().map(|mirror| &mirror.name);
    let is_orphan = |name: &&String| {
        ovsdb::server_of(name).is_some_and(|server| server != own && is_gone(server))
    };
    let mut orphans = OrphanObjects {
        mirrors: mirrors.filter(is_orphan).cloned().collect(),
        ..OrphanObjects::default()
    };
    for record in seen
        .records
        .iter()
        .filter(|record| now.abs_diff(record.since) > YOUNG_SECONDS)
    {
        let name = record.port.as_str();
        let is_made = name.starts_with(&ovsdb::port_prefix(record.server));
        if !is_gone(record.server) || known.contains(name) {
            continue;
        }
        if is_made {
            orphans.made.push(name.to_owned());
        } else if record.server != own {
            orphans.held.push(name.to_owned());
        }
    }
    orphans
}

#[cfg(test)]
mod tests {
    use mirror::openflow::{CookieOwner, FlowRule, RuleCookie};

    use super::*;
    use crate::backend::{CopyPortRecord, ObservedMirror};

    const NOW: u64 = 1_000_000;

    fn record(port: &str, server: u16, age: u64) -> CopyPortRecord {
        CopyPortRecord {
            port: port.to_owned(),
            server,
            since: NOW - age,
        }
    }

    #[test]
    fn objects_without_a_running_owner_are_orphans() {
        let cookie = RuleCookie::of(CookieOwner {
            server: 5,
            job: 1,
            generation: 1,
            actions: 1,
        });
        let mirror = |name: &str| ObservedMirror {
            name: name.to_owned(),
            ..ObservedMirror::default()
        };
        let seen = ObservedSwitch {
            rules: vec![FlowRule {
                cookie,
                ..FlowRule::default()
            }],
            mirrors: vec![
                mirror("netalytics-005-00001-01-00"),
                mirror("netalytics-006-00001-01-00"),
                mirror("span"),
            ],
            records: vec![
                record("v1", 5, 100),
                record("v2", 6, 100),
                record("v3", 6, YOUNG_SECONDS),
                record("v4", 7, 100),
                record("na006-000a", 6, 100),
                record("na007-000a", 7, 100),
                record("na007-001a", 7, 100),
            ],
            ..ObservedSwitch::default()
        };
        let found = orphans(&seen, 7, &["na007-001a"].into(), NOW);
        assert_eq!(found.mirrors, ["netalytics-006-00001-01-00"]);
        assert_eq!(found.held, ["v2"]);
        assert_eq!(found.made, ["na006-000a", "na007-000a"]);
    }
}
