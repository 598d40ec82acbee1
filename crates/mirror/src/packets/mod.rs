//! Sets of packets, by what a switch can see of them.

pub mod cube;
pub mod field;
pub mod packet;

pub use cube::{Bits, Cube};
pub use field::{FIELDS, Field};
pub use packet::{Packet, well_formed};

#[cfg(test)]
mod tests;
