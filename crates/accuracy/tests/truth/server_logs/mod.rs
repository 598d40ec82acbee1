//! Compares damaged captures with the servers' own logs of the same requests, independent of another run. A pair must
//! be in the log with these values, and each line serves one pair.

mod mariadb;
mod memcached;
mod nginx;

use std::path::{Path, PathBuf};

use accuracy::observed::ObservedValue;
use accuracy::{GroundTruth, Impairment, ObservedTuple, PacketRecording};

/// Impairments of each capture.
const IMPAIRMENTS: &[&str] = &[
    "none",
    "loss=5%",
    "bursts=5%",
    "loss-to-server=1%",
    "loss-to-server=5%",
    "loss-to-client=1%",
    "loss-to-client=5%",
    "bursts-to-server=5%",
    "bursts-to-client=5%",
    "loss-small=5%",
    "loss-large=5%",
    "delay-1ms=1%",
    "delay-5ms=10%",
    "skew-to-server=2ms",
    "skew-to-client=2ms",
    "shuffle=5ms",
    "clock-step=30ms",
    "clock-step=-30ms",
    "stray-syn=1%",
    "stray-forged=1%",
    "mirrored=1ms",
];
const SEEDS: u64 = 2;

/// A server's log.
trait Log {
    /// Removes the lines of a pair from the log; the times of the pair may be off by `tolerance`. Otherwise describes
    /// the mismatch.
    fn take(&mut self, pair: &ObservedTuple, tolerance: i64) -> Result<(), String>;
    /// Number of remaining lines.
    fn left(&self) -> usize;
}

/// Checks one capture with its log, which `read` reads again for every run. At most `left` lines of the whole capture
/// remain unreported.
fn check<L: Log>(capture: &Path, parser: &str, left: usize, read: impl Fn() -> L) {
    let recording = PacketRecording::load(capture, usize::MAX).expect("a capture");
    let servers = GroundTruth::of(&recording, parser).servers();
    for name in IMPAIRMENTS {
        let impairment: Impairment = name.parse().expect("an impairment");
        for seed in 0..if impairment.is_by_chance() { SEEDS } else { 1 } {
            let told = recording.play(&impairment.apply(&recording, &servers, seed), parser);
            let mut log = read();
            for pair in told.iter().filter(|t| t.asked && !t.is_half()) {
                if let Err(why) = log.take(pair, impairment.tolerance()) {
                    panic!("{}, {name}, seed {seed}: {why}: {pair}", capture.display());
                }
            }
            if impairment == Impairment::None {
                assert!(
                    log.left() <= left,
                    "{}: {} lines are not told",
                    capture.display(),
                    log.left()
                );
            }
        }
    }
}

/// A capture of real servers next to the checkout, and its log.
fn live(capture: &str, log: &str) -> Option<(PathBuf, String)> {
    let folder = testkit::corpus()?.join("live-captures");
    let log = std::fs::read_to_string(folder.join(log)).expect("a log");
    Some((folder.join(capture), log))
}

/// The recorded shop of the repository, and a log of it.
fn shop(log: &str) -> (PathBuf, String) {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/shop"));
    let log = std::fs::read_to_string(folder.join(log)).expect("a log");
    (folder.join("in.pcap"), log)
}

fn text<'a>(told: &'a ObservedTuple, field: &str) -> Option<&'a str> {
    match told.value(field)? {
        ObservedValue::Text(text) => Some(text),
        ObservedValue::Number(_) => None,
    }
}

fn number(told: &ObservedTuple, field: &str) -> Option<i128> {
    match told.value(field)? {
        ObservedValue::Number(n) => Some(*n),
        ObservedValue::Text(_) => None,
    }
}
