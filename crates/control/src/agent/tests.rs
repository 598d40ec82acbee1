//! Scripts of events and the resulting actions of an agent.

use super::*;
use link::{BudgetRequest, PacketBudget};

const S: u64 = 1_000_000_000;

fn at(ms: u64) -> SessionTime {
    SessionTime {
        monotonic_ns: ms * S / 1000,
        wall_ns: 0,
    }
}

fn lane(attempt: u32) -> RecordLane {
    RecordLane {
        boot: 1,
        job: 7,
        attempt,
    }
}

fn desired(generation: u64, packets_max: &[u64]) -> AgentEvent {
    let order = |(i, &packets_max): (usize, &u64)| AgentOrder {
        job: 7 + i as u64,
        packets_max,
        ..AgentOrder::default()
    };
    let jobs = packets_max.iter().enumerate().map(order).collect();
    AgentEvent::Desired(DesiredJobs {
        generation,
        jobs,
        taps: vec![],
    })
}

fn granted(asked_ms: u64, budgets: Vec<PacketBudget>) -> AgentEvent {
    AgentEvent::Granted(GrantedLease {
        asked_ns: asked_ms * S / 1000,
        ttl_ns: 10 * S,
        jobs: vec![7],
        budgets,
    })
}

fn crashed(attempt: u32) -> AgentEvent {
    AgentEvent::Exited {
        lane: lane(attempt),
        end: MonitorEnd::Crashed("because".into()),
    }
}

/// An agent that has run job 7 since second 0.
fn running(packets_max: u64) -> AgentControl {
    let mut agent = AgentControl::new(1, AgentSettings::default(), &[]);
    agent.handle(AgentEvent::Connected, at(0));
    agent.handle(desired(1, &[packets_max]), at(0));
    agent.handle(granted(0, vec![]), at(0));
    agent.handle(AgentEvent::Reported(lane(1)), at(0));
    agent
}

/// Short form of actions: name, state and attempt.
fn short(actions: Vec<AgentAction>) -> Vec<String> {
    let of_job = |job: &ObservedJob| format!("{:?}", job.state());
    let one = |action: AgentAction| match action {
        AgentAction::Note(note) => format!("note {}", note.crashes),
        AgentAction::Forget { .. } => "forget".into(),
        AgentAction::Start { lane, .. } => format!("start {}", lane.attempt),
        AgentAction::Extend { deadline_ns, .. } => format!("until {}", deadline_ns / S),
        AgentAction::TakeBack { .. } => "take back".into(),
        AgentAction::Retap { taps, .. } => format!("taps {} {}", taps.own.len(), taps.others.len()),
        AgentAction::Stop { .. } => "stop".into(),
        AgentAction::Kill { .. } => "kill".into(),
        AgentAction::Close { lane } => format!("close {}", lane.attempt),
        AgentAction::Observe(observed) => {
            let jobs: Vec<String> = observed.jobs.iter().map(of_job).collect();
            format!("{}. {}", observed.number, jobs.join(" "))
        }
        AgentAction::Renew(renew) => format!("renew {}", renew.asked_ns / S),
    };
    actions.into_iter().map(one).collect()
}

/// Checks the actions for events, each at its time in milliseconds.
fn check(agent: &mut AgentControl, script: &[(u64, AgentEvent, &[&str])]) {
    for (ms, event, expected) in script {
        assert_eq!(
            short(agent.handle(event.clone(), at(*ms))),
            *expected,
            "at {ms}: {event:?}"
        );
    }
}

#[test]
fn monitors_run_only_within_a_lease() {
    let mut agent = AgentControl::new(1, AgentSettings::default(), &[]);
    check(
        &mut agent,
        &[
            (0, desired(1, &[0]), &[]),
            (0, AgentEvent::Connected, &["renew 0", "1. Waiting"]),
            // Late grant: the lease starts at the request.
            (
                4000,
                granted(0, vec![]),
                &["note 0", "start 1", "renew 4", "2. Starting"],
            ),
            (4100, AgentEvent::Reported(lane(1)), &["3. Running"]),
            (4200, AgentEvent::Disconnected, &[]),
            (8900, AgentEvent::Tick, &[]),
            (9000, AgentEvent::Tick, &["stop"]),
            (9900, AgentEvent::Tick, &[]),
            (10_000, AgentEvent::Tick, &["kill"]),
            // The monitor was asked to stop, so this is not a crash.
            (10_010, crashed(1), &["close 1", "forget"]),
            (60_000, AgentEvent::Connected, &["renew 60", "4. Waiting"]),
            (
                60_000,
                granted(60_000, vec![]),
                &["note 0", "start 2", "5. Starting"],
            ),
        ],
    );
}

