//! What can happen to packets before they are captured, and to a capture afterwards. The same seed does the same damage.

mod damage;
mod forge;
mod loss;
mod order;
mod text;

use std::collections::HashSet;

use testkit::Rng;
use wire::Endpoint;

use crate::{Recording, Seen};

/// A kind of damage and how much of it; shares are of the packets it can happen to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Impairment {
    /// None.
    None,
    /// Packets are missing.
    Loss(Which, Run, f64),
    /// Packets are there twice, the copy up to [`AWAY`] packets later.
    Duplicates(f64),
    /// Packets come up to [`AWAY`] packets late. They keep their times.
    Reorder(f64),
    /// Some are missing, as many doubled, as many late.
    All(f64),
    /// The first share of the capture is missing.
    Joined(f64),
    /// Only one direction was captured.
    OneSide(Side),
    /// This share of packets is late by this many nanoseconds, in timestamps and file order.
    Delay(f64, i64),
    /// One direction is late by this many nanoseconds (early if negative), in timestamps and file order: two taps.
    Skew(Side, i64),
    /// Packets are in the file up to this many nanoseconds behind their place, with correct timestamps.
    Shuffle(i64),
    /// From somewhere on the clock shows so much more, or less.
    ClockStep(i64),
    /// The same, and 2 % of the packets are missing.
    LossyClockStep(i64),
    /// A silence of this many nanoseconds before this share of packets.
    Pauses(f64, i64),
    /// Packets are cut to this many bytes.
    Snaplen(usize),
    /// Segments that belong to nothing are between the others.
    Stray(Stray, f64),
    /// A field of the header is damaged.
    Header(Field, f64),
    /// A length in the payload is damaged.
    MessageLength(f64),
    /// Each packet is duplicated, as by two mirrors of the same path; the copy is up to this many nanoseconds later.
    Mirrored(i64),
    /// Clients send their first request with their SYN.
    FastOpen,
}

/// To whom packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Requests and acknowledgments of responses.
    ToServer,
    /// The others.
    ToClient,
}

/// Packets that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    Any,
    /// Those of one direction.
    Of(Side),
    /// Those with at most [`SMALL`] bytes.
    Small,
    /// The others.
    Large,
}

/// Whether losses are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Each packet is lost for itself.
    Single,
    /// [`BURST`] in a row on average, over all flows.
    Bursts,
}

/// Segments not sent by either end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// A SYN of either end, with the next number or any; before a SYN-ACK one that acknowledges something else.
    Syn,
    /// A reset with a number outside of the window.
    Reset,
    /// Bytes of the connection with a number outside of the window.
    Data,
    /// Bytes that look like the connection's, with numbers that were guessed.
    Forged,
}

/// Fields of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// TCP's acknowledgment number.
    Acknowledgment,
    /// IP's length.
    Length,
}

/// Packets that are missing where the clock is set back.
const STEP_LOSS: f64 = 0.02;
/// Packets of a burst, on average.
pub const BURST: f64 = 16.0;
/// How many packets later a doubled or late one comes at most.
pub const AWAY: u64 = 32;
/// Maximum size of a small packet.
pub const SMALL: usize = 200;

/// A recording and what is known of it.
pub(crate) struct Scene<'a> {
    recording: &'a Recording,
    servers: &'a HashSet<Endpoint>,
}

impl Scene<'_> {
    fn side(&self, packet: usize) -> Option<Side> {
        let (src, dst) = self.recording.ends(packet)?;
        let side = if self.servers.contains(&src) { Some(Side::ToClient) } else { None };
        side.or_else(|| self.servers.contains(&dst).then_some(Side::ToServer))
    }
}

impl Impairment {
    /// What an observer sees of a recording whose servers are known.
    #[must_use]
    pub fn apply(self, recording: &Recording, servers: &HashSet<Endpoint>, seed: u64) -> Vec<Seen> {
        let mut rng = Rng::new(seed);
        let scene = Scene { recording, servers };
        let mut seen = recording.whole();
        match self {
            Impairment::None => {}
            Impairment::Loss(which, run, p) => loss::lose(&scene, &mut seen, which, run, p, &mut rng),
            Impairment::Duplicates(p) => {
                seen = order::displaced(recording, &seen, p, order::Take::Copy, &mut rng)
            }
            Impairment::Reorder(p) => {
                seen = order::displaced(recording, &seen, p, order::Take::Move, &mut rng)
            }
            Impairment::All(p) => {
                loss::lose(&scene, &mut seen, Which::Any, Run::Single, p, &mut rng);
                // In this order no copy comes before its original.
                seen = order::displaced(recording, &seen, p, order::Take::Move, &mut rng);
                seen = order::displaced(recording, &seen, p, order::Take::Copy, &mut rng);
            }
            Impairment::Joined(p) => drop(seen.drain(..(seen.len() as f64 * p) as usize)),
            Impairment::OneSide(side) => seen.retain(|s| scene.side(s.packet) == Some(side)),
            Impairment::Delay(p, by) => order::delay(&mut seen, |_| if rng.chance(p) { by } else { 0 }),
            Impairment::Skew(side, by) => {
                order::delay(&mut seen, |s| if scene.side(s.packet) == Some(side) { by } else { 0 });
            }
            Impairment::Shuffle(by) => order::shuffle(&mut seen, by, &mut rng),
            Impairment::ClockStep(by) => order::step(&mut seen, by, &mut rng),
            Impairment::LossyClockStep(by) => {
                loss::lose(&scene, &mut seen, Which::Any, Run::Single, STEP_LOSS, &mut rng);
                order::step(&mut seen, by, &mut rng);
            }
            Impairment::Pauses(p, by) => order::pause(&mut seen, p, by, &mut rng),
            Impairment::Snaplen(len) => damage::cut(recording, &mut seen, len),
            Impairment::Stray(stray, p) => seen = forge::stray(&scene, &seen, stray, p, &mut rng),
            Impairment::Header(field, p) => damage::header(recording, &mut seen, field, p, &mut rng),
            Impairment::MessageLength(p) => damage::message_length(recording, &mut seen, p, &mut rng),
            Impairment::Mirrored(by) => forge::mirror(recording, &mut seen, by, &mut rng),
            Impairment::FastOpen => forge::fast_open(&scene, &mut seen),
        }
        seen
    }

    /// How far times may be off after it, in nanoseconds.
    #[must_use]
    pub fn tolerance(self) -> i64 {
        match self {
            Impairment::Delay(_, by)
            | Impairment::Skew(_, by)
            | Impairment::ClockStep(by)
            | Impairment::LossyClockStep(by)
            | Impairment::Mirrored(by) => by.abs() + 1000,
            // As long as a handshake takes.
            Impairment::FastOpen => 1_000_000,
            _ => 0,
        }
    }

    /// Whether other seeds do other damage.
    #[must_use]
    pub fn is_by_chance(self) -> bool {
        use Impairment::{FastOpen, Joined, None, OneSide, Skew, Snaplen};
        !matches!(self, None | Joined(_) | OneSide(_) | Skew(..) | Snaplen(_) | FastOpen)
    }

    /// The share of packets that are missing on purpose, if that is what it does.
    #[must_use]
    pub fn loss(self) -> Option<f64> {
        match self {
            Impairment::None => Some(0.0),
            Impairment::Loss(.., p) | Impairment::All(p) => Some(p),
            _ => None,
        }
    }
}
