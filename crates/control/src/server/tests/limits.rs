//! Limits of jobs: in time, which may begin later, and in packets, which are distributed over agents.

use link::BudgetRequest;

use super::*;

/// Submits a standing job with a limit in packets.
fn submit_limited(server: &mut ServerControl, packets: u64) {
    let limit = JobLimit {
        packets: Some(packets),
        ends_at_ns: None,
    };
    let spec = JobSpec {
        limit,
        ..request("", JobLifetime::Standing)
    };
    assert!(submit(server, spec).is_ok());
}

#[test]
fn a_time_limit_that_begins_later_is_saved_once_and_ends_the_job() {
    let mut server = server();
    server.handle(connected(1, "a", 1), at(0));
    assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
    let begins = |at: u64| ServerEvent::LimitBegins {
        job: 1,
        ends_at_ns: (at * S) as i64,
    };
    check(
        &mut server,
        &[
            (3, begins(9), &["save 1 Arming"]),
            // As after a restart, when the mirroring begins again.
            (5, begins(12), &[]),
        ],
    );
    assert_eq!(server.timeout(at(6)), Some(9 * S));
    check(
        &mut server,
        &[
            (8, ServerEvent::Tick, &[]),
            (
                9,
                ServerEvent::Tick,
                &["save 1 Draining(TimeLimit)", "desire 1 []"],
            ),
            (10, begins(12), &[]),
        ],
    );
}

#[test]
fn jobs_end_when_their_time_is_over_or_all_are_through() {
    let mut server = server();
    server.handle(connected(1, "a", 1), at(0));
    let limit = JobLimit {
        ends_at_ns: Some(9 * S as i64),
        packets: None,
    };
    assert!(
        submit(
            &mut server,
            JobSpec {
                limit,
                ..request("", JobLifetime::Standing)
            }
        )
        .is_ok()
    );
    assert!(submit(&mut server, request("", JobLifetime::OneOff)).is_ok());
    assert_eq!(server.timeout(at(1)), Some(9 * S));
    let poisoned = observed(1, 2, 3, &[(2, ObservedState::Poisoned)]);
    check(
        &mut server,
        &[
            (
                9,
                ServerEvent::Tick,
                &["save 1 Draining(TimeLimit)", "desire 1 [2]"],
            ),
            (9, poisoned.clone(), &[]),
        ],
    );
    let ServerEvent::Observed { observed, .. } = poisoned else {
        return;
    };
    let observed = ObservedJobs {
        number: 3,
        generation: 4,
        ..observed
    };
    let actions = short(server.handle(
        ServerEvent::Observed {
            session: 1,
            observed,
        },
        at(9),
    ));
    assert!(
        actions.contains(&"save 2 Draining(Poisoned)".into()),
        "{actions:?}"
    );
}

/// Distributes a job of `packets` over agents of which each wants `wants` packets and takes at most `pace` between two
/// requests; returns the packets per agent.
fn deal(packets: u64, wants: &[u64], pace: u64) -> Vec<u64> {
    let mut server = server();
    for (i, _) in wants.iter().enumerate() {
        server.handle(connected(i as u64, &format!("agent {i}"), 1), at(0));
    }
    submit_limited(&mut server, packets);
    let mut asks = vec![
        BudgetRequest {
            job: 1,
            ..BudgetRequest::default()
        };
        wants.len()
    ];
    for round in 0..500 {
        for (i, ask) in asks.iter_mut().enumerate() {
            let renew = Renew {
                budgets: vec![*ask],
                ..Renew::default()
            };
            let actions = server.handle(
                ServerEvent::Renew {
                    session: i as u64,
                    renew,
                },
                at(2 + round / 4),
            );
            let is_over = actions
                .iter()
                .any(|action| matches!(action, ServerAction::Desire { .. }));
            if is_over {
                return asks.iter().map(|ask| ask.used).collect();
            }
            let granted = actions.iter().find_map(|action| match action {
                ServerAction::Grant { granted, .. } => Some(granted),
                _ => None,
            });
            let budget = granted.expect("an answer").budgets[0];
            let granted_before = server.jobs().next().map(|job| job.granted);
            ask.allowed = budget.allowed;
            ask.grant = budget.grant;
            // Allowance is returned before more is used.
            if !budget.give_back {
                ask.used = ask.allowed.min(wants[i]).min(ask.used + pace);
            }
            ask.waits = ask.used == ask.allowed && ask.used < wants[i];
            if budget.give_back {
                ask.allowed = ask.used;
            }
            assert!(granted_before.is_some_and(|granted| granted <= packets));
        }
        assert!(asks.iter().map(|ask| ask.allowed).sum::<u64>() <= packets);
    }
    panic!("does not end: {asks:?}");
}

