//! Scripts of events and the resulting actions of a server.

mod limits;

use super::*;
use crate::job::{JobLifetime, JobLimit};
use link::{HostCapacity, ObservedJob};
use plan::{JobCost, ResourceUsage};

const S: u64 = 1_000_000_000;

fn at(seconds: u64) -> SessionTime {
    SessionTime {
        monotonic_ns: seconds * S,
        wall_ns: (seconds * S) as i64,
    }
}

fn request(key: &str, kind: JobLifetime) -> JobSpec {
    JobSpec {
        key: key.into(),
        owner: "ann".into(),
        name: String::new(),
        labels: BTreeMap::new(),
        kind,
        on: BTreeMap::from([("role".into(), "web".into())]),
        capability: None,
        limit: JobLimit::default(),
        cost: JobCost {
            base: ResourceUsage {
                cpu_millis: 5,
                memory_bytes: 1 << 20,
            },
            cpu_ns_per_packet: 50,
            ..JobCost::default()
        },
        taps: crate::TapAssignment::One,
        interfaces: vec![],
        body: b"plan".as_slice().into(),
        parts: BTreeMap::new(),
    }
}

fn hello(agent: &str, boot: u64, jobs: &[(u64, ObservedState)]) -> Box<Hello> {
    let job = |&(job, state): &(u64, ObservedState)| ObservedJob {
        job,
        state: state.into(),
        ..ObservedJob::default()
    };
    let observed = ObservedJobs {
        number: 1,
        generation: 0,
        is_everything: true,
        jobs: jobs.iter().map(job).collect(),
    };
    let labels = BTreeMap::from([("role".into(), "web".into())]);
    let capacity = HostCapacity {
        packets_per_second: 100_000,
        jobs_cpu_millis_max: 25,
        jobs_memory_bytes_max: 1 << 30,
        ..HostCapacity::default()
    };
    Box::new(Hello {
        agent: agent.into(),
        boot,
        labels,
        capacity,
        observed,
        ..Hello::default()
    })
}

fn connected(session: u64, agent: &str, boot: u64) -> ServerEvent {
    ServerEvent::Connected {
        session,
        hello: hello(agent, boot, &[]),
    }
}

fn observed(
    session: u64,
    number: u64,
    generation: u64,
    jobs: &[(u64, ObservedState)],
) -> ServerEvent {
    let mut observed = hello("", 0, jobs).observed;
    observed.number = number;
    observed.generation = generation;
    observed.is_everything = false;
    ServerEvent::Observed { session, observed }
}

fn submit(server: &mut ServerControl, request: JobSpec) -> Result<SubmittedJob, AdmissionError> {
    let actions = server.handle(ServerEvent::Submit(Box::new(request)), at(1));
    let answer = |action| {
        if let ServerAction::Submitted(answer) = action {
            Some(answer)
        } else {
            None
        }
    };
    actions.into_iter().find_map(answer).expect("an answer")
}

fn stop(job: u64) -> ServerEvent {
    ServerEvent::Stop {
        job,
        why: EndReason::Stopped { by: "ann".into() },
    }
}

/// Short form of actions.
fn short(actions: Vec<ServerAction>) -> Vec<String> {
    let of_set = |desired: &DesiredJobs| {
        format!(
            "{:?}",
            desired
                .jobs
                .iter()
                .map(|order| order.job)
                .collect::<Vec<_>>()
        )
    };
    let one = |action: ServerAction| match action {
        ServerAction::Save(job) => format!("save {} {:?}", job.id, job.state),
        ServerAction::Submitted(_) => "submitted".into(),
        ServerAction::Stopped { is_known, .. } => format!("stopped {is_known}"),
        ServerAction::Cut { session } => format!("cut {session}"),
        ServerAction::Welcome { session, desired } => {
            format!("welcome {session} {}", of_set(&desired))
        }
        ServerAction::Desire { session, desired } => {
            format!("desire {session} {}", of_set(&desired))
        }
        ServerAction::ObserveAll { session } => format!("tell all {session}"),
        ServerAction::Grant { granted, .. } => format!("grant {:?}", granted.jobs),
        ServerAction::Idle { agent } => format!("idle {agent}"),
        ServerAction::Back { agent } => format!("back {agent}"),
        ServerAction::Ended { why, .. } => format!("ended {why:?}"),
    };
    actions.into_iter().map(one).collect()
}

