//! A publisher and readers in virtual time: the rate settles in time, the lag stops growing, and nothing else changes
//! the rate.

use std::collections::VecDeque;
use std::time::Duration;

use super::control::RateControl;
use super::taker::{TakerPace, TakerSample};
use super::trail::OffsetTrail;

const STEP: Duration = Duration::from_millis(100);
/// Records per second at a rate of 1.
const LOAD: f64 = 10_000.0;

/// A reader and the delay of its reports.
#[derive(Clone, Copy)]
struct SimulatedReader {
    /// Capacity of the taker in records per second, as a function of time in seconds.
    takes: fn(f64) -> f64,
    /// Seconds between two checkpoints, and the delay until each is known.
    every: f64,
    known_after: f64,
}

/// A publisher and its readers.
struct FeedbackScene {
    readers: Vec<SimulatedReader>,
    /// Input as a share of the load, as a function of time.
    comes: fn(f64) -> f64,
    /// Seconds for which selected flows last.
    flows_last: f64,
}

/// State at one time.
#[derive(Clone, Copy, Debug)]
struct ScenePoint {
    ceiling: f64,
    /// Lag of the slowest reader in records.
    waits: f64,
}

struct SimulatedReaderState {
    of: SimulatedReader,
    taken: f64,
    next: f64,
    /// Positions in transit.
    told: VecDeque<(f64, u64)>,
    known: u64,
}

/// Simulates ten points per second.
fn run(scene: &FeedbackScene, seconds: u32) -> Vec<ScenePoint> {
    let mut control = RateControl::new(Duration::ZERO);
    let mut trail = OffsetTrail::default();
    let mut given = 0.0;
    let state = |of: &SimulatedReader| SimulatedReaderState {
        of: *of,
        taken: 0.0,
        next: of.every,
        told: VecDeque::new(),
        known: 0,
    };
    let mut states: Vec<SimulatedReaderState> = scene.readers.iter().map(state).collect();
    let mut rates = VecDeque::from(vec![1.0; (scene.flows_last * 10.0) as usize + 1]);
    let mut points = Vec::new();
    for step in 0..seconds * 10 {
        let now = STEP * step;
        let t = f64::from(step) / 10.0;
        rates.push_back(control.ceiling());
        rates.pop_front();
        given += LOAD * (scene.comes)(t) * rates[0] / 10.0;
        trail.note(now, given as u64);
        for state in &mut states {
            state.taken = (state.taken + (state.of.takes)(t) / 10.0).min(given);
            if t >= state.next {
                state
                    .told
                    .push_back((t + state.of.known_after, state.taken as u64));
                state.next = t + state.of.every;
            }
            while let Some((_, at)) = state.told.pop_front_if(|(known, _)| *known <= t) {
                state.known = at;
            }
        }
        let given = given as u64;
        let mut all = vec![(
            usize::MAX,
            TakerPace::Brokers,
            TakerSample {
                now,
                given,
                taken: given,
                age: Duration::ZERO,
                fill: 0.0,
            },
        )];
        all.extend(
            states
                .iter()
                .enumerate()
                .filter(|(_, state)| state.known > 0)
                .map(|(n, state)| {
                    let age = trail.age(now, state.known);
                    let pace = TakerPace::Reader(Duration::from_secs_f64(state.of.every));
                    (
                        n,
                        pace,
                        TakerSample {
                            now,
                            given,
                            taken: state.known,
                            age,
                            fill: 0.0,
                        },
                    )
                }),
        );
        control.look(now, control.ceiling(), &all);
        let slowest = states
            .iter()
            .map(|state| state.taken)
            .fold(f64::MAX, f64::min);
        points.push(ScenePoint {
            ceiling: control.ceiling(),
            waits: given as f64 - slowest,
        });
    }
    points
}

fn between(points: &[ScenePoint], from: u32, to: u32) -> &[ScenePoint] {
    &points[from as usize * 10..to as usize * 10]
}

fn lowest(points: &[ScenePoint]) -> f64 {
    points.iter().map(|point| point.ceiling).fold(1.0, f64::min)
}

fn highest(points: &[ScenePoint]) -> f64 {
    points.iter().map(|point| point.ceiling).fold(0.0, f64::max)
}

fn most(points: &[ScenePoint]) -> f64 {
    points.iter().map(|point| point.waits).fold(0.0, f64::max)
}

/// Capacity of a tenth of the load from 20 s to 100 s, and of three times the load before and after.
fn slow(t: f64) -> f64 {
    if (20.0..100.0).contains(&t) {
        0.1 * LOAD
    } else {
        3.0 * LOAD
    }
}

const FLINK: SimulatedReader = SimulatedReader {
    takes: slow,
    every: 1.0,
    known_after: 0.4,
};

fn steady(readers: &[SimulatedReader]) -> FeedbackScene {
    FeedbackScene {
        readers: readers.to_vec(),
        comes: |_| 1.0,
        flows_last: 0.2,
    }
}

