//! Lanes over a log with delays, in virtual time: no two write to one partition, also when lanes die, sleep and return.

use std::collections::{BTreeMap, BTreeSet};

use testkit::SeededRng;

use super::claim::{ClaimAction, LaneClaim};
use super::log::{CaptureBytes, EXPIRY_MS, LaneEntry, LaneLog, LaneStanding, LaneStatement};

fn entry(
    lane: &str,
    number: u64,
    says: LaneStatement,
    partition: i32,
    topics: &[&str],
) -> LaneEntry {
    let topics = topics.iter().map(|&topic| topic.to_owned()).collect();
    let about = BTreeMap::new();
    let capture = None;
    let limited = None;
    LaneEntry {
        lane: lane.to_owned(),
        number,
        says,
        partition,
        topics,
        about,
        capture,
        limited,
    }
}

fn log(entries: &[(i64, LaneEntry)]) -> LaneLog {
    let mut log = LaneLog::default();
    entries
        .iter()
        .for_each(|(at, entry)| log.apply(*at, entry.clone()));
    log
}

fn topics(topics: &[&str]) -> Vec<String> {
    topics.iter().map(|&topic| topic.to_owned()).collect()
}

#[test]
fn the_first_claim_in_the_log_wins() {
    use LaneStatement::{Claims, Ended, Holds};
    let live = LaneStanding::Live;
    let refused = LaneStanding::Refused;
    let dead = LaneStanding::Dead;
    let ended = LaneStanding::Ended;
    let check = |entries: &[(i64, LaneEntry)], now: i64, expected: &[(&str, LaneStanding)]| {
        let log = log(entries);
        for (lane, standing) in expected {
            assert_eq!(
                log.find(lane).map(|known| known.standing(now)),
                Some(*standing),
                "{lane} in {entries:?}"
            );
        }
    };
    let claims = |lane, topics: &[&str]| entry(lane, 1, Claims, 0, topics);
    let holds = |lane| entry(lane, 2, Holds, 0, &["t"]);
    check(
        &[(0, claims("a", &["t"])), (1, claims("b", &["t"]))],
        2,
        &[("a", live), ("b", refused)],
    );
    check(
        &[(0, claims("a", &["t", "u"])), (1, claims("b", &["u", "v"]))],
        2,
        &[("a", live), ("b", refused)],
    );
    check(
        &[(0, claims("a", &["t"])), (1, claims("b", &["u"]))],
        2,
        &[("a", live), ("b", live)],
    );
    // A silent lane is dead, and its partition free.
    let late = EXPIRY_MS + 1;
    check(&[(0, claims("a", &["t"]))], late, &[("a", dead)]);
    check(
        &[(0, holds("a")), (late, claims("b", &["t"]))],
        late,
        &[("a", dead), ("b", live)],
    );
    // The lane returns: unchanged if no other lane came, rejected otherwise.
    check(&[(0, holds("a")), (late, holds("a"))], late, &[("a", live)]);
    check(
        &[
            (0, holds("a")),
            (late, claims("b", &["t"])),
            (late + 1, holds("b")),
            (late + 2, holds("a")),
        ],
        late + 2,
        &[("a", refused), ("b", live)],
    );
    check(
        &[
            (0, holds("a")),
            (1, entry("a", 3, Ended, 0, &["t"])),
            (2, claims("b", &["t"])),
        ],
        3,
        &[("a", ended), ("b", live)],
    );
    check(
        &[
            (0, holds("a")),
            (late, claims("b", &["t"])),
            (late + 1, holds("a")),
        ],
        late + 2,
        &[("a", refused), ("b", live)],
    );
}

#[test]
fn news_are_written_with_the_next_step() {
    let mut log = LaneLog::default();
    let mut claim = LaneClaim::new("a".into(), topics(&["t"]), BTreeMap::new());
    let mut write = |claim: &mut LaneClaim, at_ms: i64| match claim.step(&log, at_ms, at_ms) {
        ClaimAction::Claim(entry, _) | ClaimAction::Hold(entry) => {
            log.apply(at_ms, entry);
            true
        }
        ClaimAction::Wait(_) | ClaimAction::Lost => false,
    };
    // A lane claims, holds, and renews after five seconds.
    assert_eq!(
        [0, 1, 2, 3].map(|at| write(&mut claim, at)),
        [true, true, false, false]
    );
    claim.hold_now();
    assert_eq!([4, 5].map(|at| write(&mut claim, at)), [true, false]);
    assert_eq!(claim.partition(5), Some(0));
}