/// Checks the actions for events, each at its second.
fn check(server: &mut ServerControl, script: &[(u64, ServerEvent, &[&str])]) {
    for (seconds, event, expected) in script {
        assert_eq!(
            short(server.handle(event.clone(), at(*seconds))),
            *expected,
            "at {seconds}: {event:?}"
        );
    }
}

fn server() -> ServerControl {
    ServerControl::new(ServerSettings::default(), RestoredControl::default(), at(0))
}

#[test]
fn a_job_from_the_question_to_its_end() {
    let mut server = server();
    let lane = RecordLane {
        boot: 1,
        job: 1,
        attempt: 1,
    };
    check(
        &mut server,
        &[
            (0, connected(1, "a", 1), &["welcome 1 []"]),
            (
                1,
                ServerEvent::Submit(request("k", JobLifetime::Standing).into()),
                &["save 1 Arming", "submitted", "desire 1 [1]"],
            ),
            // Receipt of the order does not mean that it runs.
            (1, observed(1, 2, 2, &[(1, ObservedState::Starting)]), &[]),
            (2, ServerEvent::Committed { lane }, &["save 1 Running"]),
            (
                2,
                ServerEvent::Renew {
                    session: 1,
                    renew: Renew::default(),
                },
                &["grant [1]"],
            ),
            // An agent that connects later is added immediately.
            (
                3,
                connected(2, "b", 5),
                &["save 1 Running", "welcome 2 [1]"],
            ),
            (
                4,
                stop(1),
                &[
                    "save 1 Draining(Stopped { by: \"ann\" })",
                    "stopped true",
                    "desire 1 []",
                    "desire 2 []",
                ],
            ),
            (
                4,
                ServerEvent::Renew {
                    session: 1,
                    renew: Renew::default(),
                },
                &["grant []"],
            ),
            (5, observed(1, 3, 3, &[(1, ObservedState::Gone)]), &[]),
            // A report on an older set is ignored: it precedes the job.
            (5, observed(2, 2, 1, &[]), &[]),
            (
                6,
                observed(2, 3, 2, &[]),
                &[
                    "save 1 Ended(Stopped { by: \"ann\" })",
                    "ended Stopped { by: \"ann\" }",
                ],
            ),
            (7, stop(1), &["stopped false"]),
        ],
    );
}

#[test]
fn one_key_makes_one_job_also_after_a_restart() {
    let mut server = server();
    server.handle(connected(1, "a", 1), at(0));
    assert_eq!(
        submit(&mut server, request("k", JobLifetime::Standing)),
        Ok(SubmittedJob {
            job: 1,
            is_new: true
        })
    );
    assert_eq!(
        submit(&mut server, request("k", JobLifetime::Standing)),
        Ok(SubmittedJob {
            job: 1,
            is_new: false
        })
    );
    let keys = vec![("ann".into(), "k".into(), 1)];
    let loaded = RestoredControl {
        jobs: server.jobs().cloned().collect(),
        last_job: 1,
        keys,
        ..RestoredControl::default()
    };
    let mut server = ServerControl::new(ServerSettings::default(), loaded, at(0));
    assert_eq!(
        submit(&mut server, request("k", JobLifetime::Standing)),
        Ok(SubmittedJob {
            job: 1,
            is_new: false
        })
    );
    assert_eq!(
        submit(&mut server, request("", JobLifetime::Standing)),
        Ok(SubmittedJob {
            job: 2,
            is_new: true
        })
    );
}

#[test]
fn jobs_keep_their_stored_number() {
    let loaded = RestoredControl {
        last_job: 7,
        ..RestoredControl::default()
    };
    let mut server = ServerControl::new(ServerSettings::default(), loaded, at(0));
    server.handle(connected(1, "a", 1), at(0));
    // Job 5 was stored when the server was killed.
    for number in [5, 8] {
        server.number_next(number);
        assert_eq!(
            submit(&mut server, request("", JobLifetime::Standing)),
            Ok(SubmittedJob {
                job: number,
                is_new: true
            })
        );
    }
    let mut known: Vec<u64> = server.jobs().map(|job| job.id).collect();
    known.sort_unstable();
    assert_eq!(known, [5, 8]);
}

