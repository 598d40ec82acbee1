//! Accuracy of tuples from imperfect captures: a capture is damaged from a seed, read again, and every tuple is
//! compared with those of the whole capture. The comparison and its results are described in `docs/accuracy.md`.
//!
//! [`Recording`] is a capture in memory, [`Impairment`] the damage, [`Truth`] the comparison. The command is `cargo
//! run --release -p accuracy`. This crate is not part of the program.

#![forbid(unsafe_code)]

pub mod count;
pub mod impairment;
pub mod job;
pub mod judge;
mod learned;
pub mod model;
pub mod observed;
pub mod play;
pub mod recording;
pub mod seen;
pub mod segment;
pub mod truth;
pub mod view;

pub use count::{Count, Fault, FaultKind};
pub use impairment::Impairment;
pub use observed::Observed;
pub use recording::Recording;
pub use seen::{Kind, Seen};
pub use truth::Truth;
