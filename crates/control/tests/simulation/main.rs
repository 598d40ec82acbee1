//! The server and up to a hundred agents with their monitors, as shipped, in one thread: virtual time, a faulty
//! network, disks that lose unsynced data, crashes at any step; everything from one seed, which a failure prints.
//!
//! `SIMULATION_SECONDS=600` runs for that time instead of the default number of runs, and `SIMULATION_SEED=7` runs only
//! that seed.

mod agent;
mod checks;
mod disk;
mod network;
mod paces;
mod random;
mod server;
mod world;

use std::time::{Duration, Instant};

use random::Random;
use world::{Options, World};

const RUNS: u64 = 2000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .and_then(|value| value.parse().ok())
}

fn run(seed: u64) -> World {
    let options = Options::random(&mut Random::new(seed));
    let mut world = World::new(seed, options);
    world.run();
    world
}

/// Coverage of the runs.
#[derive(Debug, Default)]
struct Seen {
    runs: u64,
    tuples: u64,
    committed: u64,
    losses: u64,
    jobs: u64,
    boots: u64,
    servers: u64,
}

impl Seen {
    fn add(&mut self, world: &World) {
        self.runs += 1;
        self.tuples += world.tuples.len() as u64;
        self.committed += world
            .tuples
            .iter()
            .filter(|tuple| tuple.is_committed)
            .count() as u64;
        self.losses += world
            .server
            .lanes
            .values()
            .map(|row| row.lost.len() as u64)
            .sum::<u64>();
        self.jobs += world.server.jobs.len() as u64;
        self.servers += world.server.identity;
        self.boots += world.hosts.iter().map(|host| host.boots).sum::<u64>();
    }
}

#[test]
fn nothing_is_lost_twice_or_orphaned() {
    if let Some(seed) = number("SIMULATION_SEED") {
        run(seed);
        return;
    }
    let began = Instant::now();
    let lasts = number("SIMULATION_SECONDS").map(Duration::from_secs);
    // A longer run uses other seeds each time.
    let first = if lasts.is_some() {
        u64::from(std::process::id()) << 32
    } else {
        0
    };
    let mut seen = Seen::default();
    for seed in first.. {
        let goes_on = lasts.map_or(seen.runs < RUNS, |lasts| began.elapsed() < lasts);
        if !goes_on {
            break;
        }
        seen.add(&run(seed));
    }
    println!("{seen:?} in {:?}", began.elapsed());
    assert!(
        seen.committed * 2 > seen.tuples,
        "most of it arrives: {seen:?}"
    );
    assert!(
        seen.losses > 0 && seen.jobs > seen.runs && seen.servers > seen.runs,
        "{seen:?}"
    );
}

#[test]
fn a_seed_is_a_run() {
    let tell = |world: &World| {
        (
            world.now_ns,
            world.tuples.len(),
            world.server.lanes.len(),
            world.random.clone().next(),
        )
    };
    assert_eq!(tell(&run(4711)), tell(&run(4711)));
}
