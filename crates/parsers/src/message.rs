//! Segments as delivered to a parser, and the time span of a message.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

/// Arrival times of a message's first and last byte. Segments may arrive out of order, so `last` is the
/// latest of all arrivals: the time at which the message was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSpan {
    /// Arrival of the first byte.
    pub first: Timestamp,
    /// Arrival of the byte that completed the message.
    pub last: Timestamp,
}

impl MessageSpan {
    /// A message that begins at `ts`.
    #[must_use]
    pub fn at(ts: Timestamp) -> MessageSpan {
        MessageSpan {
            first: ts,
            last: ts,
        }
    }

    /// Adds bytes that arrived at `ts`.
    pub fn extend(&mut self, ts: Timestamp) {
        self.last = self.last.max(ts);
    }
}

/// A segment of one direction's byte stream, with its arrival time and its position relative to both streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamSegment<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Arrival of the packet that carried them.
    pub ts: Timestamp,
    /// Position of the first byte.
    pub place: StreamPlace,
}

impl<'a> StreamSegment<'a> {
    /// The segment after its first `n` bytes.
    #[inline]
    #[must_use]
    pub fn behind(self, n: usize) -> StreamSegment<'a> {
        let place = StreamPlace {
            seq: self.place.seq.plus(n as u32),
            ..self.place
        };
        StreamSegment {
            bytes: &self.bytes[n..],
            place,
            ..self
        }
    }

    /// The first `n` bytes of the segment.
    #[inline]
    #[must_use]
    pub fn first(self, n: usize) -> StreamSegment<'a> {
        StreamSegment {
            bytes: &self.bytes[..n],
            ..self
        }
    }

    /// Sequence number after the last byte.
    #[inline]
    #[must_use]
    pub fn end(self) -> TcpSeq {
        self.place.seq.plus(self.bytes.len() as u32)
    }
}

/// A gap in one direction's byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGap {
    /// Sequence number of the first missing byte.
    pub seq: TcpSeq,
    /// Length in bytes.
    pub len: u64,
    /// Time at which the gap was detected; for bytes cut by the snaplen, the arrival of their packet.
    pub ts: Timestamp,
}

impl StreamGap {
    /// Sequence number after the first `n` bytes of the gap.
    #[must_use]
    pub fn after(self, n: u64) -> TcpSeq {
        self.seq.plus(n as u32)
    }
}
