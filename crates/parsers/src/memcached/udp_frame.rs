//! The header before each datagram of Memcached over UDP.

/// Length of the frame header.
pub const FRAME_LEN: usize = 8;

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemcachedUdpFrame {
    /// Request id.
    pub id: u16,
    /// Number of the datagram in its message, from 0.
    pub number: u16,
    /// Datagrams of the message.
    pub total: u16,
}

impl MemcachedUdpFrame {
    /// Parses a plausible header; also returns the bytes after it.
    pub fn read(datagram: &[u8]) -> Option<(MemcachedUdpFrame, &[u8])> {
        let (h, rest) = datagram.split_first_chunk::<FRAME_LEN>()?;
        let word = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
        let frame = MemcachedUdpFrame {
            id: word(0),
            number: word(2),
            total: word(4),
        };
        // The last word is reserved; servers ignore it, and some clients leave stale data in it.
        (frame.number < frame.total).then_some((frame, rest))
    }
}
