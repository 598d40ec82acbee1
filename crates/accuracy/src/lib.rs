//! How true tuples are when a capture is imperfect: a capture is damaged from a seed, read again, and every tuple is
//! compared with those of the whole capture. What is compared, and what each result means, is in `docs/accuracy.md`.
//!
//! [`Recording`] is a capture in memory, [`Impairment`] what is done to it, [`Truth`] judges what came out. The command is
//! `cargo run --release -p accuracy`. Nothing here is part of the program.

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
