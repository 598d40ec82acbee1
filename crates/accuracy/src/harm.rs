//! What can happen to packets before they are captured. The same seed does the same harm.

use std::collections::HashSet;
use std::fmt;

use testkit::Rng;
use wire::Endpoint;

use crate::{Recording, Seen};

/// A kind of harm and how much of it, as a share of the packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Harm {
    /// None.
    None,
    /// Packets are missing, each for itself.
    Loss(f64),
    /// Packets are missing, [`BURST`] in a row on average, over all flows.
    Bursts(f64),
    /// Packets are there twice, the copy up to [`AWAY`] packets later.
    Duplicates(f64),
    /// Packets come up to [`AWAY`] packets late. They keep their times.
    Reorder(f64),
    /// All of it: some are missing, as many doubled, as many late.
    All(f64),
    /// The first share of the capture is missing.
    Joined(f64),
    /// Only clients were captured.
    Requests,
    /// Only servers were captured.
    Responses,
}

/// Packets of a burst, on average.
pub const BURST: f64 = 16.0;
/// How many packets later a doubled or late one comes at most.
pub const AWAY: u64 = 32;

impl Harm {
    /// What an observer sees of a recording whose servers are known.
    #[must_use]
    pub fn apply(self, recording: &Recording, servers: &HashSet<Endpoint>, seed: u64) -> Vec<Seen> {
        let mut rng = Rng::new(seed);
        let mut seen = recording.whole();
        match self {
            Harm::None => {}
            Harm::Loss(p) => lose(recording, &mut seen, || rng.chance(p)),
            Harm::Bursts(p) => {
                let mut lost = false;
                lose(recording, &mut seen, || {
                    lost = rng.chance(if lost { 1.0 - 1.0 / BURST } else { p / (1.0 - p) / BURST });
                    lost
                });
            }
            Harm::Duplicates(p) => seen = displaced(recording, &seen, p, true, &mut rng),
            Harm::Reorder(p) => seen = displaced(recording, &seen, p, false, &mut rng),
            Harm::All(p) => {
                lose(recording, &mut seen, || rng.chance(p));
                // In this order no copy comes before its original.
                seen =
                    displaced(recording, &displaced(recording, &seen, p, false, &mut rng), p, true, &mut rng);
            }
            Harm::Joined(p) => drop(seen.drain(..(seen.len() as f64 * p) as usize)),
            Harm::Requests | Harm::Responses => seen.retain(|s| {
                let of_server = recording.ends(s.packet).is_some_and(|(src, _)| servers.contains(&src));
                of_server == (self == Harm::Responses)
            }),
        }
        seen
    }

    /// The share of packets that are missing on purpose, if that is what it does.
    #[must_use]
    pub fn loss(self) -> Option<f64> {
        match self {
            Harm::None => Some(0.0),
            Harm::Loss(p) | Harm::Bursts(p) | Harm::All(p) => Some(p),
            _ => None,
        }
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |p: &f64| (p * 1e6).round() / 1e4;
        match self {
            Harm::None => write!(f, "none"),
            Harm::Loss(p) => write!(f, "loss {} %", percent(p)),
            Harm::Bursts(p) => write!(f, "bursts {} %", percent(p)),
            Harm::Duplicates(p) => write!(f, "duplicates {} %", percent(p)),
            Harm::Reorder(p) => write!(f, "reorder {} %", percent(p)),
            Harm::All(p) => write!(f, "all {} %", percent(p)),
            Harm::Joined(p) => write!(f, "joined at {} %", percent(p)),
            Harm::Requests => write!(f, "requests only"),
            Harm::Responses => write!(f, "responses only"),
        }
    }
}

/// Loses packets. What was sent twice is lost both times or not at all: else its second time would be taken for its first.
fn lose(recording: &Recording, seen: &mut Vec<Seen>, mut is_lost: impl FnMut() -> bool) {
    let mut lost = vec![false; recording.len()];
    for one in seen.iter() {
        let chosen = is_lost();
        lost[one.packet] = recording.first_of(one.packet).map_or(chosen, |first| lost[first]);
    }
    seen.retain(|one| !lost[one.packet]);
}

/// Some packets later than they were, or a copy of them, which then has the time of its place.
fn displaced(recording: &Recording, seen: &[Seen], p: f64, copy: bool, rng: &mut Rng) -> Vec<Seen> {
    let mut placed: Vec<(usize, Seen)> = Vec::with_capacity(seen.len());
    for (i, one) in seen.iter().enumerate() {
        // What comes first counts: one that was sent again stays before its copy.
        let chosen = rng.chance(p) && !recording.is_repeated(one.packet);
        if copy || !chosen {
            placed.push((i, *one));
        }
        if chosen {
            let to = (i + 1 + rng.below(AWAY) as usize).min(seen.len() - 1);
            let ts = if copy { seen[to].ts.max(one.ts) } else { one.ts };
            placed.push((to, Seen { ts, ..*one }));
        }
    }
    // Stable: what comes late comes behind the packet whose place it takes, or before, as it began.
    placed.sort_by_key(|(to, _)| *to);
    placed.into_iter().map(|(_, one)| one).collect()
}
