//! Reordered packets and modified times.

use testkit::SeededRng;
use wire::Timestamp;

use super::AWAY;
use crate::{ObservedPacket, PacketRecording};

/// Whether a packet is moved or copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReorderMode {
    /// The packet is moved.
    Move,
    /// A copy is inserted.
    Copy,
}

/// Moves some packets, or copies of them, to a later position; a copy has the time of its new position.
pub fn displaced(
    recording: &PacketRecording,
    seen: &[ObservedPacket],
    p: f64,
    take: ReorderMode,
    rng: &mut SeededRng,
) -> Vec<ObservedPacket> {
    let mut placed: Vec<(usize, ObservedPacket)> = Vec::with_capacity(seen.len());
    for (i, one) in seen.iter().enumerate() {
        // The first transmission counts, so retransmitted data stays before its copy.
        let chosen = rng.chance(p) && !recording.is_repeated(one.packet);
        if take == ReorderMode::Copy || !chosen {
            placed.push((i, one.clone()));
        }
        if chosen {
            let to = (i + 1 + rng.below(AWAY) as usize).min(seen.len() - 1);
            let ts = if take == ReorderMode::Copy {
                seen[to].ts.max(one.ts)
            } else {
                one.ts
            };
            placed.push((to, ObservedPacket { ts, ..one.clone() }));
        }
    }
    // Stable: a late packet is placed after or before the packet at its new position, as in the original order.
    placed.sort_by_key(|(to, _)| *to);
    placed.into_iter().map(|(_, one)| one).collect()
}

/// Moves packets in time by the result of `by`. An additional half microsecond keeps their times distinct.
pub fn delay(seen: &mut [ObservedPacket], mut by: impl FnMut(&ObservedPacket) -> i64) {
    for one in seen.iter_mut() {
        let by = by(one);
        if by != 0 {
            one.ts = one.ts.plus(by + 500);
        }
    }
    seen.sort_by_key(|one| one.ts);
}

/// Moves packets in the file by up to this time, with unchanged timestamps.
pub fn shuffle(seen: &mut [ObservedPacket], by: i64, rng: &mut SeededRng) {
    let mut places: Vec<(Timestamp, ObservedPacket)> = seen
        .iter()
        .map(|one| (one.ts.plus(rng.below(by as u64) as i64), one.clone()))
        .collect();
    places.sort_by_key(|(place, _)| *place);
    seen.iter_mut()
        .zip(places)
        .for_each(|(one, (_, placed))| *one = placed);
}

/// Inserts a gap of `by` before some packets.
pub fn pause(seen: &mut [ObservedPacket], p: f64, by: i64, rng: &mut SeededRng) {
    let mut later = 0;
    for one in seen {
        later += if rng.chance(p) { by } else { 0 };
        one.ts = one.ts.plus(later);
    }
}

/// Changes the clock by `by` from a random position in the middle.
pub fn step(seen: &mut [ObservedPacket], by: i64, rng: &mut SeededRng) {
    let n = seen.len();
    let from = n / 10 + rng.below(n as u64 * 8 / 10) as usize;
    seen[from..]
        .iter_mut()
        .for_each(|one| one.ts = one.ts.plus(by + 500));
}
