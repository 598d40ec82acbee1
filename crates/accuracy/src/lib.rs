//! Accuracy of tuples from imperfect captures: a capture is damaged from a seed, read again, and every tuple is
//! compared with those of the whole capture. The comparison and its results are described in `docs/accuracy.md`.
//!
//! [`PacketRecording`] is a capture in memory, [`Impairment`] the damage, [`GroundTruth`] the comparison. The command is `cargo
//! run --release -p accuracy`. This crate is not part of the program.

#![forbid(unsafe_code)]

pub mod checksums;
pub mod count;
pub mod ground_truth;
pub mod impairment;
pub mod job;
pub mod judge;
pub mod model;
pub mod observed;
pub mod observed_packet;
mod partial_values;
pub mod play;
pub mod recording;
pub mod segment;
pub mod view;

pub use count::{FaultKind, OutcomeCounts, TupleFault};
pub use ground_truth::GroundTruth;
pub use impairment::Impairment;
pub use observed::{ObservedTuple, ObservedValue};
pub use observed_packet::{ObservedPacket, PacketDamage};
pub use recording::PacketRecording;
