//! Any segments of a conversation may be missing or late, also in one direction only: the reported values equal those
//! of the whole conversation. Conversations are generated from seeds, with clients that wait for each response, that
//! send batches, or that always have requests outstanding.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use accuracy::model::talk::{Conversation, Exchange};
use accuracy::model::timed::{self, Pace};
use accuracy::model::{http, memcached, mysql, redis};
use accuracy::{GroundTruth, ObservedPacket, OutcomeCounts, PacketRecording};
use testkit::SeededRng;

/// Number of conversations per protocol, each damaged in several ways.
const CONVERSATIONS: u64 = 150;
const DAMAGES: u64 = 12;
/// Number of conversations per protocol with paced clients.
const PACED_CONVERSATIONS: u64 = 100;

fn check(parser: &str, make: impl Fn(&mut SeededRng) -> Conversation) {
    check_damages(parser, make, Damage::by_chance);
}

/// The same with pauses longer than the idle timeout, or steps of the clock.
fn check_pauses(parser: &str, make: impl Fn(&mut SeededRng) -> Conversation) {
    check_damages(parser, make, Damage::of_pauses);
}

fn check_damages(
    parser: &str,
    make: impl Fn(&mut SeededRng) -> Conversation,
    by_chance: impl Fn(&PacketRecording, Range<usize>, &mut SeededRng) -> Damage,
) {
    let mut transactions = 0;
    let mut exact = 0;
    let mut found = 0;
    let mut findable = 0;
    for seed in 0..CONVERSATIONS {
        let mut rng = SeededRng::new(seed);
        let (spoken, plain) = make(&mut rng).spoken(&mut rng);
        let recording = PacketRecording::of(&spoken);
        let truth = GroundTruth::of(&recording, parser);
        for nth in 0..DAMAGES {
            let damage = by_chance(&recording, plain..recording.len(), &mut rng);
            let count = damage.judge(&recording, &truth, parser);
            if !count.faults.is_empty() {
                let damage = damage.least(&recording, &truth, parser);
                let faults = damage.judge(&recording, &truth, parser).faults;
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                panic!(
                    "{parser}, seed {seed}, damage {nth}: {damage:?}: {}",
                    faults.join("\n")
                );
            }
            transactions += count.transactions;
            exact += count.exact;
            found += count.exact + count.marked;
            findable += count.findable;
        }
    }
    println!(
        "{parser}: {transactions} transactions, {findable} findable, {found} found, {exact} exact"
    );
    assert!(found > 10_000, "{found} of {findable} findable are found");
}

/// Lost packets, packets that are late in their times and in the file, and packets preceded by a pause of both ends.
#[derive(Clone, Debug, Default)]
struct Damage {
    lost: BTreeSet<usize>,
    late: BTreeMap<usize, i64>,
    paused: BTreeMap<usize, i64>,
}

/// Pauses longer than the idle timeout, in nanoseconds.
const PAUSES: [i64; 3] = [310_000_000_000, 900_000_000_000, 36_000_000_000_000];
/// Maximum delay of a packet, in nanoseconds.
const LATE_MAX: i64 = 5_000_000;

impl Damage {
    /// In both directions or in one, independent or in bursts; lost, late, or both.
    fn by_chance(
        recording: &PacketRecording,
        packets: Range<usize>,
        rng: &mut SeededRng,
    ) -> Damage {
        let share = [0.02, 0.1, 0.3][rng.below(3) as usize];
        let stay = if rng.chance(0.5) { share } else { 0.7 };
        // All conversations have the same client.
        let client = recording.ends(0).map(|(client, _)| client);
        let only = [None, None, Some(true), Some(false)][rng.below(4) as usize];
        let is_late = [0.0, 0.0, 1.0, 0.3][rng.below(4) as usize];
        let mut damage = Damage::default();
        let mut last = false;
        for packet in packets {
            let of_client = recording.ends(packet).map(|(src, _)| src) == client;
            if only.is_some_and(|only| only != of_client) {
                continue;
            }
            last = rng.chance(if last { stay } else { share });
            if last && rng.chance(is_late) {
                damage
                    .late
                    .insert(packet, 1 + rng.below(LATE_MAX as u64) as i64);
            } else if last {
                damage.lost.insert(packet);
            }
        }
        damage
    }

    /// Pauses only.
    fn of_pauses(_: &PacketRecording, packets: Range<usize>, rng: &mut SeededRng) -> Damage {
        let mut damage = Damage::default();
        for _ in 0..1 + rng.below(3) {
            let from = packets.start + rng.below(packets.len().max(1) as u64) as usize;
            damage
                .paused
                .insert(from, PAUSES[rng.below(PAUSES.len() as u64) as usize]);
        }
        damage
    }

    /// Loss of single packets after the handshake, in both directions or in one.
    fn of_loss(recording: &PacketRecording, rng: &mut SeededRng) -> Damage {
        let share = [0.001, 0.01, 0.01, 0.03, 0.1][rng.below(5) as usize];
        let only = [None, None, Some(true), Some(false)][rng.below(4) as usize];
        let client = recording.ends(0).map(|(client, _)| client);
        let mut damage = Damage::default();
        for packet in 3..recording.len() {
            let of_client = recording.ends(packet).map(|(src, _)| src) == client;
            if only.is_none_or(|only| only == of_client) && rng.chance(share) {
                damage.lost.insert(packet);
            }
        }
        damage
    }