#[test]
fn a_monitor_of_an_agent_that_was_suspended_has_time_to_deliver() {
    let mut agent = AgentControl::new(1, AgentSettings::default(), &[]);
    check(
        &mut agent,
        &[
            (0, desired(1, &[0]), &[]),
            (0, AgentEvent::Connected, &["renew 0", "1. Waiting"]),
            (0, granted(0, vec![]), &["note 0", "start 1", "2. Starting"]),
            (100, AgentEvent::Reported(lane(1)), &["3. Running"]),
            (200, AgentEvent::Disconnected, &[]),
            // Beyond the end of the lease.
            (15_000, AgentEvent::Tick, &["stop"]),
            (15_000, AgentEvent::Tick, &[]),
            (15_900, AgentEvent::Tick, &[]),
            (16_000, AgentEvent::Tick, &["kill"]),
        ],
    );
}

#[test]
fn refused_monitors_are_not_retried_and_are_forgotten() {
    let refused = AgentEvent::Exited {
        lane: lane(1),
        end: MonitorEnd::Refused("not allowed".into()),
    };
    check(
        &mut running(0),
        &[
            (100, refused, &["forget", "4. Refused"]),
            (2000, AgentEvent::Tick, &[]),
            (2500, desired(2, &[]), &["5. Gone"]),
        ],
    );
}

#[test]
fn monitors_are_retried_when_there_was_no_capacity() {
    let crowded = |attempt| AgentEvent::Exited {
        lane: lane(attempt),
        end: MonitorEnd::Crowded("no room".into()),
    };
    let mut agent = running(0);
    check(
        &mut agent,
        &[
            (100, crowded(1), &["forget", "4. Refused"]),
            (2000, AgentEvent::Tick, &[]),
            (59_000, granted(59_000, vec![]), &["renew 59"]),
            (
                60_100,
                AgentEvent::Tick,
                &["note 0", "start 2", "5. Starting"],
            ),
            (60_100, crowded(2), &["forget", "6. Refused"]),
            (60_200, desired(2, &[]), &["7. Gone"]),
        ],
    );
}

#[test]
fn undesired_monitors_are_gone_once_their_results_are_delivered() {
    let mut agent = running(0);
    let exited = AgentEvent::Exited {
        lane: lane(1),
        end: MonitorEnd::Clean,
    };
    check(
        &mut agent,
        &[
            (1000, desired(0, &[]), &[]),
            (1000, desired(2, &[]), &["stop", "4. Stopping"]),
            (1100, exited, &["forget", "5. Flushing"]),
            (1200, AgentEvent::ObserveAll, &["6. Flushing"]),
            (1300, AgentEvent::Drained(lane(1)), &["7. Gone"]),
            (1400, AgentEvent::ObserveAll, &["8. "]),
        ],
    );
}

#[test]
fn ended_monitors_are_finished_once_their_results_are_delivered() {
    let mut agent = running(0);
    let exited = AgentEvent::Exited {
        lane: lane(1),
        end: MonitorEnd::Clean,
    };
    check(
        &mut agent,
        &[
            (1000, exited, &["forget", "4. Flushing"]),
            (1300, AgentEvent::Drained(lane(1)), &["5. Finished"]),
            (3000, granted(3000, vec![]), &["renew 3"]),
        ],
    );
}

#[test]
fn the_third_crash_poisons() {
    let mut agent = running(0);
    check(
        &mut agent,
        &[
            (100, crashed(1), &["close 1", "note 0", "4. Waiting"]),
            (1099, AgentEvent::Tick, &[]),
            (
                1100,
                AgentEvent::Tick,
                &["note 1", "start 2", "5. Starting"],
            ),
            (1200, crashed(1), &[]),
            (1200, crashed(2), &["close 2", "note 1", "6. Waiting"]),
            (
                3200,
                AgentEvent::Tick,
                &["note 2", "start 3", "renew 3", "7. Starting"],
            ),
            (3300, crashed(3), &["close 3", "note 2", "8. Poisoned"]),
            (9000, AgentEvent::Tick, &["renew 9"]),
            (9000, desired(2, &[]), &["9. Flushing"]),
            (9001, AgentEvent::Drained(lane(1)), &[]),
            (9001, AgentEvent::Drained(lane(2)), &[]),
            (9001, AgentEvent::Drained(lane(3)), &["forget", "10. Gone"]),
        ],
    );
}

/// Order 7 of a job that is retried.
fn retried() -> AgentEvent {
    let order = AgentOrder {
        job: 7,
        is_retried: true,
        ..AgentOrder::default()
    };
    AgentEvent::Desired(DesiredJobs {
        generation: 2,
        jobs: vec![order],
        taps: vec![],
    })
}

