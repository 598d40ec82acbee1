//! Packets as captured by an observer.

use std::sync::Arc;

use wire::Timestamp;

/// The bytes of a TCP stream in a packet.
#[derive(Clone, Copy, Debug)]
pub struct CarriedBytes {
    /// Index of the direction of a connection.
    pub stream: usize,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Number of bytes truncated by the capture.
    pub cut: u64,
}

/// A packet as captured by an observer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedPacket {
    /// Index in the recording; for a forged packet that of its template.
    pub packet: usize,
    /// Capture time.
    pub ts: Timestamp,
    /// Relation to the recorded packet.
    pub kind: PacketDamage,
    /// Bytes, if they differ from the recorded ones.
    pub bytes: Option<Arc<[u8]>>,
}

/// Relation of a captured packet to the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDamage {
    /// Same content.
    Whole,
    /// Truncated.
    Cut,
    /// A header field is damaged, with intact payload.
    DamagedHeader,
    /// The payload or its length is modified.
    DamagedPayload,
    /// Sent by neither end.
    Forged,
}

impl ObservedPacket {
    /// An unchanged packet.
    #[must_use]
    pub fn whole(packet: usize, ts: Timestamp) -> ObservedPacket {
        ObservedPacket {
            packet,
            ts,
            kind: PacketDamage::Whole,
            bytes: None,
        }
    }
}
