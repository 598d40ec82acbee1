//! Damage to packets before capture, and to a capture afterward. The same seed yields the same damage.

mod damage;
mod forge;
mod loss;
mod order;
mod text;

use std::collections::HashSet;

use testkit::SeededRng;
use wire::Endpoint;

use crate::{ObservedPacket, PacketRecording};

/// A kind of damage and its amount; shares refer to the packets that may be affected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Impairment {
    /// None.
    None,
    /// Packets are missing.
    Loss(LossTarget, LossPattern, f64),
    /// Packets are duplicated, with the copy up to [`AWAY`] packets later.
    Duplicates(f64),
    /// Packets are up to [`AWAY`] packets late, with unchanged timestamps.
    Reorder(f64),
    /// Loss, duplication, and reordering, each with this share.
    All(f64),
    /// The beginning of the capture, of this share, is missing.
    Joined(f64),
    /// Only one direction was captured.
    OneSide(PacketDirection),
    /// Delays a share of packets by a number of nanoseconds, in timestamps and file order.
    Delay(f64, i64),
    /// One direction is late by this many nanoseconds (early if negative), in timestamps and file order: two taps.
    Skew(PacketDirection, i64),
    /// Packets are up to this many nanoseconds late in the file, with correct timestamps.
    Shuffle(i64),
    /// The clock is changed by this amount at a random position.
    ClockStep(i64),
    /// The clock is changed by this amount at a random position, and 2 % of packets are lost.
    LossyClockStep(i64),
    /// A gap of this many nanoseconds before this share of packets.
    Pauses(f64, i64),
    /// Packets are truncated to this many bytes.
    Snaplen(usize),
    /// Foreign segments are inserted.
    Stray(StraySegment, f64),
    /// A header field is damaged.
    Header(HeaderFieldKind, f64),
    /// A length in the payload is damaged.
    MessageLength(f64),
    /// One bit of some segments and datagrams is damaged on the way; the recorded packet is the retransmission.
    DamagedBit(f64),
    /// Each packet is duplicated, as by two mirrors of the same path; the copy is up to this many nanoseconds later.
    Mirrored(i64),
    /// Clients send their first request with their SYN.
    FastOpen,
}

/// The direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDirection {
    /// Requests and acknowledgments of responses.
    ToServer,
    /// Responses and acknowledgments of requests.
    ToClient,
}

/// Packets that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossTarget {
    /// All.
    Any,
    /// Packets of one direction.
    Of(PacketDirection),
    /// Packets with at most [`SMALL`] bytes.
    Small,
    /// Packets with more bytes.
    Large,
}

/// Distribution of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossPattern {
    /// Independent losses.
    Single,
    /// Bursts of [`BURST`] packets on average, over all flows.
    Bursts,
}

/// Segments not sent by either end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StraySegment {
    /// A SYN of either end, with the next or a random number; before a SYN-ACK, one with a wrong acknowledgment
    /// number.
    Syn,
    /// A reset with a number outside the window.
    Reset,
    /// Data of the connection with a number outside the window.
    Data,
    /// Data similar to the connection's, with guessed numbers.
    Forged,
}

/// Header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFieldKind {
    /// TCP's acknowledgment number.
    Acknowledgment,
    /// IP's length.
    Length,
}

/// Packet loss in combination with a clock step.
const STEP_LOSS: f64 = 0.02;
/// Average number of packets per burst.
pub const BURST: f64 = 16.0;
/// Maximum displacement of a duplicated or late packet, in packets.
pub const AWAY: u64 = 32;
/// Maximum size of a small packet.
pub const SMALL: usize = 200;

/// A recording with its known servers.
pub(crate) struct ImpairmentContext<'a> {
    recording: &'a PacketRecording,
    servers: &'a HashSet<Endpoint>,
}

impl ImpairmentContext<'_> {
    fn side(&self, packet: usize) -> Option<PacketDirection> {
        let (src, dst) = self.recording.ends(packet)?;
        let side = if self.servers.contains(&src) {
            Some(PacketDirection::ToClient)
        } else {
            None
        };
        side.or_else(|| {
            self.servers
                .contains(&dst)
                .then_some(PacketDirection::ToServer)
        })
    }
}