#[test]
fn excess_jobs_are_rejected_with_a_reason() {
    let mut server = server();
    let on = request("", JobLifetime::OneOff).on;
    assert_eq!(
        submit(&mut server, request("", JobLifetime::OneOff)),
        Err(AdmissionError::NoAgent {
            on,
            capability: None
        })
    );
    server.handle(connected(1, "a", 1), at(0));
    let past = JobLimit {
        ends_at_ns: Some(1),
        packets: None,
    };
    assert_eq!(
        submit(
            &mut server,
            JobSpec {
                limit: past,
                ..request("", JobLifetime::OneOff)
            }
        ),
        Err(AdmissionError::EndsInThePast)
    );
    for _ in 0..2 {
        assert!(submit(&mut server, request("", JobLifetime::OneOff)).is_ok());
    }
    let why = "estimated cost: 0.01 cores and 1 MiB; available: 0.01 cores and 1022 MiB of 0.03 cores and 1024 MiB";
    let costly = AdmissionError::TooCostly {
        agent: "a".into(),
        why: why.into(),
    };
    assert_eq!(
        submit(&mut server, request("", JobLifetime::Standing)),
        Err(costly)
    );
    // Another host can, and the first is named.
    server.handle(connected(2, "b", 1), at(0));
    assert!(submit(&mut server, request("", JobLifetime::OneOff)).is_ok());
    let third = server.jobs().last().expect("three jobs");
    assert_eq!(third.agents.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(
        server.degraded(third),
        BTreeSet::from([Degradation::NoRoom {
            agent: "a".into(),
            why: why.into()
        }])
    );
    // Fewer packets allow more jobs.
    let renew = Renew {
        packets_per_second: 1,
        ..Renew::default()
    };
    server.handle(ServerEvent::Renew { session: 1, renew }, at(1));
    assert!(submit(&mut server, request("", JobLifetime::OneOff)).is_ok());
    server.settings.jobs_max = 2;
    assert_eq!(
        submit(&mut server, request("", JobLifetime::OneOff)),
        Err(AdmissionError::TooMany { max: 2 })
    );
    server.settings.jobs_per_owner_max = 2;
    assert_eq!(
        submit(&mut server, request("", JobLifetime::OneOff)),
        Err(AdmissionError::OwnerHasTooMany { max: 2 })
    );
    server.handle(ServerEvent::StoreIsFull(true), at(1));
    assert_eq!(
        submit(&mut server, request("", JobLifetime::OneOff)),
        Err(AdmissionError::StoreIsFull)
    );
}

#[test]
fn an_agent_that_joins_and_has_no_room_is_shown() {
    let mut server = server();
    for _ in 0..3 {
        assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
    }
    let actions = short(server.handle(connected(1, "a", 1), at(0)));
    assert_eq!(
        actions.last().map(|action| &**action),
        Some("welcome 1 [1, 2]")
    );
    let third = server.jobs().last().expect("three jobs");
    let degraded = server.degraded(third);
    let said = degraded.first().expect("it is said");
    assert!(
        matches!(said, Degradation::NoRoom { agent, .. } if agent == "a"),
        "{said:?}"
    );
}

#[test]
fn a_standing_job_gets_room_when_there_is_some() {
    let busy = |server: &mut ServerControl, packets_per_second| {
        let renew = Renew {
            packets_per_second,
            ..Renew::default()
        };
        server.handle(ServerEvent::Renew { session: 1, renew }, at(2))
    };
    // Each takes 10 thousandths of a core, out of 25, at 100,000 packets per second.
    let full = || {
        let mut server = server();
        server.handle(connected(1, "a", 1), at(0));
        server.handle(connected(2, "b", 1), at(0));
        assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
        assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
        busy(&mut server, 300_000);
        let third = JobSpec {
            cost: JobCost {
                cpu_ns_per_packet: 40,
                ..JobCost::default()
            },
            ..request("", JobLifetime::Standing)
        };
        assert!(submit(&mut server, third).is_ok());
        let lacks = |server: &ServerControl| server.jobs().any(|job| !job.agents.contains_key("a"));
        assert!(lacks(&server), "{:?}", server.jobs().collect::<Vec<_>>());
        (server, lacks)
    };
    // After the end of a job: immediately.
    let (mut server, lacks) = full();
    server.handle(stop(1), at(3));
    server.handle(stop(2), at(3));
    assert!(lacks(&server));
    for (session, number) in [(1, 2), (2, 2)] {
        server.handle(observed(session, number, 100, &[]), at(4));
    }
    assert!(!lacks(&server), "{:?}", server.jobs().collect::<Vec<_>>());
    // With a lower packet rate: periodically.
    let (mut server, lacks) = full();
    busy(&mut server, 1);
    assert!(lacks(&server));
    assert_eq!(server.timeout(at(2)), Some(10 * S));
    let told = short(server.handle(ServerEvent::Tick, at(10)));
    assert!(
        !lacks(&server) && told.contains(&"desire 1 [1, 2, 3]".into()),
        "{told:?}"
    );
    assert_eq!(server.timeout(at(10)), None);
}

#[test]
fn absent_agents_are_awaited_for_a_limited_time() {
    let mut server = server();
    server.handle(connected(1, "a", 1), at(0));
    assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
    check(
        &mut server,
        &[
            (10, ServerEvent::Disconnected { session: 1 }, &[]),
            (14, ServerEvent::Tick, &[]),
            (15, ServerEvent::Tick, &["idle a"]),
            // The same incarnation: nothing is lost. The late end of its earlier session changes nothing.
            (16, connected(2, "a", 1), &["back a", "welcome 2 [1]"]),
            (17, ServerEvent::Disconnected { session: 1 }, &[]),
            // A second session: the first is cut before the second is welcomed.
            (18, connected(3, "a", 1), &["cut 2", "welcome 3 [1]"]),
            (19, observed(2, 9, 9, &[]), &[]),
            // Another incarnation: unsent data of the previous one is lost, which is saved before the reply.
            (
                20,
                connected(4, "a", 2),
                &["save 1 Arming", "cut 3", "welcome 4 [1]"],
            ),
            // After a gap, a complete report is requested once.
            (21, observed(4, 3, 9, &[]), &["tell all 4"]),
            (21, observed(4, 4, 9, &[]), &[]),
            (22, ServerEvent::Disconnected { session: 4 }, &[]),
            (
                23,
                stop(1),
                &["save 1 Draining(Stopped { by: \"ann\" })", "stopped true"],
            ),
            (31, ServerEvent::Tick, &["idle a"]),
            // The agent's lease has expired: none of its monitors run, and the job does not wait for the agent.
            (
                32,
                ServerEvent::Tick,
                &[
                    "save 1 Ended(Stopped { by: \"ann\" })",
                    "ended Stopped { by: \"ann\" }",
                ],
            ),
        ],
    );
}

/// An agent that is connected, and reports that its monitor runs, but sends none of its results.
#[test]
fn an_ending_job_waits_for_a_silent_agent_for_a_limited_time() {
    let mut server = server();
    server.handle(connected(1, "a", 1), at(0));
    assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
    let draining = "save 1 Draining(Stopped { by: \"ann\" })";
    check(
        &mut server,
        &[
            (2, stop(1), &[draining, "stopped true", "desire 1 []"]),
            (2, observed(1, 2, 3, &[(1, ObservedState::Running)]), &[]),
        ],
    );
    for seconds in 3..32 {
        check(&mut server, &[(seconds, ServerEvent::Tick, &[])]);
    }
    let ended = [
        "save 1 Ended(Stopped { by: \"ann\" })",
        "ended Stopped { by: \"ann\" }",
    ];
    check(&mut server, &[(32, ServerEvent::Tick, &ended)]);
}

#[test]
fn restarted_server_adopts_running_monitors() {
    let mut server = server();
    server.handle(connected(1, "a", 1), at(0));
    assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
    let loaded = RestoredControl {
        jobs: server.jobs().cloned().collect(),
        last_job: 1,
        ..RestoredControl::default()
    };
    let mut server = ServerControl::new(ServerSettings::default(), loaded, at(100));
    let mut hello = hello(
        "a",
        1,
        &[(1, ObservedState::Running), (9, ObservedState::Running)],
    );
    hello.observed.generation = 41;
    let actions = server.handle(ServerEvent::Connected { session: 1, hello }, at(101));
    // Job 9 has ended and stops, because it is not in the set, which is newer than the agent's.
    let expected = DesiredJobs {
        generation: 42,
        jobs: server.desired("a").jobs,
        taps: vec![],
    };
    assert_eq!(
        actions,
        [ServerAction::Welcome {
            session: 1,
            desired: expected
        }]
    );
    assert_eq!(
        server.degraded(server.jobs().next().expect("a job")),
        BTreeSet::new()
    );
}

#[test]
fn a_job_on_some_interfaces_claims_their_addresses_alone() {
    let mut server = server();
    for (session, agent, ends) in [(1, "a", [1, 2]), (2, "b", [3, 4])] {
        let mut hello = hello(agent, 1, &[]);
        let [eth0, eth1] = ends.map(|end| crate::taps::write([10, 0, 0, end].into()));
        let passing = |interface: &str, ip: &bytes::Bytes| link::InterfaceAddresses {
            interface: interface.into(),
            addresses: vec![ip.clone()],
        };
        hello.capacity.passing = vec![passing("eth0", &eth0), passing("eth1", &eth1)];
        hello.capacity.addresses = vec![eth0, eth1];
        server.handle(ServerEvent::Connected { session, hello }, at(0));
    }
    let on = |interfaces: &[&str]| interfaces.iter().map(|name| (*name).to_owned()).collect();
    for (interfaces, own, others) in [
        (on(&[]), &[1, 2][..], &[3, 4][..]),
        (on(&["eth1"]), &[2], &[4]),
        (on(&["eth*"]), &[1, 2], &[3, 4]),
    ] {
        let job = submit(
            &mut server,
            JobSpec {
                interfaces,
                cost: JobCost::default(),
                ..request("", JobLifetime::Standing)
            },
        )
        .expect("taken")
        .job;
        let table = server.table(job, "a").expect("a table");
        let ends = |list: &[bytes::Bytes]| list.iter().map(|ip| ip[3]).collect::<Vec<_>>();
        assert_eq!(
            (ends(&table.own), ends(&table.others)),
            (own.to_vec(), others.to_vec())
        );
    }
}

#[test]
fn other_agents_report_flows_of_agents_without_the_job() {
    for state in [
        ObservedState::Finished,
        ObservedState::Poisoned,
        ObservedState::Refused,
    ] {
        let mut server = server();
        for (session, agent) in [(1, "a"), (2, "b")] {
            let mut hello = hello(agent, 1, &[]);
            hello.capacity.addresses = vec![crate::taps::write([10, 0, 0, session as u8].into())];
            server.handle(ServerEvent::Connected { session, hello }, at(0));
        }
        assert!(submit(&mut server, request("", JobLifetime::Standing)).is_ok());
        assert_eq!(
            server.table(1, "a").map(|table| table.others.len()),
            Some(1)
        );
        server.handle(observed(2, 2, 2, &[(1, state)]), at(2));
        assert_eq!(server.table(1, "a"), None, "{state:?}");
    }
}

#[test]
fn agents_receive_their_own_parts_only() {
    let mut server = server();
    for (session, agent) in [(1, "a"), (2, "b"), (3, "c")] {
        server.handle(connected(session, agent, 1), at(0));
    }
    let parts = |agents: &[&str]| -> BTreeMap<String, bytes::Bytes> {
        agents
            .iter()
            .map(|agent| {
                (
                    (*agent).to_owned(),
                    agent.to_uppercase().into_bytes().into(),
                )
            })
            .collect()
    };
    let asked = |agents: &[&str]| JobSpec {
        parts: parts(agents),
        cost: JobCost::default(),
        ..request("", JobLifetime::Standing)
    };
    let missing = AdmissionError::Missing { agent: "d".into() };
    assert_eq!(submit(&mut server, asked(&["a", "d"])), Err(missing));
    let mut heavy = asked(&["a", "b"]);
    heavy.cost.base.cpu_millis = 26;
    assert!(
        matches!(submit(&mut server, heavy), Err(AdmissionError::TooCostly { agent, .. }) if agent == "a")
    );
    assert_eq!(
        submit(&mut server, asked(&["a", "b"])).map(|taken| taken.job),
        Ok(1)
    );
    server.handle(connected(4, "e", 1), at(1));
    let told = |server: &ServerControl, agent: &str| -> Vec<bytes::Bytes> {
        server
            .desired(agent)
            .jobs
            .into_iter()
            .map(|order| order.body)
            .collect()
    };
    for (agent, expected) in [("a", Some("A")), ("b", Some("B")), ("c", None), ("e", None)] {
        assert_eq!(
            told(&server, agent),
            Vec::from_iter(expected.map(bytes::Bytes::from)),
            "{agent}"
        );
    }
    // A part refused by one agent is not moved to another.
    let generation = server.peers["b"].generation;
    let actions = short(server.handle(
        observed(2, 2, generation, &[(1, ObservedState::Refused)]),
        at(2),
    ));
    assert!(
        actions.contains(&"save 1 Draining(Poisoned)".into()),
        "{actions:?}"
    );
}