#[test]
fn a_standing_job_is_retried_after_longer_and_longer_pauses() {
    let mut agent = running(0);
    agent.handle(retried(), at(0));
    let mut ms = 0;
    let mut pauses = vec![];
    for attempt in 1..=12 {
        agent.handle(crashed(attempt), at(ms));
        let observed = agent.tasks[&7].observed(7, 3);
        assert_eq!(observed.reason, "because");
        let is_failed = observed.state() == ObservedState::Poisoned;
        assert_eq!(
            is_failed,
            attempt >= 3,
            "after the third failure it counts as failed"
        );
        let since = ms;
        loop {
            agent.handle(granted(ms, vec![]), at(ms));
            if agent.tasks[&7].is_running() {
                break;
            }
            ms += 500;
        }
        pauses.push((ms - since) / 1000);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    // The next process starts with that backoff.
    let mut agent = AgentControl::new(
        2,
        AgentSettings::default(),
        &[StartNote { job: 7, crashes: 3 }],
    );
    agent.handle(AgentEvent::Connected, at(0));
    agent.handle(retried(), at(0));
    let starts = |actions: Vec<AgentAction>| {
        short(actions)
            .iter()
            .any(|action| action.starts_with("start"))
    };
    assert!(!starts(agent.handle(granted(0, vec![]), at(0))));
    assert!(starts(agent.handle(granted(8000, vec![]), at(8000))));
}

#[test]
fn a_monitor_that_ends_before_its_job_is_started_again() {
    let early = AgentEvent::Exited {
        lane: lane(1),
        end: MonitorEnd::Early("its lease was not renewed".into()),
    };
    let mut agent = running(0);
    check(
        &mut agent,
        &[
            (100, early, &["note 0", "4. Waiting"]),
            (
                1100,
                AgentEvent::Tick,
                &["note 1", "start 2", "5. Starting"],
            ),
        ],
    );
    assert_eq!(agent.tasks[&7].reason, "its lease was not renewed");
}

#[test]
fn crashes_of_the_agent_count_for_its_monitors() {
    for (crashes, expected) in [(1, "2. Starting"), (2, "2. Poisoned")] {
        let mut agent = AgentControl::new(
            2,
            AgentSettings::default(),
            &[StartNote { job: 7, crashes }],
        );
        agent.handle(AgentEvent::Connected, at(0));
        agent.handle(desired(1, &[0]), at(0));
        let actions = short(agent.handle(granted(0, vec![]), at(0)));
        let state = if crashes == 2 {
            None
        } else {
            actions.last().map(|action| &**action)
        };
        assert!(state.is_none_or(|state| state == expected), "{actions:?}");
        assert_eq!(
            actions.iter().any(|action| action.starts_with("start")),
            crashes == 1
        );
    }
    // A healthy run resets the count of failures.
    let mut agent = running(0);
    agent.handle(granted(55_000, vec![]), at(9000));
    assert!(agent.timeout().is_some());
    let mut agent = running(0);
    for s in 1..=60 {
        agent.handle(granted(s * 1000, vec![]), at(s * 1000));
    }
    assert!(agent.tasks[&7].crashes == 0 && !agent.tasks[&7].is_noted);
}

#[test]
fn packet_grants_are_requested_early_and_returned() {
    let mut agent = running(1000);
    let budget = |allowed, grant, give_back| {
        vec![PacketBudget {
            job: 7,
            allowed,
            grant,
            give_back,
        }]
    };
    let used = |used| AgentEvent::Used {
        lane: lane(1),
        used,
        waits: false,
    };
    let took_back = |allowed, grant| AgentEvent::TookBack {
        lane: lane(1),
        allowed,
        grant,
    };
    check(
        &mut agent,
        &[
            (100, granted(100, budget(100, 1, false)), &["until 10"]),
            (200, used(50), &[]),
            (300, used(51), &["renew 0"]),
            (300, used(60), &[]),
            (
                400,
                granted(300, budget(100, 1, true)),
                &["until 10", "take back"],
            ),
        ],
    );
    // Until the monitor has replied, a new deadline restores no allowance.
    let again = agent.handle(granted(450, vec![]), at(450));
    assert!(
        matches!(
            again[..],
            [AgentAction::Extend {
                allowed: Some(0),
                ..
            }]
        ),
        "{again:?}"
    );
    check(&mut agent, &[(500, took_back(70, 1), &["renew 0"])]);
    assert_eq!(
        agent.tasks[&7].ask(7),
        Some(BudgetRequest {
            job: 7,
            used: 70,
            allowed: 70,
            grant: 1,
            waits: false
        })
    );
    // A grant that crossed the reply is valid.
    agent.handle(granted(600, budget(90, 2, true)), at(600));
    agent.handle(granted(600, budget(120, 3, false)), at(600));
    agent.handle(took_back(80, 2), at(600));
    assert_eq!(
        agent.tasks[&7].ask(7).map(|ask| (ask.allowed, ask.grant)),
        Some((120, 3))
    );
    // The packets taken by a crashed monitor are unknown.
    agent.handle(crashed(1), at(700));
    assert_eq!(
        agent.tasks[&7].ask(7).map(|ask| (ask.allowed, ask.used)),
        Some((120, 120))
    );
}