#[test]
fn free_places_are_free_in_all_topics() {
    let log = log(&[
        (0, entry("a", 1, LaneStatement::Holds, 0, &["t"])),
        (0, entry("b", 1, LaneStatement::Holds, 1, &["u"])),
        (0, entry("c", 1, LaneStatement::Holds, 2, &["t", "u"])),
    ]);
    for (wanted, expected) in [(&["t"][..], 1), (&["u"], 0), (&["t", "u"], 3), (&["v"], 0)] {
        assert_eq!(
            log.free(&topics(wanted), &BTreeSet::new(), 1),
            expected,
            "{wanted:?}"
        );
    }
    assert_eq!(
        log.free(&topics(&["t", "u"]), &BTreeSet::new(), EXPIRY_MS + 1),
        0
    );
    let of: Vec<&str> = log
        .of_topic("u", 1)
        .map(|(known, _)| &*known.entry.lane)
        .collect();
    assert_eq!(of, ["b", "c"]);
}

#[test]
fn entries_are_written_as_json() {
    let mut told = entry(
        "host-1",
        7,
        LaneStatement::Ended,
        3,
        &["netalytics.http_get.v1"],
    );
    told.capture = Some(CaptureBytes {
        seen_bytes: 10,
        unseen_bytes: 2,
    });
    told.about.insert("job".into(), "12".into());
    let text = r#"{"lane":"host-1","number":7,"says":"ended","partition":3,"topics":["netalytics.http_get.v1"],"about":{"job":"12"},"capture":{"seen_bytes":10,"unseen_bytes":2}}"#;
    assert_eq!(serde_json::to_string(&told).expect("JSON"), text);
    let mut log = LaneLog::default();
    log.read(5, text.as_bytes());
    log.read(6, b"{}");
    log.read(7, b"");
    assert_eq!(
        log.find("host-1").map(|known| (&known.entry, known.at_ms)),
        Some((&told, 5))
    );
    assert_eq!(log.malformed(), 2);
}

/// Lanes, and the log that they read with different delays.
struct LaneWorld {
    now: i64,
    written: Vec<(i64, LaneEntry)>,
    lanes: Vec<LaneMember>,
}

struct LaneMember {
    claim: LaneClaim,
    log: LaneLog,
    read: usize,
    state: MemberLife,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberLife {
    Awake,
    AsleepUntil(i64),
    Dead,
}

impl LaneWorld {
    fn join(&mut self) {
        let name = format!("lane-{}", self.lanes.len());
        let claim = LaneClaim::new(name, topics(&["t"]), BTreeMap::new());
        let member = LaneMember {
            claim,
            log: LaneLog::default(),
            read: 0,
            state: MemberLife::Awake,
        };
        self.lanes.push(member);
    }

    /// One lane acts after some time; rarely it falls asleep, or dies.
    fn step(&mut self, rng: &mut SeededRng) {
        self.now += rng.below(500) as i64;
        let place = rng.below(self.lanes.len() as u64) as usize;
        let LaneWorld {
            now,
            written,
            lanes,
        } = self;
        let member = &mut lanes[place];
        match member.state {
            MemberLife::Dead => return,
            MemberLife::AsleepUntil(end) if *now < end => return,
            _ => member.state = MemberLife::Awake,
        }
        match rng.below(200) {
            0 => member.state = MemberLife::AsleepUntil(*now + rng.below(90_000) as i64),
            1 => member.state = MemberLife::Dead,
            _ => {
                // The lane may have read only a part of the log.
                let end =
                    member.read + rng.below((written.len() - member.read) as u64 + 1) as usize;
                written[member.read..end]
                    .iter()
                    .for_each(|(at, entry)| member.log.apply(*at, entry.clone()));
                member.read = end;
                let log_ms = member.log.last_ms();
                if let ClaimAction::Claim(entry, _) | ClaimAction::Hold(entry) =
                    member.claim.step(&member.log, log_ms, *now)
                {
                    written.push((*now, entry));
                }
            }
        }
    }

