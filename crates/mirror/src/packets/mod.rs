//! Sets of packets, by what a switch can see of them.

pub mod cube;
pub mod field;
pub mod packet;
pub mod region;

pub use cube::{Bits, Cube};
pub use field::{FIELDS, Field};
pub use packet::{Packet, well_formed};
pub use region::Region;

#[cfg(test)]
mod tests;
