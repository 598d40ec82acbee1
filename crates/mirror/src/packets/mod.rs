//! Sets of packets, by the fields visible to a switch.

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
