//! Packets not captured.

use testkit::Rng;

use super::{BURST, Run, SMALL, Scene, Which};
use crate::Seen;

/// Removes a share of the eligible packets. Retransmitted data is removed completely or not at all: otherwise the
/// retransmission would be mistaken for the original.
pub fn lose(scene: &Scene<'_>, seen: &mut Vec<Seen>, which: Which, run: Run, p: f64, rng: &mut Rng) {
    let mut lost = vec![false; scene.recording.len()];
    let mut last = false;
    for one in seen.iter() {
        if !may_be_lost(scene, which, one.packet) {
            continue;
        }
        last = rng.chance(match run {
            Run::Single => p,
            Run::Bursts if last => 1.0 - 1.0 / BURST,
            Run::Bursts => p / (1.0 - p) / BURST,
        });
        lost[one.packet] = scene.recording.first_of(one.packet).map_or(last, |first| lost[first]);
    }
    seen.retain(|one| !lost[one.packet]);
}

fn may_be_lost(scene: &Scene<'_>, which: Which, packet: usize) -> bool {
    match which {
        Which::Any => true,
        Which::Of(side) => scene.side(packet) == Some(side),
        Which::Small => scene.recording.bytes_of(packet).len() <= SMALL,
        Which::Large => scene.recording.bytes_of(packet).len() > SMALL,
    }
}
