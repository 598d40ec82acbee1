//! How true tuples are when packets are missing: a capture is damaged from a seed, read again, and every tuple is
//! compared with those of the whole capture. What is compared, and what each result means, is in `docs/accuracy.md`.
//!
//! [`Recording`] is a capture in memory, [`Harm`] what is done to it, [`Truth`] judges what came out. The command is
//! `cargo run --release -p accuracy`. Nothing here is part of the program.

#![forbid(unsafe_code)]

pub mod harm;
pub mod judge;
pub mod recording;
pub mod told;

pub use harm::Harm;
pub use judge::{Count, Truth};
pub use recording::{Recording, Seen};
pub use told::Told;
