//! Packets not captured.

use testkit::SeededRng;

use super::{BURST, ImpairmentContext, LossPattern, LossTarget, SMALL};
use crate::ObservedPacket;

/// Removes a share of the eligible packets. Retransmitted data is removed completely or not at all: otherwise the
/// retransmission would be mistaken for the original.
pub fn lose(
    scene: &ImpairmentContext<'_>,
    seen: &mut Vec<ObservedPacket>,
    which: LossTarget,
    run: LossPattern,
    p: f64,
    rng: &mut SeededRng,
) {
    let mut lost = vec![false; scene.recording.len()];
    let mut last = false;
    for one in seen.iter() {
        if !may_be_lost(scene, which, one.packet) {
            continue;
        }
        last = rng.chance(match run {
            LossPattern::Single => p,
            LossPattern::Bursts if last => 1.0 - 1.0 / BURST,
            LossPattern::Bursts => p / (1.0 - p) / BURST,
        });
        lost[one.packet] = scene
            .recording
            .first_of(one.packet)
            .map_or(last, |first| lost[first]);
    }
    seen.retain(|one| !lost[one.packet]);
}

fn may_be_lost(scene: &ImpairmentContext<'_>, which: LossTarget, packet: usize) -> bool {
    match which {
        LossTarget::Any => true,
        LossTarget::Of(side) => scene.side(packet) == Some(side),
        LossTarget::Small => scene.recording.bytes_of(packet).len() <= SMALL,
        LossTarget::Large => scene.recording.bytes_of(packet).len() > SMALL,
    }
}
