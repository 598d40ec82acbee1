//! Dialogues with gaps: their tuples must equal those of the complete dialogue or be null.
//!
//! A field of a tuple from a damaged dialogue is null or equal to the complete one, and no tuple with a missing byte
//! is `exact`. Damage: lost packets, in one or both directions, and packets truncated by the snaplen.

mod http;
mod memcached;
mod mysql;
mod nfs;
mod redis;
mod talk;

use parsers::Direction;
use talk::{Damage, Script, Side};
use testkit::SeededRng;

/// Dialogues of each kind.
const SEEDS: u64 = 400;

fn any_damage(rng: &mut SeededRng) -> Damage {
    let share = [0.01, 0.05, 0.2][rng.below(3) as usize];
    match rng.below(4) {
        0 => Damage::Cut(20 + rng.below(180) as usize),
        1 => Damage::Lost {
            share,
            side: Side::Client,
        },
        2 => Damage::Lost {
            share,
            side: Side::Server,
        },
        _ => Damage::Lost {
            share,
            side: Side::Both,
        },
    }
}

fn check(script: fn(&mut SeededRng) -> Script, damage: fn(&mut SeededRng) -> Damage) {
    for seed in 0..SEEDS {
        let mut rng = SeededRng::new(seed);
        let script = script(&mut rng);
        let damage = damage(&mut rng);
        if let Err(why) = talk::check(&script, damage, &mut rng) {
            panic!("seed {seed}, {damage:?}: {why}");
        }
    }
}

#[test]
fn http() {
    check(http::script, any_damage);
}

#[test]
fn memcached_text() {
    check(memcached::script, any_damage);
}

#[test]
fn mysql() {
    check(mysql::script, any_damage);
}

#[test]
fn redis() {
    check(redis::script, any_damage);
}

#[test]
fn nfs() {
    check(nfs::script, any_damage);
}

#[test]
fn nfs_files_that_hold_rpc() {
    check(nfs::script_of_rpc_in_files, |rng| Damage::Lost {
        share: [0.01, 0.03, 0.1][rng.below(3) as usize],
        side: [Side::Client, Side::Server, Side::Both][rng.below(3) as usize],
    });
    check(nfs::script_of_rpc_in_files, any_damage);
}

/// The xid identifies the reply of a call, whichever is captured first.
#[test]
fn nfs_captured_in_another_order() {
    for seed in 0..SEEDS {
        let mut rng = SeededRng::new(seed);
        let ns = rng.below(5_000) as i64 * 1000;
        let (script, side) = match seed % 3 {
            0 => (nfs::script(&mut rng), Direction::ServerToClient),
            1 => (nfs::script(&mut rng), Direction::ClientToServer),
            _ => (
                nfs::script_with_few_numbers(&mut rng),
                Direction::ClientToServer,
            ),
        };
        if let Err(why) = talk::check_skewed(&script, side, ns, &mut rng) {
            panic!("seed {seed}, {side:?} late by {ns} ns: {why}");
        }
    }
}

/// A call with a missing reply must not be paired with the reply of a later call.
#[test]
fn nfs_with_numbers_used_again() {
    check(nfs::script_with_few_numbers, |rng| Damage::Lost {
        share: rng.below(50) as f64 / 100.0,
        side: Side::Server,
    });
}