    fn seen(&self, recording: &PacketRecording) -> Vec<ObservedPacket> {
        let mut seen = recording.whole();
        seen.retain(|one| !self.lost.contains(&one.packet));
        for one in &mut seen {
            one.ts = one
                .ts
                .plus(self.late.get(&one.packet).copied().unwrap_or(0));
        }
        seen.sort_by_key(|one| one.ts);
        let mut pauses = self.paused.iter().peekable();
        let mut pause = 0;
        for one in &mut seen {
            while let Some((_, by)) = pauses.next_if(|(from, _)| **from <= one.packet) {
                pause += by;
            }
            one.ts = one.ts.plus(pause);
        }
        seen
    }

    fn judge(
        &self,
        recording: &PacketRecording,
        truth: &GroundTruth<'_>,
        parser: &str,
    ) -> OutcomeCounts {
        let seen = self.seen(recording);
        truth.judge(
            &recording.play(&seen, parser),
            &seen,
            self.late.values().max().map_or(0, |by| by + 1000),
        )
    }

    /// Minimizes the damage that still shows the error.
    fn least(
        mut self,
        recording: &PacketRecording,
        truth: &GroundTruth<'_>,
        parser: &str,
    ) -> Damage {
        for packet in 0..recording.len() {
            let without = Damage {
                lost: self.lost.iter().copied().filter(|p| *p != packet).collect(),
                late: self
                    .late
                    .iter()
                    .map(|(p, by)| (*p, *by))
                    .filter(|(p, _)| *p != packet)
                    .collect(),
                paused: self
                    .paused
                    .iter()
                    .map(|(p, by)| (*p, *by))
                    .filter(|(p, _)| *p != packet)
                    .collect(),
            };
            let len = |damage: &Damage| damage.lost.len() + damage.late.len() + damage.paused.len();
            let less = len(&without) < len(&self);
            if less && !without.judge(recording, truth, parser).faults.is_empty() {
                self = without;
            }
        }
        self
    }
}

/// The same with paced clients ([`timed`]), and loss patterns of taps.
fn check_paces(parser: &str, make: impl Fn(&mut SeededRng) -> Conversation) {
    let mut pairs = 0;
    let mut found = 0;
    let mut findable = 0;
    for seed in 0..PACED_CONVERSATIONS {
        let mut rng = SeededRng::new(0xace5 ^ seed << 20);
        let several: Vec<Conversation> = (0..1 + rng.below(4)).map(|_| make(&mut rng)).collect();
        let port = several[0].port;
        let exchanges: Vec<Exchange> = several.into_iter().flat_map(|one| one.exchanges).collect();
        let paces = Pace::of_a_client(&mut rng);
        let recording = PacketRecording::of(&timed::spoken(port, &exchanges, &paces, &mut rng));
        let truth = GroundTruth::of(&recording, parser);
        for nth in 0..DAMAGES {
            let damage = Damage::of_loss(&recording, &mut rng);
            let count = damage.judge(&recording, &truth, parser);
            if let Some(fault) = count.faults.first() {
                let damage = damage.least(&recording, &truth, parser);
                panic!("{parser}, seed {seed}, damage {nth}, {paces:?}: {damage:?}: {fault}");
            }
            pairs += count.pairs;
            if paces
                .iter()
                .all(|(_, pace)| matches!(pace, Pace::Batches(_)))
            {
                found += count.found;
                findable += count.findable;
            }
        }
    }
    println!("{parser}: {pairs} pairs; of clients that wait {found} of {findable} are found");
    assert!(
        pairs > 10_000 && found * 100 >= findable * 95,
        "{pairs}; {found} of {findable} are found"
    );
}

#[test]
fn http_paces() {
    check_paces("http", http::conversation);
}

#[test]
fn redis_paces() {
    check_paces("redis", redis::conversation);
}

#[test]
fn memcached_paces() {
    check_paces("memcached", memcached::text);
}

#[test]
fn memcached_binary_paces() {
    check_paces("memcached", memcached::binary);
}

#[test]
fn mysql_with_pauses() {
    check_pauses("mysql_query", mysql::conversation);
}

#[test]
fn memcached_text_with_pauses() {
    check_pauses("memcached", memcached::text);
}

#[test]
fn http() {
    check("http", http::conversation);
}

#[test]
fn mysql() {
    check("mysql_query", mysql::conversation);
}

#[test]
fn memcached_text() {
    check("memcached", memcached::text);
}

#[test]
fn memcached_binary() {
    check("memcached", memcached::binary);
}

#[test]
fn redis() {
    check("redis", redis::conversation);
}

#[test]
fn memcached_binary_with_pauses() {
    check_pauses("memcached", memcached::binary);
}

#[test]
fn http_with_pauses() {
    check_pauses("http", http::conversation);
}

#[test]
fn redis_with_pauses() {
    check_pauses("redis", redis::conversation);
}