#[test]
fn a_limit_of_packets_is_dealt_whole_and_never_more() {
    for wants in [
        &[u64::MAX][..],
        &[u64::MAX; 10],
        &[u64::MAX, 0, 0],
        &[u64::MAX, 100, 3],
        &[600, 600],
    ] {
        let got = deal(1000, wants, u64::MAX / 2);
        assert_eq!(got.iter().sum::<u64>(), 1000, "{wants:?}: {got:?}");
    }
    // Fewer packets than agents: agents with traffic get them.
    for (packets, wants) in [
        (1, &[0, 0, 7][..]),
        (2, &[0, 1, 0, 0, 7]),
        (3, &[0, 0, 1, 1, 1]),
        (7, &[9, 9, 9]),
    ] {
        for pace in [1, 2, 9] {
            let got = deal(packets, wants, pace);
            assert_eq!(got.iter().sum::<u64>(), packets, "{wants:?}: {got:?}");
        }
    }
}

/// After a restart of the server, one agent claims and gives back more than it was allowed, also in another incarnation.
#[test]
fn no_claim_after_a_restart_of_the_server_makes_a_limit_larger() {
    let mut server = server();
    for (session, agent) in [(1, "a"), (2, "b")] {
        server.handle(connected(session, agent, 1), at(0));
    }
    submit_limited(&mut server, 1000);
    let mut saved = None;
    let mut ask = |server: &mut ServerControl, session, ask: BudgetRequest, seconds| {
        let renew = Renew {
            budgets: vec![ask],
            ..Renew::default()
        };
        let mut budget = None;
        for action in server.handle(ServerEvent::Renew { session, renew }, at(seconds)) {
            match action {
                ServerAction::Grant { granted, .. } => budget = granted.budgets.first().copied(),
                ServerAction::Save(job) => saved = Some(*job),
                _ => {}
            }
        }
        // Without a budget the job has ended.
        budget.zip(saved.clone())
    };
    let nothing = BudgetRequest {
        job: 1,
        ..BudgetRequest::default()
    };
    let (of_a, _) = ask(&mut server, 1, nothing, 2).expect("granted and saved");
    let (of_b, job) = ask(&mut server, 2, nothing, 2).expect("granted and saved");
    assert_eq!((of_a.allowed, of_b.allowed, job.granted), (250, 187, 437));
    // In another incarnation, what `a` had been allowed is lost.
    for (boot, most) in [(1, 1000), (2, 750)] {
        let loaded = RestoredControl {
            jobs: vec![job.clone()],
            last_job: 1,
            ..RestoredControl::default()
        };
        let mut server = ServerControl::new(ServerSettings::default(), loaded, at(3));
        server.handle(connected(3, "a", boot), at(3));
        server.handle(connected(4, "b", 1), at(3));
        let mut b = of_b;
        let mut claim = BudgetRequest {
            job: 1,
            allowed: u64::MAX,
            grant: of_a.grant,
            ..nothing
        };
        for round in 0..50 {
            let Some((told, _)) = ask(&mut server, 3, claim, 4 + round) else {
                break;
            };
            claim = BudgetRequest {
                allowed: if round % 2 == 0 { 0 } else { u64::MAX },
                grant: told.grant,
                ..claim
            };
            let spent = BudgetRequest {
                allowed: b.allowed,
                used: b.allowed,
                grant: b.grant,
                waits: true,
                ..nothing
            };
            let Some((told, _)) = ask(&mut server, 4, spent, 4 + round) else {
                break;
            };
            b = told;
            assert!(b.allowed <= most, "boot {boot}, round {round}: {b:?}");
        }
        assert!(b.allowed > most - 10, "boot {boot}: {b:?}");
    }
}