impl Impairment {
    /// Applies the damage to a recording with known servers.
    #[must_use]
    pub fn apply(
        self,
        recording: &PacketRecording,
        servers: &HashSet<Endpoint>,
        seed: u64,
    ) -> Vec<ObservedPacket> {
        let mut rng = SeededRng::new(seed);
        let scene = ImpairmentContext { recording, servers };
        let mut seen = recording.whole();
        match self {
            Impairment::None => {}
            Impairment::Loss(which, run, p) => {
                loss::lose(&scene, &mut seen, which, run, p, &mut rng)
            }
            Impairment::Duplicates(p) => {
                seen = order::displaced(recording, &seen, p, order::ReorderMode::Copy, &mut rng)
            }
            Impairment::Reorder(p) => {
                seen = order::displaced(recording, &seen, p, order::ReorderMode::Move, &mut rng)
            }
            Impairment::All(p) => {
                loss::lose(
                    &scene,
                    &mut seen,
                    LossTarget::Any,
                    LossPattern::Single,
                    p,
                    &mut rng,
                );
                // In this order no copy precedes its original.
                seen = order::displaced(recording, &seen, p, order::ReorderMode::Move, &mut rng);
                seen = order::displaced(recording, &seen, p, order::ReorderMode::Copy, &mut rng);
            }
            Impairment::Joined(p) => drop(seen.drain(..(seen.len() as f64 * p) as usize)),
            Impairment::OneSide(side) => seen.retain(|s| scene.side(s.packet) == Some(side)),
            Impairment::Delay(p, by) => {
                order::delay(&mut seen, |_| if rng.chance(p) { by } else { 0 })
            }
            Impairment::Skew(side, by) => {
                order::delay(&mut seen, |s| {
                    if scene.side(s.packet) == Some(side) {
                        by
                    } else {
                        0
                    }
                });
            }
            Impairment::Shuffle(by) => order::shuffle(&mut seen, by, &mut rng),
            Impairment::ClockStep(by) => order::step(&mut seen, by, &mut rng),
            Impairment::LossyClockStep(by) => {
                loss::lose(
                    &scene,
                    &mut seen,
                    LossTarget::Any,
                    LossPattern::Single,
                    STEP_LOSS,
                    &mut rng,
                );
                order::step(&mut seen, by, &mut rng);
            }
            Impairment::Pauses(p, by) => order::pause(&mut seen, p, by, &mut rng),
            Impairment::Snaplen(len) => damage::cut(recording, &mut seen, len),
            Impairment::Stray(stray, p) => seen = forge::stray(&scene, &seen, stray, p, &mut rng),
            Impairment::Header(field, p) => {
                damage::header(recording, &mut seen, field, p, &mut rng)
            }
            Impairment::MessageLength(p) => {
                damage::message_length(recording, &mut seen, p, &mut rng)
            }
            Impairment::DamagedBit(p) => seen = damage::bit(recording, &seen, p, &mut rng),
            Impairment::Mirrored(by) => forge::mirror(recording, &mut seen, by, &mut rng),
            Impairment::FastOpen => forge::fast_open(&scene, &mut seen),
        }
        seen
    }

    /// Maximum error of times caused by the damage, in nanoseconds.
    #[must_use]
    pub fn tolerance(self) -> i64 {
        match self {
            Impairment::Delay(_, by)
            | Impairment::Skew(_, by)
            | Impairment::ClockStep(by)
            | Impairment::LossyClockStep(by)
            | Impairment::Mirrored(by) => by.abs() + 1000,
            // The duration of a handshake.
            Impairment::FastOpen => 1_000_000,
            _ => 0,
        }
    }

    /// Whether the damage depends on the seed.
    #[must_use]
    pub fn is_by_chance(self) -> bool {
        use Impairment::{FastOpen, Joined, None, OneSide, Skew, Snaplen};
        !matches!(
            self,
            None | Joined(_) | OneSide(_) | Skew(..) | Snaplen(_) | FastOpen
        )
    }

    /// Whether only checksums show the damage.
    #[must_use]
    pub fn is_in_bytes(self) -> bool {
        use Impairment::{DamagedBit, Header, MessageLength};
        matches!(self, Header(..) | MessageLength(_) | DamagedBit(_))
    }

    /// The share of packets removed, for kinds of packet loss.
    #[must_use]
    pub fn loss(self) -> Option<f64> {
        match self {
            Impairment::None => Some(0.0),
            Impairment::Loss(.., p) | Impairment::All(p) => Some(p),
            _ => None,
        }
    }
}
