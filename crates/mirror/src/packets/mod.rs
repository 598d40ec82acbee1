//! Sets of packets, by the fields visible to a switch.

pub mod cube;
pub mod field;
pub mod packet;
pub mod region;

pub use cube::{MaskedBits, PacketCube};
pub use field::{FIELDS, MatchField};
pub use packet::{ModelPacket, well_formed};
pub use region::PacketRegion;

#[cfg(test)]
mod tests;