#[test]
fn settles_within_seconds_and_returns() {
    for (every, known_after) in [(1.0, 0.0), (1.0, 0.9), (0.5, 0.2), (3.0, 1.0), (10.0, 2.0)] {
        let points = run(
            &steady(&[SimulatedReader {
                every,
                known_after,
                ..FLINK
            }]),
            300,
        );
        let case = format!("every {every} s, known after {known_after} s");
        assert_eq!(lowest(between(&points, 0, 20)), 1.0, "{case}");
        // The lag is visible after its acceptable limit, and at most twice that accumulates.
        let seen_by = 20 + (2.0 + 5.0 * every.max(1.0) + known_after).ceil() as u32;
        assert!(
            lowest(between(&points, 20, seen_by)) <= 0.12,
            "{case}: not by {seen_by} s"
        );
        let peak = most(between(&points, 20, seen_by));
        assert!(
            most(between(&points, seen_by, 100)) <= peak * 1.1,
            "{case}: it goes on growing"
        );
        let rates = between(&points, seen_by + 10, 100);
        assert!(
            highest(rates) < 0.25 && lowest(rates) > 0.015,
            "{case}: {} to {}",
            lowest(rates),
            highest(rates)
        );
        let back_by = 100 + (15.0 + 16.0 * every) as u32;
        assert_eq!(
            lowest(between(&points, back_by, 300)),
            1.0,
            "{case}: not back by {back_by} s"
        );
    }
}

#[test]
fn backlogs_are_processed() {
    let forever: fn(f64) -> f64 = |t| if t < 20.0 { 3.0 * LOAD } else { 0.1 * LOAD };
    let points = run(
        &steady(&[SimulatedReader {
            takes: forever,
            ..FLINK
        }]),
        400,
    );
    let last = between(&points, 300, 400);
    // At most the amount that keeps it busy: some seconds of its own work.
    assert!(most(last) < 0.1 * LOAD * 8.0, "{}", most(last));
    let mean = last.iter().map(|point| point.ceiling).sum::<f64>() / last.len() as f64;
    assert!((0.09..0.11).contains(&mean), "{mean}");
    assert!(
        highest(last) < 0.15 && lowest(last) > 0.07,
        "{} to {}",
        lowest(last),
        highest(last)
    );
}

#[test]
fn readers_that_keep_up_are_not_throttled() {
    let bursts: fn(f64) -> f64 = |t| if t % 10.0 < 2.0 { 1.0 } else { 0.02 };
    let hiccup: fn(f64) -> f64 = |t| {
        if (20.0..23.5).contains(&t) {
            0.0
        } else {
            3.0 * LOAD
        }
    };
    let barely: fn(f64) -> f64 = |_| 1.05 * LOAD;
    for (what, takes, comes) in [
        ("bursts", barely, bursts),
        ("nothing comes", barely, |_| 0.0),
    ] {
        for every in [0.5, 1.0, 5.0, 60.0] {
            let reader = SimulatedReader {
                takes,
                every,
                known_after: 0.5,
            };
            let scene = FeedbackScene {
                comes,
                ..steady(&[reader])
            };
            assert_eq!(lowest(&run(&scene, 200)), 1.0, "{what}, every {every} s");
        }
    }
    for takes in [barely, hiccup] {
        let reader = SimulatedReader { takes, ..FLINK };
        assert_eq!(lowest(&run(&steady(&[reader]), 100)), 1.0);
    }
    // Checkpoints slower than their interval.
    let reader = SimulatedReader {
        takes: barely,
        every: 1.0,
        known_after: 2.5,
    };
    assert_eq!(lowest(&run(&steady(&[reader]), 100)), 1.0);
    assert_eq!(lowest(&run(&steady(&[]), 100)), 1.0);
}

#[test]
fn the_slowest_of_several_readers_counts() {
    let fast = SimulatedReader {
        takes: |_| 3.0 * LOAD,
        every: 0.5,
        known_after: 0.1,
    };
    let points = run(&steady(&[fast, FLINK, fast]), 200);
    let alone = run(&steady(&[FLINK]), 200);
    for (from, to) in [(0, 20), (30, 100), (130, 200)] {
        let several = between(&points, from, to);
        let alone = between(&alone, from, to);
        assert!(
            (lowest(several) / lowest(alone) - 1.0).abs() < 0.5,
            "{from} s: {}",
            lowest(several)
        );
    }
}

#[test]
fn hung_readers_are_ignored_after_a_while() {
    let hangs: fn(f64) -> f64 = |t| if t < 20.0 { 3.0 * LOAD } else { 0.0 };
    let points = run(
        &steady(&[SimulatedReader {
            takes: hangs,
            ..FLINK
        }]),
        120,
    );
    let low = lowest(between(&points, 20, 55));
    assert!((0.001..0.2).contains(&low), "{low}");
    assert_eq!(lowest(between(&points, 90, 120)), 1.0);
}

#[test]
fn flows_that_last_do_not_send_the_rate_to_the_ground() {
    for flows_last in [5.0, 9.0] {
        let points = run(
            &FeedbackScene {
                flows_last,
                ..steady(&[FLINK])
            },
            200,
        );
        let low = lowest(between(&points, 20, 100));
        assert!(low > 0.01, "flows of {flows_last} s: {low}");
        assert_eq!(lowest(between(&points, 160, 200)), 1.0);
    }
}