    /// No two lanes hold the same partition.
    fn check(&self) {
        let mut held = BTreeSet::new();
        for member in &self.lanes {
            if let Some(partition) = member.claim.partition(self.now) {
                assert!(
                    held.insert(partition),
                    "two write to {partition} at {}",
                    self.now
                );
            }
        }
    }
}

#[test]
fn lanes_never_share_a_partition() {
    for seed in 0..60 {
        let mut rng = SeededRng::new(seed);
        let mut world = LaneWorld {
            now: 1_000_000,
            written: Vec::new(),
            lanes: Vec::new(),
        };
        for _ in 0..2000 {
            if world.lanes.is_empty() || rng.below(100) == 0 && world.lanes.len() < 20 {
                world.join();
            }
            world.step(&mut rng);
            world.check();
        }
        // Every remaining lane gets a partition; the number of partitions does not exceed that of lanes.
        for place in 0..world.lanes.len() {
            world.lanes[place].state = match world.lanes[place].state {
                MemberLife::Dead => MemberLife::Dead,
                _ => MemberLife::Awake,
            };
        }
        settle(&mut world);
        let alive: Vec<&LaneMember> = world
            .lanes
            .iter()
            .filter(|member| member.state == MemberLife::Awake)
            .collect();
        let held: BTreeSet<i32> = alive
            .iter()
            .filter_map(|member| member.claim.partition(world.now))
            .collect();
        assert_eq!(held.len(), alive.len(), "seed {seed}");
        assert!(
            held.last()
                .is_none_or(|last| (*last as usize) < world.lanes.len())
        );
        // The last entry of each lane is sufficient for the same state.
        let mut last = BTreeMap::new();
        for (order, (at, entry)) in world.written.iter().enumerate() {
            last.insert(entry.lane.clone(), (order, *at, entry.clone()));
        }
        let mut kept: Vec<_> = last.into_values().collect();
        kept.sort_by_key(|(order, ..)| *order);
        let mut log = LaneLog::default();
        kept.into_iter()
            .for_each(|(_, at, entry)| log.apply(at, entry));
        let told: BTreeSet<i32> = log
            .of_topic("t", world.now)
            .filter(|(_, standing)| *standing == LaneStanding::Live)
            .map(|(known, _)| known.entry.partition)
            .collect();
        assert_eq!(told, held, "seed {seed}");
    }
}

/// All lanes read everything, for a minute.
fn settle(world: &mut LaneWorld) {
    for _ in 0..600 {
        world.now += 100;
        let LaneWorld {
            now,
            written,
            lanes,
        } = world;
        for member in lanes
            .iter_mut()
            .filter(|member| member.state == MemberLife::Awake)
        {
            written[member.read..]
                .iter()
                .for_each(|(at, entry)| member.log.apply(*at, entry.clone()));
            member.read = written.len();
            let log_ms = member.log.last_ms();
            if let ClaimAction::Claim(entry, _) | ClaimAction::Hold(entry) =
                member.claim.step(&member.log, log_ms, *now)
            {
                written.push((*now, entry));
            }
        }
    }
}

#[test]
fn partitions_that_are_unfit_are_passed_over() {
    let mut claim = LaneClaim::new("new".into(), topics(&["t"]), BTreeMap::new());
    claim.pass_over(BTreeSet::from([0, 2]));
    let mut log = log(&[(0, entry("old", 1, LaneStatement::Claims, 1, &["t"]))]);
    let ClaimAction::Claim(first, partitions) = claim.step(&log, 1, 1) else {
        panic!("it claims")
    };
    assert_eq!((first.partition, partitions), (3, 4));
    log.apply(2, first);
    let ClaimAction::Hold(held) = claim.step(&log, 2, 2) else {
        panic!("it holds")
    };
    log.apply(3, held);
    claim.step(&log, 3, 3);
    assert_eq!(claim.partition(3), Some(3));
    // Another lane has written there in the meantime.
    claim.pass_over(BTreeSet::from([3]));
    assert_eq!(claim.partition(3), None);
    let ClaimAction::Claim(next, _) = claim.step(&log, 4, 4) else {
        panic!("it claims another")
    };
    assert_eq!((next.partition, next.number), (4, 3));
}
