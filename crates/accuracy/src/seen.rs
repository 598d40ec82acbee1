//! Packets as an observer captured them.

use std::sync::Arc;

use wire::Timestamp;

/// The bytes of a TCP stream that a packet carries.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Which direction of which connection.
    pub stream: usize,
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
    /// How many of these the capture cut off.
    pub cut: u64,
}

/// A packet as an observer captured it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its place in the recording; of a forged one that of the packet it was made from.
    pub packet: usize,
    /// When it was captured.
    pub ts: Timestamp,
    /// What it is to the recorded one.
    pub kind: Kind,
    /// Its bytes, where they are not the recorded ones.
    pub bytes: Option<Arc<[u8]>>,
}

/// What a captured packet is to the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It carries the same.
    Whole,
    /// Its end is missing.
    Cut,
    /// A field of its header is damaged, all of its payload is there.
    DamagedHeader,
    /// Its payload, or how much that is, is not what was sent.
    DamagedPayload,
    /// Sent by neither end.
    Forged,
}

impl Seen {
    /// A packet as it was recorded.
    #[must_use]
    pub fn whole(packet: usize, ts: Timestamp) -> Seen {
        Seen { packet, ts, kind: Kind::Whole, bytes: None }
    }
}
