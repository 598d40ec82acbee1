//! Both ends over a pipe that splits data anywhere, breaks at any step and reconnects.

use super::*;
use crate::spool::tests::{LANE, MemorySegmentStore, record};
use crate::{
    ClockOffset, DataRecord, DesiredJobs, Frame, Hello, LaneResume, LostRecords, PayloadFormat,
    PeerMisbehaved, Pong, RecordLane, SessionTime, Spool, SpoolLimits, Welcome,
};

const SERVER: u64 = 7;

fn at(ms: u64) -> SessionTime {
    SessionTime {
        monotonic_ns: ms * 1_000_000,
        wall_ns: 0,
    }
}

fn hello(versions: (u32, u32)) -> Hello {
    Hello {
        version_min: versions.0,
        version_max: versions.1,
        agent: "a".into(),
        boot: 1,
        ..Hello::default()
    }
}

fn spool() -> Spool {
    Spool::open(
        Box::new(MemorySegmentStore::default()),
        SpoolLimits::default(),
        1,
    )
}

/// A server's session that has received an agent's Hello.
fn greeted(window_bytes: u64) -> (AgentSession, ServerSession, Spool) {
    let limits = SessionLimits {
        window_bytes,
        ..SessionLimits::default()
    };
    let agent = AgentSession::new(hello((1, 1)), 1 << 40, at(0));
    let server = ServerSession::new(limits, SERVER, at(0));
    (agent, server, spool())
}

/// Transfers bytes in both directions until both ends are idle.
fn carry(
    agent: &mut AgentSession,
    server: &mut ServerSession,
    spool: &mut Spool,
) -> Result<(), PeerMisbehaved> {
    loop {
        let mut is_quiet = true;
        while let Some(bytes) = agent.poll_transmit(spool) {
            is_quiet = false;
            for piece in bytes.chunks(1 + bytes.len() / 3) {
                server.handle_bytes(at(1), piece)?;
            }
        }
        while let Some(bytes) = server.poll_transmit() {
            is_quiet = false;
            agent.handle_bytes(at(1), &bytes, spool)?;
        }
        if is_quiet {
            return Ok(());
        }
    }
}

fn records(server: &mut ServerSession) -> Vec<LaneRecord> {
    let event = std::iter::from_fn(|| server.poll_event());
    event
        .filter_map(|event| {
            if let ServerSessionEvent::Record(record) = event {
                Some(record)
            } else {
                None
            }
        })
        .collect()
}

fn seqs(records: &[LaneRecord]) -> Vec<(u64, u64)> {
    records.iter().map(LaneRecord::seqs).collect()
}

#[test]
fn records_come_once_and_in_order_over_broken_connections() {
    let mut spool = spool();
    for i in 0..30 {
        spool.push(record(LANE, i, PayloadFormat::Tuples));
    }
    let mut store: Vec<u64> = Vec::new();
    for session in 0..10 {
        let (mut agent, mut server, _) = greeted(900);
        carry(&mut agent, &mut server, &mut spool).expect("well behaved");
        let durable = store.last().copied().unwrap_or_default();
        server.welcome(
            1,
            DesiredJobs::default(),
            vec![LaneResume {
                lane: LANE,
                durable,
                watermark_ns: 0,
                is_closed: false,
            }],
        );
        carry(&mut agent, &mut server, &mut spool).expect("well behaved");
        let records = records(&mut server);
        assert!(records.len() <= 6, "credit holds back: {}", records.len());
        // Some of the records are committed; half of these commits are not acknowledged.
        for record in records.iter().take(4) {
            store.push(record.seq());
            server.committed(LANE, record.seq());
        }
        if session % 2 == 0 {
            carry(&mut agent, &mut server, &mut spool).expect("well behaved");
        }
    }
    assert_eq!(store, (1..=30).collect::<Vec<_>>());
}

#[test]
fn ended_lanes_are_reported_once_committed() {
    let (mut agent, mut server, mut spool) = greeted(1 << 20);
    carry(&mut agent, &mut server, &mut spool).expect("well behaved");
    server.welcome(
        1,
        DesiredJobs {
            generation: 3,
            jobs: vec![],
            taps: vec![],
        },
        vec![],
    );
    spool.push(record(LANE, 0, PayloadFormat::Tuples));
    spool.push(DataRecord {
        is_last: true,
        ..record(LANE, 1, PayloadFormat::Tuples)
    });
    carry(&mut agent, &mut server, &mut spool).expect("well behaved");
    assert_eq!(seqs(&records(&mut server)), [(1, 1), (2, 2)]);
    let events: Vec<_> = std::iter::from_fn(|| agent.poll_event()).collect();
    assert_eq!(
        events[1],
        AgentSessionEvent::Desired(DesiredJobs {
            generation: 3,
            jobs: vec![],
            taps: vec![]
        })
    );
    assert_eq!(events.len(), 2, "{events:?}");
    server.committed(LANE, 2);
    carry(&mut agent, &mut server, &mut spool).expect("well behaved");
    assert_eq!(agent.poll_event(), Some(AgentSessionEvent::Drained(LANE)));
}

#[test]
fn versions_that_do_not_meet_are_refused_with_both_ranges() {
    for (versions, is_taken) in [
        ((1, 1), true),
        ((1, 9), true),
        ((2, 9), false),
        ((0, 0), false),
    ] {
        let mut agent = AgentSession::new(hello(versions), 1 << 40, at(0));
        let (_, mut server, mut spool) = greeted(1);
        carry(&mut agent, &mut server, &mut spool).expect("well behaved");
        assert_eq!(
            matches!(server.poll_event(), Some(ServerSessionEvent::Hello(_))),
            is_taken,
            "{versions:?}"
        );
        let refused = match agent.poll_event() {
            Some(AgentSessionEvent::Refused(refuse)) => Some((refuse.server_min, refuse.agent_max)),
            _ => None,
        };
        assert_eq!(refused, (!is_taken).then_some((1, versions.1)));
    }
}

#[test]
fn work_of_another_server_is_not_taken() {
    for (of, says, is_taken) in [
        (0, 7, true),
        (7, 7, true),
        (8, 7, false),
        (8, 0, false),
        (0, 0, true),
    ] {
        let mut agent = AgentSession::new(
            Hello {
                server: of,
                ..hello((1, 1))
            },
            1 << 40,
            at(0),
        );
        let mut server = ServerSession::new(SessionLimits::default(), says, at(0));
        let mut spool = spool();
        carry(&mut agent, &mut server, &mut spool).expect("well behaved");
        server.welcome(1, DesiredJobs::default(), vec![]);
        carry(&mut agent, &mut server, &mut spool).expect("well behaved");
        let named = match agent.poll_event() {
            Some(AgentSessionEvent::Welcomed { server, .. }) => (true, server),
            Some(AgentSessionEvent::Refused(refuse)) => (false, refuse.server),
            other => panic!("{other:?}"),
        };
        assert_eq!(named, (is_taken, says), "work of {of}");
    }
}

#[test]
fn an_end_that_breaks_the_rules_is_found_out() {
    let data = |seq| {
        Frame::from(DataRecord {
            seq,
            ..record(LANE, 0, PayloadFormat::Tuples)
        })
    };
    let lost = |first, last| {
        Frame::from(LostRecords {
            lane: LANE,
            first,
            last,
            ..LostRecords::default()
        })
    };
    let other = |job| {
        Frame::from(DataRecord {
            seq: 1,
            lane: RecordLane { job, ..LANE },
            ..record(LANE, 0, PayloadFormat::Tuples)
        })
    };
    let cases = [
        (vec![data(1), data(1), lost(2, 4), data(5)], Ok(())),
        (
            vec![data(2)],
            Err(PeerMisbehaved::Gap {
                seq: 2,
                expected: 1,
            }),
        ),
        (vec![data(0), data(0)], Ok(())),
        (
            vec![lost(1, 0)],
            Err(PeerMisbehaved::Gap {
                seq: 1,
                expected: 1,
            }),
        ),
        (vec![lost(1, u64::MAX), data(1), lost(1, u64::MAX)], Ok(())),
        (
            vec![data(1), lost(1, 3)],
            Err(PeerMisbehaved::Gap {
                seq: 1,
                expected: 2,
            }),
        ),
        ((1..20).map(data).collect(), Err(PeerMisbehaved::NoCredit)),
        (
            (1..4).map(other).collect(),
            Err(PeerMisbehaved::TooManyLanes),
        ),
        (
            vec![Welcome::default().into()],
            Err(PeerMisbehaved::OutOfPlace(4)),
        ),
        (
            vec![hello((1, 1)).into()],
            Err(PeerMisbehaved::OutOfPlace(3)),
        ),
    ];
    for (frames, expected) in cases {
        let limits = SessionLimits {
            window_bytes: 1000,
            lanes_max: 2,
            ..SessionLimits::default()
        };
        let mut server = ServerSession::new(limits, SERVER, at(0));
        let first = Frame::from(hello((1, 1))).encode().concat();
        server.handle_bytes(at(0), &first).expect("hello");
        server.welcome(1, DesiredJobs::default(), vec![]);
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).flatten().collect();
        assert_eq!(server.handle_bytes(at(0), &bytes), expected, "{frames:?}");
    }
    let mut server = ServerSession::new(SessionLimits::default(), SERVER, at(0));
    assert_eq!(
        server.handle_bytes(at(0), &data(1).encode()[0]),
        Err(PeerMisbehaved::OutOfPlace(32))
    );
}

#[test]
fn pings_tell_the_offset_and_silence_ends() {
    let (mut agent, mut server, mut spool) = greeted(1);
    carry(&mut agent, &mut server, &mut spool).expect("well behaved");
    server.welcome(1, DesiredJobs::default(), vec![]);
    carry(&mut agent, &mut server, &mut spool).expect("well behaved");
    let now = |monotonic_ns, wall_ns| SessionTime {
        monotonic_ns,
        wall_ns,
    };
    server.handle_timeout(now(2_000_000_000, 1000));
    let ping = server.poll_transmit().expect("a ping");
    agent
        .handle_bytes(now(0, 5500), &ping, &mut spool)
        .expect("a ping");
    let pong = agent.poll_transmit(&mut spool).expect("a pong");
    server
        .handle_bytes(now(2_000_000_001, 2000), &pong)
        .expect("a pong");
    // An unsolicited message has no effect.
    let forged = Frame::from(Pong {
        sent_ns: 7,
        received_ns: 7,
        answered_ns: 7,
    })
    .encode();
    server
        .handle_bytes(now(2_000_000_001, 2000), &forged[0])
        .expect("a pong");
    let events: Vec<_> = std::iter::from_fn(|| server.poll_event()).skip(1).collect();
    assert_eq!(
        events,
        [ServerSessionEvent::Offset(ClockOffset {
            ns: 4000,
            uncertain_ns: 500
        })]
    );
    let silence = server.poll_timeout().expect("open");
    assert_eq!(silence, 3_000_000_000, "the next ping");
    server.handle_timeout(now(7_000_000_001, 0));
    assert_eq!(
        server.poll_event(),
        Some(ServerSessionEvent::Closed(SessionEnd::Silence))
    );
    assert_eq!(server.poll_timeout(), None);
}
